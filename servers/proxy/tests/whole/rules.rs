//! Rates, changes of heads, redirects and fixed answers.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use super::support::frames::{Frames, HEADERS};
use super::support::{Client, Origin, Proxy, Reply, run_command, web};

/// A listener `web` with these keys and this route, and a pool `app` with a server.
fn with_route(listener: &str, route: &str, origin: &Origin) -> String {
    let route = format!("{listener}\n[[listener.web.route]]\n{route}");
    web(&route, "", &[origin])
}

#[test]
fn a_client_has_its_rate_and_is_told_how_long_to_wait() {
    let origin = Origin::named("x");
    let limit = "rate_limit = { requests = 1, period = \"1h\", burst = 3 }";
    let proxy = Proxy::start(&web(limit, "", &[&origin]));
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 200);
    }
    // Another connection is no other client, and one that is refused goes on.
    for mut client in [client, proxy.connect()] {
        for _ in 0..2 {
            let answer = client.get("/");
            assert_eq!(answer.status, 429);
            let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((3_000..=3_600).contains(&wait), "{wait}");
            assert_eq!(answer.header("connection"), None);
        }
    }
    assert_eq!(origin.asked().len(), 3);
    assert_eq!(proxy.stat("web/FRONTEND", "req_limited"), 4);
    assert_eq!(proxy.stat("web/FRONTEND", "req_answered"), 4);
    let rates: Vec<Value> = serde_json::from_str(&proxy.ctl("show rates json")).unwrap();
    let rate = &rates[0];
    assert_eq!(
        (&rate["route"], &rate["per"]),
        (&"web".into(), &"client".into())
    );
    assert_eq!(
        (&rate["clients"], &rate["exceeded"]),
        (&1.into(), &4.into())
    );
    // What is known goes on after a reload, unless the limit is another one.
    proxy.ctl("reload");
    assert_eq!(proxy.connect().get("/").status, 429);
    proxy.rewrite(&web(&limit.replace("1h", "2h"), "", &[&origin]));
    proxy.ctl("reload");
    assert_eq!(proxy.connect().get("/").status, 200);
}

#[test]
fn a_route_has_a_rate_of_its_own_by_a_header() {
    let origin = Origin::named("x");
    let route = "path = \"/api\"\npool = \"app\"\n\
                 rate_limit = { requests = 1, period = \"1h\", per = \"header:x-key\" }";
    let proxy = Proxy::start(&with_route("", route, &origin));
    let mut client = proxy.connect();
    let mut ask = |path: &str, key: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{key}\r\n"));
        client.answer().status
    };
    assert_eq!(ask("/api", "X-Key: 1\r\n"), 200);
    assert_eq!(ask("/api", "X-Key: 1\r\n"), 429);
    assert_eq!(ask("/api", "X-Key: 2\r\n"), 200);
    assert_eq!(ask("/api", ""), 200, "without the header, by the address");
    assert_eq!(ask("/api", ""), 429);
    assert_eq!(ask("/other", "X-Key: 1\r\n"), 200);
}

