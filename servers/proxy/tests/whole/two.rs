//! HTTP/2 with clients, with servers, and with both.

use std::sync::Arc;

use ::http::{HeaderMap, Method};
use bytes::Bytes;

use super::support::frames::{self, Frames};
use super::support::two::{TwoClient, TwoOrigin, give, request, run, web_two, whole};
use super::support::{Authority, Client, Origin, Proxy, Reply, Trust, pattern, until, web};

fn trailers(name: &'static str, value: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.insert(name, value.parse().unwrap());
    map
}

#[test]
fn requests_of_http2_go_to_a_server_of_http1_at_the_same_time() {
    // Nobody is answered before all have asked.
    let (sender, all) = std::sync::mpsc::channel::<()>();
    let (sender, all) = (std::sync::Mutex::new(sender), std::sync::Mutex::new(all));
    let origin = Origin::http(move |asked| {
        if asked.line == "GET /wait" {
            let _ = all.lock().unwrap().recv_timeout(super::support::LIMIT);
        }
        if asked.line == "GET /go" {
            (0..3).for_each(|_| sender.lock().unwrap().send(()).unwrap());
        }
        Reply::text(&asked.line)
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    run(async {
        let client = TwoClient::connect(proxy.address("web")).await;
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let mut client = client.clone();
            waiting.push(evenkeel::spawn(async move { client.get("/wait").await }));
        }
        until("they wait", || origin.open() == 3);
        let answer = client.clone().get("/go").await;
        assert_eq!((answer.status, answer.text()), (200, "GET /go"));
        assert_eq!(answer.header("content-length"), Some("7"));
        for task in waiting {
            assert_eq!(task.await.unwrap().text(), "GET /wait");
        }
    });
    let head = origin.asked()[0].head.clone();
    assert!(head.contains("host: a.example\r\n"), "{head}");
    assert!(head.contains("x-forwarded-for: 127.0.0.1\r\n"), "{head}");
    assert!(head.contains("x-forwarded-proto: http\r\n"), "{head}");
    assert_eq!(proxy.stat("web/FRONTEND", "req_tot"), 4);
    assert_eq!(proxy.stat("web/FRONTEND", "stot"), 1);
}

#[test]
fn bodies_and_trailers_pass_from_http2_to_http1_and_back() {
    let origin = Origin::http(|asked| {
        let length = asked.body.len();
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
             {length:x}\r\n"
        )
        .into_bytes();
        bytes.extend(&asked.body);
        bytes.extend(b"\r\n0\r\nX-Back: 1\r\n\r\n");
        Reply::End(bytes)
    });
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let body = pattern(300_000);
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let answer = client.post("/", &body, trailers("x-forth", "2")).await;
        // The origin keeps chunks and trailers as they came.
        let came = String::from_utf8_lossy(&answer.body);
        assert!(came.ends_with("\r\n0\r\nx-forth: 2\r\n\r\n"));
        assert!(answer.body.len() > body.len());
        assert_eq!(answer.trailers, trailers("x-back", "1"));
        assert_eq!(answer.header("connection"), None);
        assert_eq!(answer.header("transfer-encoding"), None);
        // One whose length is known has no chunks.
        let sized = request(Method::PUT, "/").header("content-length", "5");
        let (response, mut stream) = client
            .0
            .send_request(sized.body(()).unwrap(), false)
            .unwrap();
        stream
            .send_data(Bytes::from_static(b"hello"), true)
            .unwrap();
        let answer = whole(response.await.unwrap()).await.unwrap();
        assert_eq!(answer.body, b"hello");
        // Some servers refuse a request of which nothing is said, and a body could be.
        let empty = request(Method::POST, "/").header("content-length", "0");
        let (response, _) = client
            .0
            .send_request(empty.body(()).unwrap(), true)
            .unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
    });
    for (asked, length) in origin.asked()[1..].iter().zip(["5", "0"]) {
        assert_eq!(asked.header("content-length").as_deref(), Some(length));
        assert_eq!(asked.header("transfer-encoding"), None);
    }
}

#[test]
fn requests_of_http2_share_a_connection_of_http2() {
    let origin = TwoOrigin::echo();
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    let body = pattern(300_000);
    run(async {
        let client = TwoClient::connect(proxy.address("web")).await;
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let (mut client, body) = (client.clone(), body.clone());
            tasks.push(evenkeel::spawn(async move {
                let sent = client.post("/a?b", &body, trailers("x-forth", "2"));
                (sent.await, body)
            }));
        }
        for task in tasks {
            let (answer, body) = task.await.unwrap();
            let begin = format!(
                "POST http://a.example/a?b\nx-forwarded-for: 127.0.0.1\nx-forwarded-proto: http\n\
                 body of {}\n",
                body.len()
            );
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("x-two"), Some("yes"));
            assert!(answer.body.starts_with(begin.as_bytes()));
            assert!(
                answer.body[begin.len()..] == body,
                "the body is another one"
            );
            assert_eq!(answer.trailers["x-forth"], "2");
            assert_eq!(answer.trailers["x-end"], "here");
        }
        // Crumbs of a cookie are put together.
        let crumbs = request(Method::GET, "/")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("te", "trailers");
        let mut client = client.clone();
        let (response, _) = client
            .0
            .send_request(crumbs.body(()).unwrap(), true)
            .unwrap();
        let answer = whole(response.await.unwrap()).await.unwrap();
        assert!(
            answer.text().contains("te: trailers\ncookie: a=1; b=2\n"),
            "{}",
            answer.text()
        );
    });
    assert_eq!(origin.connections(), 1);
    assert_eq!(proxy.stat("app/s0", "stot"), 9);
    assert_eq!(proxy.stat("app/s0", "reuse"), 8);
}

