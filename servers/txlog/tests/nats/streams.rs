//! Streams that exist already, and cannot keep what txlog promises. Needs `nats-server`; without
//! it, the tests say so and pass.

use std::time::Duration;

use crate::support::all_of;
use crate::support::nats::{Nats, run};
use txlog::log::Retention;
use txlog::nats::{NatsConfig, NatsStore};
use txlog::store::Store;

/// A stream as it should be, but for these settings, which come last.
fn stream(name: &str, settings: &str) -> String {
    let subject = format!("\"subjects\":[\"txlog.{name}\"],");
    // A mirror has none.
    let subjects = if settings.contains("mirror") {
        ""
    } else {
        &subject
    };
    let usual = "\"storage\":\"file\",\"retention\":\"limits\",\"discard\":\"old\",\
        \"allow_direct\":true";
    let mut all = format!("{{\"name\":\"{name}\",{subjects}{usual}");
    for setting in settings.split(';').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap();
        let default = usual
            .split(',')
            .find(|one| one.starts_with(&format!("\"{key}\"")));
        let new = format!("\"{key}\":{value}");
        match default {
            Some(default) => all = all.replace(default, &new),
            None => all = format!("{all},{new}"),
        }
    }
    format!("{all}}}")
}

/// Connects to a stream with these settings, and returns the error.
async fn refused(nats: &Nats, name: &str, settings: &str, retention: Retention) -> Option<String> {
    nats.tool()
        .ask(&format!("STREAM.CREATE.{name}"), &stream(name, settings));
    let config = NatsConfig {
        stream: name.to_owned(),
        retention,
        ..nats.config()
    };
    NatsStore::connect(config)
        .await
        .err()
        .map(|e| e.to_string())
}

/// A stream's name, its settings, what is said of them, and how to mend it.
const FAULTY: [(&str, &str, &str, &str); 15] = [
    (
        "interest",
        "retention=\"interest\"",
        "its retention is",
        "nats stream add",
    ),
    (
        "work",
        "retention=\"workqueue\"",
        "its retention is",
        "nats stream add",
    ),
    (
        "memory",
        "storage=\"memory\"",
        "its storage is",
        "nats stream add",
    ),
    (
        "mirror",
        "mirror={\"name\":\"x\"}",
        "a mirror",
        "nats stream add",
    ),
    (
        "sources",
        "sources=[{\"name\":\"x\"}]",
        "sources",
        "nats stream add",
    ),
    (
        "subject",
        "max_msgs_per_subject=5",
        "5 messages of a",
        "--max-msgs-per-subject=-1",
    ),
    ("silent", "no_ack=true", "no_ack", "--ack"),
    (
        "forgets",
        "duplicate_window=60000000000",
        "duplicate_window is 60 s",
        "--dupe-window=2m",
    ),
    (
        "forgets-before",
        "max_age=90000000000;duplicate_window=60000000000",
        "90 s are needed",
        "--dupe-window=90s",
    ),
    (
        "full",
        "discard=\"new\";max_msgs=5",
        "discard policy",
        "--discard=old",
    ),
    (
        "bytes",
        "max_bytes=1000",
        "max_bytes is 1000",
        "--max-bytes=-1",
    ),
    (
        "messages",
        "max_msgs=7",
        "give --keep-records 7",
        "--max-msgs=-1",
    ),
    (
        "age",
        "max_age=5000000000",
        "max_age is 5 s",
        "--max-age=0s",
    ),
    (
        "direct",
        "allow_direct=false",
        "allow_direct",
        "--allow-direct",
    ),
    (
        "other",
        "subjects=[\"b\"]",
        "does not take the subject",
        "--subjects=b,txlog.other",
    ),
];