#[test]
fn a_request_with_a_body_that_is_answered_here_ends_its_connection() {
    let origin = Origin::named("x");
    let route = "path = \"/no\"\nanswer = { status = 403, body = \"no\" }";
    let proxy = Proxy::start(&with_route("", route, &origin));
    let mut client = proxy.connect();
    client.send("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\nGET / HTTP/1.1\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (403, "no"));
    assert_eq!(answer.header("connection"), Some("close"));
    client.end();
    assert_eq!(client.rest(), b"", "what is left of the body is no request");
    assert_eq!(origin.asked().len(), 0);
}

#[test]
fn heads_are_changed_on_both_ways() {
    let origin = Origin::http(|_| {
        let text =
            "HTTP/1.1 200 OK\r\nServer: x/1\r\nX-Powered-By: y\r\nContent-Length: 2\r\n\r\nok";
        Reply::Go(text.into())
    });
    let listener = "request_ids = \"keep\"\n\
         request = { set_headers = { x-client = \"{client}\" }, remove_headers = [\"x-secret\"] }\n\
         response = { remove_headers = [\"server\"], \
         set_headers = { x-request-id = \"{request_id}\" } }";
    let route = "path = \"/api\"\npool = \"app\"\n\
         request = { prefix = \"/v1\", host = \"inner.example\", \
         add_headers = { x-route = \"{route} {host}{path}\" } }\n\
         response = { set_headers = { X-Powered-By = \"z\" } }";
    let proxy = Proxy::start(&with_route(listener, route, &origin));
    let mut client = proxy.connect();
    client.send(
        "GET /api/a?b HTTP/1.1\r\nHost: a.example\r\nX-Secret: 1\r\nX-Client: 2\r\n\
         X-Request-Id: mine-1\r\n\r\n",
    );
    let answer = client.answer();
    assert_eq!(
        answer.head,
        "http/1.1 200 ok\r\nx-powered-by: z\r\nx-request-id: mine-1\r\ncontent-length: 2\r\n\r\n"
    );
    let answer = client.get("/other");
    assert_eq!(answer.header("x-powered-by"), Some("y"));
    let id = answer.header("x-request-id").unwrap();
    assert_eq!(id.len(), 32, "{id}");
    let asked = origin.asked();
    assert_eq!(
        asked[0].head,
        "GET /v1/a?b HTTP/1.1\r\nhost: inner.example\r\nx-forwarded-for: 127.0.0.1\r\n\
         x-forwarded-proto: http\r\nx-client: 127.0.0.1\r\nx-request-id: mine-1\r\n\
         x-route: web/route1 a.example/api/a\r\n\r\n"
    );
    assert_eq!(asked[1].line, "GET /other");
    assert_eq!(asked[1].header("x-request-id").as_deref(), Some(id));
}

#[test]
fn redirects_and_fixed_answers_need_no_server() {
    let origin = Origin::named("x");
    let config = "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\n\
         redirect = { scheme = \"https\", status = 308 }\n\
         response = { set_headers = { x-by = \"{route}\" } }\n\
         [[listener.web.route]]\npath = \"/old\"\nredirect = { prefix = \"/new\" }\n\
         [[listener.web.route]]\npath = \"/robots.txt\"\n\
         answer = { status = 200, body = \"User-agent: *\\n\" }\n"
        .to_owned();
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    let answer = client.get("/a?b");
    assert_eq!(answer.status, 308);
    assert_eq!(answer.header("location"), Some("https://a.example/a?b"));
    assert_eq!(answer.header("x-by"), Some("web"));
    let answer = client.get("/old/x");
    assert_eq!(answer.status, 302);
    assert_eq!(answer.header("location"), Some("http://a.example/new/x"));
    assert_eq!(client.get("/robots.txt").text(), "User-agent: *\n");
    client.send("HEAD /robots.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().header("content-length"), Some("14"));
    assert_eq!(client.get("/robots.txt").status, 200);
    assert_eq!(origin.asked().len(), 0);
    assert_eq!(proxy.stat("web/FRONTEND", "req_answered"), 5);
}

#[test]
fn what_could_break_the_framing_is_an_error_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("proxy.toml");
    let origin = Origin::named("x");
    for (keys, said) in [
        (
            "request.set_headers = { Transfer-Encoding = \"x\" }",
            "cannot be set",
        ),
        (
            "response.add_headers = { content_length = \"1\" }",
            "cannot be set",
        ),
        (
            "response.remove_headers = [\"Connection\"]",
            "cannot be set",
        ),
        (
            "response.set_headers = { x = \"a\\r\\nb: c\" }",
            "cannot stand in a header",
        ),
        (
            "request.set_headers = { x = \"{caller}\" }",
            "no variable {caller}",
        ),
        ("request.host = \"a b\"", "no host"),
        ("request.prefix = \"/\"", "route's path"),
        ("rate_limit.requests = 0", "nonzero"),
        ("log = \"main\"", "no log \"main\""),
    ] {
        std::fs::write(&file, web(keys, "", &[&origin])).unwrap();
        let (good, _, errors) = run_command(&["check", file.to_str().unwrap()]);
        assert!(!good && errors.contains(said), "{keys}: {errors}");
        assert!(errors.contains("    5 | "), "{keys}: {errors}");
    }
}

#[test]
fn what_rules_do_is_in_the_metrics() {
    let origin = Origin::named("x");
    let limit = "rate_limit = { requests = 1, period = \"1h\" }\ncompress = true";
    let page = "admin_page = \"127.0.0.1:0\"";
    let proxy = Proxy::start_with(page, &web(limit, "", &[&origin]));
    let mut client = proxy.connect();
    assert_eq!(client.get("/").status, 200);
    assert_eq!(client.get("/").status, 429);
    let mut page = Client::connect(proxy.address("(page)"));
    page.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let metrics = page.answer().text().to_owned();
    for line in [
        "proxy_requests_total{listener=\"web\"} 2",
        "proxy_answered_total{listener=\"web\"} 1",
        "proxy_rate_exceeded_total{route=\"web\"} 1",
        "proxy_rate_clients{route=\"web\"} 1",
        "proxy_compressed_total{route=\"web\"} 0",
        "proxy_server_chosen_total{pool=\"app\",server=\"s0\"} 1",
        "proxy_server_ejected{pool=\"app\",server=\"s0\"} 0",
        "proxy_pool_waiting{pool=\"app\"} 0",
    ] {
        assert!(
            metrics.lines().any(|it| it.starts_with(line)),
            "{line}:\n{metrics}"
        );
    }
}

#[test]
fn how_long_answers_take_is_in_the_metrics() {
    const LATE: Duration = Duration::from_millis(30);
    let origin = Origin::http(|_| {
        std::thread::sleep(LATE);
        Reply::text("late")
    });
    let page = "admin_page = \"127.0.0.1:0\"";
    let answered = "[[listener.web.route]]\npath = \"/fixed\"\nanswer = { status = 200 }\n";
    let config =
        web("", "", &[&origin]).replace("[pool.app]\n", &format!("{answered}[pool.app]\n"));
    let proxy = Proxy::start_with(page, &config);
    let mut client = proxy.connect();
    for path in ["/", "/fixed", "/"] {
        assert_eq!(client.get(path).status, 200);
    }
    let mut two = Frames::connect(proxy.address("web"), &[]);
    two.get(1, &[]);
    two.until(HEADERS);
    let mut page = Client::connect(proxy.address("(page)"));
    page.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let metrics = page.answer().text().to_owned();
    let said = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("{name}:\n{metrics}"));
        line.trim().to_owned()
    };
    let least = 3.0 * LATE.as_secs_f64();
    for (of, labels, count, least) in [
        ("answer", "{listener=\"web\"}", "3", least),
        ("server_answer", "{pool=\"app\",server=\"s0\"}", "3", least),
        ("server_connect", "{pool=\"app\",server=\"s0\"}", "1", 0.0),
    ] {
        let name = |what: &str| format!("proxy_{of}_time_seconds_{what}{labels}");
        assert_eq!(said(&name("count")), count, "{of}:\n{metrics}");
        let sum: f64 = said(&name("sum")).parse().unwrap();
        assert!(sum >= least && sum < 10.0, "{of}:\n{metrics}");
    }
}

