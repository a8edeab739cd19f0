//! The load generators against a server that is known to work. Nothing here asserts a time.

mod common;

use std::io::Read;
use std::net::TcpListener;

use common::{Server, load};

const ANY: &str = "127.0.0.1:0";

#[test]
fn echo_answers_every_request() {
    let server = Server::start("tokio", &["--echo", ANY]);
    let target = server.address("echo").to_string();
    let args = [
        "echo",
        &target,
        "--rate",
        "500",
        "--connections",
        "3",
        "--seconds",
        "0.4",
    ];
    let found = load(&[&args[..], &["--warmup", "0.1", "--drain", "20"]].concat());
    assert_eq!(found["requests"], 200, "{found}");
    assert_eq!(
        (&found["unanswered"], &found["connections_lost"]),
        (&0.into(), &0.into())
    );
    let latency = |name: &str| found["latency"][name].as_f64().expect("a number");
    assert!(0.0 < latency("p50_us"), "{found}");
    assert!(latency("p50_us") <= latency("p99_us") && latency("p99_us") <= latency("max_us"));
}

#[test]
fn echo_counts_silence_as_unanswered() {
    // Listens, accepts by the kernel's queue, and never answers.
    let silent = TcpListener::bind(ANY).expect("a port is free");
    let target = silent.local_addr().expect("bound").to_string();
    let args = [
        "echo",
        &target,
        "--rate",
        "200",
        "--seconds",
        "0.2",
        "--warmup",
        "0",
    ];
    let found = load(&[&args[..], &["--drain", "0.1"]].concat());
    assert_eq!(
        (&found["requests"], &found["unanswered"]),
        (&40.into(), &40.into()),
        "{found}"
    );
    // The first request waited until the end: at least as long as the schedule and the drain.
    assert!(
        found["latency"]["max_us"]
            .as_f64()
            .is_some_and(|us| us >= 295_000.0),
        "{found}"
    );
}

#[test]
fn echo_notices_a_connection_that_breaks() {
    let rude = TcpListener::bind(ANY).expect("a port is free");
    let target = rude.local_addr().expect("bound").to_string();
    let hangs_up = std::thread::spawn(move || {
        let (mut stream, _) = rude.accept().expect("a connection");
        stream.read_exact(&mut [0; 16])
    });
    let found = load(&["echo", &target, "--seconds", "0.2", "--warmup", "0"]);
    hangs_up.join().expect("no panic").expect("a request came");
    assert_eq!(found["connections_lost"], 1, "{found}");
    assert_eq!(found["requests"], found["unanswered"]);
}

#[test]
fn stream_delivers_what_is_due() {
    let server = Server::start("tokio", &["--sink", ANY]);
    let target = server.address("sink").to_string();
    let args = [
        "stream",
        &target,
        "--connections",
        "20",
        "--mbit",
        "0.8",
        "--seconds",
        "0.5",
    ];
    let found = load(&[&args[..], &["--writes-per-s", "50"]].concat());
    // 0.8 Mbit/s in 50 writes a second are 2000 bytes a write.
    let writes = found["writes"].as_u64().expect("a number");
    assert!((1..=500).contains(&writes), "{found}");
    assert_eq!(found["bytes_due"], writes * 2_000);
    assert_eq!(found["bytes_sent"], found["bytes_due"]);
    assert_eq!(found["connections_lost"], 0);
}

#[test]
fn stream_reports_a_server_that_does_not_keep_up() {
    // Accepts by the kernel's queue and never reads: the sockets fill up.
    let silent = TcpListener::bind(ANY).expect("a port is free");
    let target = silent.local_addr().expect("bound").to_string();
    let args = [
        "stream",
        &target,
        "--connections",
        "1",
        "--mbit",
        "4000",
        "--seconds",
        "0.3",
    ];
    let found = load(&[&args[..], &["--writes-per-s", "100"]].concat());
    assert!(
        found["bytes_sent"].as_u64() < found["bytes_due"].as_u64(),
        "{found}"
    );
    assert!(
        found["writes_behind"]
            .as_u64()
            .is_some_and(|writes| writes > 0),
        "{found}"
    );
}

