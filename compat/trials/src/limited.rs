//! A command that may not take for ever.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Error;

/// What a command may take to end when it is asked to: `cargo evenkeel` brings a lock file back.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// How much of what it said is in an error.
const LINES: usize = 20;

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs a command to its end. After this time, or when this process is asked to end, it ends all
/// that the command has started, which is an error that begins with `what`.
pub(crate) fn run(command: &mut Command, limit: Duration, what: &str) -> Result<Said, Error> {
    let interrupted = interrupted()?;
    // Files and no pipes: a process that stays behind would hold those open.
    let (mut output, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(errors.try_clone()?)
        .process_group(0)
        .spawn()?;
    let began = Instant::now();
    let ended = loop {
        if child.try_wait()?.is_some() {
            break Ok(());
        }
        // Relaxed: the flag says all there is to say.
        if interrupted.load(Ordering::Relaxed) {
            break Err("was interrupted".to_owned());
        }
        if began.elapsed() >= limit {
            break Err(format!("did not end within {limit:?}, and was ended"));
        }
        thread::sleep(PAUSE);
    };
    end(&mut child)?;
    let said = Said {
        output: read(&mut output)?,
        errors: read(&mut errors)?,
    };
    if let Err(why) = ended {
        let [output, errors] = [&said.output, &said.errors].map(|text| last_lines(text));
        return Err(format!("{what} {why}; what it said last:\n{output}\n{errors}").into());
    }
    Ok(said)
}

/// Ends the processes of the group that are left, also those of a command that has ended itself.
fn end(child: &mut Child) -> Result<(), Error> {
    let group = Pid::from_child(child);
    // There is no such group if nobody is left.
    if kill_process_group(group, Signal::TERM).is_ok() {
        let began = Instant::now();
        while began.elapsed() < GRACE && child.try_wait()?.is_none() {
            thread::sleep(PAUSE);
        }
        _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    Ok(())
}

/// Set once somebody has asked this process to end. A terminal asks only the group in front, which
/// the commands are not in.
fn interrupted() -> Result<&'static AtomicBool, Error> {
    static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = INTERRUPTED.get() {
        return Ok(flag);
    }
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(flag)
}

fn read(file: &mut File) -> Result<String, Error> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Said, Error> {
        run(Command::new("sh").args(["-c", script]), limit, "the script")
    }

    #[test]
    fn what_a_command_says_is_kept_apart() {
        let said = shell("echo out; echo err >&2; exit 1", Duration::from_secs(60)).unwrap();
        assert_eq!((&*said.output, &*said.errors), ("out\n", "err\n"));
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_all_that_it_has_started() {
        let script = "trap '' TERM; sleep 1000 & echo $!; wait; wait";
        let error = shell(script, Duration::from_secs(5)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("the script did not end within 5s"),
            "{error}"
        );
        let process = error.lines().find_map(|line| line.parse::<u32>().ok());
        // One that nobody has waited for yet has no words any more.
        let words = format!("/proc/{}/cmdline", process.unwrap());
        let is_there = || std::fs::read(&words).is_ok_and(|words| !words.is_empty());
        let waits = (0..1000).take_while(|_| is_there());
        waits.for_each(|_| thread::sleep(Duration::from_millis(10)));
        assert!(!is_there(), "{error}");
    }
}
