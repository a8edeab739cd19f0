//! Clients that ask for what is looked up, and take no answers.

mod support;

use std::time::{Duration, UNIX_EPOCH};

use evenkeel::runtime::Handle;
use evenkeel::time::{sleep, timeout};
use support::LIMIT;
use support::served::{Raw, serving, serving_log};
use txlog::log::LogConfig;
use txlog::server::ServerConfig;
use txlog_client::frame::Request;
use txlog_client::{Client, Cursor, Identity};

/// A time after which a deaf client would be cut off only after the test.
const NEVER: Duration = Duration::from_secs(600);

#[test]
fn a_client_that_takes_no_answers_is_heard_no_longer() {
    /// More than the kernel keeps answers.
    const REQUESTS: u64 = 8_000;
    /// Those of the server, of this test and of both clients.
    const TASKS_MAX: usize = 100;
    let config = ServerConfig {
        stall_max: NEVER,
        drain_max: Duration::from_millis(1),
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        let Identity { log, epoch } = client.info().identity.unwrap();
        for number in 0..20 {
            let cursor = Cursor {
                log,
                epoch,
                sequence: 1,
            };
            let name = format!("{number:060}");
            client.set_cursor(&name, cursor).await.unwrap();
        }
        let mut deaf = Raw::welcomed(address).await;
        for id in 0..REQUESTS {
            let after = String::new();
            deaf.ask(&Request::Cursors { id, after }).await;
            // Each has its turn before the next ones come, or some would be refused.
            if id % 4 == 0 {
                sleep(Duration::from_millis(2)).await;
            }
        }
        let stats = Handle::current().stats();
        let alive: usize = stats.classes.iter().map(|class| class.alive).sum();
        assert!(alive < TASKS_MAX, "{alive} tasks are alive");
        client.ping().await.unwrap();
    });
}

#[test]
fn a_client_that_takes_no_records_does_not_keep_others_from_looking_for_some() {
    const LARGE: usize = 1 << 20;
    let log = LogConfig {
        segment_bytes: 16 << 20,
        record_bytes_max: LARGE,
        ..LogConfig::default()
    };
    let config = ServerConfig {
        reads_max: 64,
        read_bytes_max: 4 << 20,
        stall_max: NEVER,
        drain_max: Duration::from_millis(1),
        ..ServerConfig::default()
    };
    serving_log(config, log, |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        for _ in 0..4 {
            client.append(vec![7; LARGE]).await.unwrap();
        }
        let mut deaf = Raw::welcomed(address).await;
        // More than the kernel takes, and than the share of the connection.
        for id in 0..40 {
            deaf.ask(&Request::Read {
                id,
                from: 1,
                records_max: 100,
                bytes_max: u32::MAX,
                wait_ms: 0,
                of: None,
            })
            .await;
        }
        for id in 40..60 {
            deaf.ask(&Request::Seek { id, time_ms: 0 }).await;
        }
        // By then the server has most likely taken them.
        sleep(Duration::from_millis(500)).await;
        let seeking = timeout(LIMIT / 2, client.seek(UNIX_EPOCH));
        assert_eq!(seeking.await.expect("it is its turn").unwrap(), 1);
    });
}
