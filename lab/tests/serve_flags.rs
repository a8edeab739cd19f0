//! Every flag of `serve`, on each runtime: one suite, instantiated for both.

#[macro_use]
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};

use common::{
    ANY, Server, complaint, connect, echoes, eventually, get, get_json, hangs_up, has, load,
    number, rest,
};
use serde_json::Value;

/// So much that no buffer on the way holds it at once.
fn much() -> Vec<u8> {
    (0..3_000_000_u32).map(|n| (n % 251) as u8).collect()
}

/// Writes much, then ends that direction; whether the same comes back, and then the end.
fn carries_much(mut stream: TcpStream) -> bool {
    let mut reader = stream.try_clone().expect("a socket can be cloned");
    let back = std::thread::spawn(move || {
        let mut back = Vec::new();
        reader.read_to_end(&mut back).map(|_| back)
    });
    stream.write_all(&much()).expect("the server reads");
    let ended = stream.shutdown(Shutdown::Write);
    ended.expect("half a connection can be closed");
    back.join().expect("no panic").expect("all comes back") == much()
}

fn echo_gives_back_what_it_is_sent(runtime: &str) {
    let server = Server::start(runtime, "--echo ANY");
    let mut streams: Vec<_> = (0..20).map(|_| server.connect("echo")).collect();
    for round in 0..3 {
        for (index, stream) in streams.iter_mut().enumerate() {
            let words = format!("connection {index}, round {round}");
            assert!(echoes(stream, words.as_bytes()));
        }
    }
    assert!(carries_much(server.connect("echo")));
}

fn sink_takes_all_and_api_sees_it(runtime: &str) {
    let server = Server::start(runtime, "--sink ANY --work-us 1 --api ANY --api-us 300000");
    let mut stream = server.connect("sink");
    let sender = std::thread::spawn(move || {
        // Goes on until the server, and with it the connection, is gone.
        while stream.write_all(&[7; 10_000]).is_ok() {}
    });
    let parsed = get_json(server.address("api"), "/parse");
    has(&parsed, [("work_us", 300_000)]);
    assert!(number(&parsed["took_us"]) > 0, "{parsed}");
    assert!(parsed["deliveries_per_s"].as_f64() > Some(0.0), "{parsed}");
    assert!(
        parsed["bytes_per_delivery"].as_f64() >= Some(1.0),
        "{parsed}"
    );
    drop(server);
    sender.join().expect("no panic");
}

fn http_answers_over_connections_kept_and_closed(runtime: &str) {
    let server = Server::start(runtime, "--http ANY");
    let target = server.address("http");
    let (head, body) = get(target, "/");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "on an even keel\n");
    let (head, _) = get(target, "/elsewhere");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    for more in ["", "--keep-alive"] {
        let found = load(&format!(
            "http {target} --requests 300 --concurrency 7 {more}"
        ));
        has(&found, [("requests", 300), ("failed", 0)]);
    }
}

fn stats_are_json_that_grows(runtime: &str) {
    let server = Server::start(runtime, "--api ANY --api-us 20000");
    let api = server.address("api");
    let before = get_json(api, "/stats");
    get_json(api, "/parse");
    let after = get_json(api, "/stats");
    assert_eq!(before["runtime"], runtime);
    let run_us = |stats: &Value| -> u64 {
        let workers = stats["workers"].as_array().expect("workers");
        assert_eq!(workers.len(), 2);
        workers.iter().map(|worker| number(&worker["run_us"])).sum()
    };
    assert!(run_us(&after) > run_us(&before), "{before} then {after}");
    assert!(after["wall_us"].as_u64() > before["wall_us"].as_u64());
}

fn stats_come_at_intervals(runtime: &str) {
    let server = Server::start(runtime, "--echo ANY --stats-every 1");
    for _ in 0..2 {
        let line = server.lines.recv_timeout(common::PATIENCE);
        let line = line.expect("a line each second");
        let stats = line.strip_prefix("stats ").expect("`stats JSON`");
        let stats: Value = serde_json::from_str(stats).expect("JSON");
        assert_eq!(stats["runtime"], runtime);
    }
}

fn proxy_carries_both_ways_and_closes(runtime: &str) {
    let target = Server::start(runtime, "--echo ANY");
    let route = format!("--proxy ANY={}", target.address("echo"));
    let proxy = Server::start(runtime, &route);
    let mut stream = proxy.connect("proxy");
    assert!(echoes(&mut stream, b"there and back"));
    // The end of one direction passes through, while the other still carries.
    stream.write_all(b"last words").expect("the proxy reads");
    let ended = stream.shutdown(Shutdown::Write);
    ended.expect("half a connection can be closed");
    assert_eq!(rest(&mut stream), "last words");
    // A target that is gone closes the connection, and not the proxy.
    drop(target);
    assert!(hangs_up(&mut connect(proxy.address("proxy"))));
}

