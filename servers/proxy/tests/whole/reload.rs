//! Another configuration while connections go on, and the end.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::support::{Client, LIMIT, Origin, Proxy, Reply, two, until, web};

#[test]
fn a_reload_changes_where_requests_go_and_touches_no_connection() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let mut proxy = Proxy::start(&web("", "", &[&one]));
    let mut client = proxy.connect();
    assert_eq!(client.get("/").text(), "one");
    let address = proxy.address("web").to_owned();
    // The same connection, to the new pool, with another route.
    proxy.rewrite(&web("", "", &[&two]));
    proxy.signal("HUP");
    until("it was read", || {
        proxy.ctl("show info").contains("Reloads: 1\n")
    });
    assert_eq!(client.get("/").text(), "two");
    assert_eq!(
        proxy.stat("web/FRONTEND", "req_tot"),
        2,
        "what was counted stays"
    );
    // By the command, with a listener more.
    let mut config = web("", "", &[&one]);
    let second = proxy.path("second");
    config += &format!(
        "[listener.second]\nbind = \"unix:{}\"\nmode = \"http\"\npool = \"app\"\n",
        second.display()
    );
    proxy.rewrite(&config);
    proxy.ctl("reload");
    assert_eq!(client.get("/").text(), "one");
    let mut stream = std::os::unix::net::UnixStream::connect(&second).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\none"), "{answer}");
    // And without it.
    proxy.rewrite(&web("", "", &[&one]));
    proxy.ctl("reload");
    until("it is gone", || !second.exists());
    assert_eq!(client.get("/").text(), "one");
    assert_eq!(proxy.address("web"), address);
    proxy.signal("TERM");
    assert!(proxy.ended().success());
}

#[test]
fn clients_of_a_listener_that_is_gone_are_told_to_connect_anew() {
    let origin = Origin::named("x");
    let config = web("", "", &[&origin]);
    let second = "[listener.second]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n\
                  timeouts.keep_alive = \"10m\"\n";
    let proxy = Proxy::start(&(config.clone() + second));
    let mut stays = proxy.connect();
    let mut kept = Client::connect(proxy.address("second"));
    for client in [&mut stays, &mut kept] {
        assert_eq!(client.get("/").header("connection"), None);
    }
    two::run(async {
        let (mut client, connection) = two::TwoClient::watched(proxy.address("second")).await;
        assert_eq!(client.get("/").await.text(), "x");
        proxy.rewrite(&config);
        proxy.ctl("reload");
        // It would go on as long as its client, which has no request.
        drop(connection.await);
        drop(client);
    });
    let last = kept.get("/");
    assert_eq!(
        (last.text(), last.header("connection")),
        ("x", Some("close"))
    );
    assert_eq!(stays.get("/").header("connection"), None);
}

#[test]
fn listeners_whose_ports_the_system_chooses_keep_them() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let second = "[listener.second]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"other\"\n";
    let config = web("", "", &[&one]) + second + &two.config("other", "s0");
    let proxy = Proxy::start(&config);
    assert_ne!(proxy.address("web"), proxy.address("second"));
    let mut clients = ["web", "second"].map(|name| Client::connect(proxy.address(name)));
    for _ in 0..2 {
        for (client, name) in clients.iter_mut().zip(["one", "two"]) {
            assert_eq!(client.get("/").text(), name);
        }
        proxy.ctl("reload");
        clients = ["web", "second"].map(|name| Client::connect(proxy.address(name)));
    }
}

#[test]
fn what_a_reload_cannot_change_is_named() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    proxy.edit("workers = 2", "workers = 3\ndrain = \"7s\"");
    proxy.ctl("reload");
    proxy.until_said("process.workers, process.drain changed since this process began");
    proxy.edit("workers = 3\ndrain = \"7s\"", "workers = 2");
    proxy.ctl("reload");
    proxy.rewrite("wrong");
    proxy.signal("HUP");
    proxy.until_said("nothing was changed");
    let said = proxy.complaints();
    assert_eq!(
        said.matches("since this process began").count(),
        1,
        "{said}"
    );
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let origin = Origin::named("one");
    let good = web("", "", &[&origin]);
    let proxy = Proxy::start(&good);
    proxy.ctl("set server app/s0 state drain");
    proxy.rewrite("[listener.web]\nmode = 1\n");
    let (done, _, errors) = proxy.try_ctl("reload");
    assert!(!done && errors.contains("nothing was changed"), "{errors}");
    assert!(errors.contains("proxy.toml:"), "{errors}");
    proxy.rewrite(&(good.clone() + "[class.new]\n"));
    let (done, _, errors) = proxy.try_ctl("reload");
    assert!(!done && errors.contains("class new is new"), "{errors}");
    proxy.signal("HUP");
    until("it is said", || {
        proxy.complaints().contains("nothing was changed")
    });
    assert_eq!(proxy.row("app/s0")["status"], "DRAIN");
    proxy.ctl("set server app/s0 state ready");
    assert_eq!(proxy.connect().get("/").text(), "one");
    assert!(proxy.ctl("show info").contains("Reloads: 0\n"));
}

