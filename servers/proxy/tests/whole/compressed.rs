//! Answers that are compressed on their way.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use ::http::Method;
use serde_json::Value;

use super::support::two::{TwoClient, TwoOrigin, give, request, run, web_two, whole};
use super::support::{Answer, Client, LIMIT, Origin, Proxy, Reply, pattern, until, web};

fn text() -> String {
    (0..9_000).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "line {line}");
        text
    })
}

/// A head of a server's with the length of this body, and the body.
fn reply(more: &str, body: &[u8]) -> Reply {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n{more}\r\n",
        body.len()
    );
    Reply::Go([head.as_bytes(), body].concat())
}

fn ask(client: &mut Client, path: &str, accept: &str) -> Answer {
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n"
    ));
    client.answer()
}

/// The body without its coding.
fn decoded(answer: &Answer) -> Vec<u8> {
    let body = &answer.body;
    let mut out = Vec::new();
    match answer.header("content-encoding") {
        Some("gzip") => drop(flate2::read::GzDecoder::new(&**body).read_to_end(&mut out)),
        Some("br") => drop(brotli::Decompressor::new(&**body, 4_096).read_to_end(&mut out)),
        Some("zstd") => out = zstd::stream::decode_all(&**body).unwrap(),
        other => panic!("{other:?}"),
    }
    out
}

/// Asks by HTTP/2.
async fn ask_two(client: &mut TwoClient, path: &str, accept: &str) -> Answer {
    let request = request(Method::GET, path).header("accept-encoding", accept);
    let request = request.body(()).unwrap();
    let (response, _) = client.0.send_request(request, true).unwrap();
    let answer = whole(response.await.unwrap()).await.unwrap();
    let mut head = format!("HTTP/2.0 {}\r\n", answer.status);
    for (name, value) in &answer.headers {
        let _ = write!(head, "{name}: {}\r\n", value.to_str().unwrap());
    }
    Answer {
        status: answer.status,
        head: head.to_ascii_lowercase(),
        body: answer.body,
        trailers: String::new(),
    }
}

#[test]
fn an_answer_is_compressed_where_a_client_or_a_server_speaks_http2() {
    let one = Origin::http(|asked| match &*asked.line {
        "GET /short" => reply("", b"short"),
        _ => reply("ETag: \"x\"\r\nAccept-Ranges: bytes\r\n", text().as_bytes()),
    });
    let two = TwoOrigin::serving(100, |request, mut respond, _| async move {
        let response = ::http::Response::builder()
            .header("content-type", "text/html")
            .header("etag", "\"x\"")
            .body(())
            .unwrap();
        let mut stream = respond.send_response(response, false).unwrap();
        give(&mut stream, text().as_bytes()).await;
        drop((request, stream.send_data(bytes::Bytes::new(), true)));
    });
    let proxies = [
        Proxy::start(&web("compress = true", "", &[&one])),
        Proxy::start(&web_two("compress = true", "", &[&two])),
    ];
    let good = |answer: &Answer, coding: &str| {
        assert_eq!(answer.header("content-encoding"), Some(coding));
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
        assert_eq!(answer.header("etag"), Some("w/\"x\""));
        assert_eq!(answer.header("accept-ranges"), None);
        assert_eq!(answer.header("content-length"), None);
        assert!(decoded(answer) == text().as_bytes(), "{coding}");
    };
    run(async {
        for proxy in &proxies {
            let mut client = TwoClient::connect(proxy.address("web")).await;
            for coding in ["gzip", "br", "zstd"] {
                good(&ask_two(&mut client, "/", coding).await, coding);
            }
            let plain = ask_two(&mut client, "/", "identity").await;
            assert_eq!(plain.header("content-encoding"), None);
            assert_eq!(plain.header("vary"), Some("accept-encoding"));
            assert_eq!(plain.header("etag"), Some("\"x\""));
            assert!(plain.body == text().as_bytes());
        }
        let mut client = TwoClient::connect(proxies[0].address("web")).await;
        let short = ask_two(&mut client, "/short", "gzip").await;
        assert_eq!((short.header("vary"), &*short.body), (None, &b"short"[..]));
    });
    let mut client = proxies[1].connect();
    for coding in ["gzip", "br", "zstd"] {
        good(&ask(&mut client, "/", coding), coding);
    }
}

