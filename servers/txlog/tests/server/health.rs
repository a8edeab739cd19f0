//! Whether the server says truly that an append would be acknowledged.

use std::time::Duration;

use crate::support::held::Held;
use crate::support::memory::{Faults, append_that_fails};
use crate::support::served::{Raw, append, serving, serving_store};
use crate::support::{LIMIT, run};
use bytes::BytesMut;
use evenkeel::time::{sleep, timeout};
use txlog::log::LogConfig;
use txlog::server::ServerConfig;
use txlog_client::frame::{Request, Response};
use txlog_client::{Batch, Client, Health};

/// A limit that an append in memory keeps, on a busy machine as well.
const AMPLE: Duration = Duration::from_secs(30);

/// A limit that a pending append soon exceeds.
const SHORT: Duration = Duration::from_millis(20);

#[test]
fn a_log_that_failed_is_not_writable_though_it_answers_pings() {
    serving(ServerConfig::default(), |address, disk| async move {
        let client = Client::connect(address).await.unwrap();
        assert!(client.health(AMPLE).await.unwrap().writable);
        client.append("durable").await.unwrap();
        let health = client.health(AMPLE).await.unwrap();
        assert!(health.writable && health.took.is_some(), "{health:?}");
        append_that_fails(&client, &disk, 28).await;
        let other = Client::connect(address).await.unwrap();
        for client in [&client, &other] {
            client.ping().await.unwrap();
            let health = client.health(AMPLE).await.unwrap();
            assert!(!health.writable, "{health:?}");
            assert!(health.text.contains("can only be read now"), "{health:?}");
        }
    });
}

