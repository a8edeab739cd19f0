//! Building the copy and running tests in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::book::{Break, Target, Test};
use super::scratch::Scratch;
use crate::cargo::Cargo;
use crate::compat::COPIED;
use crate::models;
use crate::programs::{self, Ended, Program};

/// The longest a test may take. The slowest is meant to need a quarter of this.
const CAP: Duration = models::CAP;

/// The longest a test may take with a break that makes it hang. In the whole tree it has to need
/// less.
const CAP_HANGING: Duration = Duration::from_secs(20);

/// What came of a break.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All tests that it names failed: so many.
    Seen(usize),
    /// Why that does not count, and what to do.
    Unseen(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seen(1) => f.write_str("seen"),
            Self::Seen(tests) => write!(f, "seen by {tests} tests"),
            Self::Unseen(why) => write!(f, "NOT SEEN: {why}"),
        }
    }
}

/// What is built by one command: a package, its models apart.
type Group<'a> = (&'a str, bool);

/// Test programs by package and target.
type Programs = BTreeMap<(String, Target), Program>;

/// See the module's documentation.
pub(super) struct Trials<'a> {
    scratch: &'a Scratch,
}

impl<'a> Trials<'a> {
    pub(super) fn new(scratch: &'a Scratch) -> Self {
        Self { scratch }
    }

    /// Requires that the tests which the breaks name pass in the copy as it is.
    pub(super) fn all_pass(&self, breaks: &[Break]) -> Result<()> {
        let mut caps: BTreeMap<&Test, Duration> = BTreeMap::new();
        for one in breaks {
            for test in &one.seen_by {
                let cap = caps.entry(test).or_insert(CAP);
                *cap = (*cap).min(cap_of(one));
            }
        }
        let tests: Vec<&Test> = caps.keys().copied().collect();
        let Some(programs) = self.build(&tests)? else {
            let log = self.log("build");
            bail!("the tree does not compile; see {}", log.display());
        };
        for (test, cap) in caps {
            let ended = self.run(&programs, test, cap)?;
            ensure!(
                matches!(ended, Ended::Passed),
                "`{test}` does not pass within {} s in the whole tree either, so it sees nothing; \
                 mend it first\n{}",
                cap.as_secs(),
                self.said(test)
            );
        }
        Ok(())
    }

    /// Builds the copy, which the break was applied to, and runs the tests that have to see it.
    pub(super) fn must_fail(&self, one: &Break) -> Result<Verdict> {
        let tests: Vec<&Test> = one.seen_by.iter().collect();
        let Some(programs) = self.build(&tests)? else {
            let said = std::fs::read_to_string(self.log("build")).unwrap_or_default();
            return Ok(Verdict::Unseen(does_not_compile(&said)));
        };
        for test in tests {
            let ended = self.run(&programs, test, cap_of(one))?;
            if let Some(why) = judge(&ended, one.hangs) {
                let needs = (one.needs.as_ref()).map(|needs| format!(" (this needs {needs})"));
                let needs = needs.unwrap_or_default();
                return Ok(Verdict::Unseen(format!("`{test}` {why}{needs}")));
            }
        }
        Ok(Verdict::Seen(one.seen_by.len()))
    }

    /// The programs that the tests are in, or nothing if they do not compile.
    fn build(&self, tests: &[&Test]) -> Result<Option<Programs>> {
        let mut groups: BTreeMap<Group<'_>, BTreeSet<&Target>> = BTreeMap::new();
        for test in tests {
            let group = (test.package.as_str(), test.target == Target::Model);
            groups.entry(group).or_default().insert(&test.target);
        }
        let mut all = Programs::new();
        for ((package, _), targets) in groups {
            if COPIED.contains(&package) && !self.build_cargo_evenkeel()? {
                return Ok(None);
            }
            let command = self.command(package, &targets)?;
            let Some(built) = programs::build_quietly(&command, &self.log("build"))? else {
                return Ok(None);
            };
            for target in targets {
                let name = match target {
                    Target::Lib | Target::Model | Target::Bin => package.replace('-', "_"),
                    Target::File(name) => name.clone(),
                };
                let program = built.iter().find(|p| p.name.replace('-', "_") == name);
                let program = program.with_context(|| format!("`{command}` built no {name}"))?;
                all.insert((package.to_owned(), target.clone()), program.clone());
            }
        }
        Ok(Some(all))
    }

