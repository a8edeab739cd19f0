//! What cameras cost, beside MediaMTX and beside what we want: processor time for each, memory,
//! losses, the time of an answer, the delay of live pictures, and what faults leave behind.
//!
//! The cameras are `evenkeel-cameras simulate`: another process, on the same machine, which writes
//! 1 460 bytes at a time. All of them are recorded, and a tenth of them is watched by RTSP. What a
//! server costs is what the system counts for its process.
//!
//! MediaMTX is not fetched: take one of its releases, and then `--mediamtx PATH`. Without it ours
//! is measured alone. The row of a disk that stands still needs root, for a file system of its own.

mod api;
mod costs;
mod delay;
mod faults;
mod processes;
mod reload;
mod rows;
mod servers;
mod sessions;
mod webrtc;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use evenkeel_measure::options::JsonOption;

use processes::Simulator;
use rows::Rows;
use servers::Ours;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Measures what evenkeel-cameras costs for each camera, beside MediaMTX.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    json: JsonOption,
    /// How many cameras
    #[arg(long, default_value_t = 350, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    cameras: u32,
    /// Kilobits a second of each camera
    #[arg(long, default_value_t = 1_400)]
    kbit: u32,
    /// For how long costs and losses are watched, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The long form: costs and losses of ten minutes
    #[arg(long, conflicts_with = "seconds")]
    long: bool,
    /// Short RTSP and HTTP sessions for the row of memory
    #[arg(long, default_value_t = 40_000)]
    sessions: u32,
    /// How often costs are measured, in turn with MediaMTX
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The program of MediaMTX
    #[arg(long)]
    mediamtx: Option<PathBuf>,
    /// Workers of evenkeel-cameras that wake go before all ordinary threads
    #[arg(long)]
    real_time: bool,
    /// Where recordings go for a while [default: the directory for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Measure only these parts
    #[arg(long, value_enum, num_args = 1.., default_values_t = Part::ALL)]
    only: Vec<Part>,
    /// Cargo passes it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Processor time, memory, losses
    Costs,
    /// The time of an answer to programs
    Api,
    /// How late live pictures are
    Delay,
    /// Reading the configuration again
    Reload,
    /// Memory over many sessions
    Sessions,
    /// A process that is killed
    Killed,
    /// A disk that stands still
    Frozen,
    /// Costs of twice as many cameras
    Twice,
    /// Live pictures by WebRTC
    #[value(name = "webrtc")]
    WebRtc,
}

impl Part {
    const ALL: [Self; 9] = [
        Self::Costs,
        Self::Api,
        Self::Delay,
        Self::Reload,
        Self::Sessions,
        Self::Killed,
        Self::Frozen,
        Self::Twice,
        Self::WebRtc,
    ];
}

impl Arguments {
    fn wants(&self, part: Part) -> bool {
        self.only.contains(&part)
    }

    fn sample(&self) -> Duration {
        Duration::from_secs(if self.long { 600 } else { self.seconds })
    }

    fn ours<'a>(&self, directory: &'a Path, cameras: u32, simulator: &'a Simulator) -> Ours<'a> {
        Ours {
            directory,
            cameras,
            simulator,
            real_time: self.real_time,
        }
    }

    fn scratch(&self) -> Result<tempfile::TempDir> {
        let made = match &self.directory {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        };
        Ok(made.map_err(|error| format!("cannot make a directory for recordings: {error}"))?)
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut results = arguments.json.begin("beside_mediamtx")?;
    let mut rows = Rows::new(&arguments);
    let measured = measure(&arguments, &mut rows);
    // What was measured before something failed is worth something too.
    let table = rows.table();
    println!("{table}");
    results.add(table, Vec::new())?;
    measured
}

fn measure(arguments: &Arguments, rows: &mut Rows) -> Result<()> {
    let at_work = &Part::ALL[..6];
    if at_work.iter().any(|part| arguments.wants(*part)) {
        costs::one_server(arguments, rows)?;
    }
    if arguments.wants(Part::Frozen) {
        faults::frozen(arguments, rows)?;
    }
    if arguments.wants(Part::Twice) {
        costs::twice(arguments, rows)?;
    }
    if arguments.wants(Part::WebRtc) {
        webrtc::beside(arguments, rows)?;
    }
    Ok(())
}
