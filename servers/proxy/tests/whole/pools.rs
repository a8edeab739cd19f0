//! Which server gets a request, which of them are up, and who waits.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use super::support::{Client, LIMIT, Origin, Proxy, Reply, until, web};
use super::tcp::nobody;

/// How often each server answers so many requests, each over a connection of its own.
fn counts(proxy: &Proxy, requests: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..requests {
        let answer = proxy.connect().get("/");
        assert_eq!(answer.status, 200, "{}", answer.text());
        *counts.entry(answer.text().to_owned()).or_default() += 1;
    }
    counts
}

fn expected<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

#[test]
fn turns_are_by_weight_and_operators_change_it() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let config = web("", "", &[&one]) + &two.config("app", "s1") + "weight = 3\n";
    let proxy = Proxy::start(&config);
    assert_eq!(counts(&proxy, 8), expected([("one", 2), ("two", 6)]));
    proxy.ctl("set weight app/s1 1");
    assert_eq!(proxy.ctl("get weight app/s1"), "1 (initial 3)\n");
    assert_eq!(counts(&proxy, 8), expected([("one", 4), ("two", 4)]));
    proxy.ctl("set server app/s0 state drain");
    assert_eq!(counts(&proxy, 3), expected([("two", 3)]));
    assert_eq!(proxy.row("app/s0")["status"], "DRAIN");
    proxy.ctl("disable server app/s1");
    let answer = proxy.connect().get("/");
    assert_eq!(answer.status, 503, "{}", answer.text());
    proxy.ctl("enable server app/s0");
    assert_eq!(counts(&proxy, 2), expected([("one", 2)]));
}

#[test]
fn the_server_with_the_fewest_requests_under_way_is_taken() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let slow = Origin::http(move |_| {
        held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        Reply::text("slow")
    });
    let fast = Origin::named("fast");
    let balance = "balance = \"least-connections\"";
    let proxy = Proxy::start(&web("", balance, &[&slow, &fast]));
    let mut waiting = proxy.connect();
    waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is under way", || slow.asked().len() == 1);
    for _ in 0..5 {
        assert_eq!(counts(&proxy, 1), expected([("fast", 1)]));
        // A client has its answer a moment before the request is over.
        until("it is over", || proxy.stat("app/s1", "scur") == 0);
    }
    release.send(()).unwrap();
    assert_eq!(waiting.answer().text(), "slow");
}

#[test]
fn the_same_key_goes_to_the_same_server() {
    let names = ["a", "b", "c"].map(Origin::named);
    let balance = "balance = \"hash\"\nhash_on = \"header:x-user\"";
    let proxy = Proxy::start(&web("", balance, &names.each_ref()));
    let server_of = |user: usize| {
        let mut client = proxy.connect();
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-User: {user}\r\n\r\n"
        ));
        client.answer().text().to_owned()
    };
    let first: Vec<String> = (0..24).map(server_of).collect();
    let again: Vec<String> = (0..24).map(server_of).collect();
    assert_eq!(first, again);
    for name in ["a", "b", "c"] {
        assert!(first.iter().any(|server| server == name), "{first:?}");
    }
    // Those of a server that leaves move, and the others stay.
    proxy.ctl("disable server app/s1");
    for (user, before) in first.iter().enumerate() {
        let after = server_of(user);
        assert!(
            after != "b" && (before == "b" || after == *before),
            "{user}"
        );
    }
}

#[test]
fn requests_go_where_host_path_header_and_method_say() {
    let names = ["api", "writes", "canary", "other"];
    let origins = names.map(Origin::named);
    let mut config = "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"other\"\n\
         [[listener.web.route]]\nhost = \"*.a.example\"\npath = \"/api\"\npool = \"api\"\n\
         [[listener.web.route]]\nmethods = [\"PUT\"]\npool = \"writes\"\n\
         [[listener.web.route]]\nheaders = { x-canary = \"1\" }\npool = \"canary\"\n"
        .to_owned();
    for (name, origin) in names.iter().zip(&origins) {
        config += &origin.config(name, "s0");
    }
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    for (line, headers, pool) in [
        ("GET /api/x", "Host: b.A.example:80\r\n", "api"),
        ("GET /apis", "Host: b.a.example\r\n", "other"),
        ("GET /api", "Host: a.example\r\n", "other"),
        ("PUT /", "Host: a.example\r\n", "writes"),
        ("GET /", "Host: c\r\nX-Canary: 1\r\n", "canary"),
        ("GET /", "Host: c\r\nX-Canary: 2\r\n", "other"),
    ] {
        client.send(format!("{line} HTTP/1.1\r\n{headers}\r\n"));
        assert_eq!(client.answer().text(), pool, "{line} {headers}");
    }
    // Where there is no pool for the rest.
    let config = config.replacen("pool = \"other\"\n", "", 1);
    let proxy = Proxy::start(&config);
    let answer = proxy.connect().get("/");
    assert_eq!(answer.status, 404, "{}", answer.text());
}

