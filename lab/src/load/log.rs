//! `load log`: appends to a log in this very process, with no network between, beside one sync for
//! each record. It is the one load on evenkeel itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use txlog::bench::{self, Bench, Turn};

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
    let bench = Bench {
        directory: args.directory.clone(),
        appenders: args.appenders as usize,
        record_bytes: args.bytes as usize,
        length: args.seconds,
        ahead_bytes: 4 << 20,
    };
    let each = bench::one_by_one(&bench).map_err(Error::log(&args.directory))?;
    let together = bench::together(&bench).map_err(Error::log(&args.directory))?;
    Ok(LogSummary {
        each: summary(&each),
        together: summary(&together),
    })
}

fn summary(turn: &Turn) -> TurnSummary {
    let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
    TurnSummary {
        per_second: turn.per_second(),
        p50_us: micros(turn.latencies.percentile(50)),
        p99_us: micros(turn.latencies.percentile(99)),
        sync_p50_us: micros(turn.syncs.percentile(50)),
        sync_p99_us: micros(turn.syncs.percentile(99)),
        sync_mean_us: micros(turn.syncs.mean()),
        records_per_sync: turn.appends as f64 / turn.syncs.len().max(1) as f64,
    }
}
