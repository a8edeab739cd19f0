//! The histogram of latencies, which is the measuring kit's.

pub(crate) use evenkeel_measure::latency::{Latencies, LatencySummary};
