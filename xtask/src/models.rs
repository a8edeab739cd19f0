//! The model tests: loom runs the small concurrent cores under every interleaving it is allowed.
//!
//! Loom's own limits on time and permutations end a model silently, as if it had passed. So they
//! are kept unset here, every model runs in a process of its own, and one that is not through
//! within [`CAP`] is stopped and counts as failed: what it did not try it did not check.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{self, Cargo};
use crate::programs::{self, Ended, Program};

/// The longest a model may take. The slowest is meant to need a tenth of this; the rest is room
/// for a busy machine.
pub(crate) const CAP: Duration = Duration::from_secs(120);

/// How often a thread may be preempted in one execution, unless the environment says otherwise.
/// Nearly all concurrency bugs show within two preemptions (Musuvathi and Qadeer, "Iterative
/// context bounding", 2007); each more multiplies the time.
pub(crate) const PREEMPTIONS_MAX: u32 = 2;

/// Where loom reads that bound.
pub(crate) const PREEMPTIONS_VARIABLE: &str = "LOOM_MAX_PREEMPTIONS";

/// Loom's limits that end a model early without a word.
const SILENT_LIMITS: [&str; 3] = [
    "LOOM_MAX_DURATION",
    "LOOM_MAX_PERMUTATIONS",
    "LOOM_CHECKPOINT_FILE",
];

/// How one model ended.
#[derive(Debug)]
enum Verdict {
    Complete { iterations: Option<String> },
    Failed(ExitStatus),
    Incomplete,
}

/// Builds the models, then runs each, as many at a time as there are cores.
pub(crate) fn run() -> Result<()> {
    let program = build()?;
    // Whatever is compiled under `evenkeel_loom` is a model: a filter by name would pass over one
    // that is named otherwise.
    let names = program.tests(&[])?;
    ensure!(
        !names.is_empty(),
        "no test is compiled under `evenkeel_loom`, so nothing was modelled"
    );
    let logs = cargo::target_dir().join("loom/models");
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;

    let failed: Vec<String> =
        programs::side_by_side(&names, |name| run_reported(&program, name, &logs))
            .into_iter()
            .filter_map(|outcome| Some(format!("{:#}", outcome.err()?)))
            .collect();
    ensure!(
        failed.is_empty(),
        "{} of {} models:\n{}",
        failed.len(),
        names.len(),
        failed.join("\n")
    );
    println!("{} models complete", names.len());
    Ok(())
}

/// Compiles the models and says where cargo put them.
fn build() -> Result<Program> {
    let target = cargo::target_dir().join("loom");
    let mut programs = programs::build(cargo(&target)?)?;
    programs.pop().context("cargo named no test program")
}

/// What compiles the models, into a folder of their own.
pub(crate) fn cargo(target: &Path) -> Result<Cargo> {
    Ok(
        Cargo::new("test --package evenkeel --lib --release --no-run")
            .target_dir(target)?
            .env("RUSTFLAGS", "--cfg evenkeel_loom"),
    )
}

/// Runs one model and prints a line about it; a failing one's own output follows.
fn run_reported(program: &Program, name: &str, logs: &Path) -> Result<()> {
    let log = logs.join(format!("{}.log", name.replace("::", ".")));
    let started = Instant::now();
    let verdict = run_one(program, name, &log, CAP)?;
    let took = started.elapsed().as_secs_f64();
    match verdict {
        Verdict::Complete { iterations } => {
            let iterations = iterations.map_or(String::new(), |n| format!(", {n} interleavings"));
            println!("model {name}: complete in {took:.1} s{iterations}");
            Ok(())
        }
        Verdict::Failed(status) => {
            let shown = std::fs::read_to_string(&log).unwrap_or_default();
            println!("model {name}: FAILED after {took:.1} s ({status})\n{shown}");
            bail!("{name} failed; its output is in {}", log.display())
        }
        Verdict::Incomplete => {
            println!("model {name}: INCOMPLETE, stopped after {took:.1} s");
            bail!(
                "{name} is incomplete after {} s: make the model smaller",
                CAP.as_secs()
            )
        }
    }
}

/// What runs one model in a process of its own.
pub(crate) fn command(program: &Program, name: &str) -> Command {
    let mut command = program.command();
    command.args(["--exact", name, "--nocapture"]);
    if std::env::var_os(PREEMPTIONS_VARIABLE).is_none() {
        command.env(PREEMPTIONS_VARIABLE, PREEMPTIONS_MAX.to_string());
    }
    for limit in SILENT_LIMITS {
        command.env_remove(limit);
    }
    // Makes loom say how many interleavings it has tried.
    command.env("LOOM_LOG", "loom::model=info");
    command
}

/// Runs one model, its output going to `log`.
fn run_one(program: &Program, name: &str, log: &Path, cap: Duration) -> Result<Verdict> {
    match programs::run(&mut command(program, name), log, cap)? {
        Ended::Passed => {}
        Ended::Failed(status) => return Ok(Verdict::Failed(status)),
        Ended::Stopped(_) => return Ok(Verdict::Incomplete),
    }
    let text = std::fs::read_to_string(log).with_context(|| format!("cannot read {log:?}"))?;
    ensure!(
        text.contains("1 passed"),
        "{name} did not run; see {}",
        log.display()
    );
    Ok(Verdict::Complete {
        iterations: iterations(&text),
    })
}

/// The number in loom's last "Completed in N iterations".
fn iterations(log: &str) -> Option<String> {
    let (_, rest) = log.rsplit_once("Completed in ")?;
    rest.split_once(" iterations")
        .map(|(number, _)| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_count_of_interleavings_is_read() {
        let log = "INFO Completed in 3 iterations\nINFO Completed in 170 iterations\nok";
        assert_eq!(iterations(log).as_deref(), Some("170"));
        assert_eq!(iterations("test result: ok"), None);
    }

    #[test]
    fn a_program_that_runs_no_test_is_not_complete() {
        let program = Program {
            name: "true".to_owned(),
            path: "true".into(),
            folder: ".".into(),
        };
        let log = std::env::temp_dir().join(format!("xtask-models-{}.log", std::process::id()));
        let error = run_one(&program, "a::model", &log, CAP).expect_err("nothing ran");
        std::fs::remove_file(&log).unwrap();
        assert!(error.to_string().contains("did not run"), "{error}");
    }
}
