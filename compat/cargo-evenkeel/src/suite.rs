//! Tokio's own tests, run on the copy.

use cargo_metadata::Message;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::copy::Copy;
use crate::error::{self, Error};
use crate::expected;
use crate::known::{self, Known};
use crate::mode::Mode;
use crate::project;
use crate::upstream::{self, Upstream};

/// The features that the tests ask for.
const FEATURES: &str = "full,test-util";

/// A file of tests has this long. The slowest takes a minute on a quiet machine.
const LIMIT: Duration = Duration::from_secs(600);

/// What the tests of one file did.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) passed: Vec<String>,
    pub(crate) failed: Vec<String>,
    pub(crate) ignored: Vec<String>,
    /// The file's program ended, or was ended, before it said what came of all its tests.
    pub(crate) crashed: bool,
}

impl Outcome {
    /// How many tests it says something of.
    pub(crate) fn tests(&self) -> usize {
        self.passed.len() + self.failed.len() + self.ignored.len()
    }
}

pub(crate) type Outcomes = BTreeMap<String, Outcome>;

/// What is tested, and how.
struct Suite {
    copy: Copy,
    target: PathBuf,
    /// What the programs of tests print goes there.
    logs: PathBuf,
    known: Vec<Known>,
}

/// Which files of tests are run.
#[derive(Clone, Debug)]
pub enum Files {
    /// All that there are.
    All,
    /// Those of the sample, in which most of what the copy changes is used.
    Sample,
    /// These.
    Named(Vec<String>),
}

/// Runs the tests of some files, and prints what came of them.
///
/// # Errors
///
/// If Tokio's source cannot be had, or its tests cannot be built.
pub fn run(
    target: &Path,
    tokio: Option<Upstream>,
    json: Option<&Path>,
    files: &Files,
) -> Result<ExitCode, Error> {
    fs::create_dir_all(target).map_err(error::file("make", target))?;
    let target = target.canonicalize().map_err(error::file("find", target))?;
    let newest = || upstream::supported().next().expect("one is supported");
    let upstream = tokio.unwrap_or_else(newest);
    upstream.fetch(&target)?;
    let mode = Mode::of_environment();
    let suite = Suite {
        copy: Copy::prepare(&upstream, &target)?,
        logs: target.join("evenkeel/suite").join(mode.name()),
        target,
        known: known::of(mode, &upstream.version),
    };
    let expected = expected::of(&upstream.version);
    let names = match (files, &expected) {
        (Files::Named(names), _) => names.clone(),
        (Files::Sample, Some(expected)) => expected.sample().cloned().collect(),
        _ => Vec::new(),
    };
    println!("the tests of tokio {}, {}", upstream.version, mode.says());
    let outcomes = suite.test(&names)?;
    let mut is_good = known::compare(&outcomes, &suite.known);
    let missing = expected.map(|it| it.missing(&outcomes, &suite.known, names.is_empty()));
    for line in missing.into_iter().flatten() {
        println!("missing: {line}");
        is_good = false;
    }
    print(&outcomes);
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&outcomes).unwrap_or_default();
        fs::write(path, text).map_err(error::file("write", path))?;
    }
    if is_good {
        return Ok(ExitCode::SUCCESS);
    }
    println!("what they printed is in {}", suite.logs.display());
    Ok(ExitCode::FAILURE)
}

impl Suite {
    fn test(&self, names: &[String]) -> Result<Outcomes, Error> {
        fs::create_dir_all(&self.logs).map_err(error::file("make", &self.logs))?;
        let mut outcomes = Outcomes::new();
        for (name, program) in self.build(names)? {
            eprintln!("{name}");
            let log = self.logs.join(&name).with_extension("log");
            self.start(&name, &program, &log)?;
            let said = fs::read(&log).map_err(error::file("read", &log))?;
            outcomes.insert(name, outcome(&String::from_utf8_lossy(&said)));
        }
        Ok(outcomes)
    }

