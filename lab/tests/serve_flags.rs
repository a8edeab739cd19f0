//! Every flag of `serve`, on each runtime: one suite, instantiated for both.

#[macro_use]
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use common::{Server, connect, echoes, eventually, get, get_json};

const ANY: &str = "127.0.0.1:0";

fn echo_gives_back_what_it_is_sent(runtime: &str) {
    let server = Server::start(runtime, &["--echo", ANY]);
    let mut streams: Vec<_> = (0..20).map(|_| server.connect("echo")).collect();
    for round in 0..3 {
        for (index, stream) in streams.iter_mut().enumerate() {
            let words = format!("connection {index}, round {round}");
            assert!(echoes(stream, words.as_bytes()));
        }
    }
    // More than any buffer on the way holds at once.
    let mut stream = server.connect("echo");
    let mut reader = stream.try_clone().expect("a socket can be cloned");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    let back = std::thread::spawn(move || {
        let mut back = vec![0; 3_000_000];
        reader.read_exact(&mut back).map(|()| back)
    });
    stream.write_all(&sent).expect("the server reads");
    assert!(back.join().expect("no panic").expect("all comes back") == sent);
}

fn sink_takes_all_and_api_sees_it(runtime: &str) {
    let flags = [
        "--sink",
        ANY,
        "--work-us",
        "1",
        "--api",
        ANY,
        "--api-us",
        "300000",
    ];
    let server = Server::start(runtime, &flags);
    let mut stream = server.connect("sink");
    let sender = std::thread::spawn(move || {
        // Goes on until the server, and with it the connection, is gone.
        while stream.write_all(&[7; 10_000]).is_ok() {}
    });
    let parsed = get_json(server.address("api"), "/parse");
    assert_eq!(parsed["work_us"], 300_000);
    assert!(
        parsed["took_us"].as_u64().is_some_and(|us| us > 0),
        "{parsed}"
    );
    assert!(
        parsed["deliveries_per_s"].as_f64().is_some_and(|n| n > 0.0),
        "{parsed}"
    );
    assert!(
        parsed["bytes_per_delivery"]
            .as_f64()
            .is_some_and(|n| n >= 1.0),
        "{parsed}"
    );
    drop(server);
    sender.join().expect("no panic");
}

fn http_answers_over_connections_kept_and_closed(runtime: &str) {
    let server = Server::start(runtime, &["--http", ANY]);
    let (head, body) = get(server.address("http"), "/");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "on an even keel\n");
    let (head, _) = get(server.address("http"), "/elsewhere");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    let target = server.address("http").to_string();
    for more in [&[][..], &["--keep-alive"]] {
        let args = [
            &["http", &target, "--requests", "300", "--concurrency", "7"][..],
            more,
        ];
        let found = common::load(&args.concat());
        assert_eq!(
            (&found["requests"], &found["failed"]),
            (&300.into(), &0.into()),
            "{found}"
        );
    }
}

fn stats_are_json_that_grows(runtime: &str) {
    let server = Server::start(runtime, &["--api", ANY, "--api-us", "20000"]);
    let api = server.address("api");
    let before = get_json(api, "/stats");
    get_json(api, "/parse");
    let after = get_json(api, "/stats");
    assert_eq!(before["runtime"], runtime);
    let run_us = |stats: &serde_json::Value| -> u64 {
        let workers = stats["workers"].as_array().expect("workers");
        assert_eq!(workers.len(), 2);
        workers
            .iter()
            .map(|worker| worker["run_us"].as_u64().expect("a number"))
            .sum()
    };
    assert!(run_us(&after) > run_us(&before), "{before} then {after}");
    assert!(after["wall_us"].as_u64() > before["wall_us"].as_u64());
}

fn stats_come_at_intervals(runtime: &str) {
    let server = Server::start(runtime, &["--echo", ANY, "--stats-every", "1"]);
    for _ in 0..2 {
        let line = server
            .lines
            .recv_timeout(common::PATIENCE)
            .expect("a line each second");
        let stats = line.strip_prefix("stats ").expect("`stats JSON`");
        let stats: serde_json::Value = serde_json::from_str(stats).expect("JSON");
        assert_eq!(stats["runtime"], runtime);
    }
}