#[test]
fn a_stream_that_breaks_the_promise_is_refused_with_the_command_that_mends_it() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let plain = refused(&nats, "plain", "", Retention::default()).await;
        assert_eq!(plain, None);
        let edit = "nats stream edit";
        for (name, settings, setting, mend) in FAULTY {
            let error = refused(&nats, name, settings, Retention::default()).await;
            let error = error.unwrap_or_else(|| panic!("{name} is taken"));
            assert!(
                error.contains(setting) && error.contains(mend),
                "{name}: {error}"
            );
            if mend.starts_with("--") {
                assert!(
                    error.contains(&format!("{edit} {name} {mend}")),
                    "{name}: {error}"
                );
            }
        }
        let sealed = stream("plain", "sealed=true");
        nats.tool().ask("STREAM.UPDATE.plain", &sealed);
        let config = NatsConfig {
            stream: "plain".to_owned(),
            ..nats.config()
        };
        let error = NatsStore::connect(config).await.unwrap_err();
        assert!(error.text.contains("it is sealed"), "{error}");
    });
}

#[test]
fn all_faults_are_said_at_once_and_limits_that_were_asked_for_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let settings = "storage=\"memory\";no_ack=true;max_msgs=7";
        let error = refused(&nats, "many", settings, Retention::default()).await;
        assert_eq!(error.unwrap().lines().count(), 4, "a line for each");
        let retention = Retention {
            bytes_max: 1_000,
            records_max: 7,
            age_max: Duration::from_secs(5),
        };
        let settings = "max_bytes=1000;max_msgs=7;max_age=5000000000";
        assert_eq!(refused(&nats, "asked", settings, retention).await, None);
        let less = Retention {
            records_max: 6,
            ..retention
        };
        let error = refused(&nats, "less", settings, less).await.unwrap();
        assert!(error.contains("--max-msgs=6"), "{error}");
    });
}

/// Also one that was as it should be when the store was opened.
#[test]
fn a_stream_that_is_changed_takes_no_records_until_it_is_mended() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        append(&store, "one").await.unwrap();
        assert!(store.failure().is_none());
        let mended = stream("txlog", "");
        for (settings, mend) in [
            ("no_ack=true", "nats stream edit txlog --ack"),
            ("max_msgs=7", "nats stream edit txlog --max-msgs=-1"),
        ] {
            nats.tool()
                .ask("STREAM.UPDATE.txlog", &stream("txlog", settings));
            store.maintain().await.unwrap();
            let failure = store.failure().unwrap().text;
            assert!(failure.contains(mend), "{failure}");
            let error = append(&store, "refused").await.unwrap_err();
            assert!(error.contains("the record is not stored"), "{error}");
            assert!(error.contains(mend), "{error}");
            // What it has can be read.
            assert_eq!(all_of(&store).await.len(), 1);
            nats.tool().ask("STREAM.UPDATE.txlog", &mended);
            store.maintain().await.unwrap();
            assert!(store.failure().is_none());
        }
        append(&store, "two").await.unwrap();
        // Made anew, where its records would go with NATS.
        nats.tool().ask("STREAM.DELETE.txlog", "");
        let memory = stream("txlog", "storage=\"memory\"");
        nats.tool().ask("STREAM.CREATE.txlog", &memory);
        store.maintain().await.unwrap();
        let failure = store.failure().unwrap().text;
        assert!(failure.contains("its storage is \"memory\""), "{failure}");
        append(&store, "refused").await.unwrap_err();
    });
}

async fn append(store: &NatsStore, payload: &str) -> Result<u64, String> {
    let payload = payload.to_owned().into();
    let pending = store.submit(payload).await.map_err(|e| e.to_string())?;
    pending.await.map_err(|e| e.to_string())
}

/// A stream that is created here has what is asked for, so it is taken again.
#[test]
fn a_stream_that_was_made_here_is_taken_again() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let config = NatsConfig {
            retention: Retention {
                bytes_max: 100_000,
                records_max: 10,
                age_max: Duration::from_secs(3_600),
            },
            ..nats.config()
        };
        for _ in 0..2 {
            NatsStore::connect(config.clone()).await.unwrap();
        }
        let other = NatsStore::connect(nats.config()).await.unwrap_err();
        assert!(other.text.contains("--keep-seconds 3600"), "{other}");
    });
}
