//! What operators see of connections, and how they change limits while the proxy runs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use ::http::Method;
use serde_json::Value;

use super::support::two::{TwoClient, request, run};
use super::support::{LIMIT, Origin, Proxy, Reply, run_command, until, web};

fn sessions(proxy: &Proxy, filter: &str) -> Vec<Value> {
    let answer = proxy.ctl(&format!("show sess {filter} json"));
    serde_json::from_str(&answer).unwrap()
}

/// An origin that answers what is slow when the sender goes, and everything else at once.
fn held() -> (Sender<()>, Origin) {
    let (held, release) = channel();
    let release = Mutex::new(release);
    let origin = Origin::http(move |asked| {
        if asked.line.contains("slow") {
            let _ = release.lock().unwrap().recv_timeout(LIMIT);
        }
        Reply::text("x")
    });
    (held, origin)
}

#[test]
fn connections_are_shown_with_what_they_do_and_can_be_ended() {
    let (held, origin) = held();
    let other = Origin::named("other");
    let config = "[[listener.web.route]]\npath = \"/slow\"\npool = \"slow\"\nclass = \"bulk\"\n";
    let text = web(config, "", &[&other]) + &origin.config("slow", "held");
    let proxy = Proxy::start(&text);
    let mut idle = proxy.connect();
    idle.get("/");
    let mut busy = proxy.connect();
    busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the server is asked", || !origin.asked().is_empty());
    until("both are in their states", || {
        sessions(&proxy, "state serves").len() == 1 && sessions(&proxy, "state rests").len() == 1
    });
    let rest = &sessions(&proxy, "state rests")[0];
    assert_eq!(
        (&rest["listener"], &rest["requests"]),
        (&"web".into(), &1.into())
    );
    assert_eq!(rest["server"], Value::Null);
    assert!(rest["bytes_in"].as_u64() > Some(20) && rest["bytes_out"].as_u64() > Some(20));
    let serve = &sessions(&proxy, "server slow/held")[0];
    assert_eq!(
        (&serve["client"], &serve["class"]),
        (&"127.0.0.1".into(), &"bulk".into())
    );
    assert!(sessions(&proxy, "pool app").is_empty());
    assert!(sessions(&proxy, "server slow/other").is_empty());
    assert!(sessions(&proxy, "older 3600").is_empty());
    assert!(sessions(&proxy, "client 127.0.0.2").is_empty());
    let text = proxy.ctl("show sess limit 1");
    assert!(text.contains("1 more: see"), "{text}");
    let id = &serve["id"];
    proxy.ctl(&format!("shutdown session {id}"));
    assert!(busy.ended().is_empty());
    drop(held);
    until("it is gone", || sessions(&proxy, "").len() == 1);
    let (done, _, errors) = proxy.try_ctl(&format!("shutdown session {id}"));
    assert!(
        !done && errors.contains("there is no connection"),
        "{errors}"
    );
    assert_eq!(proxy.row("slow/held")["scur"], 0);
    assert_eq!(idle.get("/").text(), "other", "others are not touched");
}

#[test]
fn connections_of_http2_are_found_and_ended_by_the_servers_of_their_requests() {
    let (held, origin) = held();
    let other = Origin::named("other");
    let route = "[[listener.web.route]]\npath = \"/slow\"\npool = \"slow\"\n";
    let proxy = Proxy::start(&(web(route, "", &[&other]) + &origin.config("slow", "held")));
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let get = |path: &str| request(Method::GET, path).body(()).unwrap();
        let (answer, _) = client.0.send_request(get("/"), true).unwrap();
        assert_eq!(answer.await.unwrap().status(), 200);
        let (slow, _) = client.0.send_request(get("/slow"), true).unwrap();
        until("it is under way", || {
            sessions(&proxy, "server slow/held").len() == 1
        });
        let seen = &sessions(&proxy, "")[0];
        assert_eq!(
            (&seen["state"], &seen["requests"]),
            (&"serves".into(), &2.into())
        );
        assert!(seen["bytes_out"].as_u64() > Some(0), "{seen}");
        assert!(sessions(&proxy, "pool app").is_empty());
        let ended = proxy.ctl("shutdown sessions server app/s0");
        assert_eq!(ended, "0 connections were ended\n");
        let ended = proxy.ctl("shutdown sessions server slow/held");
        assert_eq!(ended, "1 connections were ended\n");
        slow.await.unwrap_err();
    });
    drop(held);
    until("it is gone", || sessions(&proxy, "").is_empty());
}

