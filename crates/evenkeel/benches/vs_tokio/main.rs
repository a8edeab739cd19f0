//! Evenkeel beside Tokio, in one process, in turn: A B A B.
//!
//! ```text
//! cargo bench -p evenkeel --bench vs_tokio [-- FILTER] [--rounds N] [--quick]
//! ```
//!
//! Each figure is a median over the rounds. A ratio above 1 means that evenkeel is better; its
//! spread is the least and the greatest ratio of any round's pair.

mod peer;
mod scheduler;
mod table;

use std::time::{Duration, Instant};

use peer::{Evenkeel, Tokio};
use table::Table;

/// What the command line asks for.
struct Options {
    filter: Option<String>,
    rounds: usize,
    /// How long one runtime is measured at a time.
    sample: Duration,
}

fn options() -> Options {
    let mut options =
        Options { filter: None, rounds: 7, sample: Duration::from_millis(400) };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo passes it to every benchmark.
            "--bench" => {}
            "--quick" => {
                options.rounds = 5;
                options.sample = Duration::from_millis(100);
            }
            "--rounds" => {
                let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
                options.rounds = rounds.unwrap_or_else(|| usage("--rounds wants a number"));
            }
            flag if flag.starts_with('-') => usage(&format!("unknown option {flag}")),
            filter => options.filter = Some(filter.to_owned()),
        }
    }
    if options.rounds < 5 {
        usage("--rounds wants at least 5: fewer say nothing about the spread");
    }
    options
}

fn usage(problem: &str) -> ! {
    eprintln!("vs_tokio: {problem}\nusage: vs_tokio [FILTER] [--rounds N] [--quick]");
    std::process::exit(2)
}

fn main() {
    let options = options();
    let wanted = |name: &str| options.filter.as_ref().is_none_or(|filter| name.contains(filter));
    scheduler_table(&options, wanted).print();
}

fn scheduler_table(options: &Options, wanted: impl Fn(&str) -> bool) -> Table {
    let mut table = Table::new("scheduler: time for one iteration", "us");
    let pairs = scheduler::all::<Evenkeel>().into_iter().zip(scheduler::all::<Tokio>());
    for ((name, ours), (_, theirs)) in pairs.filter(|((name, _), _)| wanted(name)) {
        let rounds = (0..options.rounds).map(|round| {
            eprint!("\r{name}: round {}/{}   ", round + 1, options.rounds);
            // The order is turned around every round, so that what the first leaves behind for
            // the second (heat, caches) falls on each alike.
            if round % 2 == 0 {
                let ours = time_of(ours, options.sample);
                (ours, time_of(theirs, options.sample))
            } else {
                let theirs = time_of(theirs, options.sample);
                (time_of(ours, options.sample), theirs)
            }
        });
        let rounds: Vec<_> = rounds.collect();
        table.add_less_is_better(name, &rounds);
    }
    eprint!("\r{:60}\r", "");
    table
}

/// The mean time of an iteration in microseconds, on a runtime made for it and ended after it.
fn time_of(make: scheduler::Make, sample: Duration) -> f64 {
    let mut iterate = make();
    let warm_up = Instant::now();
    while warm_up.elapsed() < sample / 4 {
        iterate();
    }
    let began = Instant::now();
    let mut iterations = 0u32;
    while began.elapsed() < sample {
        iterate();
        iterations += 1;
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(iterations)
}
