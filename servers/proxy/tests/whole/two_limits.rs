//! What clients of HTTP/2 may not do, and how much of what is theirs is held.

use std::sync::{Arc, Mutex};

use ::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use h2::Reason;

use super::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, literal,
};
use super::support::two::{TwoClient, TwoOrigin, give, request, run, web_two, whole};
use super::support::{Authority, Origin, Proxy, Trust, until, web};

/// The status of an answer, which stands in h2's table, or has its number in the clear.
fn status(payload: &[u8]) -> u16 {
    match payload {
        [0x88, ..] => 200,
        [0x8c, ..] => 400,
        [0x48 | 0x08, 0x82, ..] => 0,
        _ => {
            let digits: Vec<u8> = payload[2..5].to_vec();
            String::from_utf8_lossy(&digits).parse().unwrap_or(0)
        }
    }
}

#[test]
fn what_has_several_readings_is_refused_and_nothing_of_it_passed_on() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    for headers in [
        &[("content-length", "5"), ("content-length", "5")][..],
        &[("content-length", "+0")],
        &[("host", "b.example")],
        &[("host", "a.example"), ("host", "a.example")],
        &[("expect", "something")],
        &[(":path", "/other")],
        &[("connection", "close")],
        &[("transfer-encoding", "chunked")],
        &[("upgrade", "x")],
        &[("te", "gzip")],
        &[("X-Upper", "1")],
        &[("x y", "1")],
        &[("x", "a\r\nb: c")],
        &[("x", "\0")],
    ] {
        let mut client = Frames::connect(proxy.address("web"), &[]);
        client.get(1, headers);
        loop {
            let frame = client
                .next()
                .unwrap_or_else(|| panic!("no answer to {headers:?}"));
            if frame.stream == 1 && frame.kind == HEADERS {
                assert_ne!(status(&frame.payload), 200, "{headers:?}");
                break;
            }
            if frame.kind == RST_STREAM || frame.kind == super::support::frames::GOAWAY {
                break;
            }
        }
    }
    // Two lengths that are true.
    let mut client = Frames::connect(proxy.address("web"), &[]);
    let head = block("POST", &[("content-length", "5"), ("content-length", "5")]);
    client.frame(HEADERS, END_HEADERS, 1, &head);
    client.frame(DATA, END_STREAM, 1, b"12345");
    let answer = client.until(HEADERS);
    assert_eq!(status(&answer.payload), 400);
    // A body of another length than is said: too long, and too short.
    for body in [&b"123456"[..], b"1234"] {
        let mut client = Frames::connect(proxy.address("web"), &[]);
        let head = block("POST", &[("content-length", "5")]);
        client.frame(HEADERS, END_HEADERS, 1, &head);
        client.frame(DATA, END_STREAM, 1, body);
        client.until(RST_STREAM);
    }
    for asked in origin.asked() {
        assert_eq!(asked.body.len(), 0, "{asked:?}");
    }
    let mut client = proxy.connect();
    assert_eq!(client.get("/").text(), "x", "others are served");
}

#[test]
fn the_proxy_answers_what_it_refuses() {
    let origin = Origin::named("x");
    let config = "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\n\
                  [[listener.web.route]]\npath = \"/there\"\npool = \"app\"\n"
        .to_owned()
        + &origin.config("app", "s0");
    let proxy = Proxy::start(&config);
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let answer = client.get("/not").await;
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("no route"), "{}", answer.text());
        let connect = ::http::Request::builder()
            .method(Method::CONNECT)
            .uri("a.example:1");
        let (response, _) = client
            .0
            .send_request(connect.body(()).unwrap(), false)
            .unwrap();
        assert_eq!(response.await.unwrap().status(), 405);
        // The connection goes on.
        let large = request(Method::GET, "/there").header("x-large", "x".repeat(20_000));
        let (response, _) = client
            .0
            .send_request(large.body(()).unwrap(), true)
            .unwrap();
        assert_eq!(response.await.unwrap().status(), 431);
        assert_eq!(client.get("/there").await.text(), "x");
    });
    assert_eq!(proxy.stat("web/FRONTEND", "ereq"), 2);
}

#[test]
fn a_connection_has_no_more_requests_than_allowed() {
    let origin = TwoOrigin::serving(100, |_, mut respond, _| async move {
        let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
    });
    let proxy = Proxy::start(&web_two("h2 = { streams_max = 2 }", "", &[&origin]));
    let mut client = Frames::connect(proxy.address("web"), &[]);
    for stream in [1, 3, 5] {
        client.get(stream, &[]);
    }
    let refused = client.until(RST_STREAM);
    assert_eq!(refused.stream, 5);
    assert_eq!(refused.payload, 7_u32.to_be_bytes(), "REFUSED_STREAM");
    until("two are there", || origin.requests() == 2);
    // One that is taken back makes room.
    client.frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes());
    client.get(7, &[]);
    until("the next one is there", || origin.requests() == 3);
}

