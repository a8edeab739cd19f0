//! The system calls of a connection, counted by `strace`. Where there is no `strace`, the test
//! passes without looking, and says so.
#![cfg(target_os = "linux")]

mod support;

use std::collections::HashMap;
use std::process::Command;

use evenkeel::net::splice::splice_bidirectional;
use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::Builder;
use support::{assert_passed, command_alone, is_alone, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CONNECTIONS: usize = 200;

/// Each connection is made, carries a request and an answer, and ends: first the client, then the
/// server, which hears of it.
fn converse() {
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on(within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = evenkeel::spawn(async move {
            for _ in 0..CONNECTIONS {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"?").await.unwrap();
                stream.read_exact(&mut [0]).await.unwrap();
            }
        });
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut read, mut write) = stream.into_split();
            read.read_exact(&mut [0]).await.unwrap();
            write.write_all(b"!").await.unwrap();
            assert_eq!(read.read(&mut [0]).await.unwrap(), 0);
            drop(read);
            drop(write);
        }
        client.await.unwrap();
    }));
}

/// The rows of `strace -c`: the columns are time in per cent and seconds, microseconds a call,
/// calls, errors if there were any, and the name.
fn calls(table: &str) -> HashMap<String, usize> {
    let row = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let count = columns.get(3)?.parse().ok()?;
        Some((columns.last()?.to_string(), count))
    };
    table.lines().filter_map(row).collect()
}

/// What `strace` says of a test of this program, which has this name. `None` where it cannot be
/// started.
fn traced(name: &str, options: &[&str]) -> Option<String> {
    let file = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-qq"])
        .args(options)
        .arg("-o")
        .arg(&file);
    traced.arg(std::env::current_exe().unwrap());
    let output = match command_alone(traced, name).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("NOT CHECKED: strace cannot be started: {error}");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("ptrace") {
        eprintln!("NOT CHECKED: strace may not trace here: {said}");
        return None;
    }
    assert_passed(&output);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    Some(text)
}

#[test]
fn a_connection_needs_no_surplus_system_call() {
    let name = "a_connection_needs_no_surplus_system_call";
    if is_alone(name) {
        return converse();
    }
    let Some(table) = traced(name, &["-c"]) else {
        return;
    };
    let calls = calls(&table);
    let of = |call: &str| calls.get(call).copied().unwrap_or(0);
    for call in [
        "socket",
        "connect",
        "accept4",
        "getsockopt",
        "getpeername",
        "epoll_ctl",
        "epoll_wait",
        "recvfrom",
        "sendto",
        "shutdown",
        "close",
    ] {
        let each = of(call) as f64 / CONNECTIONS as f64;
        println!("{call:>12} {each:6.2} a connection");
    }
    // Both ends are registered, once; the rest is what a runtime and a listener need.
    let few = CONNECTIONS / 10;
    assert!(of("connect") >= CONNECTIONS, "{table}");
    assert!(of("epoll_ctl") <= 2 * CONNECTIONS + few, "{table}");
    // Whether the peer has answered is asked once, which spares a wait.
    assert!(of("getpeername") <= CONNECTIONS + few, "{table}");
    for surplus in ["getsockopt", "shutdown"] {
        assert!(of(surplus) <= few, "{surplus}: {table}");
    }
}

/// A server answers and closes at once; a relay passes both on.
fn relay_ends() {
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on(within(async {
        let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (to_origin, to_relay) = (origin.local_addr().unwrap(), relay.local_addr().unwrap());
        let client = evenkeel::spawn(async move {
            let mut stream = TcpStream::connect(to_relay).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, ANSWER.as_bytes());
        });
        let (mut one, _) = relay.accept().await.unwrap();
        let mut other = TcpStream::connect(to_origin).await.unwrap();
        let (mut server, _) = origin.accept().await.unwrap();
        server.write_all(ANSWER.as_bytes()).await.unwrap();
        drop(server);
        splice_bidirectional(&mut one, &mut other).await.unwrap();
        client.await.unwrap();
    }));
}

const ANSWER: &str = "the answer, and its end";

#[test]
fn an_end_that_has_come_goes_out_with_the_last_bytes() {
    let name = "an_end_that_has_come_goes_out_with_the_last_bytes";
    if is_alone(name) {
        return relay_ends();
    }
    let Some(text) = traced(name, &["-e", "trace=sendto,shutdown", "-s", "100"]) else {
        return;
    };
    let mut calls = text.lines().skip_while(|line| !line.contains("MSG_MORE"));
    let last = calls
        .next()
        .unwrap_or_else(|| panic!("not at once: {text}"));
    assert!(last.contains(ANSWER), "{text}");
    assert!(calls.next().unwrap().contains("SHUT_WR"), "{text}");
}