#[test]
fn an_append_that_hangs_shows_and_one_that_ends_shows_as_well() {
    run(async {
        let store = Held::new(LogConfig::default()).await;
        let held = store.held.clone();
        serving_store(store, ServerConfig::default(), async |address| {
            let client = Client::connect(address).await.unwrap();
            let other = Client::connect(address).await.unwrap();
            held.send_replace(true);
            let hanging = client.submit("hangs").await.unwrap();
            let hangs = async {
                while other.health(SHORT).await.unwrap().writable {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(LIMIT / 2, hangs).await.expect("it is noticed");
            let health = other.health(SHORT).await.unwrap();
            assert!(health.pending.is_some_and(|pending| pending >= SHORT));
            assert!(health.text.contains("an append has waited"), "{health:?}");
            // With a longer limit it is not known yet, and the answer waits for the append.
            let asked = other.health(AMPLE);
            let mut asked = std::pin::pin!(asked);
            let early = timeout(Duration::from_millis(50), &mut asked).await;
            assert!(early.is_err(), "{early:?}");
            held.send_replace(false);
            hanging.await.unwrap();
            let health = asked.await.unwrap();
            assert!(health.writable && health.pending.is_none(), "{health:?}");
        })
        .await;
    });
}

#[test]
fn an_append_that_hangs_shows_though_a_later_one_was_refused() {
    run(async {
        let store = Held::new(LogConfig::default()).await;
        let held = store.held.clone();
        serving_store(store, ServerConfig::default(), async |address| {
            let client = Client::connect(address).await.unwrap();
            let other = Client::connect(address).await.unwrap();
            held.send_replace(true);
            let hanging = client.submit("hangs").await.unwrap();
            let hangs = async {
                while other.health(SHORT).await.unwrap().writable {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(LIMIT / 2, hangs).await.expect("it is noticed");
            // A batch without records is refused, which says nothing of the log.
            let refused = client.submit_batch(Batch::default()).await.unwrap();
            client.ping().await.unwrap();
            let health = other.health(SHORT).await.unwrap();
            assert!(!health.writable && health.pending.is_some(), "{health:?}");
            held.send_replace(false);
            hanging.await.unwrap();
            refused.await.unwrap_err();
        })
        .await;
    });
}

#[test]
fn a_client_that_takes_no_answers_makes_nobody_call_the_log_slow() {
    run(async {
        let store = Held::new(LogConfig::default()).await;
        let held = store.held.clone();
        serving_store(store, ServerConfig::default(), async |address| {
            let client = Client::connect(address).await.unwrap();
            client.append(vec![7; 1 << 20]).await.unwrap();
            held.send_replace(true);
            let mut deaf = Raw::welcomed(address).await;
            deaf.ask(&append(1, "durable while its client takes nothing"))
                .await;
            let mut asks = BytesMut::new();
            for id in 2..10 {
                Request::Read {
                    id,
                    from: 1,
                    records_max: 1,
                    bytes_max: 1,
                    wait_ms: 0,
                    of: None,
                }
                .encode(&mut asks);
            }
            // More than the system's buffers hold, and a little later: each needs a free place.
            for _ in 0..20 {
                deaf.send(&asks).await;
                sleep(Duration::from_millis(10)).await;
            }
            held.send_replace(false);
            let writable = async {
                while !client.health(SHORT).await.unwrap().writable {
                    sleep(Duration::from_millis(1)).await;
                    client.append("another one").await.unwrap();
                }
            };
            timeout(LIMIT / 2, writable).await.expect("the log is well");
            drop(deaf);
        })
        .await;
    });
}

/// Asks until the answer is this one.
async fn until_writable(client: &Client, within: Duration, writable: bool) -> Health {
    let asking = async {
        loop {
            let health = client.health(within).await.unwrap();
            if health.writable == writable {
                return health;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT / 2, asking).await.expect("it is noticed")
}

/// Nobody appends, so only a look at the disk shows these.
#[test]
fn a_disk_of_an_idle_log_that_hangs_is_full_or_fails_shows() {
    serving(ServerConfig::default(), |address, disk| async move {
        let client = Client::connect(address).await.unwrap();
        let health = client.health(AMPLE).await.unwrap();
        assert!(health.writable, "{health:?}");
        assert!(health.text.contains("its disk has room"), "{health:?}");
        for (faults, within, said) in [
            (
                Faults {
                    hangs: true,
                    ..Faults::default()
                },
                SHORT,
                "has not taken a mark for",
            ),
            (
                Faults {
                    room: Some(1_000_000),
                    ..Faults::default()
                },
                AMPLE,
                "make room on that disk",
            ),
            (
                Faults {
                    writes: Some((0, 5)),
                    ..Faults::default()
                },
                AMPLE,
                "cannot write MARK",
            ),
        ] {
            disk.set_faults(faults);
            // The look before may have been a slow one, which is said as well.
            while !until_writable(&client, within, false)
                .await
                .text
                .contains(said)
            {
                evenkeel::time::sleep(Duration::from_millis(20)).await;
            }
            client.ping().await.unwrap();
            disk.set_faults(Faults::default());
            until_writable(&client, AMPLE, true).await;
        }
        assert_eq!(client.append("the first").await.unwrap(), 1);
    });
}

/// A look is a sync: many who ask share one.
#[test]
fn looks_are_shared_and_there_are_none_beside_appends() {
    serving(ServerConfig::default(), |address, disk| async move {
        let client = Client::connect(address).await.unwrap();
        client.append("tells enough").await.unwrap();
        let syncs = disk.syncs_done();
        for _ in 0..20 {
            let health = client.health(AMPLE).await.unwrap();
            assert!(health.text.contains("the last append took"), "{health:?}");
        }
        // The log writes its mark by itself, once for the new record.
        assert!(disk.syncs_done() <= syncs + 1);
    });
    serving(ServerConfig::default(), |address, disk| async move {
        let client = Client::connect(address).await.unwrap();
        disk.set_faults(Faults {
            hangs: true,
            ..Faults::default()
        });
        let syncs = disk.syncs_done();
        for _ in 0..20 {
            assert!(!client.health(SHORT).await.unwrap().writable);
        }
        disk.set_faults(Faults::default());
        until_writable(&client, AMPLE, true).await;
        assert_eq!(disk.syncs_done(), syncs + 1);
    });
}

#[test]
fn health_is_asked_in_reserve_as_well() {
    let config = ServerConfig {
        connections_max: 1,
        reserve_max: 1,
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        client.append("takes the place").await.unwrap();
        let mut raw = Raw::welcomed(address).await;
        let (id, within_ms) = (3, 30_000);
        raw.ask(&Request::Health { id, within_ms }).await;
        let answer = raw.answer().await;
        assert!(
            matches!(
                answer,
                Some(Response::Health {
                    id: 3,
                    writable: true,
                    ..
                })
            ),
            "{answer:?}"
        );
    });
}
