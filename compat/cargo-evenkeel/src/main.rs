//! `cargo evenkeel <command>`: any Tokio project on Evenkeel, unchanged.

use cargo_evenkeel::copy::Copy;
use cargo_evenkeel::error::Error;
use cargo_evenkeel::lock::{self, OwnLock, Turn};
use cargo_evenkeel::project::{self, Project};
use cargo_evenkeel::suite;
use cargo_evenkeel::upstream::{self, Upstream};
use clap::{Parser, Subcommand};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", disable_help_subcommand = true)]
enum Cargo {
    /// Builds and runs any Tokio project on Evenkeel, unchanged.
    ///
    /// Give it what you would give to cargo: `cargo evenkeel run --release`. Nothing in your
    /// project is changed; your lock file comes back when cargo is done. With EVENKEEL=off in its
    /// environment, the program that was built runs on Tokio itself.
    #[command(version)]
    Evenkeel {
        #[command(subcommand)]
        command: Request,
    },
}

#[derive(Subcommand)]
enum Request {
    /// Says what would be done, and whether it can be.
    Doctor {
        /// As cargo's: --manifest-path, --offline.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Runs Tokio's own tests on Evenkeel: those of the stable public interface.
    ///
    /// Prints what passed, file by file, and each test that failed. EVENKEEL=off runs them on
    /// Tokio itself, for comparison.
    Suite {
        /// Where to build.
        #[arg(long, default_value = "target")]
        target: PathBuf,
        /// Write the outcome of each test here, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
        /// The version of Tokio, such as 1.52; without it, the newest that is supported.
        #[arg(long, value_parser = upstream::named)]
        tokio: Option<Upstream>,
        /// Files of tests, such as tcp_stream; without any, all.
        names: Vec<String>,
    },
    /// Starts a program that cargo has built; cargo itself asks for this.
    #[command(hide = true)]
    Start {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// Any of cargo's own commands, with its options.
    #[command(external_subcommand)]
    Cargo(Vec<String>),
}

fn main() -> ExitCode {
    let Cargo::Evenkeel { command } = Cargo::parse();
    let outcome = match command {
        Request::Doctor { options } => doctor(&options),
        Request::Suite {
            target,
            json,
            tokio,
            names,
        } => suite::run(&target, tokio, json.as_deref(), &names),
        Request::Start { program } => lock::start(&program),
        Request::Cargo(arguments) => cargo(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn doctor(options: &[String]) -> Result<ExitCode, Error> {
    let project = Project::find(options)?;
    let turn = Turn::take(&project)?;
    let upstream = project.tokio()?;
    println!("tokio {} in {}", upstream.version, project.lock().display());
    let copy = Copy::prepare(&upstream, &project.target)?;
    println!(
        "its source fits all rules; the copy is in {}",
        copy.folder.display()
    );
    let _lock = OwnLock::put(turn, &copy)?;
    project.check(&copy)?;
    println!("no package would use another tokio; `cargo evenkeel build` can be run");
    Ok(ExitCode::SUCCESS)
}

fn cargo(arguments: &[String]) -> Result<ExitCode, Error> {
    let project = Project::find(arguments)?;
    let turn = Turn::take(&project)?;
    if arguments
        .iter()
        .any(|argument| argument == "--locked" || argument == "--frozen")
    {
        project.check_locked()?;
    }
    let copy = Copy::prepare(&project.tokio()?, &project.target)?;
    let lock = OwnLock::put(turn, &copy)?;
    project.check(&copy)?;
    let mut command = Command::new("cargo");
    command.args(project::patch_options(&copy));
    command.args(lock::runner_option().into_iter().flatten());
    let (name, places) = lock.variable();
    command.env(name, places).args(arguments);
    lock.pass_turn_on();
    let status = wait(&mut command)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs cargo to its end. A terminal sends Ctrl-C to cargo as well; what ends this process alone is
/// passed on.
fn wait(command: &mut Command) -> Result<ExitStatus, Error> {
    let failed = |source| Error::Start {
        command: "cargo".into(),
        source,
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let mut child = command.spawn().map_err(failed)?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = signals.handle();
    let passing_on = std::thread::spawn(move || {
        for signal in signals.forever().filter(|signal| *signal != SIGINT) {
            let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
            _ = id.map(|id| kill_process(id, signal));
        }
    });
    let status = child.wait().map_err(failed);
    handle.close();
    _ = passing_on.join();
    status
}