    /// Has cargo build the files of tests: their names, and the programs.
    fn build(&self, names: &[String]) -> Result<BTreeMap<String, PathBuf>, Error> {
        let every = ["*".to_owned()];
        let mut command = Command::new("cargo");
        command
            .args(["test", "--no-run", "--features", FEATURES])
            .args(["--message-format", "json-render-diagnostics"])
            .args(project::patch_options(&self.copy))
            .arg("--manifest-path")
            .arg(self.copy.package("tokio").join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .stdout(Stdio::piped());
        for name in if names.is_empty() { &every[..] } else { names } {
            command.args(["--test", name]);
        }
        let failed = |source| Error::Start {
            command: "cargo test".into(),
            source,
        };
        let mut child = command.spawn().map_err(failed)?;
        let mut programs = BTreeMap::new();
        if let Some(out) = child.stdout.take() {
            for message in Message::parse_stream(BufReader::new(out)).map_while(Result::ok) {
                if let Message::CompilerArtifact(artifact) = message
                    && let Some(program) = artifact.executable
                {
                    programs.insert(artifact.target.name, program.into());
                }
            }
        }
        if child.wait().map_err(failed)?.success() {
            Ok(programs)
        } else {
            Err(Error::Cargo("cargo test".into()))
        }
    }

    /// Runs a file of tests to its end, without those that are known to hang.
    fn start(&self, name: &str, program: &Path, log: &Path) -> Result<(), Error> {
        let failed = |source| Error::Start {
            command: program.display().to_string(),
            source,
        };
        let package = self.copy.package("tokio");
        // Two files, as threads of tests that write errors would break the lines of outcomes.
        let errors = log.with_extension("err");
        let create = |path: &Path| File::create(path).map_err(error::file("write", path));
        let mut command = Command::new(program);
        command
            .current_dir(&package)
            .env("CARGO_MANIFEST_DIR", &package)
            .stdin(Stdio::null())
            .stdout(create(log)?)
            .stderr(create(&errors)?)
            .arg("--exact");
        for test in self.known.iter().flat_map(|known| known.hanging_in(name)) {
            command.args(["--skip", test]);
        }
        let mut child = command.spawn().map_err(failed)?;
        let began = Instant::now();
        while child.try_wait().map_err(failed)?.is_none() {
            if began.elapsed() > LIMIT {
                child.kill().map_err(failed)?;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Learns what a file's tests did from what its program printed.
fn outcome(said: &str) -> Outcome {
    let mut outcome = Outcome {
        crashed: true,
        ..Outcome::default()
    };
    let mut started = Vec::new();
    for line in said.lines() {
        if line.starts_with("test result: ") {
            outcome.crashed = false;
        }
        let Some(rest) = line.strip_prefix("test ") else {
            continue;
        };
        if let Some(name) = rest.strip_suffix(" has been running for over 60 seconds") {
            started.push(test_name(name));
            continue;
        }
        let Some((name, how)) = rest.split_once(" ... ") else {
            continue;
        };
        match how.split([' ', ',']).next() {
            Some("ok") => outcome.passed.push(test_name(name)),
            Some("FAILED") => outcome.failed.push(test_name(name)),
            Some("ignored") => outcome.ignored.push(test_name(name)),
            _ => {}
        }
    }
    let all = [&outcome.passed, &outcome.failed].map(|tests| tests.iter());
    let ended: Vec<_> = all.into_iter().flatten().cloned().collect();
    started.retain(|name| !ended.contains(name));
    outcome.failed.extend(started);
    outcome
}

fn test_name(said: &str) -> String {
    said.trim_end_matches(" - should panic").to_owned()
}

fn print(outcomes: &Outcomes) {
    let count = |of: fn(&Outcome) -> usize| outcomes.values().map(of).sum::<usize>();
    println!(
        "{} files, {} passed, {} failed, {} ignored",
        outcomes.len(),
        count(|outcome| outcome.passed.len()),
        count(|outcome| outcome.failed.len() + usize::from(outcome.crashed)),
        count(|outcome| outcome.ignored.len()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_did_is_read_from_its_lines() {
        let whole = outcome(
            "test x ... ok\ntest y - should panic ... ok\ntest z ... ignored, on wasi\n\
             test result: ok. 2 passed;\n",
        );
        assert_eq!(whole.passed, ["x", "y"]);
        assert_eq!(whole.ignored, ["z"]);
        assert!(!whole.crashed);
    }

    #[test]
    fn a_test_that_hangs_has_failed() {
        let ended = outcome(
            "test v ... FAILED\ntest w ... ok\n\
             test slow has been running for over 60 seconds\n\
             test x has been running for over 60 seconds\ntest slow ... ok\n",
        );
        assert_eq!(ended.failed, ["v", "x"]);
        assert_eq!(ended.passed, ["w", "slow"]);
        assert!(ended.crashed, "it has not said its result");
    }
}
