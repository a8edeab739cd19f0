//! What clients can make grow has a limit, and a client who reaches it is told.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::support::{Client, Origin, Proxy, Reply, pattern, until, web};

#[test]
fn heads_have_a_largest_size_and_a_largest_number_of_headers() {
    let origin = Origin::named("reached");
    let proxy = Proxy::start(&web("head_bytes_max = 2000\n", "", &[&origin]));
    let long = format!("X: {}\r\n", "y".repeat(2_000));
    let endless = "z".repeat(3_000);
    for (head, said) in [
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{long}\r\n"),
            "head_bytes_max",
        ),
        (format!("GET /{endless}"), "head_bytes_max"),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
                "X: y\r\n".repeat(100)
            ),
            "100 headers",
        ),
    ] {
        let mut client = proxy.connect();
        client.send(head);
        let answer = client.answer();
        assert_eq!(answer.status, 431);
        assert!(answer.text().contains(said), "{}", answer.text());
        client.ended();
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_head_that_comes_in_drops_is_not_waited_for() {
    let origin = Origin::named("reached");
    let proxy = Proxy::start(&web("timeouts.head = \"1s\"\n", "", &[&origin]));
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\n");
    // Bytes that go on coming win it no time. The last ones may meet a closed connection.
    let mut sender = client.stream.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        while sender.write_all(b"X: y\r\n").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let answer = client.answer();
    assert_eq!(answer.status, 408, "{}", answer.text());
    client.ended();
    drop(client);
    dripping.join().unwrap();
    // Who says nothing is not worth an answer, neither at first nor between requests.
    assert_eq!(proxy.connect().ended(), b"");
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_kept_connection_is_ended_in_silence() {
    let origin = Origin::named("once");
    let more = "timeouts.head = \"10s\"\ntimeouts.keep_alive = \"50ms\"\n";
    let proxy = Proxy::start(&web(more, "", &[&origin]));
    let mut client = proxy.connect();
    assert_eq!(client.get("/").text(), "once");
    assert_eq!(client.rest(), b"");
}

#[test]
fn one_client_has_only_so_many_connections() {
    let origin = Origin::named("served");
    let more = "accept_proxy = true\nconnections_per_client_max = 2\nconnections_max = 3\n";
    let proxy = Proxy::start(&web(more, "", &[&origin]));
    let connect = |client: &str| {
        let mut connection = proxy.connect();
        connection.send(format!("PROXY TCP4 {client} 192.0.2.9 1000 443\r\n"));
        connection
    };
    let mut kept: Vec<Client> = Vec::new();
    for _ in 0..2 {
        let mut connection = connect("192.0.2.1");
        assert_eq!(connection.get("/").text(), "served");
        kept.push(connection);
    }
    let mut third = connect("192.0.2.1");
    let answer = third.answer();
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("connections_per_client_max"),
        "{}",
        answer.text()
    );
    third.ended();
    let mut other = connect("192.0.2.2");
    assert_eq!(other.get("/").text(), "served");
    let answer = connect("192.0.2.3").answer();
    assert!(
        answer.text().contains("its connections_max"),
        "{}",
        answer.text()
    );
    assert_eq!(proxy.stat("web/FRONTEND", "drefused"), 2);
    // A place is free again when its connection has ended.
    drop(kept.pop());
    until("there is room", || proxy.stat("web/FRONTEND", "scur") == 2);
    assert_eq!(connect("192.0.2.1").get("/").text(), "served");
}

#[test]
fn connections_beyond_the_limit_of_the_process_wait() {
    let origin = Origin::named("served");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let info = proxy.ctl("show info");
    assert!(info.contains("Maxconn: 500\n"), "{info}");
    let clients: Vec<Client> = (0..500).map(|_| proxy.connect()).collect();
    until("all are taken", || {
        proxy.ctl("show info").contains("CurrConns: 500\n")
    });
    let mut late = proxy.connect();
    late.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // Operators are answered meanwhile, and the connection is, when there is a place.
    assert!(proxy.ctl("show info").contains("CurrConns: 500\n"));
    assert!(origin.asked().is_empty());
    drop(clients);
    assert_eq!(late.answer().text(), "served");
}

/// So few bytes are copied: pipes are kept for the next transfer, and would be counted.
#[test]
fn requests_leave_no_descriptors_behind() {
    let origin = Origin::http(|asked| match &*asked.line {
        "GET /end" => Reply::End(Vec::new()),
        "GET /long" => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n".to_vec();
            Reply::Go([head, pattern(10_000)].concat())
        }
        line => Reply::text(line),
    });
    let proxy = Proxy::start(&web("", "timeouts.keep = \"50ms\"", &[&origin]));
    let idle = || {
        let (kept, open) = (proxy.stat("app/s0", "idle_conn_cur"), origin.open());
        kept == 0 && open == 0 && proxy.stat("web/FRONTEND", "scur") == 0
    };
    proxy.connect().get("/long");
    until("no connection is kept", idle);
    let before = proxy.descriptors();
    for round in 0..20 {
        let mut clients: Vec<Client> = (0..5).map(|_| proxy.connect()).collect();
        for (index, client) in clients.iter_mut().enumerate() {
            let path = ["/a", "/end", "/long", "/none", "/half"][index];
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n"));
            if index < 4 {
                client.send("\r\n");
            }
            if (round + index) % 2 == 0 && index < 4 {
                client.answer();
            }
        }
    }
    until("as many descriptors as before", || {
        idle() && proxy.descriptors() == before
    });
}

