//! Servers that answer and fail, backups, and how much a pool does at a time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use super::support::{LIMIT, Origin, Proxy, Reply, until, web};
use super::tcp::nobody;

/// A server that fails while it is told to.
fn failing(name: &'static str) -> (Origin, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&fails);
    let origin = Origin::http(move |_| match told.load(Ordering::SeqCst) {
        true => Reply::Go(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        false => Reply::text(name),
    });
    (origin, fails)
}

#[test]
fn a_server_that_fails_is_ejected_and_comes_back_when_it_is_good_again() {
    let ((bad, fails), good) = (failing("bad"), Origin::named("good"));
    let outliers = "outliers = { consecutive = 3, ejection = \"50ms\", ejection_max = \"50ms\" }";
    let proxy = Proxy::start(&web("", outliers, &[&bad, &good]));
    let mut client = proxy.connect();
    let mut failures = 0;
    while failures < 3 {
        failures += usize::from(client.get("/").status == 500);
    }
    until("it is ejected", || proxy.stat("app/s0", "ejections") == 1);
    proxy.until_said("server app/s0 is ejected for 50ms");
    // One request at a time tries it again, and fails.
    until("it was tried and ejected again", || {
        client.get("/");
        proxy.stat("app/s0", "ejections") > 2
    });
    fails.store(false, Ordering::SeqCst);
    until("it is back", || {
        client.get("/");
        proxy.row("app/s0")["status"] == "no check"
    });
    proxy.until_said("server app/s0 is back");
    let answers: Vec<String> = (0..4).map(|_| client.get("/").text().to_owned()).collect();
    assert!(answers.contains(&"bad".to_owned()), "{answers:?}");
    assert!(proxy.ctl("show servers state").contains("ejected_ms"));
}

#[test]
fn no_more_servers_are_ejected_than_allowed() {
    let servers = ["a", "b", "c"].map(failing);
    let origins: Vec<&Origin> = servers.iter().map(|(origin, _)| origin).collect();
    let outliers = "outliers = { consecutive = 1, ejection = \"1h\", ejection_max = \"1h\", \
                    ejected_percent_max = 67 }";
    let proxy = Proxy::start(&web("", outliers, &origins));
    let mut client = proxy.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/").status, 500);
    }
    assert_eq!(proxy.stat("app/BACKEND", "ejections"), 2);
}

#[test]
fn backups_serve_while_there_are_no_others() {
    let (main, backup) = (Origin::named("main"), Origin::named("backup"));
    let config = web("", "", &[&main]) + &backup.config("app", "b") + "backup = true\n";
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    for _ in 0..4 {
        assert_eq!(client.get("/").text(), "main");
    }
    let row = proxy.row("app/b");
    assert_eq!((&row["act"], &row["bck"]), (&0.into(), &1.into()));
    proxy.ctl("disable server app/s0");
    assert_eq!(client.get("/").text(), "backup");
    proxy.ctl("enable server app/s0");
    assert_eq!(client.get("/").text(), "main");
}

#[test]
fn a_backup_serves_while_the_others_are_ejected() {
    let backup = Origin::named("backup");
    let outliers = "outliers = { consecutive = 1, ejection = \"1h\", ejection_max = \"1h\" }\n\
                    retries = { max = 0 }";
    let server = |name: &str, address: &str| {
        format!("[[pool.app.server]]\nname = {name:?}\naddress = {address:?}\n")
    };
    let config = web("", outliers, &[])
        + &server("s0", &nobody().to_string())
        + &backup.config("app", "b")
        + "backup = true\n";
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    assert_eq!(client.get("/").status, 503);
    until("it is ejected", || {
        proxy.row("app/s0")["status"] == "EJECTED"
    });
    let mut client = proxy.connect();
    assert_eq!(client.get("/").text(), "backup");
}

#[test]
fn a_pool_does_no_more_at_a_time_than_it_may() {
    let (release, held) = channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let origins = ["a", "b"].map(|_| {
        let held = Arc::clone(&held);
        Origin::http(move |asked| {
            held.lock().unwrap().recv_timeout(LIMIT).unwrap();
            Reply::text(&asked.line)
        })
    });
    let proxy = Proxy::start(&web("", "requests_max = 1", &origins.each_ref()));
    let mut clients = [proxy.connect(), proxy.connect()];
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let waiting = number as u64;
        until("it is under way, or waits", || {
            let row = proxy.row("app/BACKEND");
            (&row["scur"], &row["qcur"]) == (&1.into(), &waiting.into())
        });
    }
    let asked = |origins: &[Origin; 2]| origins.iter().map(|it| it.asked().len()).sum::<usize>();
    until("one is asked", || asked(&origins) > 0);
    assert_eq!(asked(&origins), 1);
    for (number, client) in clients.iter_mut().enumerate() {
        release.send(()).unwrap();
        assert_eq!(client.answer().text(), format!("GET /{number}"));
    }
    assert_eq!(asked(&origins), 2);
}

#[test]
fn clients_come_back_to_their_server_by_a_cookie() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let proxy = Proxy::start(&web("", "sticky = { cookie = \"srv\" }", &[&one, &two]));
    let mut client = proxy.connect();
    let first = client.get("/");
    let set = first.header("set-cookie").unwrap();
    let (cookie, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "path=/; httponly; samesite=lax");
    let mut ask = || {
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b; {cookie}\r\n\r\n"
        ));
        client.answer()
    };
    for _ in 0..5 {
        let answer = ask();
        assert_eq!(answer.text(), first.text());
        assert_eq!(answer.header("set-cookie"), None);
    }
    // A server that is drained keeps its clients, and one that is gone gives them another one.
    let server = ["app/s0", "app/s1"][usize::from(first.text() == "two")];
    proxy.ctl(&format!("set server {server} state drain"));
    assert_eq!(ask().text(), first.text());
    proxy.ctl(&format!("set server {server} state maint"));
    let other = ask();
    assert_ne!(other.text(), first.text());
    assert_ne!(other.header("set-cookie").unwrap(), set);
}
