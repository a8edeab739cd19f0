//! The model tests: loom runs the small concurrent cores under every interleaving it is allowed.
//!
//! Loom's own limits on time and permutations end a model silently, as if it had passed. So they
//! are kept unset here, every model runs in a process of its own, and one that is not through
//! within [`CAP`] is stopped and counts as failed: what it did not try it did not check.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{self, Cargo};

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

/// How often a running model is looked at.
const GLANCE: Duration = Duration::from_millis(20);

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
    let names = list(&program)?;
    ensure!(
        !names.is_empty(),
        "no test is compiled under `evenkeel_loom`, so nothing was modelled"
    );
    let logs = cargo::target_dir().join("loom/models");
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;

    let waiting = Mutex::new(names.iter());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism()
            .map_or(1, usize::from)
            .min(names.len())
        {
            scope.spawn(|| {
                loop {
                    // The lock is held for this statement alone: models run side by side.
                    let next = waiting.lock().expect("no holder panics").next();
                    let Some(name) = next else { break };
                    if let Err(error) = run_reported(&program, name, &logs) {
                        failed
                            .lock()
                            .expect("no holder panics")
                            .push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no holder panics");
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
fn build() -> Result<PathBuf> {
    let target = cargo::target_dir().join("loom");
    let command = Cargo::new("test --package evenkeel --lib --release --no-run")
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(
            target
                .to_str()
                .context("the target directory is not UTF-8")?,
        )
        .env("RUSTFLAGS", "--cfg evenkeel_loom");
    println!("$ {command}");
    let mut child = command
        .command()
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let messages = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut program = None;
    for line in messages.lines() {
        program = executable(&line.context("cannot read from cargo")?).or(program);
    }
    command.expect_success(child.wait().context("cannot wait for cargo")?)?;
    program.context("cargo named no test program")
}

/// The program that one of cargo's messages announces, if it does.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message.get("executable")?.as_str().map(PathBuf::from)
}

/// The names of all tests in `program`. Whatever is compiled under `evenkeel_loom` is a model: a
/// filter by name would pass over one that is named otherwise.
fn list(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program)
        .args(["--list", "--format", "terse"])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} cannot list its tests",
        program.display()
    );
    let text = String::from_utf8(output.stdout).context("a test's name is not UTF-8")?;
    Ok(text
        .lines()
        .filter_map(|l| l.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}

/// Runs one model and prints a line about it; a failing one's own output follows.
fn run_reported(program: &Path, name: &str, logs: &Path) -> Result<()> {
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

/// Runs one model in a process of its own, its output going to `log`.
fn run_one(program: &Path, name: &str, log: &Path, cap: Duration) -> Result<Verdict> {
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log")?;
    let mut command = Command::new(program);
    command
        .args(["--exact", name, "--nocapture"])
        .stdout(output)
        .stderr(errors);
    if std::env::var_os(PREEMPTIONS_VARIABLE).is_none() {
        command.env(PREEMPTIONS_VARIABLE, PREEMPTIONS_MAX.to_string());
    }
    for limit in SILENT_LIMITS {
        command.env_remove(limit);
    }
    // Makes loom say how many interleavings it has tried.
    command.env("LOOM_LOG", "loom::model=info");
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let Some(status) = wait_for(&mut child, cap)? else {
        return Ok(Verdict::Incomplete);
    };
    if !status.success() {
        return Ok(Verdict::Failed(status));
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

/// The child's status, or nothing once `cap` has passed and the child has been stopped.
fn wait_for(child: &mut Child, cap: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot look at a model")? {
            return Ok(Some(status));
        }
        if started.elapsed() >= cap {
            child.kill().context("cannot stop a model")?;
            child.wait().context("cannot wait for a model")?;
            return Ok(None);
        }
        thread::sleep(GLANCE);
    }
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
    fn cargo_messages_name_the_program() {
        let message = r#"{"reason":"compiler-artifact","executable":"/a/b c"}"#;
        assert_eq!(executable(message), Some(PathBuf::from("/a/b c")));
        assert_eq!(executable(r#"{"reason":"x","executable":null}"#), None);
        assert_eq!(executable("not a message"), None);
    }

    #[test]
    fn the_last_count_of_interleavings_is_read() {
        let log = "INFO Completed in 3 iterations\nINFO Completed in 170 iterations\nok";
        assert_eq!(iterations(log).as_deref(), Some("170"));
        assert_eq!(iterations("test result: ok"), None);
    }

    #[test]
    fn a_program_past_its_cap_is_stopped() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(
            wait_for(&mut child, Duration::from_millis(50))
                .unwrap()
                .is_none()
        );
        let mut child = Command::new("true").spawn().unwrap();
        assert!(
            wait_for(&mut child, Duration::from_secs(60))
                .unwrap()
                .unwrap()
                .success()
        );
    }

    #[test]
    fn a_program_that_runs_no_test_is_not_complete() {
        let log = std::env::temp_dir().join(format!("xtask-models-{}.log", std::process::id()));
        let error = run_one(Path::new("true"), "a::model", &log, CAP).expect_err("nothing ran");
        std::fs::remove_file(&log).unwrap();
        assert!(error.to_string().contains("did not run"), "{error}");
    }
}
