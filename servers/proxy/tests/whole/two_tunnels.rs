//! WebSockets and other protocols over HTTP/2, on one side or on both.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use ::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};

use super::support::two::{TwoClient, TwoOrigin, all_of, give, moment, request, run, web_two};
use super::support::{Client, Origin, Proxy, pattern, until, web};

/// Answers as RFC 6455 has it, or to another key, or otherwise; then gives back all that comes.
fn echo() -> Origin {
    Origin::raw(|mut stream, _, asked| {
        let mut buffer = Vec::new();
        let Ok(Some(request)) = super::support::request(&mut stream, &mut buffer) else {
            return;
        };
        asked.lock().unwrap().push(request.clone());
        // With its case, which the lower one has lost.
        let line = |line: &&str| line.to_ascii_lowercase().starts_with("sec-websocket-key: ");
        let key = request
            .head
            .lines()
            .find(line)
            .map(|line| line[19..].trim());
        let accept = match (&*request.line, key) {
            ("GET /no", _) => {
                let text = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
                return drop(stream.write_all(text.as_bytes()));
            }
            ("GET /other", _) => "Sec-WebSocket-Accept: b3RoZXI=\r\n".to_owned(),
            (_, Some(key)) => format!("Sec-WebSocket-Accept: {}\r\n", accept(key)),
            _ => String::new(),
        };
        let protocol = match &*request.line {
            "GET /strange" => "strange".to_owned(),
            _ => request.header("upgrade").unwrap_or_default(),
        };
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
             {accept}Sec-WebSocket-Protocol: chat\r\n\r\nhello "
        );
        if stream.write_all(head.as_bytes()).is_ok() {
            back(&mut stream, &buffer);
        }
    })
}

fn back(stream: &mut TcpStream, begun: &[u8]) {
    let mut buffer = [0; 16 * 1_024];
    let _ = stream.write_all(begun);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
    let _ = stream.write_all(b" bye");
    let _ = stream.shutdown(Shutdown::Write);
}

fn accept(key: &str) -> String {
    let whole = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let algorithm = &ring::digest::SHA1_FOR_LEGACY_USE_ONLY;
    STANDARD.encode(ring::digest::digest(algorithm, whole.as_bytes()))
}

/// Asks for another protocol.
async fn tunnel(
    client: &mut TwoClient,
    path: &str,
    protocol: &'static str,
) -> (
    Result<::http::Response<RecvStream>, h2::Error>,
    SendStream<Bytes>,
) {
    while !client.0.is_extended_connect_protocol_enabled() {
        moment().await;
    }
    let mut asked = request(Method::CONNECT, path).body(()).unwrap();
    asked
        .extensions_mut()
        .insert(Protocol::from_static(protocol));
    let headers = asked.headers_mut();
    headers.insert("sec-websocket-version", "13".parse().unwrap());
    headers.insert("sec-websocket-key", "mine".parse().unwrap());
    let (response, stream) = client.0.send_request(asked, false).unwrap();
    (response.await, stream)
}

#[test]
fn a_handshake_that_a_closing_connection_has_lost_is_sent_again() {
    let origin = Origin::closing_at_the_second();
    let retries = "retries = { budget_percent = 0, reserve = 0 }";
    let proxy = Proxy::start(&web("", retries, &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let get = request(Method::GET, "/").body(()).unwrap();
        let (response, _) = client.0.send_request(get, true).unwrap();
        let answer = all_of(response.await.unwrap().body_mut()).await;
        assert_eq!(answer.unwrap().0, b"ok");
        let (response, _stream) = tunnel(&mut client, "/chat", "websocket").await;
        // Its 200 is of a page, and to this client would say that the protocol has changed.
        assert_eq!(response.unwrap().status(), 502);
    });
    until("the operator is told", || {
        proxy
            .complaints()
            .contains("asked for another protocol with a page")
    });
    let lines: Vec<String> = origin.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines, ["GET /", "GET /chat", "GET /chat"]);
    assert_eq!(proxy.stat("app/s0", "wretr"), 1);
}

