//! Requests that other programs might read otherwise: each is refused, and so is all behind it.

use super::support::{Origin, Proxy, web};

/// Heads of which it is not clear, to everybody, what follows them.
const AMBIGUOUS: [&str; 24] = [
    "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    "Content-Length: 4\r\nContent-Length: 4\r\n",
    "Content-Length: 4\r\nContent-Length: 40\r\n",
    "Content-Length: 4, 4\r\n",
    "Content-Length: +4\r\n",
    "Content-Length: 0x4\r\n",
    "Content-Length: 4 4\r\n",
    "Content-Length:\r\n",
    "Content-Length : 4\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding:\u{b}chunked\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "X: y\r\n Transfer-Encoding: chunked\r\n",
    "X: y\nTransfer-Encoding: chunked\r\n",
    "X: y\rTransfer-Encoding: chunked\r\n",
    "X: \0y\r\n",
    "Host: b.example\r\n",
    "X y\r\n",
];

#[test]
fn an_ambiguous_head_is_answered_with_400_and_what_is_behind_it_is_not_read() {
    let origin = Origin::named("reached");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    for headers in AMBIGUOUS {
        let mut client = proxy.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a.example\r\n{headers}\r\n0\r\n\r\n\
             GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"
        ));
        let answer = client.answer();
        assert_eq!(answer.status, 400, "{headers:?}");
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(client.rest(), b"", "{headers:?}");
    }
    assert_eq!(origin.connections(), 0);
    assert_eq!(proxy.stat("web/FRONTEND", "ereq"), AMBIGUOUS.len() as u64);
}

#[test]
fn an_ambiguous_body_is_answered_with_400_and_never_whole_at_the_server() {
    let origin = Origin::named("reached");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
        "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
    ] {
        let mut client = proxy.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}\
             GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        let answer = client.answer();
        assert_eq!(answer.status, 400, "{body:?}");
        assert_eq!(client.rest(), b"", "{body:?}");
    }
    assert!(origin.asked().is_empty(), "{:?}", origin.asked());
}

#[test]
fn other_requests_that_are_not_served_say_why() {
    let origin = Origin::named("reached");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    for (head, status, why) in [
        (
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
            405,
            "CONNECT",
        ),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, "version"),
        ("PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n", 505, "version"),
        ("GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "Host"),
        (
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            400,
            "different hosts",
        ),
        ("GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n", 400, "first line"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: tea\r\n\r\n",
            417,
            "100-continue",
        ),
    ] {
        let mut client = proxy.connect();
        client.send(head);
        let answer = client.answer();
        assert_eq!(answer.status, status, "{head:?}: {}", answer.text());
        assert!(answer.text().contains(why), "{head:?}: {}", answer.text());
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(origin.connections(), 0);
}
