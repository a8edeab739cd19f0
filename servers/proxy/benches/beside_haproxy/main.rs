//! What the proxy costs beside HAProxy, in turn: processor time of its process for each operation,
//! memory of connections that wait, rates under a mixed load, the time of an answer to the
//! operator, and what others' handshakes and computations do to an answer.
//!
//! Clients, servers and both proxies share the machine, over loopback. Each proxy has one worker,
//! the same timeouts, and a log of all requests and connections in a file, in the format that it
//! has by itself. HAProxy may use connections to servers again for any client, as ours does. It is
//! measured as it comes, without splicing, with splicing, and for bytes also with larger buffers.
//! What measures the time of an answer goes before all others, and what makes a load beside it
//! after them (`priority`).
//!
//! The targets are what this project means to keep. They are printed beside the figures, and
//! nothing fails by them.

mod bare;
mod costs;
mod crowd;
mod disturbed;
mod memory;
mod mixed;
mod priority;
mod proxies;
mod rows;

use std::path::PathBuf;

use clap::Parser;
use evenkeel_measure::options::{JsonOption, RoundOptions};
use evenkeel_measure::proxied::{Result, clients, origins};

use proxies::{Machine, version};
use rows::Rows;

/// Measures evenkeel-proxy beside HAProxy.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    json: JsonOption,
    /// The program of HAProxy
    #[arg(long, default_value = "haproxy")]
    haproxy: String,
    /// The program of evenkeel-proxy, if not the one that is built with this
    #[arg(long, default_value = env!("CARGO_BIN_EXE_evenkeel-proxy"), hide_default_value = true)]
    program: PathBuf,
    /// Do each operation a number of times with evenkeel-proxy alone, and end it in order: what a
    /// build with counters learns from
    #[arg(long)]
    learn: bool,
    /// Workers of evenkeel-proxy are ordinary threads (process.real_time = false)
    #[arg(long)]
    ordinary: bool,
    /// Measure only the rows with this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

fn main() -> Result<()> {
    bare::relay_if_told()?;
    let arguments = Arguments::parse();
    if arguments.learn {
        let machine = Machine::new(&arguments)?;
        return costs::learn(&machine);
    }
    let mut results = arguments.json.begin("beside_haproxy")?;
    println!("HAProxy is {}", version(&arguments.haproxy)?);
    if !std::thread::spawn(priority::first)
        .join()
        .is_ok_and(|is_first| is_first)
    {
        eprintln!(
            "probes are ordinary threads, and see their own delays: real-time is not allowed"
        );
    }
    let machine = Machine::new(&arguments)?;
    let plan = Plan {
        machine: &machine,
        rounds: &arguments.rounds,
        only: &arguments.only,
    };
    let tables: [fn(&Plan<'_>) -> Result<Rows>; 7] = [
        costs::operations,
        bare::kept,
        costs::bytes,
        memory::idle,
        mixed::rates,
        mixed::answers,
        disturbed::answers,
    ];
    for measure in tables {
        let rows = measure(&plan)?;
        if !rows.is_empty() {
            let table = rows.table();
            println!("\n{table}");
            results.add(table, Vec::new())?;
        }
    }
    Ok(())
}

/// What is measured, and how often.
struct Plan<'a> {
    machine: &'a Machine,
    rounds: &'a RoundOptions,
    only: &'a str,
}

impl Plan<'_> {
    fn wants(&self, row: &str) -> bool {
        row.contains(self.only)
    }
}