#[test]
fn http_counts_what_fails() {
    let server = Server::start("tokio", &["--http", ANY]);
    let target = server.address("http").to_string();
    let args = ["http", &target, "--requests", "20", "--concurrency", "3"];
    let found = load(&[&args[..], &["--path", "/elsewhere"]].concat());
    assert_eq!(
        (&found["requests"], &found["failed"]),
        (&0.into(), &20.into()),
        "{found}"
    );
    assert_eq!(found["failure"], "the answer is 404, not 200");
}

#[test]
fn http_gives_up_on_silence() {
    let silent = TcpListener::bind(ANY).expect("a port is free");
    let target = silent.local_addr().expect("bound").to_string();
    let found = load(&["http", &target, "--requests", "2", "--patience", "0.1"]);
    assert_eq!(
        (&found["requests"], &found["failed"]),
        (&0.into(), &2.into()),
        "{found}"
    );
}

#[test]
fn request_and_respond_are_a_pair() {
    let mut responder = common::lab();
    responder
        .args(["load", "respond"])
        .stdout(std::process::Stdio::piped());
    let mut responder = responder.spawn().expect("the lab starts");
    let mut stdout = std::io::BufReader::new(responder.stdout.take().expect("piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says where it listens");
    let target = line
        .trim()
        .strip_prefix("respond ")
        .expect("`respond ADDR`");
    let found = load(&["request", target, "--connections", "3", "--seconds", "0.2"]);
    responder.kill().expect("it lives");
    responder.wait().expect("it ends");
    assert!(
        found["requests"]
            .as_u64()
            .is_some_and(|requests| requests > 0),
        "{found}"
    );
    assert_eq!(found["failed"], 0, "{found}");
}

/// `load origin`, and where it listens; killed when dropped.
struct Origin(std::process::Child, String);

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn origin() -> Origin {
    let mut origin = common::lab();
    origin
        .args(["load", "origin"])
        .stdout(std::process::Stdio::piped());
    let mut origin = origin.spawn().expect("the lab starts");
    let mut stdout = std::io::BufReader::new(origin.stdout.take().expect("piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says where it listens");
    let target = line.trim().strip_prefix("origin ").expect("`origin ADDR`");
    Origin(origin, target.to_owned())
}

#[test]
fn an_origin_has_large_objects_and_empty_ones() {
    let origin = origin();
    let target = origin.1.parse().expect("an address");
    let (head, body) = common::get(target, "/large");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body.len(), 1_000_000);
    assert_eq!(common::get(target, "/").1, "");
    let args = ["http", &origin.1, "--requests", "200", "--keep-alive"];
    let found = load(&args);
    assert_eq!(
        (&found["requests"], &found["failed"]),
        (&200.into(), &0.into()),
        "{found}"
    );
}

#[test]
fn a_mix_counts_objects_of_both_kinds() {
    let origin = origin();
    // Through a relay, as the experiment has it.
    let route = format!("{ANY}={}", origin.1);
    let relay = Server::start("tokio", &["--relay", &route]);
    let target = relay.address("relay").to_string();
    let args = [
        "mix",
        &target,
        "--large",
        "4",
        "--empty",
        "2",
        "--seconds",
        "0.5",
    ];
    let found = load(&args);
    let count = |name: &str| found[name].as_u64().expect("a number");
    assert!(count("empty") > 0 && count("large") > 0, "{found}");
    assert_eq!(count("failed"), 0, "{found}");
    // Of the four that were under way at either end of the time, a part may have been counted.
    let (bytes, objects) = (count("bytes"), count("large"));
    let least = objects.saturating_sub(4) * 1_000_000;
    assert!(least <= bytes, "{found}");
    // Heads are counted, too.
    assert!(bytes <= (objects + 4) * 1_001_000, "{found}");
    let only_large = load(&["mix", &target, "--empty", "0", "--seconds", "0.2"]);
    assert_eq!(only_large["empty"], 0, "{only_large}");
}

#[test]
fn calls_have_connections_of_their_own_and_silence_counts() {
    let server = Server::start("tokio", &["--admin", ANY]);
    let target = server.address("admin").to_string();
    let args = [
        "calls",
        &target,
        "--rate",
        "100",
        "--seconds",
        "0.3",
        "--drain",
        "20",
    ];
    let found = load(&args);
    assert_eq!(
        (&found["requests"], &found["unanswered"]),
        (&30.into(), &0.into()),
        "{found}"
    );
    let silent = TcpListener::bind(ANY).expect("a port is free");
    let target = silent.local_addr().expect("bound").to_string();
    let args = [
        "calls",
        &target,
        "--rate",
        "100",
        "--warmup",
        "0",
        "--seconds",
        "0.2",
    ];
    let found = load(&[&args[..], &["--drain", "0.1"]].concat());
    assert_eq!(
        (&found["requests"], &found["unanswered"]),
        (&20.into(), &20.into()),
        "{found}"
    );
    let longest = found["latency"]["max_us"].as_f64();
    assert!(longest.is_some_and(|us| us >= 290_000.0), "{found}");
}

#[test]
fn calls_may_be_posts() {
    let server = Server::start("tokio", &["--mixed", ANY, "--post-us", "3000"]);
    let target = server.address("mixed").to_string();
    let times = ["--seconds", "0.3", "--drain", "20"];
    let args = ["calls", &target, "--post", "--rate", "20"];
    let found = load(&[&args[..], &times].concat());
    assert_eq!(
        (&found["requests"], &found["unanswered"]),
        (&6.into(), &0.into()),
        "{found}"
    );
    let p50 = found["latency"]["p50_us"].as_f64();
    assert!(p50 > Some(1_000.0), "{found}");
}

#[test]
fn of_mixed_calls_silence_counts_over_any_connection() {
    let silent = TcpListener::bind(ANY).expect("a port is free");
    let target = silent.local_addr().expect("bound").to_string();
    for over in ["fresh", "kept", "shared", "h2"] {
        let args = ["mixed", &target, "--over", over, "--rate", "100"];
        let times = ["--warmup", "0", "--seconds", "0.2", "--drain", "0.1"];
        let found = load(&[&args[..], &times].concat());
        for (whose, requests) in [("innocents", 15), ("hogs", 5)] {
            let found = &found[whose];
            assert_eq!(found["requests"], requests, "{over}: {found}");
            assert_eq!(found["unanswered"], requests, "{over}: {found}");
        }
        let longest = found["hogs"]["latency"]["max_us"].as_f64();
        assert!(longest >= Some(290_000.0), "{over}: {found}");
    }
}

#[test]
fn mixed_calls_that_nobody_takes_are_an_error_or_lost() {
    let gone = TcpListener::bind(ANY)
        .expect("a port is free")
        .local_addr()
        .expect("bound");
    for over in ["kept", "shared", "h2"] {
        let output = common::lab()
            .args(["load", "mixed", &gone.to_string(), "--over", over])
            .output();
        let output = output.expect("the lab starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{over}");
        assert!(words.contains("cannot connect to"), "{over}: {words}");
    }
    let args = ["load", "mixed", "127.0.0.1:1", "--hogs-at", "127.0.0.1:2"];
    let output = common::lab().args(args).args(["--over", "shared"]).output();
    let words = String::from_utf8_lossy(&output.expect("the lab starts").stderr).into_owned();
    assert!(words.contains("leave --hogs-at out"), "{words}");
    let times = ["--seconds", "0.1", "--drain", "0"];
    let args = ["mixed", &gone.to_string(), "--over", "fresh"];
    let found = load(&[&args[..], &times].concat());
    let lost = found["innocents"]["connections_lost"].as_u64();
    assert!(lost.is_some_and(|calls| calls > 0), "{found}");
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let gone = TcpListener::bind(ANY)
        .expect("a port is free")
        .local_addr()
        .expect("bound");
    for generator in ["echo", "stream", "http", "request", "mix"] {
        let output = common::lab()
            .args(["load", generator, &gone.to_string()])
            .output();
        let output = output.expect("the lab starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{generator}");
        assert!(
            words.contains(&format!("cannot connect to {gone}")),
            "{generator}: {words}"
        );
    }
}
