//! Test programs: built by cargo, started by us, each with a time limit and a log of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;

/// How often a running program is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// One program with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its target's name: a file's in `tests/`, or the package's.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where its package lies, which is where cargo would start it.
    pub(crate) folder: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Passed,
    Failed(ExitStatus),
    /// It took too long and was stopped; what its threads did just before.
    Stopped(String),
}

/// Runs a cargo command that builds test programs, and says where they are.
pub(crate) fn build(command: Cargo) -> Result<Vec<Program>> {
    println!("$ {command}");
    let (programs, status) = build_with(&command, Stdio::inherit())?;
    command.expect_success(status)?;
    ensure!(!programs.is_empty(), "cargo named no test program");
    Ok(programs)
}

/// As [`build`], but what cargo says goes to `log`, and it is no error if it fails: then there is
/// nothing.
pub(crate) fn build_quietly(command: &Cargo, log: &Path) -> Result<Option<Vec<Program>>> {
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let (programs, status) = build_with(command, output.into())?;
    Ok(status.success().then_some(programs))
}

fn build_with(command: &Cargo, errors: Stdio) -> Result<(Vec<Program>, ExitStatus)> {
    let mut child = command
        .command()
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .context("cannot run cargo")?;
    let messages = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut programs = Vec::new();
    for line in messages.lines() {
        programs.extend(announced(&line.context("cannot read from cargo")?));
    }
    Ok((programs, child.wait().context("cannot wait for cargo")?))
}

/// The test program that one of cargo's messages announces, if it does. Cargo also builds the
/// package's own programs, which integration tests start.
fn announced(message: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    if !is_test {
        return None;
    }
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let name = message.get("target")?.get("name")?.as_str()?.to_owned();
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?.to_owned();
    Some(Program { name, path, folder })
}

impl Program {
    /// A command that starts it where cargo would.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        command
    }

    /// The names of the tests that the filters leave.
    pub(crate) fn tests(&self, filters: &[String]) -> Result<Vec<String>> {
        let output = self
            .command()
            .args(["--list", "--format", "terse"])
            .args(filters)
            .output()
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        ensure!(
            output.status.success(),
            "{} cannot list its tests",
            self.path.display()
        );
        let text = String::from_utf8(output.stdout).context("a test's name is not UTF-8")?;
        Ok(text
            .lines()
            .filter_map(|l| l.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    }
}

/// What of the programs some words of a command line mean: a program by its name, or tests by part
/// of theirs. Programs without a test that is meant are left out.
pub(crate) fn select(
    programs: Vec<Program>,
    words: &[String],
) -> Result<(Vec<Program>, Vec<String>)> {
    let (named, filters): (Vec<String>, Vec<String>) = words
        .iter()
        .cloned()
        .partition(|word| programs.iter().any(|program| program.name == *word));
    let mut selected = Vec::new();
    for program in programs {
        let is_named = named.is_empty() || named.contains(&program.name);
        if is_named && !program.tests(&filters)?.is_empty() {
            selected.push(program);
        }
    }
    ensure!(
        !selected.is_empty(),
        "no test and no test program is called `{}`",
        words.join(" ")
    );
    Ok((selected, filters))
}

/// Does `work` for each item, as many at a time as there are cores; what it returned, in any order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let waiting = Mutex::new(items.iter());
    let done = Mutex::new(Vec::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(|| {
                loop {
                    // The lock is held for this statement alone: work goes on side by side.
                    let next = waiting.lock().expect("no holder panics").next();
                    let Some(item) = next else { break };
                    let result = work(item);
                    done.lock().expect("no holder panics").push(result);
                }
            });
        }
    });
    done.into_inner().expect("no holder panics")
}

/// Runs a command with its output going to `log`, for no longer than `cap`.
pub(crate) fn run(command: &mut Command, log: &Path, cap: Duration) -> Result<Ended> {
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    wait_for(&mut child, cap)
}

/// Waits for a child, and stops it once `cap` has passed.
fn wait_for(child: &mut Child, cap: Duration) -> Result<Ended> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot look at a test program")? {
            return Ok(if status.success() {
                Ended::Passed
            } else {
                Ended::Failed(status)
            });
        }
        if started.elapsed() >= cap {
            let threads = threads_of(child.id());
            child.kill().context("cannot stop a test program")?;
            child.wait().context("cannot wait for a test program")?;
            return Ok(Ended::Stopped(threads));
        }
        thread::sleep(GLANCE);
    }
}

/// A process's threads with the system call that each is in, a line each; empty where the system
/// does not tell.
fn threads_of(process: u32) -> String {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return String::new();
    };
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    threads
        .flatten()
        .map(|thread| {
            let name = read(thread.path().join("comm"));
            let place = read(thread.path().join("wchan"));
            let call = read(thread.path().join("syscall"));
            format!("    {:<16} {place:<24} {}\n", name.trim(), call.trim())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_messages_name_the_program() {
        let message = r#"{"reason":"compiler-artifact","executable":"/a/b c",
            "target":{"name":"b"},"profile":{"test":true},"manifest_path":"/p/Cargo.toml"}"#;
        let program = announced(message).unwrap();
        assert_eq!(program.path, Path::new("/a/b c"));
        assert_eq!(program.name, "b");
        assert_eq!(program.folder, Path::new("/p"));
        let bin = message.replace("true", "false");
        assert_eq!(announced(&bin), None, "it has no tests");
        assert_eq!(announced(r#"{"reason":"x","executable":null}"#), None);
        assert_eq!(announced("not a message"), None);
    }

    #[test]
    fn a_program_past_its_cap_is_stopped() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let ended = wait_for(&mut child, Duration::from_millis(50)).unwrap();
        assert!(matches!(ended, Ended::Stopped(_)), "{ended:?}");
        let mut child = Command::new("true").spawn().unwrap();
        let ended = wait_for(&mut child, Duration::from_secs(60)).unwrap();
        assert!(matches!(ended, Ended::Passed), "{ended:?}");
        let mut child = Command::new("false").spawn().unwrap();
        let ended = wait_for(&mut child, Duration::from_secs(60)).unwrap();
        assert!(matches!(ended, Ended::Failed(_)), "{ended:?}");
    }

    #[test]
    fn all_that_waits_is_done() {
        let mut done = side_by_side(&[1, 2, 3, 4, 5], |number| 10 * number);
        done.sort_unstable();
        assert_eq!(done, [10, 20, 30, 40, 50]);
    }
}
