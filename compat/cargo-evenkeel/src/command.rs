//! Cargo's own commands, with the copy in Tokio's place.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::{Call, Kind};
use crate::config::Config;
use crate::copy::Copy;
use crate::error::{self, Error};
use crate::lock::{self, OwnLock, Turn};
use crate::patches::Patches;
use crate::permanent::Permanent;
use crate::project::{Project, cargo};

/// Runs the command that these words are, as cargo would.
///
/// # Errors
///
/// If it has to be refused, or the project cannot be built on Evenkeel.
pub fn run(words: &[String]) -> Result<ExitCode, Error> {
    let here = std::env::current_dir().map_err(error::file("find", Path::new(".")))?;
    let call = Call::parse(words, &Config::read(&here, &[])?)?;
    if call.kind()? == Kind::Plain || asks_for_help(words) {
        return wait(cargo().args(call.words(&[])));
    }
    let project = Project::find(call.options.clone())?;
    let turn = Turn::take(&project)?;
    project.check_config()?;
    if let Some(made) = Permanent::read(&project.root)? {
        if let Some(defect) = made.defect(&project)? {
            return Err(Error::NotCurrent { defect });
        }
        drop(turn);
        let patches = made.patches();
        project.check_permanent(&patches)?;
        // Once more on the line, as cargo may not look into the project's configuration from here.
        return wait(cargo().args(call.words(&patches.options())));
    }
    project.check_writable()?;
    project.check_locked()?;
    let copy = Copy::prepare(&project.tokio()?, &project.target)?;
    let interrupted = hear_signals()?;
    let mut patches = Patches::of(&project, copy)?;
    let lock = OwnLock::put(turn, &project, &patches.copy)?;
    project.check(&mut patches)?;
    if interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::FAILURE);
    }
    let mut ours = patches.options();
    ours.extend(lock::runner_option(project.config()).into_iter().flatten());
    let (name, places) = lock.variable();
    lock.pass_turn_on();
    wait(cargo().env(name, places).args(call.words(&ours)))
}

fn asks_for_help(words: &[String]) -> bool {
    let mut options = words.iter().take_while(|word| *word != "--");
    words.len() == 2 && options.any(|word| word == "--help" || word == "-h")
}

/// From now on, a signal does not end this process before the user's lock file is back.
///
/// # Errors
///
/// If the system refuses.
pub fn hear_signals() -> Result<Arc<AtomicBool>, Error> {
    // Relaxed: the flag says all there is to say.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).map_err(|source| {
            let command = "cargo".into();
            Error::Start { command, source }
        })?;
    }
    Ok(interrupted)
}

/// Runs cargo to its end. A terminal sends Ctrl-C to cargo as well; what another process sends to
/// end this one is passed on.
///
/// # Errors
///
/// If it cannot be started.
pub fn wait(command: &mut Command) -> Result<ExitCode, Error> {
    let failed = |source| Error::Start {
        command: "cargo".into(),
        source,
    };
    let mut signals =
        SignalsInfo::<WithRawSiginfo>::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let mut child = command.spawn().map_err(failed)?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = signals.handle();
    let passing_on = std::thread::spawn(move || {
        for heard in signals.forever() {
            // Of a signal that a process sends, the code is 0 or less.
            if heard.si_signo == SIGINT && heard.si_code > 0 {
                continue;
            }
            let signal = Signal::from_named_raw(heard.si_signo).unwrap_or(Signal::TERM);
            _ = id.map(|id| kill_process(id, signal));
        }
    });
    let status = child.wait().map_err(failed);
    handle.close();
    _ = passing_on.join();
    let code = status?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
