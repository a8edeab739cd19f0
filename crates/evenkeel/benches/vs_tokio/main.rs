//! Evenkeel beside Tokio, in turn, on the same loads: `-- --help` explains.
//!
//! ```text
//! cargo bench -p evenkeel --all-features --bench vs_tokio -- [FILTER] [--quick] [--json FILE]
//! ```

// What is asked for, and what is told of it.
mod help;
mod options;

// Who is compared, and where.
mod bare;
mod cpu;
mod peer;
#[cfg(target_os = "linux")]
mod ring;

// `scheduler`: tasks that spawn, yield and wake each other.
mod scheduler;

// `network`: servers under load.
mod client;
mod network;
mod server;

// `crowd`: one connection beside thousands.
mod crowd;

// `memory`: what is idle and still takes room.
mod hold;
mod idle;
mod memory;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use options::Options;

/// Who is compared everywhere; the latter is the baseline.
const CONTENDERS: [&str; 2] = ["evenkeel", "tokio"];

fn main() -> ExitCode {
    let options = Options::parse();
    let measured = options.measure_memory.zip(options.subject);
    let outcome = match (measured, options.hold_connections) {
        (Some((runtime, subject)), _) => idle::measure(runtime, subject),
        (None, Some(port)) => hold::connections(port),
        (None, None) => compare(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vs_tokio: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints and writes the tables of each part as soon as it is measured.
fn compare(options: &Options) -> io::Result<()> {
    let mut results = options.json.begin("vs_tokio")?;
    let mut row_count = 0;
    let parts = [
        scheduler::compare,
        network::compare,
        crowd::compare,
        memory::compare,
    ];
    for part in parts {
        for table in part(options)? {
            print!("{table}");
            results.add_comparison(&table)?;
            row_count += table.row_count();
        }
    }
    if row_count == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            options.advice_on_nothing(),
        ));
    }
    Ok(())
}