#[test]
fn who_is_refused_holds_no_place_of_the_process() {
    let origin = Origin::named("served");
    let proxy = Proxy::start(&web("connections_per_client_max = 3\n", "", &[&origin]));
    let mut kept: Vec<Client> = (0..3).map(|_| proxy.connect()).collect();
    for client in &mut kept {
        assert_eq!(client.get("/").text(), "served");
    }
    // They are told, and do not go.
    let refused: Vec<Client> = (0..20).map(|_| proxy.connect()).collect();
    until("all are refused", || {
        proxy.stat("web/FRONTEND", "drefused") == 20
    });
    assert!(proxy.ctl("show info").contains("CurrConns: 3\n"));
    drop(refused);
}

#[test]
fn operators_and_checks_have_descriptors_however_many_clients_there_are() {
    let goes_on = Arc::new(AtomicBool::new(false));
    let released = Arc::clone(&goes_on);
    let origin = Origin::http(move |asked| {
        while asked.line == "GET /slow" && !released.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Reply::text(&asked.line)
    });
    let pool = "idle_connections_max = 1\n\
                check = { kind = \"http\", path = \"/check\", interval = \"20ms\", fall = 1 }\n";
    let proxy = Proxy::start_limited(300, &web("", pool, &[&origin]));
    proxy.until_said("the system allows 300 open files, so only");
    // Each request has a connection on both sides.
    let mut clients: Vec<Client> = (0..150).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    let number = |name: &str| {
        let info: serde_json::Value = serde_json::from_str(&proxy.ctl("show info json")).unwrap();
        info[name].as_u64().unwrap()
    };
    let most = number("Maxconn");
    assert!(most < 100, "{most} of 300");
    until("all places are taken", || number("CurrConns") == most);
    let checks = || {
        let asked = origin.asked();
        asked
            .iter()
            .filter(|asked| asked.line == "GET /check")
            .count()
    };
    let before = checks();
    until("checks go on", || checks() > before + 5);
    assert_eq!(proxy.stat("app/s0", "chkfail"), 0);
    assert_eq!(proxy.stat("app/s0", "econ"), 0);
    // And traffic comes back.
    goes_on.store(true, Ordering::SeqCst);
    for client in &mut clients {
        assert_eq!(client.answer().text(), "GET /slow");
    }
    assert_eq!(proxy.connect().get("/").text(), "GET /");
    assert!(!proxy.complaints().contains("cannot accept"));
}
