//! The memory of the server's process, however its clients behave. There are 200 of them, or as
//! many that take no answers as `TXLOG_SLOW_READERS` says.
#![cfg(target_os = "linux")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::net::TcpStream;
use evenkeel::task::JoinSet;
use evenkeel::time::timeout;
use support::certificates::{Authority, Trusted};
use support::peak::Peak;
use support::program::Server;
use support::served::{Raw, hello};
use support::{LIMIT, rounds, run};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use txlog_client::Client;
use txlog_client::frame::{Request, Response};

/// The server's budget: 66 MiB for 1 056 connections, and 62 MiB to be shared.
const BUDGET: usize = 128 << 20;

/// With TLS: 198 MiB for the connections, and 58 MiB to be shared.
const TLS_BUDGET: usize = 256 << 20;

/// How many clients behave badly. Without a limit, each makes the server take some MiB.
const CLIENTS: u64 = 200;

fn slow_readers() -> u64 {
    rounds("TXLOG_SLOW_READERS", CLIENTS)
}

/// How long slow ones stay.
const STAYS: Duration = Duration::from_secs(12);

/// A record's size.
const LARGE: usize = 1 << 20;

fn start(directory: &std::path::Path) -> Server {
    let budget = BUDGET.to_string();
    Server::start(directory, &["--memory-bytes", &budget, "--no-hog-names"])
}

async fn fill(address: SocketAddr, records: usize) -> Client {
    let client = Client::connect(address).await.unwrap();
    for _ in 0..records {
        client.append(vec![7; LARGE]).await.unwrap();
    }
    client
}

/// More reads than a connection may have under way; those are refused.
fn many_reads() -> BytesMut {
    let mut asks = BytesMut::new();
    for id in 0..64 {
        Request::Read {
            id,
            from: 1,
            records_max: 10_000,
            bytes_max: u32::MAX,
            wait_ms: 0,
            of: None,
        }
        .encode(&mut asks);
    }
    asks
}

#[test]
fn clients_that_take_no_answers_stay_within_the_memory_and_make_room_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let (address, peak) = (server.address, Peak::of(&server));
    run(async {
        let client = fill(address, 4).await;
        let asks = many_reads();
        let mut deaf = Vec::new();
        for _ in 0..slow_readers() {
            let mut raw = Raw::welcomed(address).await;
            // It may be cut off by now.
            let _ = raw.write.write_all(&asks).await;
            deaf.push(raw);
        }
        // Room is given in the order in which it was asked for, so this is read when all others
        // have had theirs, and have been cut off for it.
        let reading = timeout(LIMIT, client.read(1, Duration::ZERO));
        let (records, _) = reading.await.expect("its turn comes").unwrap();
        assert_eq!(records[0].payload.len(), LARGE);
        peak.expect_within(BUDGET, "beside clients that take no answers");
        drop(deaf);
    });
}

#[test]
fn clients_that_take_no_answers_over_tls_stay_within_the_memory() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("the test");
    let issued = authority.issue("server", &["127.0.0.1"]);
    let (certificate, key) = (&issued.certificate, &issued.key);
    let options = [
        "--no-hog-names",
        "--memory-bytes",
        &TLS_BUDGET.to_string(),
        "--tls-cert",
        certificate.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ];
    let server = Server::start(directory.path(), &options);
    let (address, peak) = (server.address, Peak::of(&server));
    let connector = TlsConnector::from(authority.config());
    run(async {
        let client = authority.connect(None).connect(address).await.unwrap();
        for _ in 0..4 {
            client.append(vec![7; LARGE]).await.unwrap();
        }
        let mut asks = BytesMut::new();
        hello().encode(&mut asks);
        asks.unsplit(many_reads());
        let mut deaf = Vec::new();
        for _ in 0..slow_readers() {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::from(address.ip());
            let mut stream = connector.connect(name, stream).await.unwrap();
            // It may be cut off by now.
            let _ = stream.write_all(&asks).await;
            let _ = stream.flush().await;
            deaf.push(stream);
        }
        // As above.
        let reading = timeout(LIMIT, client.read(1, Duration::ZERO));
        let (records, _) = reading.await.expect("its turn comes").unwrap();
        assert_eq!(records[0].payload.len(), LARGE);
        peak.expect_within(TLS_BUDGET, "beside clients that take no answers over TLS");
        drop(deaf);
    });
}

