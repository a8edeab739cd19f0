//! Ten thousand connections at once: each echoes, some end in the middle, in every way in which a
//! connection can, and afterwards every descriptor is closed.
//!
//! Server and client are two processes, as each end of a connection takes a descriptor: the test
//! starts this same binary again as the client.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::JoinSet;
use hang::{until, watched};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use support::descriptors;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Barrier, Semaphore};

const CONNECTIONS: usize = 10_000;
/// The descriptors that a process needs besides its connections.
const SPARE: usize = 200;
/// How many connections are made at a time; more could exceed the listener's backlog.
const CONNECTING_MAX: usize = 200;

const CLIENT_OF: &str = "EVENKEEL_TEST_STRESS_CLIENT_OF";
const TEST: &str = "ten_thousand_connections_echo_and_leave_nothing";

/// As many connections as the process's limit on descriptors allows.
fn connections() -> usize {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = (CONNECTIONS + SPARE) as u64;
    if soft < wanted {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard.min(wanted), hard);
    }
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let possible = usize::try_from(soft)
        .unwrap_or(usize::MAX)
        .saturating_sub(SPARE);
    assert!(
        possible > 0,
        "the limit of {soft} descriptors leaves none for connections"
    );
    if possible < CONNECTIONS {
        eprintln!("only {possible} of {CONNECTIONS} connections: the limit is {soft} descriptors");
    }
    possible.min(CONNECTIONS)
}

/// Without the thread that names hogs: it may have the program's file open for a moment after the
/// runtime's end.
fn runtime() -> Runtime {
    let mut builder = Builder::new();
    builder.workers(2).hog_stacks(false);
    builder.build().unwrap()
}

#[test]
fn ten_thousand_connections_echo_and_leave_nothing() {
    watched("ten thousand connections", || {
        match std::env::var(CLIENT_OF) {
            Ok(what) => {
                let (address, count) = what.split_once(' ').unwrap();
                be_client(address.parse().unwrap(), count.parse().unwrap());
            }
            Err(_) => be_server(),
        }
    });
}

fn be_server() {
    let count = connections();
    let before = descriptors();
    let runtime = runtime();
    let served = Arc::new(AtomicUsize::new(0));
    let open = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = {
        let (served, open, most) = (Arc::clone(&served), Arc::clone(&open), Arc::clone(&most));
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                served.fetch_add(1, SeqCst);
                most.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
                let open = Arc::clone(&open);
                drop(evenkeel::spawn(async move {
                    // However it ends: some clients reset it.
                    let _ = echo(stream).await;
                    open.fetch_sub(1, SeqCst);
                }));
            }
        })
    };

    let client = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CLIENT_OF, format!("{address} {count}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let output = client.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "the client failed: {said}"
    );

    until("every connection has ended", || open.load(SeqCst) == 0);
    assert_eq!(served.load(SeqCst), count);
    assert!(
        most.load(SeqCst) > count / 2,
        "most were open at the same time"
    );
    let stats = runtime.stats();
    assert_eq!(stats.readiness.descriptors, 1, "the listener's");
    assert!(
        stats.tasks_waiting <= 1,
        "{} tasks wait",
        stats.tasks_waiting
    );
    accepting.abort();
    assert!(runtime.block_on(accepting).unwrap_err().is_cancelled());
    drop(runtime);
    assert_eq!(descriptors(), before, "every descriptor is closed");
}

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buf = [0; 256];
    loop {
        match stream.read(&mut buf).await? {
            0 => return Ok(()),
            count => stream.write_all(&buf[..count]).await?,
        }
    }
}

fn be_client(address: SocketAddr, count: usize) {
    connections();
    let before = descriptors();
    let runtime = runtime();
    let echoed = runtime.block_on(async move {
        let connecting = Arc::new(Semaphore::new(CONNECTING_MAX));
        // All are open before any of them ends.
        let all_open = Arc::new(Barrier::new(count));
        let mut set = JoinSet::new();
        for number in 0..count {
            let (connecting, all_open) = (Arc::clone(&connecting), Arc::clone(&all_open));
            set.spawn(async move { visit(address, number, &connecting, &all_open).await });
        }
        let mut echoed = 0;
        while let Some(result) = set.join_next().await {
            echoed += result.unwrap();
        }
        echoed
    });
    assert!(echoed >= 2 * count, "{echoed} echoes");
    drop(runtime);
    assert_eq!(descriptors(), before, "every descriptor is closed");
}

/// The life of one connection. Returns how often it was echoed to.
async fn visit(
    address: SocketAddr,
    number: usize,
    connecting: &Semaphore,
    all_open: &Barrier,
) -> usize {
    let permit = connecting.acquire().await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[number as u8; 16]).await.unwrap();
    expect(&mut stream, &[number as u8; 16]).await;
    drop(permit);
    all_open.wait().await;

    // The way in which it ends looks random, but is the same in each run.
    let lot = number.wrapping_mul(2_654_435_761) >> 7;
    for round in 0..2 + lot % 3 {
        let message = [(number + round) as u8; 100];
        stream.write_all(&message).await.unwrap();
        if lot.is_multiple_of(10) {
            // Closed while the echo is on its way.
            return 2;
        }
        expect(&mut stream, &message).await;
    }
    match lot % 4 {
        0 => drop(stream),
        1 => {
            // Half closed, until the server closes the other half.
            stream.shutdown().await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        }
        2 => reset(stream),
        _ => {
            let (mut read, mut write) = stream.into_split();
            write.write_all(b"last").await.unwrap();
            drop(write);
            let mut rest = Vec::new();
            read.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"last");
        }
    }
    3 + lot % 3
}

async fn expect(stream: &mut TcpStream, message: &[u8]) {
    let mut echoed = vec![0; message.len()];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(echoed, message);
}

/// Closes a connection so that the other side gets an error instead of an end.
fn reset(stream: TcpStream) {
    let stream = stream.into_std().unwrap();
    nix::sys::socket::setsockopt(
        &stream,
        nix::sys::socket::sockopt::Linger,
        &nix::libc::linger {
            l_onoff: 1,
            l_linger: 0,
        },
    )
    .unwrap();
}
