//! `checks`: what checking for I/O costs and brings, in three parts.
//!
//! - [`web`], [`relay`], [`starved`]: the parts
//! - [`throughput`]: servers compared by requests per second, and by what each cost
//! - [`database`]: one that is used where it is installed

mod database;
mod relay;
mod starved;
mod throughput;
mod web;

use serde_json::json;

use crate::error::{Error, Result};
use crate::load::LatencySummary;
use crate::report::Experiment;
use crate::trial::lab::Lab;

/// The number that follows a name at the head of a line of a tool's report.
fn field(output: &str, name: &str) -> Option<f64> {
    let mut lines = output.lines();
    let rest = lines.find_map(|line| line.trim_start().strip_prefix(name))?;
    rest.split_whitespace()
        .next()?
        .trim_end_matches('s')
        .parse()
        .ok()
}

/// A report that lacks a line.
fn unreadable(program: &str) -> Error {
    Error::unreadable(program, "its report lacks a line that the lab looks for")
}

/// Latencies of which a tool tells nothing.
const UNTOLD: LatencySummary = LatencySummary {
    p50_us: f64::NAN,
    p90_us: f64::NAN,
    p99_us: f64::NAN,
    p999_us: f64::NAN,
    max_us: f64::NAN,
    mean_us: f64::NAN,
    curve: Vec::new(),
};

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let parts = [web::run(lab)?, relay::run(lab)?, starved::run(lab)?];
    let mut experiment = Experiment {
        raw: json!({}),
        ..Experiment::default()
    };
    for (part, name) in parts.into_iter().zip(["http", "proxy", "hogs"]) {
        experiment.how.push_str(&part.how);
        experiment.how.push_str("\n\n");
        experiment.tables.extend(part.tables);
        experiment.plots.extend(part.plots);
        experiment.notes.extend(part.notes);
        experiment.raw[name] = part.raw;
    }
    experiment.how.push_str(&lab.conditions());
    Ok(experiment)
}
