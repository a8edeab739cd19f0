//! Requests and answers, one after the other and at once.

use std::io::{Read, Write};

use super::support::{Origin, Proxy, Reply, pattern, until, web};

#[test]
fn connections_are_kept_on_both_sides() {
    let origin = Origin::http(|asked| Reply::text(&asked.line));
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    for path in ["/a", "/b?c=d", "/e%20f"] {
        let answer = client.get(path);
        assert_eq!(
            (answer.status, answer.text()),
            (200, &*format!("GET {path}"))
        );
        assert_eq!(answer.header("connection"), None);
    }
    client.send("GET /g HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
    // What the client ends is not ended behind it. It is kept a moment after the answer.
    until("it is kept", || proxy.stat("app/s0", "idle_conn_cur") == 1);
    assert_eq!(proxy.connect().get("/h").text(), "GET /h");
    assert_eq!(origin.connections(), 1);
    assert_eq!(proxy.stat("app/s0", "reuse"), 4);
    assert_eq!(proxy.stat("web/FRONTEND", "req_tot"), 5);
}

#[test]
fn old_clients_are_answered_as_they_ask() {
    let origin = Origin::http(|_| {
        Reply::Go(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
                .to_vec(),
        )
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    // HTTP/1.0 has no chunks, and a body without a length ends with its connection.
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(answer.text(), "abcde");
    let asked = &origin.asked()[0];
    assert!(asked.head.contains("HTTP/1.1\r\n"), "{}", asked.head);

    let origin = Origin::named("short");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.header("connection"), Some("keep-alive"));
        assert_eq!(answer.text(), "short");
    }
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().header("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
}

#[test]
fn requests_that_are_sent_at_once_are_answered_in_their_order() {
    let origin = Origin::http(|asked| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        Reply::text(&format!("{} {body}", asked.line))
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send(
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
         POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /\
         POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n\
         \r\nGET /4 HTTP/1.1\r\nHost: a\r\n\r\nGET /5 HT",
    );
    assert_eq!(client.answer().text(), "GET /1 ");
    assert_eq!(client.answer().text(), "POST /2 GET /");
    assert_eq!(client.answer().text(), "POST /3 4\r\nbody\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "GET /4 ");
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "GET /5 ");
}

#[test]
fn answers_without_a_body_end_with_their_heads() {
    let origin = Origin::http(|asked| match &*asked.line {
        "HEAD /" => Reply::Go(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec()),
        "GET /204" => Reply::Go(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        "GET /304" => {
            Reply::Go(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nETag: x\r\n\r\n".to_vec())
        }
        _ => Reply::text("body"),
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.head();
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (200, Some("5"))
    );
    let answer = client.get("/204");
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (204, None)
    );
    let answer = client.get("/304");
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (304, Some("9"))
    );
    assert_eq!(answer.header("etag"), Some("x"));
    assert_eq!(client.get("/").text(), "body");
    assert_eq!(origin.connections(), 1);
}

#[test]
fn heads_are_written_anew_for_the_next_connection() {
    let origin = Origin::http(|_| {
        Reply::Go(
            b"HTTP/1.1 200 Fine\r\nConnection: x-own, keep-alive\r\nKeep-Alive: timeout=5\r\n\
              X-Own: 1\r\nX-Other: 2\r\nContent-Length: 2\r\n\r\nok"
                .to_vec(),
        )
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send(
        "GET http://a.example:80/p?q HTTP/1.1\r\nHost: a.example:80\r\nX-Mine: 3\r\n\
         Connection: x-drop, host, x-forwarded-for\r\nX-Drop: 4\r\nTE: trailers\r\n\
         X-Forwarded-For: 10.0.0.1\r\nProxy-Connection: close\r\nUpgrade: h2c\r\n\r\n",
    );
    let answer = client.answer();
    assert_eq!(
        answer.head,
        "http/1.1 200 fine\r\nx-other: 2\r\ncontent-length: 2\r\n\r\n"
    );
    assert_eq!(
        origin.asked()[0].head,
        "GET /p?q HTTP/1.1\r\nhost: a.example:80\r\nX-Mine: 3\r\nx-forwarded-for: 127.0.0.1\r\n\
         x-forwarded-proto: http\r\n\r\n"
    );
}

#[test]
fn a_protocol_that_is_changed_passes_with_the_bytes_behind_the_heads() {
    let origin = Origin::raw(|mut stream, _, _| {
        let mut all = Vec::new();
        let mut part = [0; 1_024];
        while !all.ends_with(b"\r\n\r\n") {
            let came = stream.read(&mut part).unwrap();
            assert!(came > 0);
            all.extend_from_slice(&part[..came]);
        }
        let head = String::from_utf8(all).unwrap();
        assert!(
            head.contains("connection: upgrade\r\nupgrade: websocket\r\n"),
            "{head}"
        );
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                  Sec-WebSocket-Accept: x\r\n\r\nfirst",
            )
            .unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        // What the client has sent before the answer waits for it.
        assert!(rest.strip_prefix(b"early") == Some(&pattern(300_000)));
        stream.write_all(b"last").unwrap();
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: y\r\n\r\nearly",
    );
    let answer = client.answer();
    assert_eq!(answer.status, 101);
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert_eq!(answer.header("connection"), Some("upgrade"));
    assert_eq!(client.take(5), b"first");
    client.send(pattern(300_000));
    client.end();
    assert_eq!(client.rest(), b"last");
}

#[test]
fn a_protocol_is_not_changed_unasked() {
    let origin = Origin::http(|_| {
        Reply::Go(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_vec())
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let answer = proxy.connect().get("/");
    assert_eq!(answer.status, 502, "{}", answer.text());
}

#[test]
fn a_request_that_a_closing_connection_has_lost_is_sent_again_if_it_may_be() {
    let origin = Origin::closing_at_the_second();
    // The server has not failed, so that takes nothing from the budget.
    let retries = "retries = { budget_percent = 0, reserve = 0 }";
    let proxy = Proxy::start(&web("", retries, &[&origin]));
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "ok");
    }
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.answer().text(), "ok", "a handshake has no effects");
    assert_eq!(
        origin.asked().len(),
        7,
        "four, of which three were sent twice"
    );
    assert_eq!(proxy.stat("app/s0", "wretr"), 3);
    // What may have had an effect is not.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    let answer = client.answer();
    assert_eq!(answer.status, 502, "{}", answer.text());
    let posts = origin.asked();
    assert_eq!(
        posts.iter().filter(|asked| asked.line == "POST /").count(),
        1
    );
}

#[test]
fn another_protocol_than_the_one_that_was_asked_for_is_not_changed_to() {
    let origin = Origin::http(|_| {
        Reply::Go(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\n".to_vec())
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.answer().status, 502);
    // A list may hide a protocol that is not passed on.
    let mut client = proxy.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
    );
    assert_eq!(client.answer().status, 502);
    let asked = origin.asked();
    assert_eq!(asked[0].header("upgrade").as_deref(), Some("websocket"));
    assert_eq!(asked[1].header("upgrade"), None);
}

#[test]
fn a_connection_that_is_logged_in_is_not_for_others() {
    let origin = Origin::http(|asked| match &*asked.line {
        "GET /asks" => Reply::Go(
            b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic, NTLM\r\nContent-Length: 0\r\n\r\n"
                .to_vec(),
        ),
        line => Reply::text(line),
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nAuthorization: Negotiate abc\r\n\r\n");
    assert_eq!(client.answer().text(), "GET /a");
    assert_eq!(client.get("/asks").status, 401);
    assert_eq!(client.get("/b").text(), "GET /b");
    assert_eq!(origin.connections(), 3);
    client.send("GET /c HTTP/1.1\r\nHost: a\r\nAuthorization: Basic abc\r\n\r\n");
    assert_eq!(client.answer().text(), "GET /c");
    assert_eq!(
        origin.connections(),
        3,
        "a login of each request is no reason"
    );
}

#[test]
fn what_follows_an_answer_is_not_taken_for_the_next_one() {
    let origin = Origin::http(|asked| {
        let Reply::Go(mut bytes) = Reply::text(&asked.line) else {
            unreachable!()
        };
        if asked.line == "GET /two" {
            bytes.extend(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        }
        Reply::Go(bytes)
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut client = proxy.connect();
    assert_eq!(client.get("/two").text(), "GET /two");
    assert_eq!(client.get("/next").text(), "GET /next");
    until("the other is kept", || {
        proxy.stat("app/s0", "idle_conn_cur") == 1
    });
    assert_eq!(proxy.connect().get("/other").text(), "GET /other");
    assert_eq!(origin.connections(), 2, "the first one is not used again");
}

#[test]
fn an_answer_that_breaks_off_is_seen_to() {
    let origin = Origin::http(|asked| match &*asked.line {
        "GET /length" => Reply::End(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc".to_vec()),
        "GET /long" => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n".to_vec();
            Reply::End([head, pattern(100_000)].concat())
        }
        "GET /chunks" => {
            let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
            Reply::End(text.to_vec())
        }
        "GET /head" => Reply::End(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec()),
        _ => Reply::End(b"ICY 200 OK\r\n\r\n".to_vec()),
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    for (path, least) in [("/length", 3), ("/long", 0), ("/chunks", 3)] {
        let mut client = proxy.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.head().status, 200);
        let body = client.ended();
        assert!(
            (least..=100_000).contains(&body.len()),
            "{path}: {}",
            body.len()
        );
    }
    for path in ["/head", "/nonsense"] {
        let answer = proxy.connect().get(path);
        assert_eq!(answer.status, 502, "{path}: {}", answer.text());
    }
    until("all are counted", || proxy.stat("app/s0", "eresp") == 5);
}

#[test]
fn a_server_that_does_not_answer_in_time_is_said_to() {
    let origin = Origin::raw(|mut stream, _, _| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let proxy = Proxy::start(&web("", "timeouts.answer = \"50ms\"", &[&origin]));
    let answer = proxy.connect().get("/");
    assert_eq!(answer.status, 504);
    assert!(!answer.text().contains("s0"), "{}", answer.text());
    until("the operator is told", || {
        proxy
            .complaints()
            .contains("server app/s0 has not answered within 50ms")
    });
    until("the server is left alone", || origin.open() == 0);
}
