//! Who has a place on a full server, and who leaves it.

use std::time::Duration;

use crate::support::memory::MemoryDisk;
use crate::support::served::{Raw, append, serving};
use crate::support::{LIMIT, run, small};
use evenkeel::net::TcpStream;
use evenkeel::time::{sleep, timeout};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use txlog::log::Log;
use txlog::server::{BindError, Server, ServerConfig};
use txlog_client::Client;
use txlog_client::frame::{Code, Request, Response};

/// A time in which a silent client would leave by itself only after the test.
const NEVER: Duration = Duration::from_secs(600);

fn full(connections_max: usize, reserve_max: usize) -> ServerConfig {
    ServerConfig {
        connections_max,
        reserve_max,
        stall_max: NEVER,
        drain_max: NEVER,
        ..ServerConfig::default()
    }
}

#[test]
fn a_server_full_of_silent_connections_answers_pings_and_takes_records() {
    serving(full(8, 2), |address, _| async move {
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let client = Client::connect(address).await.unwrap();
        client.ping().await.unwrap();
        // As soon as there is an ordinary place, of which the silent ones had all.
        assert_eq!(client.append("taken").await.unwrap(), 1);
        // The oldest has left, without a word, as it had said none.
        let left = timeout(LIMIT, silent[0].read(&mut [0; 100])).await;
        assert_eq!(left.expect("it is cut off").unwrap_or(0), 0);
        client.ping().await.unwrap();
    });
}

#[test]
fn a_server_full_of_working_connections_answers_pings_and_no_more() {
    serving(full(2, 2), |address, _| async move {
        let mut working = Vec::new();
        for id in 1..=2 {
            let mut raw = Raw::welcomed(address).await;
            raw.ask(&append(id, "work")).await;
            let answer = raw.answer().await;
            assert!(
                matches!(answer, Some(Response::Appended { .. })),
                "{answer:?}"
            );
            working.push(raw);
        }
        // More than there are places in reserve, one after the other and all at once.
        let mut pinging = Vec::new();
        for id in 1..=6 {
            let mut raw = Raw::welcomed(address).await;
            raw.ask(&Request::Ping { id }).await;
            assert_eq!(raw.answer().await, Some(Response::Pong { id }));
            pinging.push(raw);
        }
        for mut raw in pinging.drain(..4) {
            assert_eq!(raw.faulted().await, Code::TooManyConnections, "the idlest");
        }
        pinging[1].ask(&append(7, "more work")).await;
        assert_eq!(pinging[1].faulted().await, Code::TooManyConnections);
        // With a place of those who work it may do so, too.
        drop(working);
        let taken = async {
            loop {
                let client = Client::connect(address).await.unwrap();
                match client.append("at last").await {
                    Ok(sequence) => break sequence,
                    Err(error) => assert_eq!(error.code(), Some(Code::TooManyConnections)),
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        assert_eq!(timeout(LIMIT, taken).await.expect("there is room"), 3);
    });
}

#[test]
fn silent_clients_do_not_delay_the_end() {
    run(async {
        let (log, _) = Log::open(MemoryDisk::new(1), small()).await.unwrap();
        let server = Server::bind("127.0.0.1:0", log, full(8, 2)).await.unwrap();
        let address = server.local_addr().unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        let _unknown = TcpStream::connect(address).await.unwrap();
        let _idle = Raw::welcomed(address).await;
        let mut worked = Raw::welcomed(address).await;
        worked.ask(&append(1, "work")).await;
        worked.answer().await.unwrap();
        drop(end);
        let ended = timeout(LIMIT / 2, server).await;
        ended.expect("nobody is waited for").unwrap().unwrap();
    });
}

#[test]
fn memory_that_is_too_little_for_one_record_is_refused_with_what_suffices() {
    run(async {
        let (log, _) = Log::open(MemoryDisk::new(1), small()).await.unwrap();
        let bind = |memory_bytes| {
            let config = ServerConfig {
                memory_bytes,
                ..full(8, 2)
            };
            Server::bind("127.0.0.1:0", log.clone(), config)
        };
        let error = bind(1).await.unwrap_err();
        let BindError::Memory { least, .. } = error else {
            panic!("{error}")
        };
        assert!(bind(least - 1).await.is_err());
        let server = bind(least).await.unwrap();
        let address = server.local_addr().unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        let client = Client::connect(address).await.unwrap();
        let largest = vec![7; small().record_bytes_max];
        client.append(largest.clone()).await.unwrap();
        let (records, _) = client.read(1, Duration::ZERO).await.unwrap();
        assert_eq!(records[0].payload, largest);
        drop((client, end));
        server.await.unwrap().unwrap();
    });
}