    /// What `cargo evenkeel` puts beneath Tokio is within it. Says whether it compiles.
    fn build_cargo_evenkeel(&self) -> Result<bool> {
        let command = Cargo::new("build --package cargo-evenkeel");
        let command = command.target_dir(&self.scratch.build())?;
        let command = self.in_tree(command, "compat/Cargo.toml")?;
        Ok(programs::build_quietly(&command, &self.log("build"))?.is_some())
    }

    /// What builds some targets of a package: its models, or tests of other kinds.
    fn command(&self, package: &str, targets: &BTreeSet<&Target>) -> Result<Cargo> {
        if targets.contains(&Target::Model) {
            let models = models::cargo(&self.scratch.build().join("loom"))?;
            return self.in_tree(models, "Cargo.toml");
        }
        let test = "test --no-run --all-features --package";
        let mut command = match package {
            _ if COPIED.contains(&package) => Cargo::new(&format!("evenkeel {test}"))
                .by(self.scratch.build().join("debug/cargo-evenkeel")),
            _ => Cargo::new(test),
        };
        command = command.arg(package);
        for target in targets {
            // Some tests start the examples, which are built as well; see the step `test`.
            command = match target {
                Target::Lib | Target::Model => command.arg("--lib"),
                Target::Bin => command.arg("--bin").arg(package),
                Target::File(name) if name == "examples" => {
                    command.arg("--examples").arg("--test").arg(name.as_str())
                }
                Target::File(name) => command.arg("--test").arg(name.as_str()),
            };
        }
        let command = command.target_dir(&self.scratch.build())?;
        self.in_tree(command, &self.manifest_of(package))
    }

    /// The manifest of a package's workspace.
    fn manifest_of(&self, package: &str) -> String {
        let own = format!("compat/{package}/Cargo.toml");
        match self.scratch.tree().join(&own).is_file() {
            true if COPIED.contains(&package) => own,
            true => "compat/Cargo.toml".to_owned(),
            false => "Cargo.toml".to_owned(),
        }
    }

