//! A JetStream that has lost records, or was replaced, while a store is connected. Needs
//! `nats-server`; without it, the tests say so and pass.

use std::path::Path;

use crate::support::nats::{Nats, free_port, put_back, run};
use crate::support::program::Server;
use crate::support::{LIMIT, all_of};
use evenkeel::time::timeout;
use txlog::nats::NatsStore;
use txlog::store::{Identity, Store};
use txlog_client::Client;
use txlog_client::frame::Code;

/// Appends so many records, and returns the number of the last.
async fn append(store: &NatsStore, name: &str, count: u64) -> u64 {
    let mut last = 0;
    for number in 1..=count {
        let payload = format!("{name} {number}");
        last = store.submit(payload.into()).await.unwrap().await.unwrap();
    }
    last
}

/// A stream with 20 records, whose NATS has ended, and a copy of its directory with the first 10.
struct Set {
    directory: tempfile::TempDir,
    port: u16,
}

impl Set {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        Self { directory, port }
    }

    fn live(&self) -> std::path::PathBuf {
        self.directory.path().join("live")
    }

    fn saved(&self) -> std::path::PathBuf {
        self.directory.path().join("saved")
    }

    fn start(&self) -> Option<Nats> {
        Nats::start_at(&self.live(), self.port)
    }

    /// Appends 10 records, saves the directory, and appends 10 more.
    async fn fill(&self) -> Option<(NatsStore, Nats)> {
        let nats = self.start()?;
        let store = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(append(&store, "old", 10).await, 10);
        drop(nats);
        put_back(&self.live(), &self.saved());
        let nats = self.start()?;
        store.maintain().await.unwrap();
        assert_eq!(append(&store, "old", 10).await, 20);
        Some((store, nats))
    }

    fn go_back(&self) {
        put_back(&self.saved(), &self.live());
    }
}

fn grew(old: Identity, new: Identity) {
    assert_eq!(old.log, new.log);
    assert!(new.epoch > old.epoch, "{old:?} {new:?}");
}

#[test]
fn a_restart_that_loses_nothing_is_no_new_epoch() {
    run(async {
        let set = Set::new();
        let Some((store, nats)) = set.fill().await else {
            return;
        };
        let identity = store.identity();
        drop(nats);
        let nats = set.start().unwrap();
        store.maintain().await.unwrap();
        assert_eq!(append(&store, "new", 1).await, 21);
        nats.delete("txlog", [21]);
        store.maintain().await.unwrap();
        drop(nats);
        let nats = set.start().unwrap();
        store.maintain().await.unwrap();
        assert_eq!(store.identity(), identity);
        // Others of the same stream agree.
        let other = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(other.identity(), identity);
        assert_eq!(append(&other, "new", 1).await, 22);
        // And see each other's records, though they have not looked yet.
        let found = store.read(23, Default::default()).await.unwrap();
        assert_eq!((found.records.len(), found.next), (0, 23));
    });
}

#[test]
fn readers_hear_that_the_stream_went_back() {
    run(async {
        let set = Set::new();
        let Some((store, nats)) = set.fill().await else {
            return;
        };
        let old = store.identity();
        let waiting = store.clone();
        let waiting = evenkeel::spawn(async move { waiting.wait_for(21).await });
        drop(nats);
        set.go_back();
        let _nats = set.start().unwrap();
        store.maintain().await.unwrap();
        grew(old, store.identity());
        timeout(LIMIT / 2, waiting).await.unwrap().unwrap();
        assert_eq!(store.bounds(), (1, 11));
        let error = store.read(15, Default::default()).await.unwrap_err();
        assert_eq!(error.code, Code::OutOfRange, "{error}");
        // Whoever is told so does not wait for a record that would be another one.
        timeout(LIMIT / 2, store.wait_for(15)).await.unwrap();
        let new = store.identity();
        assert_eq!(append(&store, "new", 1).await, 11);
        assert_eq!(store.identity(), new, "once");
        assert_eq!(all_of(&store).await.len(), 11);
    });
}

/// Nobody has looked in between: the first who reads or appends sees it.
#[test]
fn who_reads_first_skips_nothing_that_was_lost() {
    run(async {
        let set = Set::new();
        let Some((store, nats)) = set.fill().await else {
            return;
        };
        let old = store.identity();
        drop(nats);
        set.go_back();
        let _nats = set.start().unwrap();
        let error = store.read(12, Default::default()).await.unwrap_err();
        assert_eq!(error.code, Code::OutOfRange, "{error}");
        grew(old, store.identity());
    });
}

/// By the time that the store looks, the stream is longer than it was.
#[test]
fn a_history_that_grew_past_the_old_one_is_another_all_the_same() {
    run(async {
        let set = Set::new();
        let Some((store, nats)) = set.fill().await else {
            return;
        };
        store.maintain().await.unwrap();
        let old = store.identity();
        drop(nats);
        set.go_back();
        grow_elsewhere(&set.live());
        let _nats = set.start().unwrap();
        store.maintain().await.unwrap();
        grew(old, store.identity());
        assert_eq!(store.bounds(), (1, 26));
        let new = store.identity();
        store.maintain().await.unwrap();
        assert_eq!(append(&store, "new", 1).await, 26);
        store.maintain().await.unwrap();
        assert_eq!(store.identity(), new, "once");
    });
}