const CHECK: &str = "check = { kind = \"http\", path = \"/ready\", interval = \"20ms\", fall = 2 }";

#[test]
fn checks_take_a_sick_server_out_and_a_sound_one_in() {
    let is_sick = Arc::new(AtomicBool::new(false));
    let sick = Arc::clone(&is_sick);
    let one = Origin::http(move |asked| {
        if asked.line == "GET /ready" {
            assert_eq!(asked.header("connection").as_deref(), Some("close"));
            if sick.load(Ordering::SeqCst) {
                return Reply::End(b"HTTP/1.1 500 Sick\r\nContent-Length: 0\r\n\r\n".to_vec());
            }
            return Reply::End(b"HTTP/1.1 204 Fine\r\n\r\n".to_vec());
        }
        Reply::text("one")
    });
    let two = Origin::named("two");
    let proxy = Proxy::start(&web("", CHECK, &[&one, &two]));
    assert_eq!(counts(&proxy, 4), expected([("one", 2), ("two", 2)]));
    is_sick.store(true, Ordering::SeqCst);
    proxy.until_status("app/s0", "DOWN");
    assert_eq!(counts(&proxy, 4), expected([("two", 4)]));
    is_sick.store(false, Ordering::SeqCst);
    proxy.until_status("app/s0", "UP");
    assert_eq!(counts(&proxy, 4), expected([("one", 2), ("two", 2)]));
    until("it is said", || proxy.complaints().contains("app/s0 is up"));
    assert!(
        proxy
            .complaints()
            .contains("app/s0 is down: the status is 500")
    );
    assert_eq!(proxy.stat("app/s0", "chkdown"), 1);
}

#[test]
fn a_server_that_is_gone_is_taken_out_and_comes_back() {
    let two = Origin::named("two");
    let address = nobody();
    let dead = format!("[[pool.app.server]]\nname = \"d\"\naddress = \"{address}\"\n");
    let check = "check = { kind = \"tcp\", interval = \"20ms\", rise = 1, fall = 1 }";
    let proxy = Proxy::start(&(web("", check, &[&two]) + &dead));
    proxy.until_status("app/d", "DOWN");
    let errors = proxy.stat("app/d", "econ");
    assert_eq!(counts(&proxy, 4), expected([("two", 4)]));
    assert_eq!(proxy.stat("app/d", "econ"), errors, "it is not tried");
    let _back = Origin::at(address.parse().unwrap(), |mut stream, _, _| {
        let mut part = [0; 1_024];
        if stream.read(&mut part).is_ok_and(|came| came > 0) {
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nback",
            );
        }
    });
    proxy.until_status("app/d", "UP");
    assert_eq!(counts(&proxy, 4), expected([("back", 2), ("two", 2)]));
}

#[test]
fn retries_have_a_budget() {
    let dead = format!(
        "[[pool.app.server]]\nname = \"d\"\naddress = \"{}\"\n",
        nobody()
    );
    let retries = "retries = { max = 3, budget_percent = 0, reserve = 4 }";
    let proxy = Proxy::start(&(web("", retries, &[]) + &dead));
    for _ in 0..4 {
        let answer = proxy.connect().get("/");
        assert_eq!(answer.status, 503);
        assert!(!answer.text().contains("app"), "{}", answer.text());
    }
    until("the operator is told", || {
        proxy
            .complaints()
            .contains("cannot connect to server app/d")
    });
    assert_eq!(proxy.stat("app/d", "wretr"), 4);
    assert_eq!(proxy.stat("app/d", "econ"), 8);
}

