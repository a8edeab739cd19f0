//! Heads, chunks, headers of PROXY and configurations that were changed at random.
//!
//! Some thousand of each in an ordinary run, always the same. For a longer run:
//!
//! ```sh
//! export EVENKEEL_MUTATIONS=5000000 EVENKEEL_SEED=7
//! cargo test --release -p proxy --test whole -- mutations
//! ```

use bytes::BytesMut;
use proxy::config::{self, ForwardedFor};
use proxy::convert::convert;
use proxy::http::{Decoder, HeadEnd, OfRequest, Recode, Request, Response, storage};
use proxy::proxy_protocol;

use super::readings::corpus;
use super::readings::reader::readings;

/// Numbers that look random, the same ones for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap()
    }
}

/// Bytes that mean something somewhere.
const TELLING: &[u8] = b"\r\n\t :;,=\"'\\{}[]()#!%@/?&+-_.0149aAxXzZ\0\x0b\x0c\x7f\x80\xff";

/// One of these, changed in some places, or put together from two.
fn changed(random: &mut Random, from: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = from[random.below(from.len())].clone();
    if random.below(4) == 0 {
        let other = &from[random.below(from.len())];
        bytes.truncate(random.below(bytes.len() + 1));
        bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
    }
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let telling = TELLING[random.below(TELLING.len())];
        match random.below(5) {
            0 => bytes.insert(at, telling),
            1 if at < bytes.len() => bytes[at] = telling,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => {
                let end = (at + random.below(24)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            _ => {
                let end = (at + random.below(24)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Does this with so many changed ones, or as many as the environment asks for.
fn each(usual: u64, from: &[Vec<u8>], mut check: impl FnMut(&mut Random, &[u8])) {
    let mut random = Random(setting("EVENKEEL_SEED", 1) | 1 << 40);
    for _ in 0..setting("EVENKEEL_MUTATIONS", usual) {
        let bytes = changed(&mut random, from);
        check(&mut random, &bytes);
    }
}

fn requests() -> Vec<Vec<u8>> {
    let cases = corpus::all().into_iter();
    // Long ones would take most of the time.
    let cases = cases.filter(|case| case.bytes.len() < 1_000);
    cases.map(|case| case.bytes).collect()
}

/// The length of a head, if there is a whole one.
fn head_of(bytes: &[u8]) -> Option<usize> {
    HeadEnd::default().find(bytes).ok().flatten()
}

#[test]
fn a_request_that_is_taken_is_written_so_that_all_read_it_alike() {
    let mut taken = 0;
    each(20_000, &requests(), |_, bytes| {
        let Some(end) = head_of(bytes) else { return };
        let mut room = storage();
        let Ok(request) = Request::parse(&bytes[..end], &mut room) else {
            return;
        };
        taken += 1;
        let rewrite = OfRequest {
            client: None,
            is_tls: false,
            forwarded_for: ForwardedFor::Replace,
            passage: None,
        };
        let mut out = Vec::new();
        rewrite.write(&request, &mut out);
        let shown = String::from_utf8_lossy(&out);
        assert_eq!(head_of(&out), Some(out.len()), "{shown:?}");
        let mut room = storage();
        let again = Request::parse(&out, &mut room).unwrap();
        assert_eq!(again.framing, request.framing, "{shown:?}");
        assert_eq!(
            (again.method, again.target),
            (request.method, request.target)
        );
        let mut whole = out.clone();
        match again.framing {
            proxy::http::Framing::Length(length) => {
                whole.extend(std::iter::repeat_n(
                    b'x',
                    usize::try_from(length.min(9)).unwrap(),
                ));
                if length > 9 {
                    return;
                }
            }
            proxy::http::Framing::Chunked => whole.extend_from_slice(b"1\r\na\r\n0\r\n\r\n"),
            _ => {}
        }
        let all = readings(&whole);
        assert!(
            all[0].as_ref().is_ok_and(|found| found.len() == 1),
            "{shown:?}"
        );
        assert!(all.iter().all(|one| *one == all[0]), "{shown:?}");
    });
    assert!(taken > 100, "{taken}");
}

#[test]
fn an_answer_is_taken_or_refused() {
    let from: Vec<Vec<u8>> = [
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    each(10_000, &from, |random, bytes| {
        let Some(end) = head_of(bytes) else { return };
        let mut room = storage();
        let is_for_head = random.below(2) == 0;
        if let Ok(answer) = Response::parse(&bytes[..end], is_for_head, &mut room) {
            assert!((100..1_000).contains(&answer.status));
            assert!(!is_for_head || answer.framing == proxy::http::Framing::None);
        }
    });
}

#[test]
fn chunks_are_read_alike_however_they_are_cut_and_what_is_passed_on_too() {
    let mut from: Vec<Vec<u8>> = requests();
    for bytes in &mut from {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            bytes.drain(..at + 4);
        }
    }
    let decode = |parts: &[&[u8]], recode| {
        let mut decoder = Decoder::new(recode, 1_000);
        let (mut input, mut out) = (BytesMut::new(), Vec::new());
        let mut is_whole = false;
        for part in parts {
            input.extend_from_slice(part);
            if !is_whole {
                is_whole = decoder.decode(&mut input, &mut out)?;
            }
        }
        Ok::<_, proxy::http::BadChunk>((is_whole, out, input.to_vec()))
    };
    each(20_000, &from, |random, bytes| {
        let whole = decode(&[bytes], Recode::Chunks);
        let (one, two) = bytes.split_at(random.below(bytes.len() + 1));
        let cut = decode(&[one, two], Recode::Chunks);
        match (&whole, &cut) {
            (Ok((true, whole, rest)), Ok((true, cut, cut_rest))) => {
                assert_eq!(rest, cut_rest);
                let bodies = [whole, cut].map(|out| decode(&[out], Recode::Plain).unwrap());
                assert_eq!(bodies[0], bodies[1], "{bytes:?}");
                assert!(bodies[0].0 && bodies[0].2.is_empty());
            }
            (Ok((false, ..)), Ok((false, ..))) => {}
            (Err(whole), Err(cut)) => assert_eq!(whole, cut),
            other => panic!("{bytes:?}: {other:?}"),
        }
    });
}

#[test]
fn a_header_of_proxy_is_the_same_when_more_follows() {
    let mut from: Vec<Vec<u8>> = [
        "PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\nGET /",
        "PROXY TCP6 2001:db8::1 ::1 1 65535\r\n",
        "PROXY UNKNOWN some thing\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let v2 = b"\r\n\r\n\0\r\nQUIT\n";
    from.push(
        [
            &v2[..],
            b"\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x02\0\x50\x01\xbb",
        ]
        .concat(),
    );
    from.push([&v2[..], b"\x20\0\0\0"].concat());
    from.push([&v2[..], b"\x21\x21\0\x27", &[7; 39][..]].concat());
    each(20_000, &from, |_, bytes| {
        let whole = proxy_protocol::parse(bytes);
        for end in 0..bytes.len() {
            // More bytes never change what was found in fewer.
            match proxy_protocol::parse(&bytes[..end]) {
                Ok(None) => {}
                Ok(Some(header)) => {
                    assert!(header.bytes <= end);
                    let found = whole.as_ref().unwrap().as_ref().unwrap();
                    assert_eq!((found.bytes, found.ends), (header.bytes, header.ends));
                }
                Err(_) => assert!(whole.is_err(), "{bytes:?}"),
            }
        }
    });
}

#[test]
fn a_configuration_is_taken_or_every_error_has_its_line() {
    let text = include_str!("../../src/convert/samples/edge.toml");
    let tables = text
        .split("\n\n")
        .map(|table| format!("{table}\n").into_bytes());
    let mut from: Vec<Vec<u8>> = tables.collect();
    from.push(text.as_bytes().to_vec());
    each(3_000, &from, |_, bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(config::ConfigError::Wrong { problems }) = config::parse("mutated", &text) {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!((1..=text.lines().count() + 1).contains(&problem.line));
            }
        }
    });
}

#[test]
fn what_is_converted_without_an_error_is_a_configuration() {
    let samples = [
        include_str!("../../src/convert/samples/edge.cfg"),
        include_str!("../../src/convert/samples/tenants.cfg"),
        include_str!("../../src/convert/samples/database.cfg"),
        include_str!("../../src/convert/samples/legacy.cfg"),
    ];
    let from: Vec<Vec<u8>> = samples.map(|text| text.as_bytes().to_vec()).to_vec();
    each(500, &from, |_, bytes| {
        let text = String::from_utf8_lossy(bytes);
        let converted = convert("haproxy.cfg", &text, &|_| None);
        for remark in &converted.remarks {
            assert!(
                (1..=text.lines().count() + 1).contains(&remark.line),
                "{remark}"
            );
        }
        if converted.is_whole() {
            let checked = config::parse("result", &converted.toml);
            assert!(
                checked.is_ok(),
                "{}\n{}",
                checked.unwrap_err(),
                converted.toml
            );
        }
    });
}
