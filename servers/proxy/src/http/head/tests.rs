//! Heads that are taken, and those that are refused.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<(String, String, Framing, bool), BadHead> {
    let end = HeadEnd::default().find(text.as_bytes())?;
    let end = end.expect("the head is whole");
    let mut storage = storage();
    let request = Request::parse(&text.as_bytes()[..end], &mut storage)?;
    let (target, host) = (request.target.to_owned(), request.host.to_owned());
    Ok((target, host, request.framing, request.persists))
}

/// Requests that other programs read in different ways, each with the word that says why not.
const REFUSED: [(&str, &str); 42] = [
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "beside",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "beside",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "two Content",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "two Content",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n",
        "no plain number",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
        "no plain number",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        "no plain number",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n",
        "no plain number",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n",
        "no plain number",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
        "no plain number",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\n",
        "no plain number",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "something else",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        "something else",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        "something else",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "something else",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n",
        "something else",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n",
        "something else",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        "two Transfer",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
         Transfer-Encoding: cow\r\n\r\n",
        "two Transfer",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{b}chunked\r\n\r\n",
        "value of a header",
    ),
    (
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.0",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
        "name of a header",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n",
        "name of a header",
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        "name of a header",
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
        "name of a header",
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n",
        "name of a header",
    ),
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "name of a header"),
    ("GET / HTTP/1.1\nHost: a\r\n\r\n", "LF alone"),
    ("GET / HTTP/1.1\r\nHost: a\n\r\n", "LF alone"),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\n\n\r\n", "LF alone"),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\rContent-Length: 5\r\n\r\n",
        "value of a header",
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n",
        "value of a header",
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
        "name of a header",
    ),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", "name of a header"),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "there twice",
    ),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "no host"),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "no host"),
    ("GET / HTTP/1.1\r\nX: a\r\n\r\n", "no Host"),
    (
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "different hosts",
    ),
    ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", "neither a path"),
    ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "the target has"),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "first line"),
];

#[test]
fn what_has_several_readings_is_refused() {
    for (text, why) in REFUSED {
        match parse(text) {
            Err(bad) => {
                assert!(bad.why.contains(why), "{text:?}: {}", bad.why);
                assert_eq!(bad.status, 400, "{text:?}");
            }
            Ok(taken) => panic!("{text:?} is taken: {taken:?}"),
        }
    }
}

#[test]
fn other_refusals_have_their_status() {
    for (text, status) in [
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: tea\r\n\r\n",
            417,
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().status, status, "{text:?}");
    }
    let many = "X: y\r\n".repeat(HEADERS_MAX);
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n");
    assert_eq!(parse(&text).unwrap_err().status, 431);
}

#[test]
fn what_is_clear_is_taken() {
    let taken = |text: &str| parse(text).unwrap();
    let whole = |target: &str, host: &str, framing, persists| {
        (target.to_owned(), host.to_owned(), framing, persists)
    };
    assert_eq!(
        taken("GET /a?b=c HTTP/1.1\r\nhOsT:a.example:80 \r\n\r\n"),
        whole("/a?b=c", "a.example:80", Framing::None, true)
    );
    assert_eq!(
        taken("GET http://a/b HTTP/1.1\r\nHost: A\r\nConnection: x, Close\r\n\r\n"),
        whole("/b", "a", Framing::None, false)
    );
    assert_eq!(
        taken("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\n\r\n"),
        whole("/", "a", Framing::Length(7), true)
    );
    assert_eq!(
        taken("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"),
        whole("/", "a", Framing::Chunked, true)
    );
    assert_eq!(
        taken("GET / HTTP/1.0\r\n\r\n"),
        whole("/", "", Framing::None, false)
    );
    assert_eq!(
        taken("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"),
        whole("/", "", Framing::None, true)
    );
    assert_eq!(
        taken("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        whole("*", "a", Framing::None, true)
    );
}

/// Each header is compared with all of them.
#[test]
fn more_words_of_connection_than_anyone_needs_are_refused() {
    let with = |words: &str| {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {words}\r\n\r\n");
        parse(&text).map(drop)
    };
    with(&["a"; 32].join(",")).unwrap();
    for words in [["a"; 33].join(","), ",".repeat(32)] {
        assert_eq!(with(&words).unwrap_err().status, 400, "{words}");
    }
    let twice = format!("keep-alive\r\nConnection: {}", ["a"; 32].join(","));
    assert_eq!(with(&twice).unwrap_err().status, 400);
}

#[test]
fn upgrades_pass_unless_they_pass_by_the_proxy() {
    let upgrade = |rest: &str| {
        let text =
            format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n{rest}\r\n");
        let mut storage = storage();
        let request = Request::parse(text.as_bytes(), &mut storage).unwrap();
        request.upgrade.map(<[u8]>::to_vec)
    };
    assert_eq!(
        upgrade("Upgrade: websocket\r\n"),
        Some(b"websocket".to_vec())
    );
    for other in [
        "h2c",
        "websocket, h2c",
        ",h2c",
        "h2c,websocket",
        "a b",
        "H2",
    ] {
        assert_eq!(upgrade(&format!("Upgrade: {other}\r\n")), None, "{other}");
    }
    assert_eq!(upgrade("Upgrade: websocket\r\nContent-Length: 3\r\n"), None);
    assert_eq!(upgrade(""), None);
}

#[test]
fn answers_end_where_their_status_and_headers_say() {
    let framing = |text: &str, is_for_head| {
        let mut storage = storage();
        let response = Response::parse(text.as_bytes(), is_for_head, &mut storage);
        response.map(|response| (response.framing, response.length_said, response.persists))
    };
    let with_length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(
        framing(with_length, false),
        Ok((Framing::Length(5), Some(5), true))
    );
    assert_eq!(
        framing(with_length, true),
        Ok((Framing::None, Some(5), true))
    );
    let unmodified = "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(
        framing(unmodified, false),
        Ok((Framing::None, Some(5), true))
    );
    let empty = "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(framing(empty, false), Ok((Framing::None, None, true)));
    let endless = "HTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(framing(endless, false), Ok((Framing::Close, None, false)));
    let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(
        framing(old, false),
        Ok((Framing::Length(5), Some(5), false))
    );
    for wrong in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
    ] {
        assert!(framing(wrong, false).is_err(), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn the_end_is_found_wherever_the_bytes_are_cut(
        lines in prop::collection::vec("[a-z]{0,9}", 1..9),
        cuts in prop::collection::vec(0..99_usize, 0..9),
    ) {
        let head: String = lines.iter().map(|line| format!("x{line}\r\n")).collect();
        let text = format!("{head}\r\nrest\r\n\r\n");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % text.len()).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        let mut end = HeadEnd::default();
        for cut in cuts {
            let found = end.find(&text.as_bytes()[..cut]).unwrap();
            prop_assert_eq!(found, (cut >= head.len() + 2).then_some(head.len() + 2));
            if found.is_some() {
                break;
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, cut in 0..200_usize) {
        let begin = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: upgrade\r\n";
        let mut text = [&begin[..cut.min(begin.len())], &bytes, b"\r\n\r\n"].concat();
        if let Ok(Some(end)) = HeadEnd::default().find(&text) {
            text.truncate(end);
            let mut storage = storage();
            let _ = Request::parse(&text, &mut storage);
        }
    }
}
