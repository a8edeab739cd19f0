//! The experiments: each starts servers and load as processes, peers in turn, and ends in a part of
//! the report.

mod busywait;
mod checks;
mod classes;
mod fsync;
mod responsive;
mod services;
mod shares;
mod storm;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::process;
use crate::report::{Experiment, Machine, Report};
use crate::trial::args::RunArgs;
use crate::trial::lab::Lab;

/// An experiment, by the name that the command line has for it.
type Named = (&'static str, fn(&Lab) -> Result<Experiment>);

const EXPERIMENTS: [Named; 8] = [
    ("responsive", responsive::run),
    ("services", services::run),
    ("shares", shares::run),
    ("classes", classes::run),
    ("storm", storm::run),
    ("fsync", fsync::run),
    ("checks", checks::run),
    ("busywait", busywait::run),
];

/// The names of all experiments.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.into_iter().map(|(name, _)| name)
}

/// Runs one experiment and prints its report; files are written where asked for.
///
/// # Errors
/// When it cannot be run, or a file cannot be written.
pub(crate) fn run_one(name: &'static str, args: &RunArgs) -> Result<()> {
    let chosen = EXPERIMENTS.into_iter().find(|(known, _)| *known == name);
    let chosen = chosen.unwrap_or_else(|| unreachable!("no experiment is called `{name}`"));
    run(&[chosen], args, args.json.clone(), args.html.clone())
}

/// Runs all experiments, prints their report and writes it to files.
///
/// # Errors
/// As [`run_one`].
pub(crate) fn run_all(args: &RunArgs) -> Result<()> {
    let json = args
        .json
        .clone()
        .unwrap_or_else(|| "lab-report.json".into());
    let html = args
        .html
        .clone()
        .unwrap_or_else(|| "lab-report.html".into());
    run(&EXPERIMENTS, args, Some(json), Some(html))
}

fn run(
    chosen: &[Named],
    args: &RunArgs,
    json: Option<PathBuf>,
    html: Option<PathBuf>,
) -> Result<()> {
    process::end_all_on_signal()?;
    let lab = Lab::open(args)?;
    let mut experiments = Vec::new();
    for (_, experiment) in chosen {
        experiments.push(experiment(&lab)?);
    }
    let title = match chosen {
        [(name, _)] => format!("Evenkeel lab: {name}"),
        _ => "Evenkeel lab".to_owned(),
    };
    let report = Report {
        title,
        rough: lab.roughness(),
        machine: Machine::detect(),
        experiments,
    };
    lab.done();
    report.print();
    if let Some(path) = json {
        written(&path, report.write_json(&path))?;
    }
    if let Some(path) = html {
        written(&path, report.write_html(&path))?;
    }
    Ok(())
}

fn written(path: &Path, result: std::io::Result<()>) -> Result<()> {
    result.map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })?;
    eprintln!("written: {}", path.display());
    Ok(())
}
