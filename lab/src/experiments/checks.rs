//! `checks`: what checking for I/O costs and brings, in three parts.
//!
//! - [`web`], [`relay`], [`starved`]: the parts
//! - [`throughput`]: servers compared by requests per second, and by what each cost
//! - [`ab`], [`database`]: tools that are used where they are installed

mod ab;
mod database;
mod relay;
mod starved;
mod throughput;
mod web;

use serde_json::json;

use crate::error::Result;
use crate::report::{Experiment, Table};
use crate::trial::lab::Lab;

/// What one part contributes to the report.
pub(super) struct Part {
    pub(super) how: String,
    pub(super) tables: Vec<Table>,
    pub(super) plots: Vec<crate::report::Plot>,
    pub(super) notes: Vec<String>,
    pub(super) raw: serde_json::Value,
}

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let parts = [web::run(lab)?, relay::run(lab)?, starved::run(lab)?];
    let mut experiment = Experiment {
        name: "checks".to_owned(),
        claim: "Checking for I/O by time costs no throughput, whatever the bound; and with 32 \
                hogs to a core an event still reaches its task within a stated bound, not one \
                that grows with the hogs."
            .to_owned(),
        how: String::new(),
        tables: Vec::new(),
        plots: Vec::new(),
        notes: lab.lineup.missing.clone(),
        verdicts: Vec::new(),
        raw: json!({}),
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
