//! `cargo evenkeel <command>`: any Tokio project on Evenkeel, unchanged.

use cargo_evenkeel::call::{self, Options};
use cargo_evenkeel::error::{self, Error};
use cargo_evenkeel::lock;
use cargo_evenkeel::suite::Files;
use cargo_evenkeel::upstream::{self, Upstream};
use cargo_evenkeel::{command, doctor, install, permanent, project, suite};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const NAME: &str = "cargo-evenkeel";

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
    /// Says what a build would do, and what to mend before; exit code 1 if something is wrong.
    Doctor {
        /// As cargo's: --manifest-path, --offline.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Installs a program on Evenkeel: a published package, --path or --git.
    ///
    /// Options are those of cargo's install. With --locked, the package's own lock file is
    /// followed, but for a Tokio that there are no rules for.
    Install {
        /// The package, and cargo's options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Makes Evenkeel permanent in this project, so that plain cargo, editors and CI build on it.
    ///
    /// Patches tokio in .cargo/config.toml, with the copy in .cargo/evenkeel. Run it again when it
    /// says so; twice is no harm. `cargo evenkeel remove` undoes it.
    Init {
        /// Only say whether it was made and is current; exit code 1 if not.
        #[arg(long)]
        check: bool,
        /// As cargo's: --manifest-path, --offline, --config.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Takes out of this project what `cargo evenkeel init` has made.
    ///
    /// To remove a dependency, run `cargo remove` itself.
    Remove {
        /// As cargo's: --manifest-path, --offline, --config.
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
        /// Only some files, in which most of what Evenkeel changes is used.
        #[arg(long, conflicts_with = "names")]
        sample: bool,
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
    match change_toolchain().and_then(|()| obey()) {
        Ok(code) => code,
        Err(error) => {
            // Standard error may have no reader any more.
            _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn obey() -> Result<ExitCode, Error> {
    let words = words();
    let first = words
        .get(2)
        .and_then(|word| word.to_str())
        .unwrap_or_default();
    // Options of cargo's may stand before its command.
    let is_option =
        first.starts_with('-') && !matches!(first, "-h" | "--help" | "-V" | "--version");
    if is_option {
        let texts = words
            .iter()
            .skip(2)
            .map(|word| word.to_string_lossy().into_owned());
        return command::run(&texts.collect::<Vec<_>>());
    }
    let Cargo::Evenkeel { command } = Cargo::parse_from(&words);
    match command {
        Request::Doctor { options } => doctor::run(Options::of(&options)?),
        Request::Init { check, mut options } => {
            let before = options.len();
            options.retain(|option| option != "--check");
            permanent::init(Options::of(&options)?, check || options.len() < before)
        }
        Request::Install { words } => install::run(&words),
        // A dependency, which is cargo's to remove.
        Request::Remove { options } if call::first_positional(&options).is_some() => {
            let command = "remove".into();
            Err(Error::OwnLock { command })
        }
        Request::Remove { options } => permanent::remove(Options::of(&options)?),
        Request::Suite {
            target,
            json,
            tokio,
            sample,
            names,
        } => {
            let files = match (sample, names.is_empty()) {
                (true, _) => Files::Sample,
                (false, true) => Files::All,
                (false, false) => Files::Named(names),
            };
            suite::run(&target, tokio, json.as_deref(), &files)
        }
        Request::Start { program } => lock::start(&program),
        Request::Cargo(arguments) => command::run(&arguments),
    }
}

/// The words of the command line, with options that stand before one of our own commands behind
/// its name, where it looks for them.
fn words() -> Vec<OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    let is_ours = |word: &OsString| {
        let command = Cargo::command();
        let ours = command.find_subcommand("evenkeel");
        ours.is_some_and(|ours| ours.find_subcommand(word).is_some())
    };
    let texts: Option<Vec<_>> = (words.iter().skip(2))
        .map(|word| word.to_str().map(str::to_owned))
        .collect();
    let at = texts.and_then(|texts| call::first_positional(&texts));
    if let Some(at) = at.map(|at| at + 2).filter(|at| is_ours(&words[*at])) {
        words[2..=at].rotate_right(1);
    }
    words
}

/// Becomes this program under another toolchain of rustup's, if the first word names one, as with
/// cargo.
fn change_toolchain() -> Result<(), Error> {
    let word = std::env::args_os()
        .nth(2)
        .and_then(|word| word.into_string().ok());
    let Some(word) = word.filter(|word| word.starts_with('+')) else {
        return Ok(());
    };
    // Says itself what is wrong with the name, or that there is no rustup.
    project::run(
        Command::new("cargo")
            .args([&word, "--version", "--quiet"])
            .stdout(Stdio::null()),
    )?;
    let program = std::env::current_exe().map_err(error::file("find", Path::new(NAME)))?;
    let source = Command::new(&program)
        .arg("evenkeel")
        .args(std::env::args_os().skip(3))
        .env("RUSTUP_TOOLCHAIN", &word[1..])
        .env_remove("CARGO")
        .exec();
    let command = program.display().to_string();
    Err(Error::Start { command, source })
}
