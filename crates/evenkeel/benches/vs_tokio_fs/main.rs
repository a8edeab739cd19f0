//! Files of Evenkeel beside Tokio's, in turn, on the same loads: `-- --help` explains.
//!
//! ```text
//! cargo bench -p evenkeel --all-features --bench vs_tokio_fs -- [FILTER] [--json FILE]
//! ```

mod cell;
mod help;
mod options;
mod run;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::Better;

use cell::{Cell, Way};
use options::Options;
use run::{Contender, Files};

fn main() -> ExitCode {
    match compare(&Options::parse()) {
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
    let mut results = options.json.begin("vs_tokio_fs")?;
    let files = Files::make(&options.dir, &cells)?;
    for way in [Way::Offset, Way::Sequence] {
        let contenders = contenders(way);
        let names: Vec<_> = contenders.iter().map(Contender::name).collect();
        let title = match way {
            Way::Offset => "Files, at an offset",
            Way::Sequence => "Files, in sequence",
        };
        let mut table = Comparison::new(title, "operations/s", Better::More, &names);
        for cell in cells.iter().filter(|cell| cell.way == way) {
            let name = cell.to_string();
            let measure =
                |contender: &Contender| run::measure(*contender, *cell, &files, options.sample());
            let figures = alternate_aloud(&name, options.rounds(), contenders, measure)?;
            if options.raw {
                print_raw(&name, &names, &figures);
            }
            table.add(&name, &figures);
        }
        print!("{table}");
        results.add_comparison(&table)?;
    }
    Ok(())
}

/// The one in question, the baseline, and the others.
fn contenders(way: Way) -> &'static [Contender] {
    use Contender::{ByHand, Evenkeel, NoRing, Tokio};
    match way {
        Way::Offset => &[Evenkeel, Tokio, ByHand, NoRing],
        Way::Sequence => &[Evenkeel, Tokio],
    }
}

fn print_raw(cell: &str, names: &[&str], figures: &[Vec<f64>]) {
    for round in 0..figures.first().map_or(0, Vec::len) {
        let of_round: String = (names.iter().zip(figures))
            .map(|(name, of)| format!(" {}={:.0}", name.replace(' ', "-"), of[round]))
            .collect();
        println!("raw {cell}: round={}{of_round}", round + 1);
    }
}