#[test]
fn a_client_of_http1_is_served_by_http2() {
    let origin = TwoOrigin::echo();
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    let mut client = proxy.connect();
    client.send(
        "POST /a HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nX-Own: 1\r\n\
         Connection: x-gone\r\nX-Gone: 1\r\n\r\n5\r\nhello\r\n0\r\nX-Forth: 2\r\n\r\n",
    );
    let answer = client.answer();
    assert_eq!(answer.header("x-two"), Some("yes"));
    assert!(
        answer.text().starts_with("POST http://a.example/a\n"),
        "{}",
        answer.text()
    );
    assert!(
        answer.text().ends_with("x-own: 1\nbody of 5\nhello"),
        "{}",
        answer.text()
    );
    assert_eq!(answer.trailers, "x-forth: 2\nx-end: here\n");
    // The connection goes on, also for a body by length and for one by HEAD.
    let body = pattern(200_000);
    let head = format!(
        "PUT /b HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send([head.as_bytes(), &body].concat());
    let answer = client.answer();
    assert!(answer.body.ends_with(&body));
    client.send("HEAD /c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.get("/d").status, 200);
    // HTTP/1.0 knows no chunks, and sees the end.
    client.send("GET /e HTTP/1.0\r\n\r\n");
    let answer = client.head();
    assert_eq!(answer.header("transfer-encoding"), None);
    assert!(
        String::from_utf8(client.rest())
            .unwrap()
            .ends_with("body of 0\n")
    );
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_server_has_no_more_requests_in_a_connection_than_it_takes() {
    let origin = TwoOrigin::serving(2, |_, mut respond, _| async move {
        let mut stream = respond
            .send_response(::http::Response::new(()), false)
            .unwrap();
        give(&mut stream, b"x").await;
        // It stays open until the client goes.
        let _ = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
    });
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    let mut clients: Vec<Client> = Vec::new();
    for count in 1..=5_usize {
        let mut client = proxy.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().status, 200);
        clients.push(client);
        // The first answer comes behind the settings.
        assert_eq!(origin.connections(), count.div_ceil(2));
    }
}

#[test]
fn what_a_server_refuses_or_did_not_begin_with_is_sent_elsewhere() {
    let refusing = TwoOrigin::refusing(usize::MAX);
    let origin = TwoOrigin::echo();
    let proxy = Proxy::start(&web_two("", "", &[&refusing, &origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        for _ in 0..4 {
            // Not one that may be sent twice, but it was not begun with.
            let post = request(Method::POST, "/").body(()).unwrap();
            let (response, _) = client.0.send_request(post, true).unwrap();
            assert_eq!(response.await.unwrap().status(), 200);
        }
    });
    assert_eq!(origin.requests(), 4);
    assert!(proxy.stat("app/s0", "wretr") >= 1);
}

#[test]
fn a_request_that_a_closing_connection_of_http1_has_lost_is_sent_again() {
    let origin = Origin::closing_at_the_second();
    let retries = "retries = { budget_percent = 0, reserve = 0 }";
    let proxy = Proxy::start(&web("", retries, &[&origin]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        for _ in 0..3 {
            let get = request(Method::GET, "/").body(()).unwrap();
            let (response, _) = client.0.send_request(get, true).unwrap();
            let answer = whole(response.await.unwrap()).await.unwrap();
            assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
        }
    });
    assert_eq!(proxy.stat("app/s0", "wretr"), 2);
}

#[test]
fn a_server_that_says_goodbye_gets_another_connection() {
    let origin = TwoOrigin::echo();
    let proxy = Proxy::start(&web_two("", "", &[&origin]));
    let mut client = proxy.connect();
    for count in 1..=3 {
        assert_eq!(client.get("/goodbye").status, 200);
        assert_eq!(client.get("/").status, 200, "after {count}");
    }
    assert_eq!(origin.connections(), 4);
}

#[test]
fn the_end_of_the_proxy_lets_requests_come_to_theirs() {
    let told = Arc::new(tokio::sync::Notify::new());
    let wait = Arc::clone(&told);
    let origin = TwoOrigin::serving(100, move |_, mut respond, _| {
        let wait = Arc::clone(&wait);
        async move {
            let mut stream = respond
                .send_response(::http::Response::new(()), false)
                .unwrap();
            give(&mut stream, b"begun").await;
            wait.notified().await;
            drop(stream.send_data(Bytes::from_static(b", and ended"), true));
        }
    });
    let mut proxy = Proxy::start(&web_two("", "", &[&origin]));
    let mut client = Frames::connect(proxy.address("web"), &[]);
    client.get(1, &[]);
    assert_eq!(client.until(frames::DATA).payload, b"begun");
    proxy.signal("TERM");
    assert_eq!(client.goaway(), 0, "no error");
    told.notify_one();
    let last = client.until(frames::DATA);
    assert_eq!(last.payload, b", and ended");
    assert_eq!(last.flags & frames::END_STREAM, frames::END_STREAM);
    client.ended();
    assert!(proxy.ended().success());
}

#[test]
fn a_reload_takes_effect_at_the_next_stream() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let proxy = Proxy::start(&web("", "", &[&one]));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        assert_eq!(client.get("/").await.text(), "one");
        proxy.rewrite(&web("", "", &[&two]));
        proxy.ctl("reload");
        assert_eq!(client.get("/").await.text(), "two");
    });
}

