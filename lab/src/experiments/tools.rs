//! What tools of others report, read by several experiments.

use crate::error::Error;
use crate::load::LatencySummary;

/// The number that follows a name at the head of a line of a tool's report.
pub(super) fn field(output: &str, name: &str) -> Option<f64> {
    let mut lines = output.lines();
    let rest = lines.find_map(|line| line.trim_start().strip_prefix(name))?;
    let number = rest.split_whitespace().next()?;
    number.trim_end_matches('s').parse().ok()
}

/// A report that lacks a line.
pub(super) fn unreadable(program: &str) -> Error {
    Error::unreadable(program, "its report lacks a line that the lab looks for")
}

/// Latencies of which a tool tells nothing.
pub(super) const UNTOLD: LatencySummary = LatencySummary {
    p50_us: f64::NAN,
    p90_us: f64::NAN,
    p99_us: f64::NAN,
    p999_us: f64::NAN,
    max_us: f64::NAN,
    mean_us: f64::NAN,
    curve: Vec::new(),
};
