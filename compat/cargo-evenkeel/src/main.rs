//! `cargo evenkeel <command>`: any Tokio project on Evenkeel, unchanged.

use cargo_evenkeel::copy::Copy;
use cargo_evenkeel::error::Error;
use cargo_evenkeel::project::{self, OwnLock, Project};
use cargo_evenkeel::suite;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

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
        /// Files of tests, such as tcp_stream; without any, all.
        names: Vec<String>,
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
            names,
        } => suite::run(&target, json.as_deref(), &names),
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
    let upstream = project.tokio()?;
    println!("tokio {} in {}", upstream.version, project.lock().display());
    let copy = Copy::prepare(&upstream, &project.target)?;
    println!(
        "its source fits all rules; the copy is in {}",
        copy.folder.display()
    );
    let _lock = OwnLock::put(&project, &copy)?;
    project.check(&copy)?;
    println!("no package would use another tokio; `cargo evenkeel build` can be run");
    Ok(ExitCode::SUCCESS)
}

fn cargo(arguments: &[String]) -> Result<ExitCode, Error> {
    let project = Project::find(arguments)?;
    let copy = Copy::prepare(&project.tokio()?, &project.target)?;
    // Cargo and the program it runs end by the signal; this has to put the lock file back.
    let ignored = ctrlc::set_handler(|| ());
    debug_assert!(ignored.is_ok(), "one handler in this program");
    let _lock = OwnLock::put(&project, &copy)?;
    project.check(&copy)?;
    let mut command = Command::new("cargo");
    command.args(project::patch_options(&copy)).args(arguments);
    let status = command.status().map_err(|source| Error::Start {
        command: "cargo".into(),
        source,
    })?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}