/// Appends 15 records to the stream of this directory.
fn grow_elsewhere(directory: &Path) {
    let nats = Nats::start(directory).unwrap();
    let mut tool = nats.tool();
    for _ in 0..15 {
        tool.publish("txlog.txlog", "other");
    }
}

#[test]
fn a_stream_that_was_made_anew_is_another_history() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(append(&store, "old", 3).await, 3);
        let old = store.identity();
        nats.tool().ask("STREAM.DELETE.txlog", "");
        let other = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(append(&other, "new", 5).await, 5);
        store.maintain().await.unwrap();
        grew(old, store.identity());
        assert_eq!(store.identity(), other.identity());
        assert_eq!(store.bounds(), (1, 6));
    });
}

/// Whoever opens the stream after a loss was noticed, however often, has the epoch of then.
#[test]
fn a_loss_that_was_noticed_is_known_when_the_stream_is_opened_again() {
    run(async {
        let set = Set::new();
        let Some((store, nats)) = set.fill().await else {
            return;
        };
        let old = store.identity();
        let described = "{\"name\":\"txlog\",\"subjects\":[\"txlog.txlog\"],\
            \"allow_direct\":true,\"storage\":\"file\",\"description\":\"of orders\"}";
        drop(nats);
        set.go_back();
        let nats = set.start().unwrap();
        nats.tool().ask("STREAM.UPDATE.txlog", described);
        store.maintain().await.unwrap();
        let new = store.identity();
        grew(old, new);
        drop(store);
        for _ in 0..2 {
            let again = NatsStore::connect(nats.config()).await.unwrap();
            assert_eq!(again.identity(), new);
            again.maintain().await.unwrap();
            assert_eq!(again.identity(), new, "nothing else was lost");
        }
        let info = nats.tool().ask("STREAM.INFO.txlog", "");
        assert!(
            info.contains("of orders"),
            "its owner's words are kept: {info}"
        );
        // What it has in its settings goes back with it, and is written again.
        let store = NatsStore::connect(nats.config()).await.unwrap();
        append(&store, "new", 1).await;
        drop(nats);
        set.go_back();
        let nats = set.start().unwrap();
        store.maintain().await.unwrap();
        let newer = store.identity();
        grew(new, newer);
        let again = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(again.identity(), newer);
    });
}

/// Each notices it by itself, at the same time or when the other one has.
#[test]
fn all_servers_of_a_stream_agree_on_the_epoch_after_a_loss() {
    run(async {
        let set = Set::new();
        let Some((one, nats)) = set.fill().await else {
            return;
        };
        let other = NatsStore::connect(nats.config()).await.unwrap();
        let late = NatsStore::connect(nats.config()).await.unwrap();
        let old = one.identity();
        assert_eq!((other.identity(), late.identity()), (old, old));
        drop(nats);
        set.go_back();
        let _nats = set.start().unwrap();
        let (looked, looked_too) = tokio::join!(one.maintain(), other.maintain());
        looked.and(looked_too).unwrap();
        // The later one of two that were begun at once is written by whoever has it, and the other
        // one takes it over.
        for store in [&one, &other, &one] {
            store.maintain().await.unwrap();
        }
        let new = one.identity();
        grew(old, new);
        assert_eq!(other.identity(), new);
        late.maintain().await.unwrap();
        assert_eq!(late.identity(), new);
        assert_eq!(late.bounds(), (1, 11));
        assert_eq!(append(&late, "new", 1).await, 11);
        one.maintain().await.unwrap();
        assert_eq!((one.identity(), one.bounds()), (new, (1, 12)));
    });
}

#[test]
fn the_server_says_so_and_its_reader_does_not_wait_for_ever() {
    let set = Set::new();
    let Some(nats) = set.start() else { return };
    let mut server = Server::start_with(&["--nats", &nats.address]);
    let address = server.address.to_string();
    run(async {
        let client = Client::connect(address.as_str()).await.unwrap();
        client.append("kept").await.unwrap();
        drop(nats);
        put_back(&set.live(), &set.saved());
        let nats = set.start().unwrap();
        // The server connects again within a second or so.
        while client.append("lost").await.is_err() {
            evenkeel::time::sleep(LIMIT / 600).await;
        }
        let next = 1 + client.append("lost").await.unwrap();
        let reader = Client::connect(address.as_str()).await.unwrap();
        let waits = evenkeel::spawn(async move { reader.read(next, LIMIT / 3).await });
        drop(nats);
        set.go_back();
        let _nats = set.start().unwrap();
        let error = waits.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("NATS has lost records"), "{error}");
        assert_eq!(client.append("new").await.unwrap(), 2);
    });
    let said = server.end();
    assert!(
        said.contains("has lost records that it had acknowledged"),
        "{said}"
    );
}