/// Floods a listener, which has to end this connection and no other.
fn flooded(limits: &str, flood: impl Fn(&mut Frames, u32)) {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web(limits, "", &[&origin]));
    let mut client = Frames::connect(proxy.address("web"), &[]);
    for count in 0..1_000 {
        flood(&mut client, count);
    }
    assert_eq!(client.goaway(), ENHANCE_YOUR_CALM);
    client.ended();
    assert_eq!(proxy.connect().get("/").text(), "x");
}

#[test]
fn requests_that_are_taken_back_at_once_end_their_connection() {
    flooded("h2 = { resets_max = 20 }", |client, count| {
        let stream = 2 * count + 1;
        client.get(stream, &[]);
        client.frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    });
}

#[test]
fn pings_and_settings_without_end_end_their_connection() {
    flooded("h2 = { controls_max = 20 }", |client, _| {
        client.frame(PING, 0, 0, &[0; 8]);
    });
    flooded("h2 = { controls_max = 20 }", |client, _| {
        client.frame(SETTINGS, 0, 0, &[]);
    });
    // What comes at once is read in several parts.
    flooded("h2 = { controls_max = 20 }", |client, count| {
        if count == 0 {
            client.send(&frame(PING, 0, 0, &[0; 8]).repeat(4_000));
        }
    });
}

#[test]
fn a_flood_is_told_so_though_its_connection_ends_anyway() {
    let origin = TwoOrigin::serving(100, |_, mut respond, _| async move {
        let _ = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
    });
    let mut proxy = Proxy::start(&web_two("h2 = { controls_max = 20 }", "", &[&origin]));
    let mut client = Frames::connect(proxy.address("web"), &[]);
    client.get(1, &[]);
    until("it is there", || origin.requests() == 1);
    proxy.signal("TERM");
    assert_eq!(client.goaway(), 0, "no error");
    client.send(&frame(PING, 0, 0, &[0; 8]).repeat(40));
    assert_eq!(client.goaway(), ENHANCE_YOUR_CALM);
    client.ended();
    assert!(proxy.ended().success());
}

#[test]
fn what_goes_out_together_goes_out_over_tls_to_the_last() {
    let authority = Authority::new("a test");
    let issued = authority.issue("web", &["a.example"]);
    let origin = Origin::named("x");
    let tls = format!("[listener.web.tls]\n{}", issued.config("certificate"));
    let proxy = Proxy::start(&web(&tls, "", &[&origin]));
    let trust = Trust::of(&authority).speaking(&["h2"]);
    let secured = trust.connect(proxy.address("web"), "a.example");
    let mut client = Frames::over(secured.stream, &[]);
    let streams = [1, 3, 5, 7];
    for stream in streams {
        client.get(stream, &[]);
    }
    for _ in streams {
        assert_eq!(client.until(DATA).payload, b"x");
    }
    // There is no such stream.
    client.frame(DATA, 0, 0, b"x");
    assert_eq!(client.goaway(), 1, "an error of the protocol");
    client.ended();
}

#[test]
fn a_head_without_end_ends_its_connection() {
    let line = literal("x-more", &"x".repeat(1_000));
    let begin = block("GET", &[]);
    flooded("", move |client, count| match count {
        0 => client.frame(HEADERS, 0, 1, &begin),
        _ => client.frame(CONTINUATION, 0, 1, &line),
    });
    flooded("", |client, count| match count {
        0 => client.frame(HEADERS, 0, 1, &block("GET", &[])),
        _ => client.frame(CONTINUATION, 0, 1, &[]),
    });
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let origin = Origin::http(|_| super::support::Reply::text(&"x".repeat(8 << 20)));
    let times = "timeouts = { body = \"100ms\", keep_alive = \"10m\" }";
    let proxy = Proxy::start(&web(times, "", &[&origin]));
    // One that opens no window, and one that reads nothing of its socket.
    let mut client = Frames::connect(proxy.address("web"), &[(4, 1_000)]);
    client.get(1, &[]);
    let reset = client.until(RST_STREAM);
    assert_eq!(reset.stream, 1);
    let mut client = Frames::connect(proxy.address("web"), &[(4, 1 << 30)]);
    client.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    // At once, as nothing is read of the socket.
    let get = |stream: u32| {
        let block = block("GET", &[]);
        frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
    };
    let all: Vec<u8> = (0..40).flat_map(|stream| get(2 * stream + 1)).collect();
    client.send(&all);
    until("they are given up", || {
        proxy.stat("app/s0", "scur") == 0 && proxy.stat("web/FRONTEND", "req_tot") == 41
    });
    // One answer, of which the socket takes a part: long before its keep-alive would end it.
    let mut one = Frames::connect(proxy.address("web"), &[(4, 1 << 30)]);
    one.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    one.get(1, &[]);
    until("it is given up, too", || {
        proxy.stat("web/FRONTEND", "req_tot") == 42 && proxy.stat("app/s0", "scur") == 0
    });
    until("so is the connection", || {
        proxy.stat("web/FRONTEND", "scur") <= 1
    });
}

