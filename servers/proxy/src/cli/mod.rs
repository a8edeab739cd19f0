//! The commands and their arguments. They are in the library so that a program of measurements can
//! be the proxy, too, in a process of its own.

mod convert;
mod ctl;
mod run;
mod top;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::config;
use crate::server::{certificate_warnings, check_page};
use clap::{Args, Parser, Subcommand};

/// How a command ends.
pub(crate) type Outcome = Result<ExitCode, Box<dyn Error + Send + Sync>>;

/// A load balancer for TCP and HTTP, whose health checks and operators are served first.
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
/// `convert` makes one of a configuration of HAProxy.
///
/// All other keys have defaults; the README of the crate lists them.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve by this configuration until ctrl-c.
    ///
    /// Prints `listening on NAME ADDRESS` for each listener, and then `ready`. Errors go to
    /// standard error. SIGHUP reads the file again, and SIGUSR2 has another process take over;
    /// SIGTERM and ctrl-c take no more connections,
    /// and wait until the open ones have ended, for up to process.drain. A second one ends
    /// at once.
    Run(FileArguments),
    /// Say what is wrong with a configuration, with its lines, without serving by it.
    Check(FileArguments),
    Reload(SocketArguments),
    /// Have a running proxy start the program anew, which takes over, as SIGUSR2 does.
    ///
    /// The new process has the sockets of the old one, so that no connection is refused, and reads
    /// the configuration. The old one finishes what it has, for up to process.drain, and ends. If
    /// the new one does not come to serve, the reason is printed, and the old one goes on.
    Upgrade(SocketArguments),
    Ctl(CtlArguments),
    Convert(ConvertArguments),
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

/// Print the configuration of HAProxy as one of this proxy.
///
/// What has no counterpart here is said on standard error, with its line. If something is missing,
/// nothing is printed, and the exit code is 1. With --lossy the rest is printed, with comments
/// where something is missing, and the exit code is 3, as it is if `check` finds something wrong
/// with the result, such as a certificate that is not there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel-proxy convert /etc/haproxy/haproxy.cfg > proxy.toml
  evenkeel-proxy convert --lossy /etc/haproxy/haproxy.cfg | less")]
pub(crate) struct ConvertArguments {
    /// Print also what is not whole.
    #[arg(long)]
    pub(crate) lossy: bool,
    /// Say nothing of what is left out because it changes nothing of what is served.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// The configuration of HAProxy.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// What the program does: reads its arguments, and does what they say.
pub fn main() -> ExitCode {
    run(Arguments::parse())
}

/// Does what the arguments say. What went wrong is said on standard error.
pub fn run(arguments: Arguments) -> ExitCode {
    match done(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn done(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Run(file) => run::run(&file.file),
        Command::Check(file) => {
            let config = config::read(&file.file)?;
            check_page(config.process.get_ref())?;
            for warning in certificate_warnings(&config) {
                eprintln!("warning: {warning}");
            }
            let (listeners, pools) = (config.listeners.len(), config.pools.len());
            println!(
                "{}: good; listeners {listeners}, pools {pools}",
                file.file.display()
            );
            Ok(ExitCode::SUCCESS)
        }
        Command::Reload(socket) => ctl::ask(&socket.socket, "reload"),
        Command::Convert(convert) => convert::run(&convert),
        Command::Top(top) => top::run(&top),
        Command::Upgrade(socket) => ctl::ask(&socket.socket, "upgrade"),
        Command::Ctl(ctl) => ctl::ask(&ctl.socket.socket, &ctl.command.join(" ")),
    }
}
