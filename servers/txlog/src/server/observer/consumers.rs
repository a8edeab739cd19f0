//! Metrics of consumers: where each is, as far as that may be shown.

use evenkeel_admin::metrics::Kind;
use evenkeel_admin::metrics::Value::Level;

use super::{OfLog, SeenLog, family};
use crate::figures::ConsumerFigures;

/// How many consumers of all logs together are shown. Each is two series in whatever keeps them,
/// also for long after it is gone. A log shows fewer by itself.
const SHOWN_MAX: usize = 512;

/// Shows no more consumers than may be shown: those of the first logs.
pub(super) fn limit(logs: &mut [SeenLog]) {
    let mut left = SHOWN_MAX;
    for log in logs {
        if let Some(consumers) = &mut log.figures.consumers {
            consumers.limit(left);
            left -= consumers.shown.len();
        }
    }
}

/// A figure of all consumers of a log.
macro_rules! of_all {
    ($name:expr, $help:expr, $read:expr) => {
        OfLog {
            family: family(($name, None), Kind::Gauge, &["log"], $help),
            read: |log, row| {
                let read: fn(&ConsumerFigures) -> u64 = $read;
                if let Some(consumers) = &log.figures.consumers {
                    row(None, Level(read(consumers) as f64));
                }
            },
        }
    };
}

/// A figure of each consumer that is shown.
macro_rules! of_each {
    ($name:expr, $help:expr, $field:ident) => {
        OfLog {
            family: family(($name, None), Kind::Gauge, &["log", "cursor"], $help),
            read: |log, row| {
                for lag in log.figures.consumers.iter().flat_map(|all| &all.shown) {
                    row(Some(&lag.name), Level(lag.$field as f64));
                }
            },
        }
    };
}

/// None of them are of logs in NATS.
pub(super) const OF_CONSUMERS: &[OfLog] = &[
    of_each!(
        "txlog_log_cursor_sequence",
        "The number of the record that a consumer reads next, by its named cursor: of 64 consumers \
         of a log at most, and 512 in all; not with NATS",
        sequence
    ),
    of_each!(
        "txlog_log_cursor_lag_records",
        "How many records such a consumer has yet to read; not with NATS",
        records
    ),
    of_all!(
        "txlog_log_cursor_lag_max_records",
        "The greatest of these figures, also of consumers that are left out; not with NATS",
        |consumers| consumers.lag_max
    ),
    of_all!(
        "txlog_log_cursors_left_out",
        "Consumers beyond those limits, which are not shown; not with NATS",
        |consumers| consumers.left_out
    ),
    of_all!(
        "txlog_log_cursors_lost",
        "Consumers that are refused, as the records at their cursors are no longer kept, or the \
         log has another epoch; not with NATS",
        |consumers| consumers.lost
    ),
    OfLog {
        family: family(
            ("txlog_log_cursors_unreadable", None),
            Kind::Gauge,
            &["log"],
            "1 if the file of named cursors cannot be read, so that consumers are refused; then \
             there are no other figures of consumers; not with NATS",
        ),
        read: |log, row| {
            if let Some(unreadable) = log.figures.are_cursors_unreadable {
                row(None, Level(f64::from(unreadable)));
            }
        },
    },
];