#[test]
fn no_more_of_a_body_comes_than_its_server_takes() {
    // It takes nothing, until it is told to.
    let told = Arc::new(tokio::sync::Notify::new());
    let wait = Arc::clone(&told);
    let origin = TwoOrigin::serving(100, move |request, mut respond, _| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            let mut body = request.into_body();
            let (body, _) = super::support::two::all_of(&mut body).await.unwrap();
            let text = body.len().to_string();
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            give(&mut stream, text.as_bytes()).await;
            drop(stream.send_data(Bytes::new(), true));
        }
    });
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let post = request(Method::POST, "/").body(()).unwrap();
        let (response, mut stream) = client.0.send_request(post, false).unwrap();
        // Its own window and that of the server. What is between them was not released.
        let most = 64 * 1_024 + 65_535;
        let mut sent = 0;
        loop {
            stream.reserve_capacity(16 * 1_024);
            let more = std::future::poll_fn(|cx| stream.poll_capacity(cx));
            match evenkeel::time::timeout(std::time::Duration::from_millis(200), more).await {
                Ok(Some(Ok(room))) => {
                    sent += room;
                    stream.send_data(vec![0; room].into(), false).unwrap();
                }
                Ok(_) => panic!("the stream has ended"),
                Err(_) => break,
            }
            assert!(sent <= most, "{sent} were taken of it");
        }
        told.notify_one();
        give(&mut stream, &vec![0; 100_000]).await;
        stream.send_data(Bytes::new(), true).unwrap();
        let answer = whole(response.await.unwrap()).await.unwrap();
        assert_eq!(answer.text(), (sent + 100_000).to_string());
    });
}

#[test]
fn bodies_that_wait_hold_no_more_than_all_may() {
    let origin = TwoOrigin::serving(100, |request, _respond, _| async move {
        // It takes nothing of the body, and the request stays.
        let _request = request;
        std::future::pending::<()>().await;
    });
    let listener = "h2 = { connection_window = 67108864, window = 1048576 }";
    let process = "h2_held_bytes_max = 4718592";
    let proxy = Proxy::start_with(process, &web_two(listener, "", &[&origin]));
    let refused = Mutex::new(0);
    run(async {
        let client = TwoClient::connect(proxy.address("web")).await;
        let mut tasks = evenkeel::task::JoinSet::new();
        for _ in 0..8 {
            let mut client = client.clone();
            tasks.spawn(async move {
                client
                    .post("/", &vec![0; 1 << 20], HeaderMap::new())
                    .await
                    .status
            });
        }
        // A bit more than four megabytes are allowed, and each of eight may hold one.
        for _ in 0..4 {
            assert_eq!(tasks.join_next().await.unwrap().unwrap(), 503);
            *refused.lock().unwrap() += 1;
        }
        assert_eq!(tasks.len(), 4, "the others wait");
    });
    assert_eq!(*refused.lock().unwrap(), 4);
}

#[test]
fn a_request_that_is_taken_back_leaves_its_place() {
    let origin = TwoOrigin::serving(100, |_, mut respond, _| async move {
        let reason = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
        assert_eq!(reason.unwrap(), Reason::CANCEL);
    });
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let (_response, mut stream) = client
            .0
            .send_request(request(Method::GET, "/").body(()).unwrap(), true)
            .unwrap();
        until("it has come", || origin.requests() == 1);
        assert_eq!(proxy.stat("app/s0", "scur"), 1);
        stream.send_reset(Reason::CANCEL);
        // Its task has something to do only when the client's connection is driven.
        super::support::two::moment().await;
        for _ in 0..1_000 {
            if proxy.stat("app/s0", "scur") == 0 {
                return;
            }
            super::support::two::moment().await;
        }
        panic!("it keeps its place");
    });
}