#[test]
fn a_websocket_over_http2_comes_to_a_server_of_http1_and_passes_both_ways() {
    let origin = echo();
    let proxy = Proxy::start(&web("", "", &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let body = pattern(300_000);
        for protocol in ["websocket", "other/1.0"] {
            let (response, mut stream) = tunnel(&mut client, "/chat?a", protocol).await;
            let response = response.unwrap();
            assert_eq!(response.status(), 200, "{protocol}");
            let headers = response.headers();
            assert_eq!(headers["sec-websocket-protocol"], "chat");
            assert!(!headers.contains_key("sec-websocket-accept"));
            let mut incoming = response.into_body();
            let sent = async {
                give(&mut stream, &body).await;
                stream.send_data(Bytes::new(), true).unwrap();
            };
            let (all, ()) = tokio::join!(all_of(&mut incoming), sent);
            let whole = [b"hello ", &body[..], b" bye"].concat();
            assert!(all.unwrap().0 == whole, "{protocol}");
        }
        // Other requests share the connection.
        let (answer, _) = tunnel(&mut client, "/no", "websocket").await;
        let mut answer = answer.unwrap();
        assert_eq!(answer.status(), 403);
        assert_eq!(all_of(answer.body_mut()).await.unwrap().0, b"no");
    });
    let asked = origin.asked();
    assert_eq!(asked[0].line, "GET /chat?a");
    assert_eq!(asked[0].header("upgrade").as_deref(), Some("websocket"));
    assert_eq!(asked[0].header("connection").as_deref(), Some("upgrade"));
    assert_eq!(
        asked[0].header("sec-websocket-version").as_deref(),
        Some("13")
    );
    assert_ne!(
        asked[0].header("sec-websocket-key").as_deref(),
        Some("mine")
    );
    assert_eq!(asked[1].header("upgrade").as_deref(), Some("other/1.0"));
    assert_eq!(asked[1].header("sec-websocket-key"), None);
}

#[test]
fn a_silent_tunnel_ends_though_its_connection_is_busy() {
    let origin = echo();
    let proxy = Proxy::start(&web("timeouts.idle = \"500ms\"", "", &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let (response, _stream) = tunnel(&mut client, "/chat", "websocket").await;
        let mut incoming = response.unwrap().into_body();
        let busy = async {
            loop {
                let (answer, _) = tunnel(&mut client, "/no", "websocket").await;
                assert_eq!(answer.unwrap().status(), 403);
            }
        };
        tokio::select! {
            all = all_of(&mut incoming) => assert!(all.is_err(), "it is reset"),
            () = busy => unreachable!("it has no end"),
        }
    });
}

#[test]
fn a_websocket_that_cannot_be_had_is_refused_and_one_that_is_cut_off_ends_so() {
    let (origin, two) = (echo(), TwoOrigin::echo());
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let to_two = Proxy::start(&web_two("", "", &[&two]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        for (path, protocol, status) in [
            ("/other", "websocket", 502),
            ("/strange", "websocket", 502),
            ("/chat", "a b", 400),
        ] {
            let (answer, _) = tunnel(&mut client, path, protocol).await;
            assert_eq!(answer.unwrap().status(), status, "{path} {protocol}");
        }
        let mut other = TwoClient::connect(to_two.address("web")).await;
        let (answer, _) = tunnel(&mut other, "/chat", "websocket").await;
        assert_eq!(answer.unwrap().status(), 501);
        to_two.until_said("does not allow WebSockets over HTTP/2");
        let (answer, mut stream) = tunnel(&mut client, "/chat", "websocket").await;
        assert_eq!(answer.unwrap().status(), 200);
        until("it is open", || origin.open() == 1);
        stream.send_reset(Reason::CANCEL);
        while origin.open() > 0 {
            moment().await;
        }
    });
}

/// Opens tunnels, tells what it was asked, and gives back all that comes; some paths it answers
/// otherwise.
fn echo_two() -> TwoOrigin {
    let mut builder = h2::server::Builder::new();
    builder.enable_connect_protocol();
    TwoOrigin::built(&builder, |request, mut respond, _| async move {
        let (parts, mut incoming) = request.into_parts();
        let mut answer = ::http::Response::builder().header("sec-websocket-protocol", "chat");
        if parts.uri.path() == "/no" {
            answer = answer.status(403).header("content-length", 2);
            let mut stream = respond
                .send_response(answer.body(()).unwrap(), false)
                .unwrap();
            return drop(stream.send_data("no".into(), true));
        }
        let answer = answer.status(201).body(()).unwrap();
        let mut stream = respond.send_response(answer, false).unwrap();
        let protocol = parts.extensions.get::<Protocol>().map(Protocol::as_str);
        let key = parts.headers.contains_key("sec-websocket-key");
        let version = parts
            .headers
            .get("sec-websocket-version")
            .map(|it| it.to_str().unwrap());
        let (method, uri) = (parts.method, parts.uri);
        let told = format!("{method} {uri} {protocol:?} {version:?} {key}\n");
        give(&mut stream, told.as_bytes()).await;
        if uri.path() == "/cut" {
            // Not before the head has come, which it would take with it.
            let _ = incoming.data().await;
            return stream.send_reset(Reason::CANCEL);
        }
        let ends_first = uri.path() == "/first";
        if ends_first {
            drop(stream.send_data(Bytes::new(), true));
        }
        while let Some(Ok(bytes)) = incoming.data().await {
            incoming
                .flow_control()
                .release_capacity(bytes.len())
                .unwrap();
            if !ends_first {
                give(&mut stream, &bytes).await;
            }
        }
        if !ends_first {
            give(&mut stream, b" bye").await;
            drop(stream.send_data(Bytes::new(), true));
        }
    })
}

