//! The memory of the server's process, however its clients behave.
#![cfg(target_os = "linux")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::time::timeout;
use support::program::Server;
use support::served::Raw;
use support::{LIMIT, run};
use tokio::io::AsyncWriteExt;
use txlog_client::Client;
use txlog_client::frame::{Request, Response};

/// The server's budget: 66 MiB for 1 056 connections, and 62 MiB to be shared.
const BUDGET: usize = 128 << 20;

/// For the program, its log, what an allocator leaves unused, and what the runtime loads of a debug
/// build to name the functions that hogged (some 120 MiB): as much as the budget again.
const SLACK: usize = BUDGET;

/// How many clients behave badly. Without a limit, each makes the server take some MiB.
const CLIENTS: usize = 200;

/// A record's size.
const LARGE: usize = 1 << 20;

fn start(directory: &std::path::Path) -> Server {
    Server::start(directory, &["--memory-bytes", &BUDGET.to_string()])
}

/// The most memory that the process has ever had.
fn peak_bytes(server: &Server) -> usize {
    let path = format!("/proc/{}/status", server.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<usize>().unwrap() * 1_024
}

fn within_budget(server: &Server, when: &str) {
    let peak = peak_bytes(server);
    assert!(peak < BUDGET + SLACK, "{} MiB {when}", peak >> 20);
}

async fn fill(address: SocketAddr, records: usize) -> Client {
    let client = Client::connect(address).await.unwrap();
    for _ in 0..records {
        client.append(vec![7; LARGE]).await.unwrap();
    }
    client
}

#[test]
fn clients_that_take_no_answers_stay_within_the_memory_and_make_room_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let address = server.address;
    run(async {
        let client = fill(address, 4).await;
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
        let mut deaf = Vec::new();
        for _ in 0..CLIENTS {
            let mut raw = Raw::welcomed(address).await;
            // Those beyond the limit of one connection are refused. It may be cut off by now.
            let _ = raw.write.write_all(&asks).await;
            deaf.push(raw);
        }
        // Room is given in the order in which it was asked for, so this is read when all others
        // have had theirs, and have been cut off for it.
        let reading = timeout(LIMIT, client.read(1, Duration::ZERO));
        let (records, _) = reading.await.expect("its turn comes").unwrap();
        assert_eq!(records[0].payload.len(), LARGE);
        within_budget(&server, "beside clients that take no answers");
        drop(deaf);
    });
}

#[test]
fn frames_that_do_not_end_stay_within_the_memory_and_appends_find_room() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let address = server.address;
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
        within_budget(&server, "beside frames that do not end");
        for task in stalled {
            task.abort();
        }
    });
}

#[test]
fn idle_clients_keep_no_memory_of_large_records() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let address = server.address;
    run(async {
        let mut idle = Vec::new();
        for _ in 0..CLIENTS {
            let mut raw = Raw::welcomed(address).await;
            let (id, payload) = (1, Bytes::from(vec![7; LARGE]));
            raw.ask(&Request::Append { id, payload }).await;
            let answer = raw.answer().await;
            assert!(
                matches!(answer, Some(Response::Appended { id: 1, .. })),
                "{answer:?}"
            );
            // The beginning of a next frame, which is not its own memory's only user.
            raw.send(&[9]).await;
            idle.push(raw);
        }
        within_budget(&server, "beside idle clients");
    });
}
