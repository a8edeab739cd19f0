//! 2 000 connections at once that send nonsense of all sorts to one server within its limits: it
//! goes on, what it has acknowledged stays, and its memory is within the budget.
//!
//! `TXLOG_FUZZ_SEED` draws other nonsense.
#![cfg(target_os = "linux")]

mod support;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::net::TcpStream;
use evenkeel::task::JoinSet;
use evenkeel::time::timeout;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use support::peak::Peak;
use support::program::{Server, run_command};
use support::served::{append, hello};
use support::{LIMIT, Random, rounds, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Barrier, watch};
use txlog_client::Client;
use txlog_client::frame::Request;

const CONNECTIONS: u64 = 2_000;

/// As many places as they need: 134 MiB for 2 132 connections, and 66 MiB to be shared.
const BUDGET: usize = 200 << 20;
const PLACES: &str = "2100";

/// How long a connection that has sent its nonsense stays, unless the server closes it.
const STAYS: Duration = Duration::from_secs(1);

/// How many tasks append meanwhile, by one connection that sends no nonsense.
const APPENDING: u64 = 20;

/// How many sorts of nonsense there are.
const SORTS: u64 = 11;

/// As many as this process may have open, beside some others.
fn connections() -> u64 {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    CONNECTIONS.min(most.saturating_sub(200))
}

/// A frame with a kind and a body, whatever they are.
fn frame(kind: u8, body: &[u8], bytes: &mut BytesMut) {
    bytes.extend_from_slice(&(body.len() as u32 + 1).to_le_bytes());
    bytes.extend_from_slice(&[kind]);
    bytes.extend_from_slice(body);
}

/// What a connection of this sort sends.
fn nonsense(sort: u64, random: &mut Random) -> BytesMut {
    let mut bytes = BytesMut::new();
    match sort {
        0 => bytes.extend_from_slice(&random.bytes(4_000)),
        1 => bytes.extend_from_slice(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        // A record of TLS, as the first one of a handshake begins.
        2 => {
            bytes.extend_from_slice(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
            bytes.extend_from_slice(&random.bytes(500));
        }
        // It is silent.
        3 => {}
        sort => {
            hello().encode(&mut bytes);
            as_a_client(sort, random, &mut bytes);
        }
    }
    bytes
}

/// What comes after a hello.
fn as_a_client(sort: u64, random: &mut Random, bytes: &mut BytesMut) {
    let large = Bytes::from(vec![7; 200_000]);
    let begin = bytes.len();
    match sort {
        // A frame that is cut, within its length or later.
        4 => {
            let (id, payload) = (1, large);
            Request::Append { id, payload }.encode(bytes);
            bytes.truncate(begin + random.below(190_000) as usize);
        }
        // Batches, seeks and cursors.
        5 => frame(0x06, &random.bytes(3_000), bytes),
        6 => frame(0x07, &random.bytes(40), bytes),
        7 => frame(0x08, &random.bytes(80), bytes),
        // Some that are nearly right.
        8 => {
            for id in 0..20 {
                let records = ["a", "batch"].into_iter().collect();
                Request::Batch {
                    id,
                    expected: None,
                    producer: None,
                    not_before: None,
                    records,
                }
                .encode(bytes);
                let at = begin + random.below((bytes.len() - begin) as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
        // More reads than there may be, of which it takes no answer.
        9 => {
            for id in 0..100 {
                append(id, "fuzz").encode(bytes);
                Request::Read {
                    id,
                    from: 0,
                    records_max: u32::MAX,
                    bytes_max: u32::MAX,
                    wait_ms: 0,
                    of: None,
                }
                .encode(bytes);
            }
        }
        // It leaves without reading its welcome, by which the connection is reset.
        _ => {}
    }
}

/// Sends it when all others are there, and takes what comes, if it takes anything.
async fn connection(address: SocketAddr, sort: u64, seed: u64, all: Arc<Barrier>) -> bool {
    let stream = timeout(LIMIT / 2, TcpStream::connect(address)).await;
    all.wait().await;
    let Ok(Ok(mut stream)) = stream else {
        return false;
    };
    let bytes = nonsense(sort, &mut Random::new(seed));
    let talks = async {
        // The server may have closed by then.
        let _ = stream.write_all(&bytes).await;
        match sort {
            9 => std::future::pending().await,
            10 => stream.peek(&mut [0]).await.is_ok(),
            _ => stream.read_to_end(&mut Vec::new()).await.is_ok(),
        }
    };
    let _ = timeout(STAYS, talks).await;
    true
}

/// Appends one record after the other until it is to end; those that were acknowledged.
async fn appends(
    client: Arc<Client>,
    task: u64,
    ends: watch::Receiver<bool>,
) -> Vec<(u64, String)> {
    let mut acknowledged = Vec::new();
    while !*ends.borrow() {
        let record = format!("honest {task} {}", acknowledged.len());
        let number = client.append(record.clone()).await.unwrap();
        acknowledged.push((number, record));
    }
    acknowledged
}

#[test]
fn two_thousand_connections_of_nonsense_harm_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let budget = BUDGET.to_string();
    let options = [
        "--memory-bytes",
        &budget,
        "--connections-max",
        PLACES,
        "--no-hog-names",
    ];
    let mut server = Server::start(directory.path(), &options);
    let (address, peak) = (server.address, Peak::of(&server));
    let (count, seed) = (connections(), rounds("TXLOG_FUZZ_SEED", 1));
    let acknowledged = run(async {
        let client = Arc::new(Client::connect(address).await.unwrap());
        let (end, ends) = watch::channel(false);
        let mut appending = JoinSet::new();
        for task in 0..APPENDING {
            appending.spawn(appends(Arc::clone(&client), task, ends.clone()));
        }
        let all = Arc::new(Barrier::new(count as usize));
        let mut connections = JoinSet::new();
        for number in 0..count {
            let seed = seed << 32 | number;
            connections.spawn(connection(address, number % SORTS, seed, Arc::clone(&all)));
        }
        let mut there = 0;
        while let Some(was_there) = connections.join_next().await {
            there += u64::from(was_there.unwrap());
        }
        assert_eq!(there, count, "all were there at once");
        end.send_replace(true);
        let mut acknowledged = Vec::new();
        while let Some(ended) = appending.join_next().await {
            acknowledged.extend(ended.unwrap());
        }
        // The places are free again, and everybody is served.
        let client = Client::connect(address).await.unwrap();
        client.ping().await.unwrap();
        let last = client.append("after all").await.unwrap();
        let (mut stored, mut next) = (HashMap::new(), 1);
        while next <= last {
            let (records, after) = client.read(next, Duration::ZERO).await.unwrap();
            stored.extend(records.into_iter().map(|it| (it.sequence, it.payload)));
            next = after;
        }
        for (number, record) in &acknowledged {
            assert_eq!(stored[number], *record, "record {number}");
        }
        eprintln!(
            "{there} connections, {} records acknowledged of {last}",
            acknowledged.len()
        );
        acknowledged
    });
    assert!(!acknowledged.is_empty());
    peak.expect_within(BUDGET, "beside nonsense");
    server.signal("TERM");
    assert!(server.ended().success());
    let said = server.end();
    assert!(!said.contains("panicked"), "{said}");
    let (whole, _, errors) = run_command(&["verify", directory.path().to_str().unwrap()]);
    assert!(whole, "{errors}");
}
