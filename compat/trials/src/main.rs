//! Tries the drop-in on other people's code: `cargo run -p trials -- --help`.

mod graph;
mod limited;
mod programs;
mod services;
mod suites;
mod unstable;
mod whole;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// An error that is printed, and ends the program.
pub(crate) type Error = Box<dyn std::error::Error>;

/// Tries the drop-in for Tokio on other people's code, on Evenkeel and on Tokio in turn.
///
/// `cargo evenkeel` has to be built before: `cargo build -p cargo-evenkeel`.
#[derive(Parser)]
enum Trials {
    /// The tests of crates that stand on Tokio.
    ///
    /// Prints what passed, and each test that fails on Evenkeel and not on Tokio, which makes
    /// this fail. A crate whose tests do not end within 40 minutes is an error. The first run
    /// builds for some ten minutes, and needs a network from which cargo can fetch the crates.
    Suites {
        /// Where to build.
        #[arg(long, default_value = "target/trials")]
        target: PathBuf,
        /// Write the outcome of each test here, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Crates; without any, all of `suites.toml`.
        names: Vec<String>,
    },
    /// Services of axum, tonic and mini-redis, and the client reqwest, under load.
    ///
    /// Prints requests per second of processor time, and how long a health check takes beside
    /// handlers that compute or block, with verdicts: it fails where one does not hold. One round
    /// takes a minute and a half; the first run builds for some five minutes before.
    Services(services::Options),
    /// Checks a graph of crates that stand on Tokio, with the versions of its lock file.
    Graph {
        /// Where to build.
        #[arg(long, default_value = "target/trials")]
        target: PathBuf,
        /// Write what the graph is made of here, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Checks that the copies compile with Tokio's unstable interfaces.
    Unstable {
        /// Where to build.
        #[arg(long, default_value = "target/trials")]
        target: PathBuf,
        /// Write what was checked here, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// All of this and Tokio's own tests, and `docs/compat.md`, which says what came of it.
    ///
    /// Takes more than an hour. Parts that are not run keep what came of them before.
    Whole(whole::Options),
    /// Programs of the registry, unchanged, each driven by a script.
    ///
    /// Prints for each whether it was built, ran and answered right, and what it says that was done
    /// for it. Ends with 3 if nothing failed, but a server that is needed is not installed. The
    /// first run builds for some ten minutes.
    Programs(programs::Options),
}

fn main() -> ExitCode {
    let outcome = match Trials::parse() {
        Trials::Suites {
            target,
            json,
            names,
        } => suites::run(&target, json.as_deref(), &names),
        Trials::Services(options) => services::run(&options),
        Trials::Graph { target, json } => graph::run(&target, json.as_deref()),
        Trials::Unstable { target, json } => unstable::run(&target, json.as_deref()),
        Trials::Whole(options) => whole::run(&options),
        Trials::Programs(options) => return programs::main(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command `cargo evenkeel`, which is beside this program.
pub(crate) fn cargo_evenkeel() -> Result<PathBuf, Error> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("cargo-evenkeel");
    if path.is_file() {
        Ok(path)
    } else {
        Err("build it first: cargo build -p cargo-evenkeel".into())
    }
}
