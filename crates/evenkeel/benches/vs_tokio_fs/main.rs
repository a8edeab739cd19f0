//! Files of Evenkeel beside Tokio's, in turn, on the same loads: `-- --help` explains.
//!
//! ```text
//! cargo bench -p evenkeel --all-features --bench vs_tokio_fs [-- FILTER] [--rounds N] [--quick]
//! ```

mod cell;
mod help;
mod options;
mod run;

// How rounds are ordered and tables printed, as in the benchmark of the rest of the runtime.
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../vs_tokio/rounds.rs"]
mod rounds;
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../vs_tokio/table.rs"]
mod table;

use std::io;
use std::process::ExitCode;

use cell::{Cell, Way};
use options::{Options, Request};
use rounds::{Each, in_turn};
use run::{Contender, Files};
use table::{Better, Table};

fn main() -> ExitCode {
    let outcome = match options::parse(std::env::args().skip(1)) {
        Ok(Request::Help) => {
            print!("{}", help::text());
            Ok(())
        }
        Ok(Request::Compare(options)) => compare(&options),
        Err(problem) => {
            eprintln!("vs_tokio_fs: {problem}\n{}", help::USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vs_tokio_fs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> io::Result<()> {
    let cells: Vec<Cell> = cell::all()
        .into_iter()
        .filter(|cell| options.wants(&cell.to_string()))
        .collect();
    if cells.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the filter is in no row's name; --help lists them all",
        ));
    }
    let files = Files::make(&options.directory, &cells)?;
    for way in [Way::Offset, Way::Sequence] {
        let mut table = new_table(way);
        for cell in cells.iter().filter(|cell| cell.way == way) {
            let rounds = measure(options, &files, *cell)?;
            if options.raw {
                print_raw(*cell, &rounds);
            }
            table.add(&cell.to_string(), &rounds);
        }
        table.print();
    }
    Ok(())
}

fn new_table(way: Way) -> Table {
    match way {
        Way::Offset => Table::new("Files, at an offset", "operations/s", Better::More)
            .with_limits(&["by hand", "no ring"]),
        Way::Sequence => Table::new("Files, in sequence", "operations/s", Better::More),
    }
}

fn measure(options: &Options, files: &Files, cell: Cell) -> io::Result<Vec<Each<f64>>> {
    let contenders = Each {
        evenkeel: Contender::Evenkeel,
        tokio: Contender::Tokio,
        limits: match cell.way {
            Way::Offset => vec![Contender::ByHand, Contender::NoRing],
            Way::Sequence => Vec::new(),
        },
    };
    in_turn(
        &cell.to_string(),
        options.rounds,
        &contenders,
        |contender| run::measure(*contender, cell, files, options.sample),
    )
}

fn print_raw(cell: Cell, rounds: &[Each<f64>]) {
    for (number, round) in rounds.iter().enumerate() {
        let by_hand: String = (round.limits.iter())
            .zip(["by-hand", "no-ring"])
            .map(|(figure, name)| format!(" {name}={figure:.0}"))
            .collect();
        println!(
            "raw {cell}: round={} evenkeel={:.0} tokio={:.0}{by_hand}",
            number + 1,
            round.evenkeel,
            round.tokio
        );
    }
}
