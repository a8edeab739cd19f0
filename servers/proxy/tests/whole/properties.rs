//! What holds for all bytes that a peer or an operator may send, for mutations and for fuzzing.

use bytes::BytesMut;
use proxy::config::{self, ForwardedFor};
use proxy::convert::convert;
use proxy::http::{Decoder, Framing, HeadEnd, OfRequest, Recode, Request, Response, storage};
use proxy::proxy_protocol;
use servers_common::properties::{Property, chosen};

use super::readings::corpus;
use super::readings::reader::readings;

/// A request that is taken is written so that all read it alike.
pub(crate) const REQUEST: Property = Property::new("request", requests, request);
/// An answer is taken or refused.
pub(crate) const ANSWER: Property = Property::new("answer", answers, answer);
/// Chunks are read alike however they are cut, and what is passed on too.
pub(crate) const CHUNKS: Property = Property::new("chunks", bodies, chunks);
/// A header of the PROXY protocol is the same when more follows.
pub(crate) const PROXY_HEADER: Property = Property::new("proxy-header", headers, header);
/// A configuration is taken, or every error has its line.
pub(crate) const CONFIGURATION: Property =
    Property::new("configuration", configurations, configuration);
/// What is converted without an error is a configuration.
pub(crate) const CONVERSION: Property = Property::new("conversion", of_haproxy, conversion);

fn owned<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn requests() -> Vec<Vec<u8>> {
    let cases = corpus::all().into_iter();
    // Long ones would take most of the time.
    let cases = cases.filter(|case| case.bytes.len() < 1_000);
    cases.map(|case| case.bytes).collect()
}

/// The length of a head, if there is a whole one.
fn head_of(bytes: &[u8]) -> Option<usize> {
    HeadEnd::default().find(bytes).ok().flatten()
}

fn request(bytes: &[u8]) -> bool {
    let Some(end) = head_of(bytes) else {
        return false;
    };
    let mut room = storage();
    let Ok(request) = Request::parse(&bytes[..end], &mut room) else {
        return false;
    };
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
        Framing::Length(length @ ..=9) => whole.extend((0..length).map(|_| b'x')),
        Framing::Length(_) => return true,
        Framing::Chunked => whole.extend_from_slice(b"1\r\na\r\n0\r\n\r\n"),
        _ => {}
    }
    let all = readings(&whole);
    assert!(
        all[0].as_ref().is_ok_and(|found| found.len() == 1),
        "{shown:?}"
    );
    assert!(all.iter().all(|one| *one == all[0]), "{shown:?}");
    true
}

fn answers() -> Vec<Vec<u8>> {
    owned([
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nabc",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ])
}

fn answer(bytes: &[u8]) -> bool {
    let Some(end) = head_of(bytes) else {
        return false;
    };
    let mut is_taken = false;
    for is_for_head in [false, true] {
        let mut room = storage();
        if let Ok(answer) = Response::parse(&bytes[..end], is_for_head, &mut room) {
            is_taken = true;
            assert!((100..1_000).contains(&answer.status));
            assert!(!is_for_head || answer.framing == Framing::None);
        }
    }
    is_taken
}

/// What stands behind the heads of the requests.
fn bodies() -> Vec<Vec<u8>> {
    let mut all = requests();
    for bytes in &mut all {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            bytes.drain(..at + 4);
        }
    }
    all
}

/// Whether a body has come to its end, what is passed on of it, and what follows it.
type Decoded = Result<(bool, Vec<u8>, Vec<u8>), proxy::http::BadChunk>;

fn decoded(parts: &[&[u8]], recode: Recode) -> Decoded {
    let mut decoder = Decoder::new(recode, 1_000);
    let (mut input, mut out) = (BytesMut::new(), Vec::new());
    let mut is_whole = false;
    for part in parts {
        input.extend_from_slice(part);
        if !is_whole {
            is_whole = decoder.decode(&mut input, &mut out)?;
        }
    }
    Ok((is_whole, out, input.to_vec()))
}

fn chunks(bytes: &[u8]) -> bool {
    let whole = decoded(&[bytes], Recode::Chunks);
    let (one, two) = bytes.split_at(chosen(bytes, bytes.len() + 1));
    let cut = decoded(&[one, two], Recode::Chunks);
    match (&whole, &cut) {
        (Ok((true, whole, rest)), Ok((true, cut, cut_rest))) => {
            assert_eq!(rest, cut_rest);
            let bodies = [whole, cut].map(|out| decoded(&[out], Recode::Plain).unwrap());
            assert_eq!(bodies[0], bodies[1], "{bytes:?}");
            assert!(bodies[0].0 && bodies[0].2.is_empty());
            true
        }
        (Ok((false, ..)), Ok((false, ..))) => false,
        (Err(whole), Err(cut)) => {
            assert_eq!(whole, cut);
            false
        }
        other => panic!("{bytes:?}: {other:?}"),
    }
}

pub(crate) fn headers() -> Vec<Vec<u8>> {
    let mut from = owned([
        "PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\nGET /",
        "PROXY TCP6 2001:db8::1 ::1 1 65535\r\n",
        "PROXY UNKNOWN some thing\r\n",
    ]);
    let second = b"\r\n\r\n\0\r\nQUIT\n";
    from.push(
        [
            &second[..],
            b"\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x02\0\x50\x01\xbb",
        ]
        .concat(),
    );
    from.push([&second[..], b"\x20\0\0\0"].concat());
    from.push([&second[..], b"\x21\x21\0\x27", &[7; 39][..]].concat());
    from
}

fn header(bytes: &[u8]) -> bool {
    // Each beginning is looked at, so that long ones would take most of the time.
    let bytes = &bytes[..bytes.len().min(1_000)];
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
    matches!(whole, Ok(Some(_)))
}

fn configurations() -> Vec<Vec<u8>> {
    let text = include_str!("../../src/convert/samples/edge.toml");
    let tables = text
        .split("\n\n")
        .map(|table| format!("{table}\n").into_bytes());
    let mut from: Vec<Vec<u8>> = tables.collect();
    from.push(text.as_bytes().to_vec());
    from
}

/// The sample names files that are not there, so that what is taken is rare.
fn configuration(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match config::parse("mutated", &text) {
        Ok(_) => true,
        Err(config::ConfigError::Wrong { problems }) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!((1..=text.lines().count() + 1).contains(&problem.line));
            }
            false
        }
        Err(_) => false,
    }
}

fn of_haproxy() -> Vec<Vec<u8>> {
    owned([
        include_str!("../../src/convert/samples/edge.cfg"),
        include_str!("../../src/convert/samples/tenants.cfg"),
        include_str!("../../src/convert/samples/database.cfg"),
        include_str!("../../src/convert/samples/legacy.cfg"),
    ])
}

fn conversion(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let converted = convert("haproxy.cfg", &text, &|_| None);
    for remark in &converted.remarks {
        assert!(
            (1..=text.lines().count() + 1).contains(&remark.line),
            "{remark}"
        );
    }
    if !converted.is_whole() {
        return false;
    }
    let checked = config::parse("result", &converted.toml);
    assert!(
        checked.is_ok(),
        "{}\n{}",
        checked.unwrap_err(),
        converted.toml
    );
    true
}