    /// Has a command build what this manifest of the copied tree is about.
    fn in_tree(&self, command: Cargo, manifest: &str) -> Result<Cargo> {
        let manifest = self.scratch.tree().join(manifest);
        let manifest = manifest
            .to_str()
            .context("the target directory is not UTF-8")?;
        // One break is a small change, and nobody looks at it in a debugger.
        Ok(command
            .arg("--manifest-path")
            .arg(manifest)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0"))
    }

    fn run(&self, programs: &Programs, test: &Test, cap: Duration) -> Result<Ended> {
        let program = &programs[&(test.package.clone(), test.target.clone())];
        let name = full_name(test, &program.tests(&[])?)?;
        let mut command = match test.target {
            Target::Model => models::command(program, &name),
            Target::Lib | Target::Bin | Target::File(_) => {
                let mut command = program.command();
                command.args(["--exact", &name, "--nocapture"]);
                command
            }
        };
        command
            .env("CARGO_MANIFEST_DIR", &program.folder)
            // That a property fails is enough; with which smallest case is nobody's question.
            .env("PROPTEST_MAX_SHRINK_ITERS", "0");
        let log = self.log(&test.to_string());
        let ended = programs::run(&mut command, &log, cap)?;
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        ensure!(
            said.contains("running 1 test\n"),
            "`{test}` did not run, so nothing was tested; see {}",
            log.display()
        );
        Ok(ended)
    }

    fn log(&self, name: &str) -> std::path::PathBuf {
        let name = name.replace([' ', ':'], ".");
        self.scratch.logs().join(format!("{name}.log"))
    }

    /// The end of what a test said.
    fn said(&self, test: &Test) -> String {
        last_lines(&self.log(&test.to_string()))
    }
}

/// The test's name as its program knows it, of all names there.
fn full_name(test: &Test, names: &[String]) -> Result<String> {
    let end = format!("::{}", test.name);
    let meant = |name: &&String| **name == test.name || name.ends_with(&end);
    let found: Vec<&String> = names.iter().filter(meant).collect();
    match found[..] {
        [name] => Ok(name.clone()),
        [] => bail!("there is no test `{test}` in what was built"),
        [..] => bail!(
            "`{test}` means {} tests; write more of its path",
            found.len()
        ),
    }
}

fn cap_of(one: &Break) -> Duration {
    if one.hangs { CAP_HANGING } else { CAP }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Why the way in which a test ended does not say that it saw the break.
fn judge(ended: &Ended, hangs: bool) -> Option<String> {
    match ended {
        Ended::Failed(_) => None,
        Ended::Stopped(_) if hangs => None,
        Ended::Stopped(_) => Some(format!(
            "was stopped after {} s; if this break makes it hang, say `hangs = true`, else \
             make it fail in time",
            CAP.as_secs()
        )),
        Ended::Passed => Some(
            "passes although the code is broken; make the test see it, or, if the break is none \
             any more, write one that is, or delete it"
                .to_owned(),
        ),
    }
}

/// What to do about a break that is a compile error; `said` is what cargo said.
fn does_not_compile(said: &str) -> String {
    let errors = said.lines().filter(|line| line.starts_with("error"));
    let first = errors.take(1).collect::<String>();
    format!("it does not compile ({first}), so no test saw it; write `new` so that it does")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn failed() -> Ended {
        Ended::Failed(Command::new("false").status().unwrap())
    }

    #[test]
    fn a_test_that_fails_has_seen_the_break() {
        assert_eq!(judge(&failed(), false), None);
        assert_eq!(judge(&failed(), true), None);
    }

    #[test]
    fn a_test_that_passes_has_not() {
        let why = judge(&Ended::Passed, true).expect("it saw nothing");
        assert!(why.contains("passes although the code is broken; make the test see it"));
    }

    #[test]
    fn a_test_that_does_not_end_has_only_if_the_break_says_so() {
        let stopped = Ended::Stopped(String::new());
        assert_eq!(judge(&stopped, true), None);
        let why = judge(&stopped, false).expect("it may be slow");
        assert!(why.contains("`hangs = true`"), "{why}");
    }

    #[test]
    fn a_break_that_does_not_compile_is_not_seen() {
        let why = does_not_compile("warning: a\nerror[E0425]: no `x`\nerror: could not compile\n");
        assert!(why.contains("(error[E0425]: no `x`)"), "{why}");
        assert!(why.contains("write `new` so that it does"), "{why}");
    }

    #[test]
    fn the_end_of_a_name_will_do() {
        let names = [
            "a::tests::one".to_owned(),
            "b::tests::one".to_owned(),
            "two".to_owned(),
        ];
        let full = |name: &str| {
            let (package, name) = ("p".to_owned(), name.to_owned());
            let target = Target::Lib;
            full_name(
                &Test {
                    package,
                    target,
                    name,
                },
                &names,
            )
            .map_err(|error| error.to_string())
        };
        assert_eq!(full("two"), Ok("two".to_owned()));
        assert_eq!(full("a::tests::one"), Ok("a::tests::one".to_owned()));
        assert!(full("one").is_err_and(|why| why.contains("write more of its path")));
        assert!(full("ne").is_err_and(|why| why.contains("there is no test")));
    }

    /// A package of its own, built by cargo: all that can come of a break.
    #[test]
    fn breaks_are_applied_built_and_judged() {
        let name = format!("xtask-trial-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let root = folder.join("root");
        let source = root.join("crates/small/src");
        std::fs::create_dir_all(&source).unwrap();
        let write = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
        write(
            "Cargo.toml",
            "[workspace]\nmembers = ['crates/small']\nresolver = '3'\n",
        );
        write(
            "crates/small/Cargo.toml",
            "[package]\nname = 'small'\nversion = '0.1.0'\nedition = '2024'\n",
        );
        write(
            "crates/small/src/lib.rs",
            "pub fn f() -> u8 { 1 }\n#[test]\nfn one() { assert_eq!(f(), 1); }\n",
        );
        let scratch = Scratch::new(&root, &folder.join("copy")).unwrap();
        let trials = Trials::new(&scratch);
        let broken = |new: &str| {
            let book = format!(
                "[[break]]\nwhat = 'w'\nfile = 'crates/small/src/lib.rs'\nold = '{{ 1 }}'\n\
                 new = '{{ {new} }}'\nseen_by = ['small lib one']\n"
            );
            super::super::book::parse("breaks/a.toml", &book).unwrap()
        };
        let verdict =
            |new: &str| super::super::try_one(&scratch, &trials, &broken(new)[0]).unwrap();
        scratch.restore().unwrap();
        trials.all_pass(&broken("2")).unwrap();
        assert_eq!(verdict("2"), Verdict::Seen(1));
        let why = verdict("2 - 1").to_string();
        assert!(why.contains("`small lib one` passes although"), "{why}");
        let why = verdict("no_such_name").to_string();
        assert!(why.contains("does not compile (error[E0425]"), "{why}");

        write(
            "crates/small/src/lib.rs",
            "#[test]\nfn one() { panic!() }\n",
        );
        scratch.restore().unwrap();
        let error = trials
            .all_pass(&broken("2"))
            .expect_err("it fails unbroken");
        assert!(error.to_string().contains("mend it first"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
