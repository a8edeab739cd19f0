//! The commands and their arguments.

mod ctl;
mod run;
mod top;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use proxy::config;

/// How a command ends.
pub(crate) type Outcome = Result<ExitCode, Box<dyn Error + Send + Sync>>;

/// A load balancer for TCP and HTTP/1.1, whose health checks and operators are served first.
///
/// Write what is to be served into a file, check it, and run it:
///
///   [listener.web]
///   bind = "127.0.0.1:8080"
///   mode = "http"                    # or "tcp"
///   pool = "app"
///
///   [[pool.app.server]]
///   name = "one"
///   address = "127.0.0.1:9001"
///
///   evenkeel-proxy check proxy.toml
///   evenkeel-proxy run proxy.toml
///
/// All other keys have defaults; the README of the crate lists them.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve by this configuration until ctrl-c.
    ///
    /// Prints `listening on NAME ADDRESS` for each listener, and then `ready`. Errors go to
    /// standard error. SIGHUP reads the file again; SIGTERM and ctrl-c take no more connections,
    /// and wait until the open ones have ended, for up to process.drain. A second one ends
    /// at once.
    Run(FileArguments),
    /// Say what is wrong with a configuration, with its lines, without serving by it.
    Check(FileArguments),
    Reload(SocketArguments),
    Ctl(CtlArguments),
    Top(TopArguments),
}

/// `run` and `check` differ in what they do with it.
#[derive(Debug, Args)]
pub(crate) struct FileArguments {
    /// The configuration, in TOML.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Have a running proxy read its configuration again, as SIGHUP does.
///
/// Connections are not touched. If there is an error in the file, it is printed, and the proxy goes
/// on as before.
#[derive(Debug, Args)]
pub(crate) struct SocketArguments {
    /// The path of its process.admin_socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
}

/// Ask a running proxy, or tell it something, at its admin socket.
///
/// The commands are HAProxy's where it has them; `help` lists them. A last word `json` asks for the
/// answer as JSON.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel-proxy ctl --socket /run/proxy.sock show stat
  evenkeel-proxy ctl --socket /run/proxy.sock set server app/one state drain
  evenkeel-proxy ctl --socket /run/proxy.sock 'show info; show cpu'")]
pub(crate) struct CtlArguments {
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
    /// The command, in one word or several; `;` stands between two commands.
    #[arg(required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Watch a running proxy: its listeners, pools and servers, and whose the processor time is.
///
/// Ctrl-c ends it.
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
    /// The time between two views.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pub(crate) seconds: f64,
    /// End after so many views.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) times: Option<u64>,
    /// One view below the other, as into a file.
    #[arg(long)]
    pub(crate) plain: bool,
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Run(file) => run::run(&file.file),
        Command::Check(file) => {
            let config = config::read(&file.file)?;
            let (listeners, pools) = (config.listeners.len(), config.pools.len());
            println!(
                "{}: good; listeners {listeners}, pools {pools}",
                file.file.display()
            );
            Ok(ExitCode::SUCCESS)
        }
        Command::Reload(socket) => ctl::ask(&socket.socket, "reload"),
        Command::Top(top) => top::run(&top),
        Command::Ctl(ctl) => ctl::ask(&ctl.socket.socket, &ctl.command.join(" ")),
    }
}
