//! The load generators against a server that is known to work. Nothing here asserts a time.

mod common;

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};

use common::{ANY, Server, complaint, first_line, get, has, load, number};

/// Listens, accepts by the kernel's queue, and never answers.
fn silent() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(ANY).expect("a port is free");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// Where nobody listens.
fn gone() -> SocketAddr {
    silent().1
}

#[test]
fn echo_answers_every_request() {
    let server = Server::start("tokio", "--echo ANY");
    let target = server.address("echo");
    let times = "--seconds 0.4 --warmup 0.1 --drain 20";
    let found = load(&format!("echo {target} --rate 500 --connections 3 {times}"));
    has(
        &found,
        [
            ("requests", 200),
            ("unanswered", 0),
            ("connections_lost", 0),
        ],
    );
    let latency = |name: &str| found["latency"][name].as_f64().expect("a number");
    assert!(0.0 < latency("p50_us"), "{found}");
    assert!(latency("p50_us") <= latency("p99_us") && latency("p99_us") <= latency("max_us"));
}

#[test]
fn echo_counts_silence_as_unanswered() {
    let (_silent, target) = silent();
    let times = "--seconds 0.2 --warmup 0 --drain 0.1";
    let found = load(&format!("echo {target} --rate 200 {times}"));
    has(&found, [("requests", 40), ("unanswered", 40)]);
    // The first request waited until the end: at least as long as the schedule and the drain.
    assert!(
        found["latency"]["max_us"].as_f64() >= Some(295_000.0),
        "{found}"
    );
}

#[test]
fn echo_notices_a_connection_that_breaks() {
    let (rude, target) = silent();
    let hangs_up = std::thread::spawn(move || {
        let (mut stream, _) = rude.accept().expect("a connection");
        stream.read_exact(&mut [0; 16])
    });
    let found = load(&format!("echo {target} --seconds 0.2 --warmup 0"));
    hangs_up.join().expect("no panic").expect("a request came");
    has(&found, [("connections_lost", 1)]);
    assert_eq!(found["requests"], found["unanswered"]);
}

#[test]
fn stream_delivers_what_is_due() {
    let server = Server::start("tokio", "--sink ANY");
    let target = server.address("sink");
    let rate = "--connections 20 --mbit 0.8 --writes-per-s 50";
    let found = load(&format!("stream {target} {rate} --seconds 0.5"));
    // 0.8 Mbit/s in 50 writes a second are 2000 bytes a write.
    let writes = number(&found["writes"]);
    assert!((1..=500).contains(&writes), "{found}");
    has(
        &found,
        [
            ("bytes_due", writes * 2_000),
            ("bytes_sent", writes * 2_000),
        ],
    );
    has(&found, [("connections_lost", 0)]);
}

#[test]
fn stream_reports_a_server_that_does_not_keep_up() {
    // It never reads: the sockets fill up.
    let (_silent, target) = silent();
    let rate = "--connections 1 --mbit 4000 --writes-per-s 100";
    let found = load(&format!("stream {target} {rate} --seconds 0.3"));
    assert!(
        number(&found["bytes_sent"]) < number(&found["bytes_due"]),
        "{found}"
    );
    assert!(number(&found["writes_behind"]) > 0, "{found}");
}

#[test]
fn http_counts_what_fails() {
    let server = Server::start("tokio", "--http ANY");
    let target = server.address("http");
    let args = "--requests 20 --concurrency 3 --path /elsewhere";
    let found = load(&format!("http {target} {args}"));
    has(&found, [("requests", 0), ("failed", 20)]);
    assert_eq!(found["failure"], "the answer is 404, not 200");
}

#[test]
fn http_gives_up_on_silence() {
    let (_silent, target) = silent();
    let found = load(&format!("http {target} --requests 2 --patience 0.1"));
    has(&found, [("requests", 0), ("failed", 2)]);
}

/// A load generator that answers, and where it listens; killed when dropped.
struct Answerer(Child, SocketAddr);

