//! The commands and their arguments. They are in the library so that a program of measurements can
//! be the server, too, in a process of its own.

mod demo;
mod discover;
mod hash;
mod run;
mod simulate;

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config;
use crate::onvif::discover::GROUP;

/// How a command ends.
pub(crate) type Outcome = Result<ExitCode, Box<dyn Error + Send + Sync>>;

/// A server for network cameras: takes their streams, and passes them on.
///
/// For a first look, without cameras and without a configuration: `evenkeel-cameras demo`.
///
/// Write the cameras into a file, check it, and run it:
///
///   rtsp.listen = "127.0.0.1:8554"
///
///   [camera.gate]
///   url = "rtsp://192.0.2.7/stream1"
///   user = "viewer"
///   password = "..."
///
///   evenkeel-cameras check cameras.toml
///   evenkeel-cameras run cameras.toml
///   ffplay rtsp://127.0.0.1:8554/gate
///
/// All other keys have defaults; the README of the crate lists them.
#[derive(Debug, Parser)]
#[command(name = "evenkeel-cameras", version, verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve by this configuration until ctrl-c.
    ///
    /// Prints where it listens, and then `ready`. Errors go to standard error.
    Run(FileArguments),
    /// Say what is wrong with a configuration, with its lines, without serving by it.
    Check(FileArguments),
    Demo(DemoArguments),
    HashPassword(HashArguments),
    Discover(DiscoverArguments),
    Simulate(SimulateArguments),
}

/// Show it with simulated cameras, which are recorded, until ctrl-c.
///
/// Prints the address of the page. Each camera shows its name, the time and a square that moves.
/// Recordings go to a temporary directory, which is removed at the end, and take 2 GiB of it at
/// most. Only this machine can look.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// How many cameras.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cameras: u32,
    /// Where recordings go, and stay.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

/// Be cameras: for a first look without hardware, and for measurements.
///
/// Answers RTSP at any path, without a password, in the connection alone, and sends H.264 until
/// ctrl-c: a file again and again, or grey pictures.
#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8664")]
    pub(crate) listen: SocketAddr,
    /// A file of H.264 with start codes, as ffmpeg makes it by `-bsf:v h264_mp4toannexb`.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Pictures a second.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=240))]
    pub(crate) rate: u32,
    /// Kilobits a second of the grey pictures.
    #[arg(long, default_value_t = 1_400, value_parser = kbit())]
    pub(crate) kbit: u32,
}

/// Look for cameras on the network, by ONVIF.
///
/// Prints a line for each that answers: its address, its name, what it is, and where it is asked by
/// ONVIF, which a configuration takes as `onvif = "..."` of a camera.
#[derive(Debug, Args)]
pub(crate) struct DiscoverArguments {
    /// The address of this machine in the cameras' network.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub(crate) from: IpAddr,
    /// Whom to ask: all, or one camera.
    #[arg(long, value_name = "ADDRESS", default_value_t = GROUP)]
    pub(crate) to: SocketAddr,
    /// How long to wait for answers, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 3_000)]
    pub(crate) wait_ms: u32,
}

/// Print a user for the configuration. The password is asked for on a terminal, and is the first
/// line of another input.
///
/// The password is not printed, but its Argon2 hash: put it into a file that only the server reads.
#[derive(Debug, Args)]
pub(crate) struct HashArguments {
    /// The user's name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Also print what digest authentication in RTSP needs. Who has that can watch by RTSP, and
    /// try passwords quickly; without it, RTSP clients send the password itself.
    #[arg(long)]
    pub(crate) digest: bool,
}

/// `run` and `check` differ in what they do with it.
#[derive(Debug, Args)]
pub(crate) struct FileArguments {
    /// The configuration, in TOML.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// What a camera may send.
fn kbit() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(16..=100_000)
}

/// The program: does what its arguments say.
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
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Run(file) => run::run(&file.file),
        Command::HashPassword(arguments) => hash::run(&arguments),
        Command::Discover(arguments) => discover::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Check(file) => {
            let config = config::read(&file.file)?;
            let cameras = config.cameras.len();
            println!("{}: good; cameras {cameras}", file.file.display());
            Ok(ExitCode::SUCCESS)
        }
    }
}