#[test]
fn who_finds_no_room_waits_in_order_up_to_a_limit() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::http(move |asked| {
        held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        Reply::text(&asked.line)
    });
    let config = web("", "queue = { max = 2 }", &[&origin]) + "connections_max = 1\n";
    let proxy = Proxy::start(&config);
    let mut clients: Vec<Client> = Vec::new();
    for number in 0..3 {
        let mut client = proxy.connect();
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        clients.push(client);
        until("it is under way, or waits", || {
            origin.asked().len() == 1 && proxy.stat("app/BACKEND", "qcur") == number
        });
    }
    let answer = proxy.connect().get("/4");
    assert_eq!(answer.status, 503);
    until("the operator is told", || {
        proxy.complaints().contains("queue of 2 is full")
    });
    for (number, client) in clients.iter_mut().enumerate() {
        release.send(()).unwrap();
        assert_eq!(client.answer().text(), format!("GET /{number}"));
    }
    let asked: Vec<String> = origin.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(asked, ["GET /0", "GET /1", "GET /2"]);
    until("its place is free", || proxy.stat("app/s0", "scur") == 0);
}

#[test]
fn the_request_of_a_client_that_leaves_the_queue_is_not_sent() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::http(move |asked| {
        held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        Reply::text(&asked.line)
    });
    let proxy = Proxy::start(&(web("", "", &[&origin]) + "connections_max = 1\n"));
    let mut clients: Vec<Client> = Vec::new();
    for number in 0..4 {
        let mut client = proxy.connect();
        // One of them has more to say, and one a body on its way.
        let (method, more) = match number {
            1 => ("GET", "\r\nGET /more HTTP/1.1\r\nHost: a\r\n\r\n"),
            2 => ("POST", "Content-Length: 100\r\n\r\npart"),
            _ => ("GET", "\r\n"),
        };
        client.send(format!("{method} /{number} HTTP/1.1\r\nHost: a\r\n{more}"));
        clients.push(client);
        until("it is under way, or waits", || {
            origin.asked().len() == 1 && proxy.stat("app/BACKEND", "qcur") == number
        });
    }
    // Without a reset, and so that the last one, which stays, is the only one that waits.
    drop(clients.drain(1..3));
    until("they do not wait any more", || {
        proxy.stat("app/BACKEND", "qcur") == 1 && proxy.stat("web/FRONTEND", "scur") == 2
    });
    for (client, path) in clients.iter_mut().zip(["/0", "/3"]) {
        release.send(()).unwrap();
        assert_eq!(client.answer().text(), format!("GET {path}"));
    }
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn nobody_waits_for_longer_than_the_queue_says() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::http(move |_| {
        held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        Reply::text("late")
    });
    let queue = "queue = { timeout = \"50ms\" }";
    let proxy = Proxy::start(&(web("", queue, &[&origin]) + "connections_max = 1\n"));
    let mut first = proxy.connect();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is under way", || origin.asked().len() == 1);
    let answer = proxy.connect().get("/");
    assert_eq!(answer.status, 503);
    until("the operator is told", || {
        proxy.complaints().contains("queue.timeout")
    });
    release.send(()).unwrap();
    assert_eq!(first.answer().text(), "late");
    assert_eq!(
        origin.asked().len(),
        1,
        "what is answered is not sent afterwards"
    );
}

#[test]
fn requests_of_many_clients_at_once_are_answered_each_with_its_own() {
    let origins = ["a", "b"].map(|_| Origin::http(|asked| Reply::text(&asked.line)));
    let proxy = Proxy::start(&web("", "", &origins.each_ref()));
    thread::scope(|scope| {
        for client in 0..8 {
            let proxy = &proxy;
            scope.spawn(move || {
                let mut connection = proxy.connect();
                for number in 0..40 {
                    let path = format!("/{client}/{number}");
                    assert_eq!(connection.get(&path).text(), format!("GET {path}"));
                }
            });
        }
    });
    assert_eq!(proxy.stat("web/FRONTEND", "req_tot"), 320);
    assert_eq!(
        proxy.stat("app/s0", "stot") + proxy.stat("app/s1", "stot"),
        320
    );
}