fn relay_passes_bytes_unchanged_in_whatever_class(runtime: &str) {
    let target = Server::start(runtime, "--echo ANY");
    let route = format!("--relay ANY={}", target.address("echo"));
    let classes = "--bulk-class bulk --relay-class normal";
    let relay = Server::start(runtime, &format!("{route} {classes}"));
    assert!(echoes(&mut relay.connect("relay"), b"a few bytes"));
    // More than makes a connection bulk; the end of one direction is passed on while the other
    // still carries.
    assert!(carries_much(relay.connect("relay")));
    // A target that is gone closes the connection, and not the relay.
    drop(target);
    for _ in 0..2 {
        assert!(hangs_up(&mut connect(relay.address("relay"))));
    }
}

fn admin_says_how_the_server_is(runtime: &str) {
    let server = Server::start(runtime, "--admin ANY --admin-class urgent");
    let (head, body) = get(server.address("admin"), "/");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body.starts_with(&format!("{runtime} up ")), "{body}");
    let (head, _) = get(server.address("admin"), "/x");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}

fn hogs_that_yield_let_others_run(runtime: &str) {
    for yields in ["runtime", "wake"] {
        let flags = format!("--echo ANY --hogs 4 --hog-poll-us 200 --hog-yield {yields}");
        let server = Server::start(runtime, &flags);
        assert!(echoes(&mut server.connect("echo"), b"still here"));
    }
}

fn hogs_that_never_yield_do_not_keep_it_alive(runtime: &str) {
    let server = Server::start(runtime, "--hogs 2 --hog-poll-us never --exit-with-parent");
    let (status, words) = server.leave();
    assert!(status.success(), "{status}: {words}");
}

fn calls_that_compute_are_answered_beside_others(runtime: &str) {
    let services = "--mixed ANY --apart ANY --mixed-h2 ANY --apart-h2 ANY";
    let server = Server::start(runtime, &format!("{services} --post-us 2000"));
    let (head, body) = get(server.address("mixed"), "/");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "at once\n");
    assert!(get(server.address("apart"), "/x").0.contains(" 404 "));
    for (over, shared, own) in [
        ("fresh", "mixed", "apart"),
        ("kept", "mixed", "apart"),
        ("shared", "mixed", "mixed"),
        ("h2", "mixed-h2", "apart-h2"),
    ] {
        for hogs_at in [shared, own] {
            let (target, hogs_at) = (server.address(shared), server.address(hogs_at));
            let args = format!("mixed {target} --hogs-at {hogs_at} --over {over}");
            let found = load(&format!("{args} --warmup 0 --seconds 0.2 --drain 20"));
            has(&found["innocents"], [("requests", 30), ("unanswered", 0)]);
            has(&found["hogs"], [("requests", 10), ("unanswered", 0)]);
            // No POST is answered before its computing is done.
            let fastest = found["hogs"]["latency"]["curve"][0][1].as_f64();
            assert!(fastest > Some(500.0), "{over}: {found}");
        }
    }
}

/// The line of JSON that a plain thread of the server answers with.
fn told(server: &Server, service: &str) -> Value {
    serde_json::from_str(&rest(&mut server.connect(service))).expect("JSON")
}

fn fresh_tasks_say_how_long_they_waited(runtime: &str) {
    for apart in ["", "--fresh-apart"] {
        let flags = format!("--fresh 1000 --fresh-hog-us 500 --waits ANY {apart}");
        let server = Server::start(runtime, &flags);
        let ran = |kind: &str| {
            let told = told(&server, "waits");
            let tasks = told["tasks"].as_array().expect("tasks").iter();
            let ran = tasks.filter(|task| task[0] == kind && !task[3].is_null());
            let in_order = |task: &Value| {
                let [due, spawned, ran] = [1, 2, 3].map(|place| number(&task[place]));
                assert!(due <= spawned && spawned <= ran, "{task}");
            };
            ran.inspect(|task| in_order(task)).count()
        };
        for kind in ["hog", "innocent", "urgent"] {
            eventually("fresh tasks run", || ran(kind) >= 20);
        }
    }
}

fn tasks_that_block_begin_at_a_connection(runtime: &str) {
    let flags = "--echo ANY --block ANY --block-tasks 3 --block-us 1000";
    let server = Server::start(runtime, flags);
    for _ in 0..3 {
        assert_eq!(rest(&mut server.connect("block")), "!");
        assert!(echoes(&mut server.connect("echo"), b"after all"));
    }
}

/// What the hogs of `server` have computed so far, in microseconds.
fn work_us(server: &Server) -> u64 {
    let work = told(server, "work");
    number(&work["at_us"]);
    number(&work["work_us"])
}