#[test]
fn a_client_of_http2_has_a_websocket_with_a_server_of_http2() {
    let origin = echo_two();
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    let body = pattern(300_000);
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        for protocol in ["websocket", "other/1.0"] {
            let (response, mut stream) = tunnel(&mut client, "/chat?a", protocol).await;
            let response = response.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
            let mut incoming = response.into_body();
            let sent = async {
                give(&mut stream, &body).await;
                stream.send_data(Bytes::new(), true).unwrap();
            };
            let (all, ()) = tokio::join!(all_of(&mut incoming), sent);
            let told =
                format!("CONNECT http://a.example/chat?a Some({protocol:?}) Some(\"13\") false\n");
            let whole = [told.as_bytes(), &body[..], b" bye"].concat();
            assert!(all.unwrap().0 == whole, "{protocol}");
        }
        let (answer, _) = tunnel(&mut client, "/no", "websocket").await;
        let mut answer = answer.unwrap();
        assert_eq!(answer.status(), 403);
        assert_eq!(all_of(answer.body_mut()).await.unwrap().0, b"no");
        let (answer, mut stream) = tunnel(&mut client, "/cut", "websocket").await;
        give(&mut stream, b"x").await;
        assert!(all_of(answer.unwrap().body_mut()).await.is_err());
    });
    assert_eq!(origin.connections(), 1);
}

/// Asks for a WebSocket by HTTP/1.1.
fn upgrade(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\
         Sec-WebSocket-Version: 13\r\n{more}\r\n"
    )
}

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[test]
fn a_client_of_http1_has_a_websocket_with_a_server_of_http2() {
    let origin = echo_two();
    let rules = "[listener.web.response]\nremove_headers = [\"sec-websocket-accept\"]\n";
    let proxy = Proxy::start(&web_two(rules, "", &[&origin]));
    let mut client = Client::connect(proxy.address("web"));
    // In the same bytes as the request, as a client may that does not wait.
    client.send(upgrade("/chat", KEY) + "early ");
    let answer = client.head();
    assert_eq!(answer.status, 101);
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert_eq!(answer.header("connection"), Some("upgrade"));
    let accept = accept("dGhlIHNhbXBsZSBub25jZQ==").to_ascii_lowercase();
    assert_eq!(answer.header("sec-websocket-accept"), Some(&*accept));
    assert_eq!(answer.header("sec-websocket-protocol"), Some("chat"));
    let body = pattern(300_000);
    let mut writer = client.stream.try_clone().unwrap();
    let sent = std::thread::spawn({
        let body = body.clone();
        move || {
            writer.write_all(&body).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        }
    });
    let told = b"CONNECT http://a.example/chat Some(\"websocket\") Some(\"13\") false\n";
    let whole = [&told[..], b"early ", &body[..], b" bye"].concat();
    assert!(client.rest() == whole);
    sent.join().unwrap();
    // The server's end is passed on, and the client's direction goes on.
    let mut client = Client::connect(proxy.address("web"));
    client.send(upgrade("/first", KEY));
    assert_eq!(client.head().status, 101);
    assert!(client.rest().starts_with(b"CONNECT "));
    client.stream.write_all(&body).unwrap();
    assert_eq!(proxy.stat("web/FRONTEND", "scur"), 1);
    client.stream.shutdown(Shutdown::Write).unwrap();
    until("it has ended", || proxy.stat("web/FRONTEND", "scur") == 0);
}

#[test]
fn a_websocket_with_a_server_of_http2_is_refused_or_cut_off_as_by_http1() {
    let origin = echo_two();
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    let mut client = Client::connect(proxy.address("web"));
    client.send(upgrade("/no", KEY));
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (403, "no"));
    // The connection goes on.
    client.send(upgrade("/cut", KEY));
    assert_eq!(client.head().status, 101);
    client.send("x");
    let _ = client.ended();
    for keys in [
        String::new(),
        KEY.repeat(2),
        "Sec-WebSocket-Key: short\r\n".to_owned(),
    ] {
        let mut client = Client::connect(proxy.address("web"));
        client.send(upgrade("/chat", &keys));
        assert_eq!(client.answer().status, 400, "{keys:?}");
    }
    // One that has gone takes its stream with it.
    let mut client = Client::connect(proxy.address("web"));
    client.send(upgrade("/chat", KEY));
    assert_eq!(client.head().status, 101);
    drop(client);
    until("the stream has ended", || proxy.stat("app/s0", "scur") == 0);
}

#[test]
fn rules_about_the_handshake_do_not_break_a_websocket_over_http2() {
    let origin = echo();
    let rules = "[listener.web.response]\nremove_headers = [\"sec-websocket-accept\"]\n";
    let proxy = Proxy::start(&web(rules, "", &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let (answer, _stream) = tunnel(&mut client, "/chat", "websocket").await;
        assert_eq!(answer.unwrap().status(), 200);
        let (answer, _) = tunnel(&mut client, "/other", "websocket").await;
        assert_eq!(answer.unwrap().status(), 502);
    });
}
