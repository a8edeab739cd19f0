//! Bodies: of any length, in chunks, and of those who do not take or send them.

use std::io::{Read, Write};

use super::support::{Client, Origin, Proxy, Reply, pattern, until, web};

fn post(client: &mut Client, body: &[u8]) {
    let length = body.len();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
    ));
    client.send(body);
}

/// Answers with the body that it gets.
fn echo() -> Origin {
    Origin::http(|asked| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            asked.body.len()
        );
        Reply::Go([head.as_bytes(), &asked.body].concat())
    })
}

#[test]
fn bodies_of_any_length_pass_whole_and_the_connections_go_on() {
    let origin = echo();
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    let mut bytes = 0;
    for length in [0, 1, 5_000, 16_384, 70_000, 3_000_001, 10] {
        post(&mut client, &pattern(length));
        assert!(client.answer().body == pattern(length), "{length}");
        bytes += length as u64;
    }
    assert_eq!(origin.connections(), 1);
    assert!(proxy.stat("app/s0", "bin") > bytes);
    assert!(proxy.stat("web/FRONTEND", "bout") > bytes);
}

#[test]
fn chunks_and_trailers_pass_in_both_directions() {
    let origin = Origin::http(|asked| {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
        let body = b"6;a=b\r\nabcdef\r\n1\r\ng\r\n0\r\nX-Sum: 7\r\n\r\n";
        assert_eq!(
            asked.header("transfer-encoding").as_deref(),
            Some("chunked")
        );
        assert_eq!(asked.header("content-length"), None);
        Reply::Go([&head[..], body].concat())
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\nhel",
        );
        client.send("lo\r\n00A\r\n0123456789\r\n0\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.text(), "abcdefg");
        assert_eq!(answer.trailers, "X-Sum: 7\n");
        assert_eq!(answer.header("trailer"), Some("x-sum"));
    }
    // Extensions are dropped, and sizes written in one way.
    for asked in origin.asked() {
        assert_eq!(asked.body, b"5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_body_that_ends_with_its_connection_does_so_for_the_client() {
    let origin = Origin::http(|_| {
        Reply::End([&b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"[..], &pattern(400_000)].concat())
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let answer = proxy.connect().get("/");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.body == pattern(400_000));
}

#[test]
fn a_client_that_waits_for_a_word_gets_it() {
    let origin = Origin::raw(|mut stream, _, _| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        if !head.contains("expect: 100-continue\r\n") {
            return;
        }
        if head.starts_with("put") {
            let refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(refusal).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
            return;
        }
        stream
            .write_all(b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n")
            .unwrap();
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        assert_eq!(&body, b"hello");
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            .unwrap();
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let ask = |method: &str| {
        let mut client = proxy.connect();
        client.send(format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        ));
        client
    };
    let mut client = ask("POST");
    let hints = client.answer();
    assert_eq!((hints.status, hints.header("x")), (103, Some("y")));
    assert_eq!(client.answer().status, 100);
    client.send("hello");
    assert_eq!(client.answer().text(), "ok");

    // Who gets another answer may keep the body, so the connection cannot go on.
    let mut client = ask("PUT");
    let answer = client.answer();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (403, Some("close"))
    );
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_answer_that_comes_before_the_body_is_whole_reaches_the_client() {
    let origin = Origin::raw(|mut stream, _, _| {
        let mut part = [0; 1_024];
        let _ = stream.read(&mut part).unwrap();
        stream
            .write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
            .unwrap();
        // It does not read the rest, and waits until it is left alone.
        while stream.read(&mut part).is_ok_and(|came| came > 0) {}
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
    client.send(pattern(20_000));
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (413, "big"));
    assert_eq!(answer.header("connection"), Some("close"));
    client.ended();
    until("the server is left alone", || origin.open() == 0);
}

#[test]
fn a_client_that_leaves_amid_its_body_takes_the_request_with_it() {
    let origin = echo();
    let proxy = Proxy::start(&web("", "", &[&origin]));
    for body in [
        "Content-Length: 500000\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    ] {
        let mut client = proxy.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}"));
        client.end();
        assert_eq!(client.ended(), b"");
    }
    until("nothing is left", || {
        origin.open() == 0 && proxy.stat("web/FRONTEND", "scur") == 0
    });
    assert!(origin.asked().is_empty(), "a part of a body is no body");
}

#[test]
fn who_sends_a_body_too_slowly_is_told() {
    let origin = echo();
    let more = "timeouts.body = \"100ms\"\n";
    let proxy = Proxy::start(&web(more, "", &[&origin]));
    // Short bodies are copied, and long ones are moved by the kernel.
    for (length, sent) in [(10, 5), (5_000_000, 100)] {
        let mut client = proxy.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
        ));
        client.send(pattern(sent));
        let answer = client.answer();
        assert_eq!(answer.status, 408, "{}", answer.text());
        client.ended();
    }
    assert!(origin.asked().is_empty());
}

#[test]
fn who_does_not_take_an_answer_is_given_up() {
    let length = 50_000_000;
    let origin = Origin::raw(move |mut stream, _, _| {
        let mut part = [0; 1_024];
        let _ = stream.read(&mut part).unwrap();
        let chunked = part.starts_with(b"GET /chunks");
        let framing = if chunked {
            "Transfer-Encoding: chunked\r\n\r\n2faf080\r\n".to_owned()
        } else {
            format!("Content-Length: {length}\r\n\r\n")
        };
        let head = format!("HTTP/1.1 200 OK\r\n{framing}");
        let sent = stream.write_all(head.as_bytes());
        let _ = sent.and_then(|()| stream.write_all(&pattern(length)));
    });
    let proxy = Proxy::start(&web("timeouts.body = \"100ms\"\n", "", &[&origin]));
    for (before, path) in ["/length", "/chunks"].into_iter().enumerate() {
        let mut client = proxy.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        until("it is given up", || {
            origin.connections() > before
                && origin.open() == 0
                && proxy.stat("web/FRONTEND", "scur") == 0
        });
        assert!(client.ended().len() < length);
    }
}

#[test]
fn a_server_that_stops_amid_a_body_is_not_waited_for_without_end() {
    let origin = Origin::raw(|mut stream, _, _| {
        let _ = stream.read(&mut [0; 1_024]).unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&pattern(100_000)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let proxy = Proxy::start(&web("", "timeouts.body = \"100ms\"", &[&origin]));
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    client.ended();
    until("it is counted", || {
        proxy.stat("app/s0", "eresp") == 1 && origin.open() == 0
    });
}