#[test]
fn others_need_the_token_of_the_page() {
    let origin = Origin::named("x");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    fs::write(&file, "a-secret-of-some-length\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let page = format!("admin_page = \"0.0.0.0:0\"\nadmin_page_token_file = {file:?}");
    let proxy = Proxy::start_with(&page, &web("", "", &[&origin]));
    let port = proxy.address("(page)").rsplit_once(':').unwrap().1;
    let status = |token: &str| {
        let mut page = Client::connect(&format!("127.0.0.1:{port}"));
        page.send(format!("GET /metrics HTTP/1.1\r\nHost: any\r\n{token}\r\n"));
        page.answer().status
    };
    assert_eq!(status(""), 401);
    assert_eq!(
        status("Authorization: Bearer a-secret-of-some-length\r\n"),
        200
    );
    // Without one, what is to be done is said.
    let path = directory.path().join("proxy.toml");
    let text = format!(
        "[process]\nadmin_page = \"0.0.0.0:0\"\n{}",
        web("", "", &[&origin])
    );
    fs::write(&path, text).unwrap();
    for command in ["check", "run"] {
        let (begins, _, said) = run_command(&[command, path.to_str().unwrap()]);
        assert!(
            !begins && said.contains("process.admin_page_token_file"),
            "{said}"
        );
    }
}

#[test]
fn a_rate_of_connections_is_kept_with_tcp() {
    let origin = Origin::raw(|mut stream, _, _| {
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|read| read > 0) {
            stream.write_all(&byte).unwrap();
        }
    });
    let config = web(
        "rate_limit = { requests = 1, period = \"1h\", burst = 2 }",
        "",
        &[&origin],
    );
    let proxy = Proxy::start(&config.replace("\"http\"", "\"tcp\""));
    let mut clients = [proxy.connect(), proxy.connect()];
    for client in &mut clients {
        client.send("x");
        assert_eq!(client.take(1), b"x");
    }
    assert_eq!(proxy.connect().ended(), b"");
    assert_eq!(proxy.stat("web/FRONTEND", "drefused"), 1);
    assert_eq!(origin.connections(), 2);
}
