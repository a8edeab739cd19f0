//! Streams as the logs with names of a server, and records of them by their time. Needs
//! `nats-server`; without it, the tests say so and pass.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::logs::{connect, creating, serving_logs};
use crate::support::nats::{Nats, run};
use evenkeel::time::sleep;
use txlog::nats::{NatsConfig, NatsStore, NatsStreams};
use txlog::server::{LogSource, ServerConfig};
use txlog::store::Store;
use txlog_client::frame::Code;
use txlog_client::{Connect, Trim};

async fn streams(nats: &Nats, logs_max: usize) -> NatsStreams {
    let opened = NatsStreams::open("logs-".to_owned(), nats.config(), logs_max, None).await;
    opened.unwrap()
}

#[test]
fn each_stream_whose_name_begins_so_is_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let ended = serving_logs(streams(&nats, 2).await, creating(), async |address| {
            let refused = Connect::new().log("orders").connect(address).await;
            assert_eq!(refused.unwrap_err().code(), Some(Code::NoSuchLog));
            let orders = connect(address, "orders").await.unwrap();
            let audit = connect(address, "audit").await.unwrap();
            assert_eq!(orders.append("one").await.unwrap(), 1);
            assert_eq!(orders.append("two").await.unwrap(), 2);
            assert_eq!(audit.append("another").await.unwrap(), 1);
            let error = connect(address, "third").await.unwrap_err();
            assert_eq!(error.code(), Some(Code::TooMany), "{error}");
            let error = connect(address, "a.b").await.unwrap_err();
            assert_eq!(error.code(), Some(Code::NoSuchLog), "{error}");
            let error = orders.cursor("billing").await.unwrap_err();
            assert_eq!(error.code(), Some(Code::Unsupported), "{error}");
            let error = orders.trim(Trim::before(2)).await.unwrap_err();
            assert_eq!(error.code(), Some(Code::Unsupported), "{error}");
            let purge = "nats stream purge logs-orders --seq 2";
            assert!(error.to_string().contains(purge), "{error}");
        });
        ended.await.unwrap();
        // One that is none of txlog's, and one of another server.
        let other = NatsConfig {
            stream: "else".to_owned(),
            ..nats.config()
        };
        NatsStore::connect(other).await.unwrap();
        let foreign = "{\"name\":\"logs-foreign\",\"subjects\":[\"foreign\"]}";
        nats.tool().ask("STREAM.CREATE.logs-foreign", foreign);
        let source = streams(&nats, 9).await;
        let ended = serving_logs(source, ServerConfig::default(), async |address| {
            let audit = Connect::new().log("audit").connect(address).await.unwrap();
            assert_eq!(audit.info().next, 2);
            let logs = audit.logs().await.unwrap();
            let named = |at: usize| (logs[at].name.as_str(), logs[at].is_open);
            assert_eq!([named(0), named(1)], [("audit", true), ("orders", false)]);
            assert_eq!(logs.len(), 2);
            assert_eq!(logs[0].bounds.unwrap().of, audit.info().identity.unwrap());
            let bounds = logs[1].bounds.unwrap();
            assert_eq!((bounds.first, bounds.next), (1, 3));
        });
        ended.await.unwrap();
    });
}

#[test]
fn records_of_a_stream_are_found_by_their_time() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let source = streams(&nats, 2).await;
        let ended = serving_logs(source, creating(), async |address| {
            let client = connect(address, "orders").await.unwrap();
            for number in 0..20 {
                client.append(format!("{number}")).await.unwrap();
                sleep(Duration::from_millis(3)).await;
            }
            // Gaps at the beginning, within, and none of these are found.
            nats.delete("logs-orders", [1, 2, 7, 8, 9, 15]);
            let (records, next) = client.read(3, Duration::ZERO).await.unwrap();
            for record in &records {
                let at = UNIX_EPOCH + Duration::from_millis(record.time_ms);
                let found = client.seek(at).await.unwrap();
                let (from_there, _) = client.read(found, Duration::ZERO).await.unwrap();
                assert_eq!(from_there.first(), Some(record));
            }
            assert_eq!(client.seek(SystemTime::now()).await.unwrap(), next);
        });
        ended.await.unwrap();
    });
}

#[test]
fn an_empty_stream_is_sought_in_and_a_bad_prefix_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(store.seek(0).await.unwrap(), 1, "it has no records");
        let error = NatsStreams::open("a.b".to_owned(), nats.config(), 9, None).await;
        assert!(error.unwrap_err().contains("a.b"));
    });
}

/// The stream has limits of its own, and one with others would be refused.
#[test]
fn settings_of_an_open_stream_stay_and_it_is_said_which_would_change() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let settings = directory.path().join("txlog.toml");
        let write = |text: &str| std::fs::write(&settings, text).unwrap();
        write("[logs.orders]\nkeep_records = 10");
        let file = Some(settings.clone());
        let source = NatsStreams::open("logs-".to_owned(), nats.config(), 9, file).await;
        let source = source.unwrap();
        let store = source.open("orders", true).await.unwrap();
        assert!(source.read_again().await.unwrap(), "there is a file");
        assert_eq!(source.adjust("orders", &store), [""; 0]);
        write("[logs.orders]\nkeep_records = 20\nrecord_bytes_max = 99");
        source.read_again().await.unwrap();
        let said = source.adjust("orders", &store);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].contains("keep_records stays 10 as long"),
            "{said:?}"
        );
        assert!(said[0].contains("nats stream edit"), "{said:?}");
        assert!(said[1].starts_with("record_bytes_max stays"), "{said:?}");
        // One that is wrong changes nothing.
        write("[logs.orders]\nkeep_records = 'many'");
        source.read_again().await.unwrap_err();
        assert_eq!(source.adjust("orders", &store), said);
        assert!(!streams(&nats, 9).await.read_again().await.unwrap());
    });
}