fn proxy_carries_both_ways_and_closes(runtime: &str) {
    let target = Server::start(runtime, &["--echo", ANY]);
    let route = format!("{ANY}={}", target.address("echo"));
    let proxy = Server::start(runtime, &["--proxy", &route]);
    let mut stream = proxy.connect("proxy");
    assert!(echoes(&mut stream, b"there and back"));
    // The end of one direction passes through, while the other still carries.
    stream.write_all(b"last words").expect("the proxy reads");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("half a connection can be closed");
    let mut rest = String::new();
    stream
        .read_to_string(&mut rest)
        .expect("the proxy closes after the last bytes");
    assert_eq!(rest, "last words");
    // A target that is gone closes the connection, and not the proxy.
    drop(target);
    let mut refused = connect(proxy.address("proxy"));
    assert!(matches!(refused.read(&mut [0; 1]), Ok(0) | Err(_)));
}

fn relay_passes_bytes_unchanged_in_whatever_class(runtime: &str) {
    let target = Server::start(runtime, &["--echo", ANY]);
    let route = format!("{ANY}={}", target.address("echo"));
    let flags = [
        "--relay",
        &route,
        "--bulk-class",
        "bulk",
        "--relay-class",
        "normal",
    ];
    let relay = Server::start(runtime, &flags);
    assert!(echoes(&mut relay.connect("relay"), b"a few bytes"));
    // More than makes a connection bulk, and more than any buffer on the way holds; the end of one
    // direction is passed on while the other still carries.
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut stream = relay.connect("relay");
    let mut reader = stream.try_clone().expect("a socket can be cloned");
    let back = std::thread::spawn(move || {
        let mut back = Vec::new();
        reader.read_to_end(&mut back).map(|_| back)
    });
    stream.write_all(&sent).expect("the relay reads");
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("half a connection can be closed");
    assert!(
        back.join()
            .expect("no panic")
            .expect("all comes back, then the end")
            == sent
    );
    // A target that is gone closes the connection, and not the relay.
    drop(target);
    for _ in 0..2 {
        let mut refused = connect(relay.address("relay"));
        assert!(matches!(refused.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
}

fn admin_says_how_the_server_is(runtime: &str) {
    let flags = ["--admin", ANY, "--admin-class", "urgent"];
    let server = Server::start(runtime, &flags);
    let (head, body) = get(server.address("admin"), "/");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body.starts_with(&format!("{runtime} up ")), "{body}");
    assert!(
        get(server.address("admin"), "/x")
            .0
            .starts_with("HTTP/1.1 404 ")
    );
}

fn hogs_that_yield_let_others_run(runtime: &str) {
    for yields in ["runtime", "wake"] {
        let flags = ["--hogs", "4", "--hog-poll-us", "200", "--hog-yield", yields];
        let server = Server::start(runtime, &[&["--echo", ANY], &flags[..]].concat());
        assert!(echoes(&mut server.connect("echo"), b"still here"));
    }
}

fn hogs_that_never_yield_do_not_keep_it_alive(runtime: &str) {
    let hogs = [
        "--hogs",
        "2",
        "--hog-poll-us",
        "never",
        "--exit-with-parent",
    ];
    let mut server = Server::start(runtime, &hogs);
    drop(server.stdin.take());
    let (status, words) = server.wait();
    assert!(status.success(), "{status}: {words}");
}

fn calls_that_compute_are_answered_beside_others(runtime: &str) {
    let names = ["mixed", "apart", "mixed-h2", "apart-h2"];
    let services = names.map(|name| [format!("--{name}"), ANY.to_owned()]);
    let mut flags: Vec<&str> = services.iter().flatten().map(String::as_str).collect();
    flags.extend(["--post-us", "2000"]);
    let server = Server::start(runtime, &flags);
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
        let target = server.address(shared).to_string();
        for hogs_at in [shared, own] {
            let hogs_at = server.address(hogs_at).to_string();
            let args = ["mixed", &target, "--hogs-at", &hogs_at, "--over", over];
            let times = ["--warmup", "0", "--seconds", "0.2", "--drain", "20"];
            let found = common::load(&[&args[..], &times].concat());
            for (whose, requests) in [("innocents", 30), ("hogs", 10)] {
                let found = &found[whose];
                assert_eq!(found["requests"], requests, "{over}: {found}");
                assert_eq!(found["unanswered"], 0, "{over}: {found}");
            }
            // No POST is answered before its computing is done.
            let fastest = found["hogs"]["latency"]["curve"][0][1].as_f64();
            assert!(fastest > Some(500.0), "{over}: {found}");
        }
    }
}

fn fresh_tasks_say_how_long_they_waited(runtime: &str) {
    for apart in [&[][..], &["--fresh-apart"]] {
        let flags = ["--fresh", "1000", "--fresh-hog-us", "500", "--waits", ANY];
        let server = Server::start(runtime, &[&flags[..], apart].concat());
        let waits = || {
            let mut line = String::new();
            let mut stream = server.connect("waits");
            stream.read_to_string(&mut line).expect("a line");
            serde_json::from_str::<serde_json::Value>(&line).expect("JSON")
        };
        let ran = |kind: &str| {
            let told = waits();
            let tasks = told["tasks"].as_array().expect("tasks").iter();
            let ran = tasks.filter(|task| task[0] == kind && !task[3].is_null());
            let mut count = 0;
            for task in ran {
                let at = |place: usize| task[place].as_u64().expect("a moment");
                assert!(at(1) <= at(2) && at(2) <= at(3), "{task}");
                count += 1;
            }
            count
        };
        for kind in ["hog", "innocent", "urgent"] {
            eventually("fresh tasks run", || ran(kind) >= 20);
        }
    }
}

fn tasks_that_block_begin_at_a_connection(runtime: &str) {
    let block = ["--block", ANY, "--block-tasks", "3", "--block-us", "1000"];
    let server = Server::start(runtime, &[&["--echo", ANY], &block[..]].concat());
    for _ in 0..3 {
        let mut said = Vec::new();
        let read = server.connect("block").read_to_end(&mut said);
        assert!(read.is_ok() && said == b"!", "{read:?} {said:?}");
        assert!(echoes(&mut server.connect("echo"), b"after all"));
    }
}

/// What the hogs of `server` have computed so far, in microseconds.
fn work_us(server: &Server) -> u64 {
    let mut line = String::new();
    let mut stream = server.connect("work");
    stream
        .read_to_string(&mut line)
        .expect("a line, then the end");
    let work: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert!(work["at_us"].as_u64().is_some(), "{work}");
    work["work_us"].as_u64().expect("a number")
}

fn work_is_counted_as_it_goes(runtime: &str) {
    for poll in ["200", "never"] {
        let flags = ["--work", ANY, "--hogs", "3", "--hog-poll-us", poll];
        let server = Server::start(runtime, &flags);
        let before = work_us(&server);
        eventually("the hogs' work grows", || {
            work_us(&server) > before + 20_000
        });
    }
}

fn burning_goes_on(runtime: &str) {
    let server = Server::start(runtime, &["--work", ANY, "--burn", "100:3000"]);
    // More than any one of the fresh tasks computes, in whole ones.
    eventually("fresh tasks compute", || work_us(&server) >= 30_000);
    let other = Server::start(runtime, &["--echo", ANY, "--burn", "50:1000"]);
    assert!(echoes(&mut other.connect("echo"), b"beside the burners"));
}

fn classes_are_taken_or_ignored_in_one_line(runtime: &str) {
    let flags = [
        "--echo",
        ANY,
        "--echo-class",
        "urgent",
        "--sink",
        ANY,
        "--sink-class",
        "bulk",
        "--api",
        ANY,
        "--api-class",
        "normal",
        "--hogs",
        "1",
        "--hog-poll-us",
        "200",
        "--hog-class",
        "bulk",
        "--shares",
        "urgent=16,normal=33,bulk=50",
        "--exit-with-parent",
    ];
    let mut server = Server::start(runtime, &flags);
    assert!(echoes(&mut server.connect("echo"), b"in a class"));
    drop(server.stdin.take());
    let words = server.wait().1;
    let ignored = words.matches("has no classes").count();
    assert_eq!(ignored, usize::from(runtime == "tokio"), "{words}");
}

fn hand_off_is_taken_or_warned_of(runtime: &str) {
    for value in ["2000", "off"] {
        let flags = ["--echo", ANY, "--handoff-us", value, "--exit-with-parent"];
        let mut server = Server::start(runtime, &flags);
        assert!(echoes(&mut server.connect("echo"), b"handed on"));
        drop(server.stdin.take());
        let words = server.wait().1;
        let ignored = words.contains("tokio leaves a worker");
        assert_eq!(ignored, runtime == "tokio", "{words}");
    }
}

/// It serves or says why not, as the system allows it or not.
fn real_time_is_taken_refused_or_warned_of(runtime: &str) {
    let mut lab = common::lab();
    lab.args(["serve", runtime, "--echo", ANY, "--real-time-workers"]);
    lab.arg("--exit-with-parent").stdin(Stdio::piped());
    let lab = lab.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut lab = lab.expect("the lab starts");
    let stdout = BufReader::new(lab.stdout.take().expect("piped"));
    let served = stdout
        .lines()
        .map_while(Result::ok)
        .any(|line| line == "ready");
    // With its standard input closed, it ends.
    let output = lab.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_ne!(served, words.contains("ulimit -r 2"), "{words}");
    let ignored = words.contains("tokio gives its workers no priority");
    assert_eq!(ignored, runtime == "tokio", "{words}");
}

fn every_service_is_said_with_its_port(runtime: &str) {
    let route = format!("{ANY}=127.0.0.1:9");
    let server = Server::start(
        runtime,
        &[
            "--echo", ANY, "--sink", ANY, "--http", ANY, "--api", ANY, "--work", ANY, "--proxy",
            &route,
        ],
    );
    assert_eq!(
        server.services(),
        ["api", "echo", "http", "proxy", "sink", "work"]
    );
    assert!(
        server
            .services()
            .iter()
            .all(|service| server.address(service).port() != 0)
    );
}

fn busy_wait_is_taken_or_warned_of(runtime: &str) {
    let warned = |level: &str| {
        let flags = ["--echo", ANY, "--busy-wait", level, "--exit-with-parent"];
        let mut server = Server::start(runtime, &flags);
        assert!(
            echoes(&mut server.connect("echo"), b"at any level"),
            "{level}"
        );
        drop(server.stdin.take());
        server.wait().1.contains("no busy wait")
    };
    assert!(!warned("none"));
    for level in [
        "very_short",
        "short",
        "medium",
        "long",
        "very_long",
        "adaptive",
    ] {
        assert_eq!(warned(level), runtime == "tokio", "{level}");
    }
}

fn io_check_bound_is_taken_or_warned_of(runtime: &str) {
    let flags = ["--echo", ANY, "--io-check-us", "500", "--exit-with-parent"];
    let mut server = Server::start(runtime, &flags);
    assert!(echoes(&mut server.connect("echo"), b"checked"));
    drop(server.stdin.take());
    assert_eq!(
        server.wait().1.contains("--io-check-us is ignored"),
        runtime == "tokio"
    );
}

fn a_port_that_is_taken_is_an_error(runtime: &str) {
    let server = Server::start(runtime, &["--echo", ANY]);
    let taken = server.address("echo").to_string();
    let mut second = common::lab();
    let output = second
        .args(["serve", runtime, "--http", &taken])
        .output()
        .expect("it starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        words.contains(&format!("cannot listen on {taken} for --http")),
        "{words}"
    );
}

fn signals_end_it(runtime: &str) {
    for signal in ["-TERM", "-INT"] {
        let server = Server::start(runtime, &["--echo", ANY, "--hogs", "2"]);
        let pid = server.child.id();
        let sent = std::process::Command::new("kill")
            .args([signal, &pid.to_string()])
            .status();
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
    hand_off_is_taken_or_warned_of,
    real_time_is_taken_refused_or_warned_of,
    every_service_is_said_with_its_port,
    busy_wait_is_taken_or_warned_of,
    io_check_bound_is_taken_or_warned_of,
    a_port_that_is_taken_is_an_error,
    signals_end_it,
}

#[test]
fn a_lone_thread_echoes_beside_spinning_ones() {
    let flags = [
        "--echo",
        ANY,
        "--hogs",
        "2",
        "--hog-poll-us",
        "never",
        "--exit-with-parent",
    ];
    let mut server = Server::start("os-thread", &flags);
    assert!(echoes(&mut server.connect("echo"), b"alone"));
    drop(server.stdin.take());
    assert!(server.wait().0.success());
}

#[test]
fn a_lone_thread_counts_hogs_and_burners() {
    for load in [["--hogs", "2"], ["--burn", "100:2000"]] {
        let server = Server::start(
            "os-thread",
            &[&["--echo", ANY, "--work", ANY], &load[..]].concat(),
        );
        eventually("threads compute", || work_us(&server) >= 20_000);
        assert!(echoes(&mut server.connect("echo"), b"alone"));
    }
}

#[test]
fn what_cannot_be_served_is_said_clearly() {
    for (args, complaint) in [
        (
            &["serve", "tokio"][..],
            "nothing to serve: give at least one of --echo",
        ),
        (&["serve", "os-thread", "--http", ANY], "has no --http"),
        (&["serve", "os-thread", "--block", ANY], "has no --block"),
        (&["serve", "tokio", "--fresh", "100"], "--waits <ADDR>"),
        (
            &["serve", "tokio", "--echo", "here"],
            "invalid value 'here' for '--echo <ADDR>'",
        ),
        (
            &["serve", "tokio", "--echo", ANY, "--work-us", "5"],
            "--sink <ADDR>",
        ),
        (
            &["serve", "tokio", "--proxy", "1=2"],
            "LISTEN `1` is not an IP:PORT",
        ),
        (
            &[
                "serve",
                "os-thread",
                "--echo",
                ANY,
                "--echo-class",
                "urgent",
            ],
            "has no --echo-class",
        ),
        (
            &["serve", "tokio", "--hogs", "1", "--hog-class", "reports"],
            "--hog-class names `reports`, which is no class",
        ),
        (
            &["serve", "tokio", "--hogs", "1", "--shares", "urgent=0"],
            "the share of `urgent` is not a number from 1 to 10000",
        ),
        (
            &["serve", "tokio", "--burn", "50"],
            "not of the form RATE:US",
        ),
        (
            &["serve", "tokio", "--hogs", "1", "--handoff-us", "soon"],
            "nor `off`",
        ),
    ] {
        // What is taken after all fails when patience is over, and ends with its standard input.
        let mut lab = common::lab();
        lab.args(args).arg("--exit-with-parent");
        lab.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = lab.stderr(Stdio::piped()).spawn().expect("the lab starts");
        let _open = child.stdin.take();
        let status = common::wait(&mut child);
        let mut words = String::new();
        let mut stderr = child.stderr.take().expect("piped");
        stderr.read_to_string(&mut words).expect("text");
        assert!(!status.success(), "{args:?}");
        assert!(words.contains(complaint), "{args:?}: {words}");
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
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]);
    shell
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut shell = shell.spawn().expect("a shell starts");
    let mut said = String::new();
    let mut stdout = std::io::BufReader::new(shell.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut said).expect("it says a number");
    let server: u32 = said.trim().parse().expect("a number");
    eventually("the server spins", || {
        let stat = std::fs::read_to_string(format!("/proc/{server}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        fields
            .get(12)
            .is_some_and(|ticks| ticks.parse().is_ok_and(|ticks: u64| ticks > 2))
    });
    shell.kill().expect("the shell lives");
    shell.wait().expect("the shell ends");
    eventually("the server goes with its parent", || {
        common::is_gone(server)
    });
}
