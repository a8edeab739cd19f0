//! WebSockets and other protocols over HTTP/2, to servers that speak HTTP/1.1.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use ::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};

use super::support::two::{TwoClient, TwoOrigin, all_of, give, moment, request, run, web_two};
use super::support::{Origin, Proxy, pattern, until, web};

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
        let (answer, mut stream) = tunnel(&mut client, "/chat", "websocket").await;
        assert_eq!(answer.unwrap().status(), 200);
        until("it is open", || origin.open() == 1);
        stream.send_reset(Reason::CANCEL);
        while origin.open() > 0 {
            moment().await;
        }
    });
}