#[test]
fn frames_that_do_not_end_stay_within_the_memory_and_appends_find_room() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let (address, peak) = (server.address, Peak::of(&server));
    run(async {
        let mut frame = BytesMut::new();
        let (id, payload) = (1, Bytes::from(vec![7; LARGE]));
        Request::Append { id, payload }.encode(&mut frame);
        let part = frame.split_to(LARGE - 1).freeze();
        let mut stalled = Vec::new();
        for _ in 0..CLIENTS {
            let mut raw = Raw::welcomed(address).await;
            let part = part.clone();
            stalled.push(evenkeel::spawn(async move {
                // The server reads what it has room for.
                let _ = raw.write.write_all(&part).await;
                std::future::pending::<()>().await;
            }));
        }
        // Readers have a part of their own.
        let client = Client::connect(address).await.unwrap();
        client.read(0, Duration::ZERO).await.unwrap();
        let appending = timeout(LIMIT, client.append(vec![7; LARGE]));
        appending.await.expect("its turn comes").unwrap();
        peak.expect_within(BUDGET, "beside frames that do not end");
        for task in stalled {
            task.abort();
        }
    });
}

/// Clients that have appended a large record each, and send nothing more than the beginning of a
/// next frame, which is not its own memory's only user.
async fn idle_ones(address: SocketAddr, count: u64) -> Vec<Raw> {
    let mut idle = Vec::new();
    for _ in 0..count {
        let mut raw = Raw::welcomed(address).await;
        let (id, payload) = (1, Bytes::from(vec![7; LARGE]));
        raw.ask(&Request::Append { id, payload }).await;
        let answer = raw.answer().await;
        assert!(
            matches!(answer, Some(Response::Appended { id: 1, .. })),
            "{answer:?}"
        );
        raw.send(&[9]).await;
        idle.push(raw);
    }
    idle
}

#[test]
fn idle_clients_keep_no_memory_of_large_records() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let (address, peak) = (server.address, Peak::of(&server));
    run(async {
        let idle = idle_ones(address, CLIENTS).await;
        peak.expect_within(BUDGET, "beside idle clients");
        drop(idle);
    });
}

/// All that clients can hold at a time: what each may have by itself, and all of both parts. Each
/// slow one asks for much, takes nothing, and begins an append. Some are cut off for others.
#[test]
fn idle_and_slow_clients_together_stay_within_the_memory() {
    let places = CLIENTS + slow_readers() + 8;
    // 64 KiB for each that there may be, with 32 in reserve, and 62 MiB to be shared.
    let budget = ((places as usize + 32) << 16) + (62 << 20);
    let directory = tempfile::tempdir().unwrap();
    let options = [
        "--no-hog-names",
        "--memory-bytes",
        &budget.to_string(),
        "--connections-max",
        &places.to_string(),
    ];
    let server = Server::start(directory.path(), &options);
    let (address, peak) = (server.address, Peak::of(&server));
    run(async {
        let idle = idle_ones(address, CLIENTS).await;
        let asks = many_reads().freeze();
        let mut frame = BytesMut::new();
        let (id, payload) = (1, Bytes::from(vec![7; LARGE]));
        Request::Append { id, payload }.encode(&mut frame);
        let part = frame.split_to(LARGE - 1).freeze();
        let mut slow = JoinSet::new();
        for _ in 0..slow_readers() {
            let (asks, part) = (asks.clone(), part.clone());
            slow.spawn(async move {
                let mut raw = Raw::welcomed(address).await;
                // It may be cut off by now.
                let _ = raw.write.write_all(&asks).await;
                let _ = raw.write.write_all(&part).await;
                std::future::pending::<()>().await;
            });
        }
        // As long as several of them are cut off, one after the other.
        let ended = timeout(STAYS, slow.join_next()).await;
        assert!(ended.is_err(), "all were welcome: {ended:?}");
        peak.expect_within(budget, "beside idle and slow clients");
        slow.abort_all();
        drop(idle);
    });
}