#[test]
fn an_answer_is_compressed_as_its_client_likes_it() {
    let origin = Origin::http(|asked| match &*asked.line {
        "GET /chunks" => {
            let (begin, end) = (text(), "the end");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\
                        Transfer-Encoding: chunked\r\n\r\n";
            let (one, two) = (begin.len(), end.len());
            let body = format!("{one:x}\r\n{begin}\r\n{two:x}\r\n{end}\r\n0\r\n\r\n");
            Reply::Go((head.to_owned() + &body).into())
        }
        "GET /close" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_owned();
            Reply::End((head + &text()).into())
        }
        _ => reply("ETag: \"x\"\r\nAccept-Ranges: bytes\r\n", text().as_bytes()),
    });
    let proxy = Proxy::start(&web("compress = true", "", &[&origin]));
    let mut client = proxy.connect();
    for (accept, coding) in [
        ("gzip", "gzip"),
        ("gzip, br;q=0.9", "gzip"),
        ("gzip, br", "br"),
        ("gzip, br, zstd", "zstd"),
    ] {
        let answer = ask(&mut client, "/", accept);
        assert_eq!(answer.header("content-encoding"), Some(coding), "{accept}");
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
        assert_eq!(answer.header("etag"), Some("w/\"x\""));
        assert_eq!(answer.header("accept-ranges"), None);
        assert_eq!(answer.header("content-length"), None);
        assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
        assert_eq!(decoded(&answer), text().as_bytes(), "{accept}");
        assert!(answer.body.len() < text().len() / 2);
    }
    let answer = ask(&mut client, "/chunks", "gzip");
    assert_eq!(decoded(&answer), (text() + "the end").as_bytes());
    // One that ends with its connection has an end of its own now.
    let answer = ask(&mut client, "/close", "gzip");
    assert_eq!(answer.header("connection"), None);
    assert_eq!(decoded(&answer), text().as_bytes());
    let show = || -> Vec<Value> { serde_json::from_str(&proxy.ctl("show compress json")).unwrap() };
    let shown = show();
    assert_eq!(
        (&shown[0]["route"], &shown[0]["answers"]),
        (&"web".into(), &6.into())
    );
    until("all are done", || show()[0]["now"] == 0);
    // Who does not take it gets it as it is, and caches are told that it depends.
    for accept in ["identity", "gzip;q=0"] {
        let answer = ask(&mut client, "/", accept);
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
        assert_eq!(answer.header("etag"), Some("\"x\""));
        assert_eq!(answer.text(), text());
    }
}

#[test]
fn what_is_not_to_be_changed_is_not() {
    let body = pattern(4_000);
    let sent = body.clone();
    let origin = Origin::http(move |asked| match &*asked.line {
        "GET /part" => {
            let head = "HTTP/1.1 206 Part\r\nContent-Type: text/html\r\n\
                        Content-Range: bytes 0-3999/5000\r\nContent-Length: 4000\r\n\r\n";
            Reply::Go([head.as_bytes(), &sent].concat())
        }
        "GET /coded" => reply("Content-Encoding: br\r\n", &sent),
        "GET /fixed" => reply("Cache-Control: no-transform\r\n", &sent),
        "GET /short" => reply("", &sent[..100]),
        "GET /image" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 4000\r\n\r\n";
            Reply::Go([head.as_bytes(), &sent].concat())
        }
        "HEAD /" => Reply::Go(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4000\r\n\r\n".to_vec(),
        ),
        _ => reply("", &sent),
    });
    let route = "compress = { codings = [\"gzip\"] }\n\
                 [[listener.web.route]]\npath = \"/off\"\npool = \"app\"\ncompress = false";
    let proxy = Proxy::start(&web(route, "", &[&origin]));
    let mut client = proxy.connect();
    for path in ["/part", "/coded", "/fixed", "/image", "/off"] {
        let answer = ask(&mut client, path, "gzip");
        assert_eq!(answer.body, body, "{path}");
        assert_eq!(answer.header("vary"), None, "{path}");
    }
    assert_eq!(ask(&mut client, "/short", "gzip").body, &body[..100]);
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let answer = client.head();
    assert_eq!(answer.header("content-encoding"), None);
    assert_eq!(answer.header("content-length"), Some("4000"));
    assert_eq!(
        ask(&mut client, "/", "gzip").header("content-encoding"),
        Some("gzip")
    );
    // HTTP/1.0 has no chunks.
    let mut old = proxy.connect();
    old.send("GET / HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(old.answer().body, body);
}

#[test]
fn what_has_come_is_passed_on_before_more_is_waited_for() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::raw(move |mut stream, _, _| {
        let mut buffer = Vec::new();
        let _ = super::support::request(&mut stream, &mut buffer);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\none")
            .unwrap();
        held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        stream.write_all(b"two").unwrap();
    });
    let proxy = Proxy::start(&web("compress = true", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(client.head().header("content-encoding"), Some("gzip"));
    let mut part = [0; 3];
    let first = chunk(&mut client);
    flate2::read::GzDecoder::new(&*first)
        .read_exact(&mut part)
        .unwrap();
    assert_eq!(&part, b"one");
    release.send(()).unwrap();
    let mut all = first;
    loop {
        let more = chunk(&mut client);
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*all)
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "onetwo");
}

/// The next chunk, without its size.
fn chunk(client: &mut Client) -> Vec<u8> {
    let mut size = String::new();
    while !size.ends_with("\r\n") {
        size.push(char::from(client.take(1)[0]));
    }
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let chunk = client.take(size);
    assert_eq!(client.take(2), b"\r\n");
    chunk
}

#[test]
fn an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole() {
    let origin = Origin::http(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 90000\r\n\r\n";
        Reply::End((head.to_owned() + &text()[..50_000]).into())
    });
    let proxy = Proxy::start(&web("compress = true", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(client.head().status, 200);
    let body = client.ended();
    assert!(!body.ends_with(b"0\r\n\r\n"), "{}", body.len());
    until("it is counted", || proxy.stat("app/s0", "eresp") == 1);
}