#[test]
fn a_stream_runs_in_the_class_of_its_route() {
    let origin = Origin::named("x");
    let route = "[[listener.web.route]]\npath = \"/video\"\npool = \"app\"\nclass = \"video\"\n";
    let config = "[class.video]\nshare = 7\n".to_owned() + &web(route, "", &[&origin]);
    let proxy = Proxy::start(&config);
    let polls = || {
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&proxy.ctl("show cpu json")).unwrap();
        let row = rows.iter().find(|row| row["class"] == "video").unwrap();
        row["polls"].as_u64().unwrap()
    };
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        assert_eq!(client.get("/other").await.text(), "x");
        assert_eq!(polls(), 0, "nothing was asked for in it");
        assert_eq!(client.get("/video").await.text(), "x");
        until("its polls are counted", || polls() > 0);
    });
}

#[test]
fn http2_over_tls_is_agreed_on_by_both_sides() {
    let authority = Authority::new("a test");
    let issued = authority.issue("web", &["a.example", "127.0.0.1"]);
    let origin = Origin::named("x");
    let tls = format!("[listener.web.tls]\n{}", issued.config("certificate"));
    let behind = Proxy::start(&web(&tls, "", &[&origin]));
    // One that speaks both, and one that does not speak it.
    for (protocols, agreed) in [(&["h2", "http/1.1"][..], true), (&["http/1.1"], false)] {
        let trust = Trust::of(&authority).speaking(protocols);
        let mut client = trust.connect(behind.address("web"), "a.example");
        client.certificate();
        assert_eq!(client.stream.conn.alpn_protocol() == Some(b"h2"), agreed);
        if !agreed {
            assert_eq!(client.get("/").text(), "x");
        }
    }
    // The other side of it: the first proxy is a client of HTTP/2 of the second one.
    let address = behind.address("web");
    let config = format!(
        "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
         [pool.app]\nprotocol = \"h2\"\ntls = {{ ca = {:?} }}\n\
         check = {{ kind = \"http\", interval = \"50ms\" }}\n\
         [[pool.app.server]]\nname = \"s0\"\naddress = \"{address}\"\n",
        authority.ca()
    );
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "x");
    }
    assert_eq!(proxy.stat("app/s0", "tls_handshakes"), 1);
    let asked = origin.asked();
    let of_ours = asked
        .iter()
        .rev()
        .find(|asked| asked.header("user-agent").is_none());
    let proto = of_ours.unwrap().header("x-forwarded-proto");
    assert_eq!(proto.as_deref(), Some("https"));
    proxy.until_status("app/s0", "UP");
    let said = proxy.stat("app/s0", "chkfail");
    assert_eq!(said, 0);
}

#[test]
fn a_server_that_does_not_speak_http2_over_tls_is_not_asked() {
    let authority = Authority::new("a test");
    let issued = authority.issue("web", &["127.0.0.1"]);
    let origin = Origin::named("x");
    let tls = format!(
        "h2 = {{ enabled = false }}\n[listener.web.tls]\n{}",
        issued.config("certificate")
    );
    let behind = Proxy::start(&web(&tls, "", &[&origin]));
    let config = format!(
        "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
         [pool.app]\nprotocol = \"h2\"\ntls = {{ ca = {:?} }}\n\
         [[pool.app.server]]\nname = \"s0\"\naddress = \"{}\"\n",
        authority.ca(),
        behind.address("web")
    );
    let proxy = Proxy::start(&config);
    assert_eq!(proxy.connect().get("/").status, 503);
    assert!(origin.asked().is_empty());
}

#[test]
fn a_listener_without_http2_refuses_it() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("h2 = { enabled = false }", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.answer().status, 505);
}
