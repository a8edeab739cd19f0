//! `evenkeel`: looks at a process on the evenkeel runtime from a terminal. The program is [`run`].

mod asker;
mod busy;
mod client;
mod error;
mod keys;
mod plain;
mod recording;
mod screen;
mod source;
mod top;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks at a process on the evenkeel runtime.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Top(top::Options),
}

/// Reads the arguments of the process, and does what they say.
pub fn run() -> ExitCode {
    let Command::Top(options) = Arguments::parse().command;
    match top::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evenkeel top: {error}");
            ExitCode::FAILURE
        }
    }
}
