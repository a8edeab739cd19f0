//! `load log`: appends to a log in this very process, with no network between, beside one sync for
//! each record. It is the one load on evenkeel itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::LogArgs;
use crate::error::{Error, Result};

/// Both ways, one after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LogSummary {
    /// One thread that syncs each record.
    pub(crate) each: TurnSummary,
    /// Tasks whose records share syncs.
    pub(crate) together: TurnSummary,
}

/// What one way came to: how long appends took, and how long syncs did meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TurnSummary {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) sync_p50_us: f64,
    pub(crate) sync_p99_us: f64,
    pub(crate) sync_mean_us: f64,
    pub(crate) records_per_sync: f64,
}

pub(crate) fn run(args: &LogArgs) -> Result<LogSummary> {
    let bench = txlog::bench::Bench {
        directory: args.directory.clone(),
        appenders: args.appenders as usize,
        record_bytes: args.bytes as usize,
        length: args.seconds,
        ahead_bytes: 4 << 20,
    };
    let failed = |reason: String| Error::Log {
        path: args.directory.clone(),
        reason,
    };
    let each = txlog::bench::one_by_one(&bench).map_err(|error| failed(error.to_string()))?;
    let together = txlog::bench::together(&bench).map_err(|error| failed(error.to_string()))?;
    Ok(LogSummary {
        each: summary(&each),
        together: summary(&together),
    })
}

fn summary(turn: &txlog::bench::Turn) -> TurnSummary {
    let us = |took: &txlog::bench::Latencies, percent| micros(took.percentile(percent));
    let syncs = turn.syncs.len().max(1) as f64;
    TurnSummary {
        per_second: turn.per_second(),
        p50_us: us(&turn.latencies, 50),
        p99_us: us(&turn.latencies, 99),
        sync_p50_us: us(&turn.syncs, 50),
        sync_p99_us: us(&turn.syncs, 99),
        sync_mean_us: micros(turn.syncs.mean()),
        records_per_sync: turn.appends as f64 / syncs,
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