#[test]
fn at_the_end_requests_under_way_are_answered_and_no_more_are_taken() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::http(move |asked| {
        if asked.line == "GET /slow" {
            held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        Reply::text(&asked.line)
    });
    let mut proxy = Proxy::start(&web("", "", &[&origin]));
    let mut idle = proxy.connect();
    for _ in 0..2 {
        assert_eq!(idle.get("/quick").text(), "GET /quick");
    }
    let mut client = proxy.connect();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is under way", || origin.asked().len() == 3);
    proxy.signal("TERM");
    assert_eq!(idle.rest(), b"", "a connection that waits is ended");
    let refused = || std::net::TcpStream::connect(proxy.address("web")).is_err();
    until("nobody listens", refused);
    release.send(()).unwrap();
    let answer = client.answer();
    assert_eq!(answer.text(), "GET /slow");
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
    assert!(proxy.ended().success());
    assert!(
        !proxy.complaints().contains("were cut off"),
        "{}",
        proxy.complaints()
    );
}

#[test]
fn connections_that_do_not_end_are_cut_off_at_last() {
    let origin = Origin::raw(|mut stream, _, _| drop(stream.read_to_end(&mut Vec::new())));
    let config = web("", "", &[&origin]).replace("\"http\"", "\"tcp\"");
    let mut proxy = Proxy::start_with("drain = \"50ms\"", &config);
    let mut client = proxy.connect();
    client.send("hello");
    until("it is passed on", || origin.open() == 1);
    proxy.signal("TERM");
    client.ended();
    assert!(proxy.ended().success());
    proxy.until_said("connections that were cut off: 1");
}

#[test]
fn operators_see_how_many_connections_are_left_while_the_proxy_ends() {
    let origin = Origin::raw(|mut stream, _, _| drop(stream.read_to_end(&mut Vec::new())));
    let config = web("", "", &[&origin]).replace("\"http\"", "\"tcp\"");
    let mut proxy = Proxy::start_with("drain = \"10m\"", &config);
    let mut clients = [proxy.connect(), proxy.connect()];
    for client in &mut clients {
        client.send("hello");
    }
    until("they are passed on", || origin.open() == 2);
    proxy.signal("TERM");
    until("it ends", || {
        proxy.ctl("show info").contains("Stopping: 1\n")
    });
    // It waits for the last one from some moment on.
    for _ in 0..30 {
        let info = proxy.ctl("show info");
        assert!(info.contains("CurrConns: 2\n"), "{info}");
        std::thread::sleep(Duration::from_millis(10));
    }
    proxy.signal("TERM");
    assert!(proxy.ended().success());
    proxy.until_said("connections that were cut off: 2");
}

#[test]
fn connections_that_nobody_would_use_any_more_are_closed_at_once() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::http(move |asked| {
        if asked.line == "GET /slow" {
            held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        Reply::text(&asked.line)
    });
    let config = |pool: &str| web("", pool, &[&origin]);
    let proxy = Proxy::start(&config("timeouts.keep = \"1h\"\n"));
    let mut slow = proxy.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is under way", || origin.asked().len() == 1);
    assert_eq!(proxy.connect().get("/").text(), "GET /");
    assert_eq!(origin.open(), 2);
    // Another server, although at the same address.
    let changed = config("timeouts.keep = \"1h\"\n").replace("\"s0\"", "\"other\"");
    proxy.rewrite(&changed);
    proxy.ctl("reload");
    until("the one that waited is closed", || origin.open() == 1);
    release.send(()).unwrap();
    assert_eq!(slow.answer().text(), "GET /slow");
    until("and the other one is not kept", || origin.open() == 0);
}

#[test]
fn a_setting_of_a_class_that_is_left_out_is_as_before_it_was_there() {
    let origin = Origin::named("x");
    let config = web("", "", &[&origin]);
    let proxy =
        Proxy::start(&(config.clone() + "[class.own]\nshare = 7\n[class.bulk]\nshare = 9\n"));
    let share = |class: &str| {
        let rows = proxy.ctl("show cpu json");
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
        let row = rows.iter().find(|row| row["class"] == class).unwrap();
        row["share"].as_u64().unwrap()
    };
    assert_eq!((share("own"), share("bulk")), (7, 9));
    proxy.rewrite(&(config + "[class.own]\n"));
    proxy.ctl("reload");
    assert_eq!((share("own"), share("bulk")), (50, 20));
}

/// All places are taken, so that these are not accepted when their listener goes.
#[test]
fn who_waits_when_a_listener_is_removed_is_served() {
    let origin = Origin::named("x");
    let config = web("", "", &[&origin]);
    let second = "[listener.b]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n";
    let proxy = Proxy::start(&(config.clone() + second));
    let taken: Vec<Client> = (0..500).map(|_| proxy.connect()).collect();
    until("all are taken", || {
        proxy.ctl("show info").contains("CurrConns: 500\n")
    });
    let mut waiting: Vec<Client> = (0..5)
        .map(|_| Client::connect(proxy.address("b")))
        .collect();
    for client in &mut waiting {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    proxy.rewrite(&config);
    std::thread::scope(|scope| {
        let reload = scope.spawn(|| proxy.ctl("reload"));
        until("it is removed", || {
            !proxy.ctl("show stat").contains("\nb,FRONTEND")
        });
        drop(taken);
        for client in &mut waiting {
            assert_eq!(client.answer().text(), "x");
        }
        reload.join().unwrap();
    });
}