#[test]
fn answers_are_counted_by_their_statuses() {
    let origin = Origin::http(|asked| match &*asked.line {
        "GET /no" => Reply::Go(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
        "GET /bad" => Reply::End(b"ICY 200\r\n\r\n".to_vec()),
        _ => Reply::text("x"),
    });
    let route = "[[listener.web.route]]\npath = \"/gone\"\nanswer = { status = 410 }\n";
    let proxy = Proxy::start(&web(route, "", &[&origin]));
    for path in ["/", "/", "/no", "/bad", "/gone"] {
        proxy.connect().get(path);
    }
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        for path in ["/", "/no", "/bad", "/gone"] {
            let get = request(Method::GET, path).body(()).unwrap();
            let (answer, _) = client.0.send_request(get, true).unwrap();
            answer.await.unwrap();
        }
    });
    let counts = |of: &str| ["2", "4", "5"].map(|class| proxy.stat(of, &format!("hrsp_{class}xx")));
    assert_eq!(
        counts("web/FRONTEND"),
        [3, 4, 2],
        "with what the proxy says"
    );
    assert_eq!(counts("app/s0"), [3, 2, 0]);
    assert_eq!(counts("app/BACKEND"), [3, 2, 0]);
}

#[test]
fn a_listener_is_switched_off_and_limits_are_changed_while_it_runs() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut before = proxy.connect();
    before.get("/");
    proxy.ctl("disable frontend web");
    assert_eq!(proxy.row("web/FRONTEND")["status"], "STOP");
    let refused = proxy.connect().head();
    assert_eq!(refused.status, 503);
    assert_eq!(before.get("/").text(), "x", "those that are there go on");
    proxy.ctl("enable frontend web; set maxconn frontend web 1");
    assert_eq!(proxy.connect().head().status, 503);
    assert_eq!(proxy.stat("web/FRONTEND", "slim"), 1);
    proxy.ctl("set maxconn frontend web 9; set maxconn server app/s0 7");
    assert_eq!(proxy.connect().get("/").status, 200);
    assert_eq!(proxy.stat("app/s0", "slim"), 7);
    assert!(proxy.stat("web/FRONTEND", "drefused") >= 2);
    proxy.ctl("clear counters all");
    assert_eq!(proxy.stat("web/FRONTEND", "drefused"), 0);
    assert_eq!(proxy.stat("app/s0", "stot"), 0);
    for (command, said) in [
        ("disable frontend up", "there are web"),
        ("set maxconn frontend web 0", "a number from 1 on"),
        ("set maxconn global 5", "needs a restart"),
        ("set maxconn server app/s9 5", "it has s0"),
        ("shutdown session x", "there is no connection x"),
        ("shutdown all", "shutdown session ID"),
        ("show sess colour red", "is no filter"),
    ] {
        let (done, _, errors) = proxy.try_ctl(command);
        assert!(!done && errors.contains(said), "{command}: {errors}");
    }
}

#[test]
fn requests_that_were_refused_are_kept_for_operators() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let none = proxy.ctl("show errors");
    assert!(none.contains("no request was refused"), "{none}");
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    let errors: Value = serde_json::from_str(&proxy.ctl("show errors web json")).unwrap();
    assert_eq!(errors[0]["status"], 400);
    assert!(
        errors[0]["why"]
            .as_str()
            .unwrap()
            .contains("two Content-Length")
    );
    let begin = errors[0]["begins_with"].as_str().unwrap();
    assert!(begin.starts_with("GET / HTTP/1.1\\r\\nHost: a"), "{begin}");
    let text = proxy.ctl("show errors");
    assert!(
        text.contains("listener web, client 127.0.0.1: 400"),
        "{text}"
    );
}

#[test]
fn a_prompt_stays_until_it_is_left() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let mut socket = UnixStream::connect(proxy.path("admin")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
        .write_all(b"prompt\n\nget weight app/s0; get weight app/s0\nquit\nhelp\n")
        .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert_eq!(text, "> > 1 (initial 1)\n\n1 (initial 1)\n\n> ");
}

#[test]
fn a_view_shows_what_there_is() {
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let socket = proxy.path("admin");
    let socket = socket.to_str().unwrap();
    let arguments = [
        "top",
        "--socket",
        socket,
        "--plain",
        "--times",
        "1",
        "--seconds",
        "0.01",
    ];
    let (done, said, errors) = run_command(&arguments);
    assert!(done, "{errors}");
    for part in [
        "evenkeel-proxy",
        "web FRONTEND",
        "app/s0",
        "app BACKEND",
        "urgent",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_operators_change_and_what_servers_do_is_said_on_standard_error() {
    let origin = Origin::named("x");
    let check = "check = { kind = \"tcp\", interval = \"20ms\", rise = 1, fall = 1 }\n";
    let gone = super::tcp::nobody();
    let config = web("", "", &[&origin])
        + "[pool.gone]\n"
        + check
        + &format!("[[pool.gone.server]]\nname = \"s0\"\naddress = \"{gone}\"\n");
    let proxy = Proxy::start(&config);
    proxy.until_said("server gone/s0 is down: ");
    proxy.until_said("pool gone has no server that is up");
    proxy.ctl("show info");
    proxy.ctl("disable server app/s0");
    proxy.until_said("done for an operator: disable server app/s0");
    let (done, _, _) = proxy.try_ctl("set server app/s9 state ready");
    assert!(!done);
    proxy.until_said("not done for an operator: set server app/s9 state ready: ");
    proxy.ctl("reload");
    proxy.until_said("done for an operator: reload");
    assert!(!proxy.complaints().contains("show info"));
}