fn work_is_counted_as_it_goes(runtime: &str) {
    for poll in ["200", "never"] {
        let flags = format!("--work ANY --hogs 3 --hog-poll-us {poll}");
        let server = Server::start(runtime, &flags);
        let enough = work_us(&server) + 20_000;
        eventually("the hogs' work grows", || work_us(&server) > enough);
    }
}

fn burning_goes_on(runtime: &str) {
    let server = Server::start(runtime, "--work ANY --burn 100:3000");
    // More than any one of the fresh tasks computes, in whole ones.
    eventually("fresh tasks compute", || work_us(&server) >= 30_000);
    let other = Server::start(runtime, "--echo ANY --burn 50:1000");
    assert!(echoes(&mut other.connect("echo"), b"beside the burners"));
}

/// What is said on standard error by a server that echoes under further `flags`.
fn words_beside_an_echo(runtime: &str, flags: &str) -> String {
    let server = Server::start(runtime, &format!("--echo ANY --exit-with-parent {flags}"));
    assert!(
        echoes(&mut server.connect("echo"), b"all the same"),
        "{flags}"
    );
    server.leave().1
}

fn classes_are_taken_or_ignored_in_one_line(runtime: &str) {
    let services = "--echo-class urgent --sink ANY --sink-class bulk --api ANY --api-class normal";
    let hogs = "--hogs 1 --hog-poll-us 200 --hog-class bulk";
    let shares = "--shares urgent=16,normal=33,bulk=50";
    let words = words_beside_an_echo(runtime, &format!("{services} {hogs} {shares}"));
    let ignored = words.matches("has no classes").count();
    assert_eq!(ignored, usize::from(runtime == "tokio"), "{words}");
}

fn what_tokio_has_not_is_taken_or_warned_of(runtime: &str) {
    for (flags, warning) in [
        ("--handoff-us 2000", "tokio leaves a worker"),
        ("--handoff-us off", "tokio leaves a worker"),
        ("--io-check-us 500", "--io-check-us is ignored"),
        ("--io-check-events 64", "--io-check-events is ignored"),
        ("--busy-wait very_short", "no busy wait"),
        ("--busy-wait short", "no busy wait"),
        ("--busy-wait medium", "no busy wait"),
        ("--busy-wait long", "no busy wait"),
        ("--busy-wait very_long", "no busy wait"),
        ("--busy-wait adaptive", "no busy wait"),
    ] {
        let words = words_beside_an_echo(runtime, flags);
        assert_eq!(
            words.contains(warning),
            runtime == "tokio",
            "{flags}: {words}"
        );
    }
    let words = words_beside_an_echo(runtime, "--busy-wait none");
    assert!(!words.contains("no busy wait"), "{words}");
}

/// It serves or says why not, as the system allows it or not.
fn real_time_is_taken_refused_or_warned_of(runtime: &str) {
    let mut lab = common::lab();
    lab.args(["serve", runtime, "--echo", ANY, "--real-time-workers"]);
    lab.arg("--exit-with-parent").stdin(Stdio::piped());
    let lab = lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut lab = lab.expect("the lab starts");
    let stdout = BufReader::new(lab.stdout.take().expect("piped"));
    let mut lines = stdout.lines().map_while(Result::ok);
    let served = lines.any(|line| line == "ready");
    // With its standard input closed, it ends.
    let output = lab.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_ne!(served, words.contains("ulimit -r 2"), "{words}");
    let ignored = words.contains("tokio gives its workers no priority");
    assert_eq!(ignored, runtime == "tokio", "{words}");
}

fn every_service_is_said_with_its_port(runtime: &str) {
    let flags = "--echo ANY --sink ANY --http ANY --api ANY --work ANY --proxy ANY=127.0.0.1:9";
    let server = Server::start(runtime, flags);
    let services = server.services();
    assert_eq!(services, ["api", "echo", "http", "proxy", "sink", "work"]);
    assert!(
        services
            .iter()
            .all(|service| server.address(service).port() != 0)
    );
}

fn a_port_that_is_taken_is_an_error(runtime: &str) {
    let server = Server::start(runtime, "--echo ANY");
    let taken = server.address("echo");
    let words = complaint(&format!("serve {runtime} --http {taken}"));
    let expected = format!("cannot listen on {taken} for --http");
    assert!(words.contains(&expected), "{words}");
}

fn signals_end_it(runtime: &str) {
    for signal in ["-TERM", "-INT"] {
        let server = Server::start(runtime, "--echo ANY --hogs 2");
        let pid = server.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        let (status, words) = server.wait();
        assert!(status.success(), "{signal}: {status}: {words}");
    }
}

