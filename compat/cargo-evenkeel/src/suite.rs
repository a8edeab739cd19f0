//! Tokio's own tests, run on the copy.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::copy::Copy;
use crate::error::{self, Error};
use crate::project;
use crate::upstream::{self, Upstream};

/// The features that the tests ask for.
const FEATURES: &str = "full,test-util";

/// What the tests of one file did.
#[derive(Debug, Default, Serialize)]
struct Outcome {
    passed: Vec<String>,
    failed: Vec<String>,
    ignored: Vec<String>,
    /// The file's program ended before it said what came of all its tests.
    crashed: bool,
}

type Outcomes = BTreeMap<String, Outcome>;

/// Runs the tests of these files, or of all, and prints what came of them.
///
/// # Errors
///
/// If Tokio's source cannot be had, or its tests cannot be built.
pub fn run(
    target: &Path,
    tokio: Option<Upstream>,
    json: Option<&Path>,
    names: &[String],
) -> Result<ExitCode, Error> {
    fs::create_dir_all(target).map_err(error::file("make", target))?;
    let target = target.canonicalize().map_err(error::file("find", target))?;
    let newest = || upstream::supported().next().expect("one is supported");
    let upstream = tokio.unwrap_or_else(newest);
    upstream.fetch(&target)?;
    let copy = Copy::prepare(&upstream, &target)?;
    println!("the tests of tokio {}", copy.version);
    let outcomes = test(&copy, &target, names)?;
    print(&outcomes);
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&outcomes).unwrap_or_default();
        fs::write(path, text).map_err(error::file("write", path))?;
    }
    let is_good = |outcome: &Outcome| outcome.failed.is_empty() && !outcome.crashed;
    Ok(if outcomes.values().all(is_good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn test(copy: &Copy, target: &Path, names: &[String]) -> Result<Outcomes, Error> {
    let every = ["*".to_owned()];
    let mut command = Command::new("cargo");
    command.args(["test", "--no-fail-fast", "--features", FEATURES]);
    command
        .args(project::patch_options(copy))
        .arg("--manifest-path");
    command.arg(copy.package("tokio").join("Cargo.toml"));
    command
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_TEST_DEBUG", "0");
    for name in if names.is_empty() { &every[..] } else { names } {
        command.args(["--test", name]);
    }
    // One stream, so that the names of the files come between their tests.
    let shell = format!("exec {} 2>&1", line_of(&command));
    let mut child = Command::new("sh")
        .args(["-c", &shell])
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| Error::Start {
            command: shell.clone(),
            source,
        })?;
    let mut outcomes = Outcomes::new();
    if let Some(out) = child.stdout.take() {
        let mut file = None;
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            note(&mut outcomes, &mut file, &line);
        }
    }
    // The tests' failure is no error of this program; a build that failed has no outcomes.
    let status = child.wait().map_err(|source| Error::Start {
        command: shell.clone(),
        source,
    })?;
    if outcomes.is_empty() && !status.success() {
        return Err(Error::Cargo("cargo test".into()));
    }
    Ok(outcomes)
}

/// The command, quoted for a shell.
fn line_of(command: &Command) -> String {
    let quote =
        |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quote).collect::<Vec<_>>().join(" ")
}

/// Learns from a line that cargo or a test program wrote.
fn note(outcomes: &mut Outcomes, file: &mut Option<String>, line: &str) {
    if let Some(rest) = line.trim_start().strip_prefix("Running ") {
        let path = rest.split(' ').next().unwrap_or_default();
        let name = Path::new(path)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        eprintln!("{name}");
        outcomes.entry(name.clone()).or_default().crashed = true;
        *file = Some(name);
    } else if line.starts_with("error") {
        eprintln!("{line}");
    }
    let Some(outcome) = file.as_ref().and_then(|name| outcomes.get_mut(name)) else {
        return;
    };
    if line.starts_with("test result: ") {
        outcome.crashed = false;
    } else if let Some((name, how)) = line
        .strip_prefix("test ")
        .and_then(|line| line.split_once(" ... "))
    {
        let name = name.trim_end_matches(" - should panic").to_owned();
        match how.split([' ', ',']).next() {
            Some("ok") => outcome.passed.push(name),
            Some("FAILED") => outcome.failed.push(name),
            Some("ignored") => outcome.ignored.push(name),
            _ => {}
        }
    }
}

fn print(outcomes: &Outcomes) {
    let count = |of: fn(&Outcome) -> usize| outcomes.values().map(of).sum::<usize>();
    for (file, outcome) in outcomes {
        for test in &outcome.failed {
            println!("failed: {file}::{test}");
        }
        if outcome.crashed {
            println!("failed: {file} ended early");
        }
    }
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

    fn outcomes(text: &str) -> Outcomes {
        let (mut outcomes, mut file) = (Outcomes::new(), None);
        text.lines()
            .for_each(|line| note(&mut outcomes, &mut file, line));
        outcomes
    }

    #[test]
    fn what_each_file_did_is_read_from_its_lines() {
        let all = outcomes(
            "     Running tests/a.rs (target/debug/deps/a-1)\n\
             test x ... ok\ntest y - should panic ... ok\ntest z ... ignored, on wasi\n\
             test result: ok. 2 passed;\n\
             \x20    Running tests/b.rs (target/debug/deps/b-1)\n\
             test v ... FAILED\ntest w ... ok\n",
        );
        assert_eq!(all["a"].passed, ["x", "y"]);
        assert_eq!(all["a"].ignored, ["z"]);
        assert!(!all["a"].crashed);
        assert_eq!(all["b"].failed, ["v"]);
        assert!(all["b"].crashed, "it has not said its result");
    }
}