impl Answerer {
    fn start(name: &str) -> Self {
        let mut child = common::lab();
        let child = child.args(["load", name]).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the lab starts");
        let line = first_line(&mut child);
        let (said, address) = line.split_once(' ').expect("NAME ADDR");
        assert_eq!(said, name);
        Answerer(child, address.parse().expect("an address"))
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn request_and_respond_are_a_pair() {
    let Answerer(_, target) = &Answerer::start("respond");
    let found = load(&format!("request {target} --connections 3 --seconds 0.2"));
    assert!(number(&found["requests"]) > 0, "{found}");
    has(&found, [("failed", 0)]);
}

#[test]
fn an_origin_has_large_objects_and_empty_ones() {
    let Answerer(_, target) = &Answerer::start("origin");
    let (head, body) = get(*target, "/large");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body.len(), 1_000_000);
    assert_eq!(get(*target, "/").1, "");
    let found = load(&format!("http {target} --requests 200 --keep-alive"));
    has(&found, [("requests", 200), ("failed", 0)]);
}

#[test]
fn a_mix_counts_objects_of_both_kinds() {
    let Answerer(_, origin) = &Answerer::start("origin");
    // Through a relay, as the experiment has it.
    let relay = Server::start("tokio", &format!("--relay ANY={origin}"));
    let target = relay.address("relay");
    let found = load(&format!("mix {target} --large 4 --empty 2 --seconds 0.5"));
    let [empty, bytes, objects] = ["empty", "bytes", "large"].map(|name| number(&found[name]));
    assert!(empty > 0 && objects > 0, "{found}");
    has(&found, [("failed", 0)]);
    // Of the four that were under way at either end of the time, a part may have been counted.
    let least = objects.saturating_sub(4) * 1_000_000;
    assert!(least <= bytes, "{found}");
    // Heads are counted, too.
    assert!(bytes <= (objects + 4) * 1_001_000, "{found}");
    has(
        &load(&format!("mix {target} --empty 0 --seconds 0.2")),
        [("empty", 0)],
    );
}

#[test]
fn calls_have_connections_of_their_own_and_silence_counts() {
    let server = Server::start("tokio", "--admin ANY");
    let target = server.address("admin");
    let found = load(&format!(
        "calls {target} --rate 100 --seconds 0.3 --drain 20"
    ));
    has(&found, [("requests", 30), ("unanswered", 0)]);
    let (_silent, target) = silent();
    let times = "--warmup 0 --seconds 0.2 --drain 0.1";
    let found = load(&format!("calls {target} --rate 100 {times}"));
    has(&found, [("requests", 20), ("unanswered", 20)]);
    assert!(
        found["latency"]["max_us"].as_f64() >= Some(290_000.0),
        "{found}"
    );
}

#[test]
fn calls_may_be_posts() {
    let server = Server::start("tokio", "--mixed ANY --post-us 3000");
    let target = server.address("mixed");
    let found = load(&format!(
        "calls {target} --post --rate 20 --seconds 0.3 --drain 20"
    ));
    has(&found, [("requests", 6), ("unanswered", 0)]);
    assert!(
        found["latency"]["p50_us"].as_f64() > Some(1_000.0),
        "{found}"
    );
}

#[test]
fn of_mixed_calls_silence_counts_over_any_connection() {
    let (_silent, target) = silent();
    for over in ["fresh", "kept", "shared", "h2"] {
        let times = "--warmup 0 --seconds 0.2 --drain 0.1";
        let found = load(&format!("mixed {target} --over {over} --rate 100 {times}"));
        has(&found["innocents"], [("requests", 15), ("unanswered", 15)]);
        has(&found["hogs"], [("requests", 5), ("unanswered", 5)]);
        let longest = found["hogs"]["latency"]["max_us"].as_f64();
        assert!(longest >= Some(290_000.0), "{over}: {found}");
    }
}

#[test]
fn mixed_calls_that_nobody_takes_are_an_error_or_lost() {
    let gone = gone();
    for over in ["kept", "shared", "h2"] {
        let words = complaint(&format!("load mixed {gone} --over {over}"));
        assert!(words.contains("cannot connect to"), "{over}: {words}");
    }
    let words = complaint("load mixed 127.0.0.1:1 --hogs-at 127.0.0.1:2 --over shared");
    assert!(words.contains("leave --hogs-at out"), "{words}");
    let found = load(&format!(
        "mixed {gone} --over fresh --seconds 0.1 --drain 0"
    ));
    assert!(
        number(&found["innocents"]["connections_lost"]) > 0,
        "{found}"
    );
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let gone = gone();
    for generator in ["echo", "stream", "http", "request", "mix"] {
        let words = complaint(&format!("load {generator} {gone}"));
        let expected = format!("cannot connect to {gone}");
        assert!(words.contains(&expected), "{generator}: {words}");
    }
}
