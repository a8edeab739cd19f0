//! A server as it is watched from outside: its metrics, and whether it is well.

mod consumers;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::Class;
use evenkeel_admin::metrics::Value::{Count, Level};
use evenkeel_admin::metrics::{Families, Family, Kind, Rows, Value, table_of};
use txlog_client::frame::Response;

use self::consumers::OF_CONSUMERS;
use super::logs::OpenLog;
use super::{Context, health};
use crate::figures::StoreFigures;
use crate::store::Store;

/// Sees the state of a server, before and while it runs.
pub struct Observer<S: Store>(Arc<Context<S>>);

impl<S: Store> Clone for Observer<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Store> std::fmt::Debug for Observer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// A metric of the whole server.
struct OfServer {
    family: Family,
    read: fn(&Seen, &mut Rows<'_>),
}

/// Takes the rows of a log: its second label, if the metric has one, and the value.
type LogRows<'a> = dyn FnMut(Option<&str>, Value) + 'a;

/// A metric of each log, whose first label is the log's name.
struct OfLog {
    family: Family,
    read: fn(&SeenLog, &mut LogRows<'_>),
}

/// A server's figures at a moment.
struct Seen {
    connections: [(&'static str, u64); 3],
    memory: [(&'static str, usize, usize, usize); 2],
    handshakes: [(&'static str, u64); 5],
    failed_logins: u64,
    strangers_refused: u64,
    connections_refused: u64,
}

/// A log's figures at a moment.
struct SeenLog {
    name: String,
    counts: [u64; 6],
    durable: (f64, Vec<(f64, u64)>),
    refused: Vec<(String, u64)>,
    bounds: (u64, u64),
    has_failed: bool,
    figures: StoreFigures,
}

impl<S: Store> Observer<S> {
    pub(super) fn new(context: &Arc<Context<S>>) -> Self {
        Self(Arc::clone(context))
    }

    /// Adds the families of [`metrics_page`].
    pub fn metrics(&self, families: &mut Families<'_>) {
        let seen = Seen::of(&self.0);
        for metric in OF_SERVER {
            families.add(&metric.family, |row| (metric.read)(&seen, row));
        }
        let logs = self.0.logs.open_ones();
        let mut logs: Vec<_> = logs.iter().map(|log| SeenLog::of(log)).collect();
        consumers::limit(&mut logs);
        for metric in of_logs() {
            families.add(&metric.family, |row| {
                for log in &logs {
                    (metric.read)(log, &mut |label, value| match label {
                        Some(label) => row(&[&log.name, label], value),
                        None => row(&[&log.name], value),
                    });
                }
            });
        }
    }

    /// Whether an append to each log that is open would be acknowledged within this time; as
    /// [`Client::health`](txlog_client::Client::health) says it of one.
    ///
    /// # Errors
    ///
    /// The names of the logs in which it would not, and no more: whoever asks may be a stranger.
    pub async fn health(&self, within: Duration) -> Result<(), String> {
        let mut asked = Vec::new();
        for log in self.0.logs.open_ones() {
            let context = Arc::clone(&self.0);
            let name = log.name.clone();
            let answer = async move { health::answer(&context, &log, 0, within).await };
            asked.push((name, evenkeel::spawn_in(Class::URGENT, answer)));
        }
        let mut ill = Vec::new();
        for (name, answer) in asked {
            // A task that is gone, as the runtime ends, knows nothing good.
            if !matches!(answer.await, Ok(Response::Health { writable: true, .. })) {
                ill.push(match name.as_str() {
                    "" => "the log without a name".to_owned(),
                    name => format!("the log {name}"),
                });
            }
        }
        match ill.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "an append would not be acknowledged in time by {}; see the server's messages",
                ill.join(", ")
            )),
        }
    }
}

/// All metrics of a server as a table for people.
pub fn metrics_page() -> String {
    let of_server = OF_SERVER.iter().map(|metric| &metric.family);
    table_of(of_server.chain(of_logs().map(|metric| &metric.family)))
}

/// Those of logs, and of their consumers.
fn of_logs() -> impl Iterator<Item = &'static OfLog> {
    OF_LOG.iter().chain(OF_CONSUMERS)
}

impl Seen {
    fn of<S: Store>(context: &Context<S>) -> Self {
        let counters = &context.counters;
        let handshakes = &counters.handshakes;
        Self {
            connections: context.peers.census(),
            memory: context.memory.figures(),
            handshakes: [
                ("done", handshakes.done.read()),
                ("failed", handshakes.failed.read()),
                ("plain", handshakes.plain.read()),
                ("too_slow", handshakes.too_slow.read()),
                ("cut", handshakes.cut.read()),
            ],
            failed_logins: counters.failed_logins.read(),
            strangers_refused: counters.strangers_refused.read(),
            connections_refused: counters.connections_refused.read(),
        }
    }
}

impl SeenLog {
    fn of<S: Store>(log: &OpenLog<S>) -> Self {
        let counters = &log.counters;
        Self {
            name: log.name.clone(),
            counts: [
                &counters.records,
                &counters.bytes,
                &counters.batches,
                &counters.repeated_batches,
                &counters.reads,
                &counters.read_bytes,
            ]
            .map(super::counters::Count::read),
            durable: counters.durable.read(),
            refused: counters.refused.read().collect(),
            bounds: log.store.bounds(),
            has_failed: log.store.failure().is_some(),
            figures: log.store.figures(),
        }
    }
}

const fn family(
    (name, unit): (&'static str, Option<&'static str>),
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family {
        name,
        help,
        kind,
        unit,
        labels,
    }
}

const SECONDS: Option<&str> = Some("seconds");
const BYTES: Option<&str> = Some("bytes");

const OF_SERVER: &[OfServer] = &[
    OfServer {
        family: family(
            ("txlog_connections", None),
            Kind::Gauge,
            &["state"],
            "Connections: known (with a place, and allowed to do something), strangers (before \
             their hello, or without a token), or in reserve (they may only ping)",
        ),
        read: |seen, row| {
            for (state, count) in seen.connections {
                row(&[state], Level(count as f64));
            }
        },
    },
    OfServer {
        family: family(
            ("txlog_connections_refused", None),
            Kind::Counter,
            &[],
            "Connections for which there was no place",
        ),
        read: |seen, row| row(&[], Count(seen.connections_refused)),
    },
    OfServer {
        family: family(
            ("txlog_memory_held", BYTES),
            Kind::Gauge,
            &["part"],
            "Memory that requests and answers hold, of appends and of reads",
        ),
        read: |seen, row| {
            for (part, held, ..) in seen.memory {
                row(&[part], Level(held as f64));
            }
        },
    },
    OfServer {
        family: family(
            ("txlog_memory_limit", BYTES),
            Kind::Gauge,
            &["part"],
            "How much they may hold at most",
        ),
        read: |seen, row| {
            for (part, _, limit, _) in seen.memory {
                row(&[part], Level(limit as f64));
            }
        },
    },
    OfServer {
        family: family(
            ("txlog_memory_waiting", None),
            Kind::Gauge,
            &["part"],
            "Requests that wait for memory",
        ),
        read: |seen, row| {
            for (part, .., waiting) in seen.memory {
                row(&[part], Level(waiting as f64));
            }
        },
    },
    OfServer {
        family: family(
            ("txlog_failed_logins", None),
            Kind::Counter,
            &[],
            "Connections with a token that the server does not know",
        ),
        read: |seen, row| row(&[], Count(seen.failed_logins)),
    },
    OfServer {
        family: family(
            ("txlog_strangers_refused", None),
            Kind::Counter,
            &[],
            "Requests that were refused as their connection has no token, or none for the log",
        ),
        read: |seen, row| row(&[], Count(seen.strangers_refused)),
    },
    OfServer {
        family: family(
            ("txlog_tls_handshakes", None),
            Kind::Counter,
            &["outcome"],
            "TLS handshakes: done, failed, plain (the client did not speak TLS), too_slow, or cut \
             (others needed the place)",
        ),
        read: |seen, row| {
            for (outcome, count) in seen.handshakes {
                row(&[outcome], Count(count));
            }
        },
    },
];

/// A metric of each log without further labels.
macro_rules! of_log {
    ($name:expr, $unit:expr, $kind:ident, $help:expr, $read:expr) => {
        OfLog {
            family: family(($name, $unit), Kind::$kind, &["log"], $help),
            read: |log, row| {
                let read: fn(&SeenLog) -> Option<Value> = $read;
                if let Some(value) = read(log) {
                    row(None, value);
                }
            },
        }
    };
}

fn level(value: Option<u64>) -> Option<Value> {
    value.map(|value| Level(value as f64))
}

fn histogram((sum, buckets): (f64, Vec<(f64, u64)>)) -> Value {
    Value::Histogram { sum, buckets }
}

/// Counters begin when the log is opened.
const OF_LOG: &[OfLog] = &[
    of_log!(
        "txlog_appended_records",
        None,
        Counter,
        "Records that were acknowledged, each once",
        |log| Some(Count(log.counts[0]))
    ),
    of_log!(
        "txlog_appended",
        BYTES,
        Counter,
        "Bytes of the requests by which they came",
        |log| Some(Count(log.counts[1]))
    ),
    of_log!(
        "txlog_batches",
        None,
        Counter,
        "Batches that were acknowledged",
        |log| Some(Count(log.counts[2]))
    ),
    of_log!(
        "txlog_repeated_batches",
        None,
        Counter,
        "Those of them that had been stored before",
        |log| Some(Count(log.counts[3]))
    ),
    of_log!(
        "txlog_append_durable",
        SECONDS,
        Histogram,
        "How long appends and batches took from their arrival until they were durable",
        |log| Some(histogram(log.durable.clone()))
    ),
    of_log!(
        "txlog_reads",
        None,
        Counter,
        "Reads that were answered",
        |log| Some(Count(log.counts[4]))
    ),
    of_log!(
        "txlog_read",
        BYTES,
        Counter,
        "Bytes of the answers to them",
        |log| Some(Count(log.counts[5]))
    ),
    OfLog {
        family: family(
            ("txlog_refusals", None),
            Kind::Counter,
            &["log", "code"],
            "Requests that were refused, by the reason",
        ),
        read: |log, row| {
            for (code, count) in &log.refused {
                row(Some(code), Count(*count));
            }
        },
    },
    of_log!(
        "txlog_log_first_record",
        None,
        Gauge,
        "The number of the oldest record",
        |log| level(Some(log.bounds.0))
    ),
    of_log!(
        "txlog_log_next_record",
        None,
        Gauge,
        "The number of the next record to come",
        |log| level(Some(log.bounds.1))
    ),
    of_log!(
        "txlog_log_failed",
        None,
        Gauge,
        "1 if the log is known to take no records",
        |log| level(Some(log.has_failed.into()))
    ),
    of_log!(
        "txlog_log_sync",
        SECONDS,
        Histogram,
        "How long syncs of the log took; not with NATS",
        |log| log.figures.syncs.clone().map(histogram)
    ),
    of_log!(
        "txlog_log_queued_records",
        None,
        Gauge,
        "Records that wait for a sync, or are being written",
        |log| level(log.figures.queued)
    ),
    of_log!(
        "txlog_log_queued",
        BYTES,
        Gauge,
        "Bytes of those that are not being written yet",
        |log| level(log.figures.queued_bytes)
    ),
    of_log!(
        "txlog_log_waiting_appends",
        None,
        Gauge,
        "Appends that wait for room in the queue",
        |log| level(log.figures.waiting)
    ),
    of_log!(
        "txlog_log_segments",
        None,
        Gauge,
        "Files with records of the log; not with NATS",
        |log| level(log.figures.segments)
    ),
    of_log!(
        "txlog_log_size",
        BYTES,
        Gauge,
        "Bytes of these files as far as they have records; not with NATS",
        |log| level(log.figures.bytes)
    ),
    of_log!(
        "txlog_log_mark_timestamp",
        SECONDS,
        Gauge,
        "When the mark of the log was last written, since 1970; not with NATS",
        |log| log.figures.marked_at.map(Level)
    ),
    of_log!(
        "txlog_log_unmarked_records",
        None,
        Gauge,
        "Durable records that the mark does not cover yet; not with NATS",
        |log| level(log.figures.unmarked)
    ),
    of_log!(
        "txlog_nats_connected",
        None,
        Gauge,
        "1 if there is a connection to NATS; only with NATS",
        |log| level(log.figures.is_connected.map(u64::from))
    ),
];
