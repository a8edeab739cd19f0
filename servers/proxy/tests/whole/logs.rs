//! A line for each request.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use ::http::Method;
use serde_json::Value;

use super::support::frames::{Frames, HEADERS};
use super::support::two::{TwoClient, all_of, moment, request, run};
use super::support::{Authority, LIMIT, Origin, Proxy, Reply, Trust, until, web};

/// A log `main` that goes there, and a listener with it.
fn logging(to: &str, more: &str, origin: &Origin) -> String {
    format!("[log.main]\nto = {to:?}\n{more}\n") + &web("log = \"main\"", "", &[origin])
}

/// Waits for so many lines.
fn lines(file: &std::path::Path, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(file).unwrap_or_default();
    until("the lines are written", || read().lines().count() >= count);
    let lines: Vec<String> = read().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), count, "{lines:?}");
    lines
}

#[test]
fn each_request_has_its_line_whatever_becomes_of_it() {
    let origin = Origin::http(|asked| match &*asked.line {
        "GET /broken" => Reply::End(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc".to_vec()),
        "GET /bad" => Reply::End(b"ICY 200\r\n\r\n".to_vec()),
        _ => Reply::text("0123456789"),
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let config = logging(&to, "format = \"json\"", &origin)
        .replace("log = \"main\"", "log = \"main\"\nrequest_ids = \"keep\"");
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    client.send(
        "POST /a?b HTTP/1.1\r\nHost: a.example\r\nReferer: r\"\r\nUser-Agent: me\r\n\
         X-Request-Id: 77\r\nContent-Length: 1000\r\n\r\n",
    );
    client.send([b'x'; 1_000]);
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.get("/bad").status, 502);
    // A line is written a moment after its answer.
    lines(&file, 2);
    let mut client = proxy.connect();
    client.send("GET /broken HTTP/1.1\r\nHost: a\r\n\r\n");
    client.ended();
    lines(&file, 3);
    let mut client = proxy.connect();
    client.send("no request\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    let lines: Vec<Value> = lines(&file, 4)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    says_all(&lines[0]);
    for (line, status, cause) in [
        (1, 502, "server-bad"),
        (2, 200, "server-broke"),
        (3, 400, "bad-request"),
    ] {
        let said = ["status", "whole", "cause"].map(|key| lines[line][key].clone());
        assert_eq!(said, [status.into(), false.into(), Value::from(cause)]);
    }
    assert_eq!(lines[3]["method"], "");
}

/// What is said of the request by POST.
fn says_all(first: &Value) {
    for (key, value) in [
        ("client", "127.0.0.1"),
        ("listener", "web"),
        ("route", "web"),
        ("class", "normal"),
        ("method", "POST"),
        ("target", "/a?b"),
        ("version", "HTTP/1.1"),
        ("host", "a.example"),
        ("referer", "r\\\""),
        ("user_agent", "me"),
        ("request_id", "77"),
        ("pool", "app"),
        ("server", "s0"),
        ("tls", ""),
    ] {
        assert_eq!(first[key], value, "{key}: {first}");
    }
    let number = |line: &Value, key: &str| line[key].as_u64().unwrap();
    assert_eq!(number(first, "status"), 200);
    assert!(
        (1_000..2_000).contains(&number(first, "bytes_in")),
        "{first}"
    );
    assert!((10..200).contains(&number(first, "bytes_out")), "{first}");
    let parts = ["queue_us", "connect_us", "answer_us"].map(|key| number(first, key));
    assert!(parts[1] > 0 && parts[2] > 0, "{first}");
    assert!(
        parts.iter().sum::<u64>() <= number(first, "total_us"),
        "{first}"
    );
    let processor = number(first, "processor_us");
    assert!(
        processor > 0 && processor <= number(first, "total_us"),
        "{first}"
    );
    let ended = ["whole", "cause", "retries"].map(|key| first[key].clone());
    assert_eq!(ended, [Value::from(true), Value::from(""), Value::from(0)]);
}

#[test]
fn answers_of_the_proxy_itself_have_no_time_of_a_server() {
    let origin = Origin::raw(|mut stream, _, _| drop(stream.read_to_end(&mut Vec::new())));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let config = logging(&to, "format = \"json\"", &origin);
    let route = "[[listener.web.route]]\npath_is = \"/fixed\"\nanswer = { status = 403 }\n";
    let times = "[pool.app]\ntimeouts.answer = \"100ms\"\n";
    let proxy = Proxy::start(&config.replace("[pool.app]\n", &format!("{route}{times}")));
    for (line, (path, status)) in [("/", 504), ("/fixed", 403)].into_iter().enumerate() {
        assert_eq!(proxy.connect().get(path).status, status);
        let line: Value = serde_json::from_str(&lines(&file, line + 1)[line]).unwrap();
        assert_eq!(
            (&line["status"], &line["answer_us"]),
            (&status.into(), &0.into()),
            "{line}"
        );
    }
    let mut two = Frames::connect(proxy.address("web"), &[]);
    two.get(1, &[]);
    two.until(HEADERS);
    let line: Value = serde_json::from_str(&lines(&file, 3)[2]).unwrap();
    assert_eq!(
        (&line["status"], &line["answer_us"]),
        (&504.into(), &0.into()),
        "{line}"
    );
}

#[test]
fn lines_say_why_a_request_was_not_served() {
    let closing = Origin::raw(|mut stream, _, _| drop(stream.read(&mut [0; 1_000])));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let silent = Origin::raw(move |mut stream, _, _| {
        drop(stream.read(&mut [0; 1_000]));
        counted.fetch_add(1, Ordering::SeqCst);
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let route =
        |name: &str| format!("[[listener.web.route]]\npath = \"/{name}\"\npool = \"{name}\"\n");
    let pool = "[pool.app]\ntimeouts.answer = \"200ms\"\n";
    let routes = route("nobody") + &route("closing") + pool;
    let config = logging(&to, "format = \"json\"", &silent).replace("[pool.app]\n", &routes);
    let servers = format!(
        "[[pool.nobody.server]]\nname = \"n\"\naddress = \"{}\"\n{}",
        nobody.unwrap(),
        closing.config("closing", "c")
    );
    let proxy = Proxy::start(&(config + &servers));
    let mut count = 0;
    let mut said = |cause: &str, has_retries: bool| {
        count += 1;
        let lines = lines(&file, count);
        let line: Value = serde_json::from_str(&lines[count - 1]).unwrap();
        assert_eq!(line["cause"], cause, "{line}");
        assert_eq!(line["whole"], false, "{line}");
        assert_eq!(line["retries"].as_u64() > Some(0), has_retries, "{line}");
    };
    let cases = [
        ("/closing", 502, "server-closed"),
        ("/nobody", 503, "no-connection"),
        ("/", 504, "server-slow"),
    ];
    for (path, status, cause) in cases {
        assert_eq!(proxy.connect().get(path).status, status);
        said(cause, path == "/nobody");
    }
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        for (path, status, cause) in cases {
            assert_eq!(client.get(path).await.status, status);
            said(cause, path == "/nobody");
        }
        let head = request(Method::GET, "/").body(()).unwrap();
        let (answer, _) = client.0.send_request(head, true).unwrap();
        while asked.load(Ordering::SeqCst) < 3 {
            moment().await;
        }
        drop(answer);
        moment().await;
    });
    said("client-gone", false);
    // Also when the whole connection goes.
    let mut two = Frames::connect(proxy.address("web"), &[]);
    two.get(1, &[]);
    until("it is asked", || asked.load(Ordering::SeqCst) == 4);
    drop(two);
    said("client-gone", false);
}

#[test]
fn operators_are_told_of_answers_that_are_broken_off() {
    let broken = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc";
    let origin = Origin::http(|_| Reply::End(broken.to_vec()));
    // One for each, as a listener tells of one thing a second.
    for is_two in [false, true] {
        let proxy = Proxy::start(&web("", "", &[&origin]));
        if is_two {
            run(async {
                let mut client = TwoClient::connect(proxy.address("web")).await;
                let get = request(Method::GET, "/").body(()).unwrap();
                let (answer, _) = client.0.send_request(get, true).unwrap();
                // The end of the stream may have overtaken the head.
                if let Ok(mut answer) = answer.await {
                    all_of(answer.body_mut()).await.unwrap_err();
                }
            });
        } else {
            let mut client = proxy.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client.ended();
        }
        proxy.until_said("server app/s0 broke off its answer, of which");
    }
}

#[test]
fn who_waits_in_vain_for_a_server_has_the_wait_in_its_line() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::http(move |_| {
        let _ = held.lock().unwrap().recv_timeout(LIMIT);
        Reply::text("late")
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let logs = format!("[log.main]\nto = {to:?}\nformat = \"json\"\n");
    let queue = "queue = { timeout = \"50ms\" }";
    let servers = web("log = \"main\"", queue, &[&origin]);
    let proxy = Proxy::start(&(logs + &servers + "connections_max = 1\n"));
    let mut first = proxy.connect();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is under way", || origin.asked().len() == 1);
    assert_eq!(proxy.connect().get("/").status, 503);
    let line: Value = serde_json::from_str(&lines(&file, 1)[0]).unwrap();
    assert_eq!(line["queue_us"], 50_000, "{line}");
    assert_eq!(line["status"], 503, "{line}");
    assert_eq!(line["cause"], "queue-timeout", "{line}");
    release.send(()).unwrap();
    assert_eq!(first.answer().text(), "late");
}

#[test]
fn lines_of_requests_that_are_ended_say_so() {
    let origin = Origin::raw(|mut stream, _, _| drop(stream.read_to_end(&mut Vec::new())));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let proxy = Proxy::start(&logging(&to, "format = \"json\"", &origin));
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is under way", || {
        proxy.ctl("show sess").contains("serves")
    });
    proxy.ctl("shutdown sessions server app/s0");
    client.ended();
    let line: Value = serde_json::from_str(&lines(&file, 1)[0]).unwrap();
    let said = ["status", "whole", "cause"].map(|key| line[key].clone());
    let expected = [Value::from(0), Value::from(false), Value::from("cut-off")];
    assert_eq!(said, expected, "{line}");
}

#[test]
fn connections_that_the_end_of_the_proxy_cuts_off_have_their_lines() {
    let origin = Origin::raw(|mut stream, _, _| {
        stream.write_all(b"hello").unwrap();
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let config = logging(&to, "format = \"json\"", &origin);
    let config = config.replace("mode = \"http\"", "mode = \"tcp\"");
    let mut proxy = Proxy::start_with("drain = \"100ms\"", &config);
    let mut client = proxy.connect();
    client.stream.read_exact(&mut [0; 5]).unwrap();
    proxy.signal("TERM");
    assert!(proxy.ended().success());
    let line: Value = serde_json::from_str(&lines(&file, 1)[0]).unwrap();
    assert_eq!(line["cause"], "cut-off", "{line}");
    assert_eq!(line["bytes_out"], 5, "what had passed counts: {line}");
}

#[test]
fn what_was_sent_of_a_body_counts_though_the_answer_comes_before_the_rest() {
    let origin = Origin::raw(|mut stream, _, _| {
        let mut part = vec![0; 100_000];
        let _ = stream.read(&mut part).unwrap();
        let answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig";
        stream.write_all(answer).unwrap();
        while stream.read(&mut part).is_ok_and(|came| came > 0) {}
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let proxy = Proxy::start(&logging(&to, "format = \"json\"", &origin));
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
    assert_eq!(client.answer().status, 413);
    client.ended();
    let line: Value = serde_json::from_str(&lines(&file, 1)[0]).unwrap();
    let sent = line["bytes_in"].as_u64().unwrap();
    assert!((40..1_000).contains(&sent), "the head: {line}");
}

#[test]
fn a_connection_that_is_passed_on_has_its_line_at_its_end() {
    let origin = Origin::http(|_| Reply::text("0123456789"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("log");
    let to = format!("file:{}", file.display());
    let config = logging(&to, "format = \"json\"", &origin);
    let proxy = Proxy::start(&config.replace("mode = \"http\"", "mode = \"tcp\""));
    let mut client = proxy.connect();
    assert_eq!(client.get("/a").status, 200);
    assert_eq!(client.get("/b").status, 200);
    assert!(!file.exists() || fs::read(&file).unwrap().is_empty());
    drop(client);
    let line: Value = serde_json::from_str(&lines(&file, 1)[0]).unwrap();
    for (key, value) in [
        ("client", "127.0.0.1"),
        ("listener", "web"),
        ("route", "web"),
        ("method", ""),
        ("pool", "app"),
        ("server", "s0"),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
    let number = |key: &str| line[key].as_u64().unwrap();
    assert!((40..400).contains(&number("bytes_in")), "{line}");
    assert!((60..400).contains(&number("bytes_out")), "{line}");
    assert!(number("connect_us") > 0, "{line}");
    assert!(number("processor_us") <= number("total_us"), "{line}");
    assert_eq!((number("status"), &line["whole"]), (0, &true.into()));
}

#[test]
fn a_file_that_is_renamed_is_opened_anew_at_the_signal() {
    let origin = Origin::named("x");
    let directory = tempfile::tempdir().unwrap();
    let [file, old, older] = ["log", "old", "older"].map(|name| directory.path().join(name));
    let to = format!("file:{}", file.display());
    let mut proxy = Proxy::start(&logging(&to, "format = \"common\"", &origin));
    let mut client = proxy.connect();
    assert_eq!(client.get("/1").status, 200);
    assert!(lines(&file, 1)[0].contains("\"GET /1 HTTP/1.1\" 200 "));
    fs::rename(&file, &old).unwrap();
    proxy.signal("USR1");
    until("it is there again", || file.exists());
    assert_eq!(client.get("/2").status, 200);
    lines(&file, 1);
    fs::rename(&file, &older).unwrap();
    proxy.signal("HUP");
    until("it is there again", || file.exists());
    // The last lines are written before the end.
    assert_eq!(client.get("/3").status, 200);
    drop(client);
    proxy.signal("TERM");
    assert!(proxy.ended().success());
    assert!(lines(&file, 1)[0].contains("/3"));
    assert!(lines(&older, 1)[0].contains("/2"));
    assert!(lines(&old, 1)[0].contains("/1"));
}

#[test]
fn a_log_that_was_replaced_is_opened_anew_too() {
    let origin = Origin::named("x");
    let directory = tempfile::tempdir().unwrap();
    let [file, old] = ["log", "old"].map(|name| directory.path().join(name));
    let to = format!("file:{}", file.display());
    let config = logging(&to, "format = \"common\"", &origin);
    let proxy = Proxy::start(&config.replace("mode = \"http\"", "mode = \"tcp\""));
    let mut client = proxy.connect();
    assert_eq!(client.get("/").status, 200);
    proxy.edit("format = \"common\"", "format = \"json\"");
    proxy.ctl("reload");
    until("it is there", || file.exists());
    fs::rename(&file, &old).unwrap();
    proxy.signal("USR1");
    until("it is there again", || file.exists());
    drop(client);
    assert!(lines(&file, 1)[0].starts_with("127.0.0.1 - - ["));
    assert!(lines(&old, 0).is_empty());
}

#[test]
fn the_log_of_the_system_gets_a_datagram_for_each_line() {
    let origin = Origin::named("x");
    let authority = Authority::new("ca");
    let issued = authority.issue("server", &["a.example"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(super::support::LIMIT))
        .unwrap();
    let to = format!("syslog:{}", path.display());
    let config = logging(&to, "format = \"json\"", &origin)
        + "[listener.web.tls]\n"
        + &issued.config("certificate");
    let proxy = Proxy::start(&config);
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    for path in ["/1", "/2"] {
        assert_eq!(client.get(path).status, 200);
    }
    for path in ["/1", "/2"] {
        let mut buffer = [0; 4_096];
        let length = socket.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        assert!(text.starts_with("<134>"), "{text}");
        let (head, json) = text.split_at(text.find('{').unwrap());
        assert!(head.contains(" evenkeel-proxy["), "{text}");
        let object: Value = serde_json::from_str(json).unwrap();
        assert_eq!(
            (&object["target"], &object["tls"]),
            (&path.into(), &"1.3".into())
        );
    }
}

#[test]
fn a_log_that_takes_nothing_holds_nothing_up_and_what_is_lost_is_counted() {
    let origin = Origin::named("x");
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // Both ends, so that neither waits for the other one.
    let mut reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let to = format!("file:{}", pipe.display());
    let more = "queue_bytes_max = 16384\nformat = \"combined\"";
    let proxy = Proxy::start(&logging(&to, more, &origin));
    let info = |key: &str| {
        let info: Value = serde_json::from_str(&proxy.ctl("show info json")).unwrap();
        info[key].as_u64().unwrap()
    };
    let mut client = proxy.connect();
    let target = format!("/{}", "a".repeat(1_500));
    let mut sent = 0;
    until("lines are left out", || {
        for _ in 0..20 {
            assert_eq!(client.get(&target).status, 200);
        }
        sent += 20;
        info("LogLinesDropped") > 0
    });
    proxy.until_said("log main: lines are left out");
    let shown: Vec<Value> = serde_json::from_str(&proxy.ctl("show logs json")).unwrap();
    assert_eq!(shown[0]["log"], "main");
    assert!(shown[0]["dropped"].as_u64() > Some(0), "{}", shown[0]);
    // When it takes some again, the next lines come.
    let mut part = [0; 65_536];
    let mut all = Vec::new();
    until("a line comes that was asked for later", || {
        assert_eq!(client.get("/last").status, 200);
        let came = reader.read(&mut part).unwrap();
        all.extend_from_slice(&part[..came]);
        String::from_utf8_lossy(&all).contains("/last")
    });
    assert!(info("LogLines") < sent + 1_000);
}
