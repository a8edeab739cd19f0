//! The parts of the whole: what each runs, and what it learns from that.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_evenkeel::mode::Mode;
use cargo_evenkeel::upstream;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::record::{Count, OfSuite, OfTokio, Outcome, Table};
use crate::{Error, suites};

/// Where parts build.
pub(crate) struct Places {
    pub(crate) target: PathBuf,
    /// Tokio's own tests.
    pub(crate) tokio: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Tokio's own tests, of a minor version such as `1.54`.
    Tokio(String, Mode),
    /// The tests of a crate.
    Suite(String),
    Graph,
    Unstable,
    Programs,
    Services,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokio(minor, mode) => write!(f, "tokio/{minor}/{}", mode.name()),
            Self::Suite(name) => write!(f, "suites/{name}"),
            Self::Graph => f.write_str("graph"),
            Self::Unstable => f.write_str("unstable"),
            Self::Programs => f.write_str("programs"),
            Self::Services => f.write_str("services"),
        }
    }
}

impl Part {
    /// All parts, in the order in which they are run and shown.
    pub(crate) fn all() -> Result<Vec<Self>, Error> {
        let minors = upstream::supported().map(|upstream| {
            let version = upstream.version;
            format!("{}.{}", version.major, version.minor)
        });
        let modes = |minor: String| Mode::ALL.map(|mode| Self::Tokio(minor.clone(), mode));
        let mut all = vec![Self::Graph];
        all.extend(minors.flat_map(modes));
        all.push(Self::Unstable);
        all.extend(suites::names()?.into_iter().map(Self::Suite));
        all.extend([Self::Programs, Self::Services]);
        Ok(all)
    }

    /// Whether this word names the part, or parts among which it is.
    pub(crate) fn is_within(&self, word: &str) -> bool {
        let name = self.to_string();
        let rest = name.strip_prefix(word.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether the command was content, and what came of it.
    pub(crate) fn run(&self, places: &Places) -> Result<(bool, Outcome), Error> {
        let name = self.to_string().replace('/', "-");
        let json = places.target.join(format!("{name}.json"));
        // What came of it before is none of this.
        let _ = fs::remove_file(&json);
        let mut command = self.command(places, &json)?;
        let (is_good, lines) = listen(&mut command)?;
        // It has said itself what was wrong.
        let text = fs::read_to_string(&json)
            .map_err(|_| format!("{self} ended without saying what came of it"))?;
        Ok((is_good, self.outcome(&text, &lines)?))
    }

    fn command(&self, places: &Places, json: &Path) -> Result<Command, Error> {
        if let Self::Tokio(minor, mode) = self {
            let mut command = Command::new(crate::cargo_evenkeel()?);
            command
                .args(["evenkeel", "suite", "--tokio", minor, "--target"])
                .arg(&places.tokio)
                .arg("--json")
                .arg(json)
                .envs(mode.environment());
            return Ok(command);
        }
        let mut command = Command::new(std::env::current_exe()?);
        match self {
            Self::Suite(name) => command.args(["suites", name]),
            _ => command.arg(self.to_string()),
        };
        command.arg("--target").arg(&places.target);
        command.arg("--json").arg(json);
        Ok(command)
    }

    /// From what the command has written, and the lines that it has printed.
    fn outcome(&self, json: &str, lines: &[String]) -> Result<Outcome, Error> {
        Ok(match self {
            Self::Tokio(..) => Outcome::Tokio(of_tokio(&read(json)?, lines)?),
            Self::Suite(_) => match &read::<Vec<suites::Report>>(json)?[..] {
                [report] => Outcome::Suite(of_suite(report)),
                _ => return Err("one suite was asked for, and others came".into()),
            },
            Self::Graph => Outcome::Graph(read(json)?),
            Self::Unstable => Outcome::Unstable(read(json)?),
            Self::Programs => Outcome::Programs(read(json)?),
            Self::Services => Outcome::Services(Table::all_from(&read(json)?)),
        })
    }
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, Error> {
    Ok(serde_json::from_str(json)?)
}

/// Runs a command, and shows what it prints while it keeps that.
fn listen(command: &mut Command) -> Result<(bool, Vec<String>), Error> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = Vec::new();
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line?;
            println!("{line}");
            lines.push(line);
        }
    }
    Ok((child.wait()?.success(), lines))
}

/// Each failure is expected or not, and `suite` says which.
fn of_tokio(files: &BTreeMap<String, Value>, lines: &[String]) -> Result<OfTokio, Error> {
    let count = |name: &str| {
        let lists = files.values().filter_map(|file| file[name].as_array());
        lists.map(Vec::len).sum::<usize>()
    };
    let with_reason = |start: &str| {
        let said = lines.iter().filter_map(|line| line.strip_prefix(start));
        said.filter_map(|line| line.split_once(": "))
            .map(|(test, why)| (test.to_owned(), why.to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let after = |start: &'static str| {
        let lines = lines
            .iter()
            .filter_map(move |line| line.strip_prefix(start));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut found = OfTokio {
        passed: count("passed"),
        ignored: count("ignored"),
        known: with_reason("known: "),
        not_run: with_reason("not run: "),
        failed: after("failed: "),
    };
    let crashed = |file: &&Value| file["crashed"] == Value::Bool(true);
    let all = count("failed") + files.values().filter(crashed).count();
    if found.known.len() + found.failed.len() != all {
        return Err(format!("{all} tests failed, and it was said of others: {found:?}").into());
    }
    // No test says this, but fewer were run than there are.
    found.failed.extend(after("missing: "));
    Ok(found)
}

fn of_suite(report: &suites::Report) -> OfSuite {
    let count = |outcomes: &suites::Outcomes| Count {
        passed: outcomes.values().filter(|&&passed| passed).count(),
        of: outcomes.len(),
    };
    OfSuite {
        version: report.version.clone(),
        on_evenkeel: count(&report.on),
        forced: count(&report.forced),
        on_tokio: count(&report.off),
        known: report.known.clone(),
        lost: report.lost().map(str::to_owned).collect(),
        without: report.without.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn files() -> BTreeMap<String, Value> {
        let file = |passed: &[&str], failed: &[&str], crashed: bool| {
            let ignored = ["i"];
            json!({
                "passed": passed, "failed": failed, "ignored": ignored, "crashed": crashed,
            })
        };
        BTreeMap::from([
            ("a".to_owned(), file(&["x", "y"], &["z"], false)),
            ("b".to_owned(), file(&["x"], &[], true)),
        ])
    }

    #[test]
    fn failures_of_tokios_tests_have_their_reasons() {
        let said = [
            "the tests",
            "known: a::z: as root: it fails",
            "failed: b ended early",
            "missing: all files have 4 tests; expected 9",
        ];
        let found = of_tokio(&files(), &said.map(str::to_owned)).unwrap();
        let why = ("a::z".to_owned(), "as root: it fails".to_owned());
        let expected = OfTokio {
            passed: 3,
            ignored: 2,
            known: BTreeMap::from([why]),
            not_run: BTreeMap::new(),
            failed: ["b ended early", "all files have 4 tests; expected 9"]
                .map(str::to_owned)
                .to_vec(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_failure_of_which_nothing_was_said_is_an_error() {
        let said = ["known: a::z: why".to_owned()];
        assert!(of_tokio(&files(), &said).is_err());
    }
}