suite! {
    echo_gives_back_what_it_is_sent,
    sink_takes_all_and_api_sees_it,
    http_answers_over_connections_kept_and_closed,
    stats_are_json_that_grows,
    stats_come_at_intervals,
    proxy_carries_both_ways_and_closes,
    relay_passes_bytes_unchanged_in_whatever_class,
    admin_says_how_the_server_is,
    hogs_that_yield_let_others_run,
    hogs_that_never_yield_do_not_keep_it_alive,
    work_is_counted_as_it_goes,
    burning_goes_on,
    calls_that_compute_are_answered_beside_others,
    fresh_tasks_say_how_long_they_waited,
    tasks_that_block_begin_at_a_connection,
    classes_are_taken_or_ignored_in_one_line,
    what_tokio_has_not_is_taken_or_warned_of,
    real_time_is_taken_refused_or_warned_of,
    every_service_is_said_with_its_port,
    a_port_that_is_taken_is_an_error,
    signals_end_it,
}

#[test]
fn a_lone_thread_echoes_beside_spinning_ones() {
    let flags = "--echo ANY --hogs 2 --hog-poll-us never --exit-with-parent";
    let server = Server::start("os-thread", flags);
    assert!(echoes(&mut server.connect("echo"), b"alone"));
    assert!(server.leave().0.success());
}

#[test]
fn a_lone_thread_counts_hogs_and_burners() {
    for load in ["--hogs 2", "--burn 100:2000"] {
        let server = Server::start("os-thread", &format!("--echo ANY --work ANY {load}"));
        eventually("threads compute", || work_us(&server) >= 20_000);
        assert!(echoes(&mut server.connect("echo"), b"alone"));
    }
}

#[test]
fn what_cannot_be_served_is_said_clearly() {
    for (args, complaint) in [
        ("tokio", "nothing to serve: give at least one of --echo"),
        ("os-thread --http ANY", "has no --http"),
        ("os-thread --block ANY", "has no --block"),
        ("tokio --fresh 100", "--waits <ADDR>"),
        (
            "tokio --echo here",
            "invalid value 'here' for '--echo <ADDR>'",
        ),
        ("tokio --echo ANY --work-us 5", "--sink <ADDR>"),
        ("tokio --proxy 1=2", "LISTEN `1` is not an IP:PORT"),
        (
            "os-thread --echo ANY --echo-class urgent",
            "has no --echo-class",
        ),
        (
            "tokio --hogs 1 --hog-class reports",
            "--hog-class names `reports`, which is no class",
        ),
        (
            "tokio --hogs 1 --shares urgent=0",
            "the share of `urgent` is not a number from 1 to 10000",
        ),
        ("tokio --burn 50", "not of the form RATE:US"),
        ("tokio --hogs 1 --handoff-us soon", "nor `off`"),
    ] {
        // What is taken after all fails when patience is over, and ends with its standard input.
        let mut lab = common::lab();
        lab.arg("serve").args(common::words(args));
        lab.arg("--exit-with-parent").stdin(Stdio::piped());
        let child = lab.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the lab starts");
        let _open = child.stdin.take();
        let status = common::wait(&mut child);
        let mut words = String::new();
        let mut stderr = child.stderr.take().expect("piped");
        stderr.read_to_string(&mut words).expect("text");
        assert!(!status.success(), "{args}");
        assert!(words.contains(complaint), "{args}: {words}");
    }
}

#[test]
fn a_parent_that_is_killed_takes_its_server_along() {
    // The shell starts a server and is killed outright, while standard input stays open here. It
    // waits by itself, without a child that would outlive it.
    let script = format!(
        "exec 3<&0; '{}' serve tokio --echo {ANY} --hogs 1 --exit-with-parent <&3 >/dev/null & \
         echo $!; read forever",
        env!("CARGO_BIN_EXE_evenkeel-lab")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut shell = shell.expect("a shell starts");
    let server: u32 = common::first_line(&mut shell).parse().expect("a number");
    eventually("the server spins", || {
        let stat = std::fs::read_to_string(format!("/proc/{server}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split(' ').nth(12);
        ticks.is_some_and(|ticks| ticks.parse().is_ok_and(|ticks: u64| ticks > 2))
    });
    shell.kill().expect("the shell lives");
    shell.wait().expect("the shell ends");
    eventually("the server goes with its parent", || {
        common::is_gone(server)
    });
}

#[test]
fn evenkeel_has_an_admin_page() {
    let server = Server::start("evenkeel", "--echo ANY --admin-page ANY");
    assert!(echoes(&mut server.connect("echo"), b"counted"));
    let page = server.address("admin-page");
    let stats = get_json(page, "/stats");
    assert!(number(&stats["delivery"]["bytes"]) >= 7, "{stats}");
}
