//! Evenkeel beside Tokio, in one process, in turn: A B A B.
//!
//! ```text
//! cargo bench -p evenkeel --bench vs_tokio [-- FILTER] [--rounds N] [--quick]
//! ```
//!
//! Each figure is a median over the rounds. A ratio above 1 means that evenkeel is better; its
//! spread is the least and the greatest ratio of any round's pair.

mod client;
mod cpu;
mod peer;
mod scheduler;
mod server;
mod table;

use std::time::{Duration, Instant};

use client::Load;
use peer::{Evenkeel, Peer, Tokio};
use server::Service;
use table::Table;

/// What the command line asks for.
struct Options {
    filter: Option<String>,
    rounds: usize,
    /// How long one runtime is measured at a time.
    sample: Duration,
}

fn options() -> Options {
    let mut options = Options {
        filter: None,
        rounds: 7,
        sample: Duration::from_millis(400),
    };
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
    let wanted = |name: &str| {
        options
            .filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter))
    };
    scheduler_table(&options, wanted).print();
    network_tables(&options, wanted)
        .iter()
        .for_each(Table::print);
}

fn scheduler_table(options: &Options, wanted: impl Fn(&str) -> bool) -> Table {
    let mut table = Table::new("scheduler: time for one iteration", "us");
    let pairs = scheduler::all::<Evenkeel>()
        .into_iter()
        .zip(scheduler::all::<Tokio>());
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

/// The servers' loads: name, service, connections.
const NETWORK: [(&str, Service, usize); 6] = [
    ("echo, 1 connection", Service::Echo, 1),
    ("echo, 64 connections", Service::Echo, 64),
    ("echo, 1000 connections", Service::Echo, 1_000),
    ("hello, 1 connection", Service::Hello, 1),
    ("hello, 64 connections", Service::Hello, 64),
    ("hello, 1000 connections", Service::Hello, 1_000),
];

/// What one runtime made of one load.
#[derive(Clone, Copy)]
struct Served {
    per_second: f64,
    per_cpu_second: f64,
    p99_us: f64,
}

fn network_tables(options: &Options, wanted: impl Fn(&str) -> bool) -> [Table; 3] {
    let mut tables = [
        Table::new(
            "network: requests per second of the server's processor time",
            "1/s",
        ),
        Table::new("network: 99th percentile of latency", "us"),
        Table::new("network: requests per second", "1/s"),
    ];
    for (name, service, connections) in NETWORK.into_iter().filter(|(name, ..)| wanted(name)) {
        let rounds = (0..options.rounds).map(|round| {
            eprint!("\r{name}: round {}/{}   ", round + 1, options.rounds);
            let ours = || serve::<Evenkeel>(service, connections, options.sample);
            let theirs = || serve::<Tokio>(service, connections, options.sample);
            if round % 2 == 0 {
                let ours = ours();
                (ours, theirs())
            } else {
                let theirs = theirs();
                (ours(), theirs)
            }
        });
        let rounds: Vec<_> = rounds.collect();
        let figures = |figure: fn(&Served) -> f64| -> Vec<_> {
            rounds
                .iter()
                .map(|(ours, theirs)| (figure(ours), figure(theirs)))
                .collect()
        };
        tables[0].add_more_is_better(name, &figures(|served| served.per_cpu_second));
        tables[1].add_less_is_better(name, &figures(|served| served.p99_us));
        tables[2].add_more_is_better(name, &figures(|served| served.per_second));
    }
    eprint!("\r{:60}\r", "");
    tables
}

fn serve<P: Peer>(service: Service, connections: usize, sample: Duration) -> Served {
    // The server's threads inherit where this one may run.
    let division = cpu::Division::of_machine();
    let workers = division.map_or(1, |division| division.server_processors());
    division.iter().for_each(cpu::Division::take_server_side);
    let peer = P::new(workers);
    let port = server::start(&peer, service);
    let load = std::thread::Builder::new()
        .name("load".to_owned())
        .spawn(move || {
            division.iter().for_each(cpu::Division::take_load_side);
            let load = match service {
                Service::Echo => Load::echo(port, connections),
                Service::Hello => Load::hello(port, connections),
            };
            let mut load = load.expect("connections to the server");
            load.run(sample / 2).expect("the server answers");
            let (began, cpu_before) = (Instant::now(), cpu::time_of_threads(P::THREADS));
            let outcome = load.run(sample * 2).expect("the server answers");
            let cpu = cpu::time_of_threads(P::THREADS).saturating_sub(cpu_before);
            (outcome, cpu, began.elapsed())
        });
    let load = load.expect("a thread for the load");
    let (outcome, cpu, wall) = load.join().expect("the load runs to its end");
    let requests = outcome.requests as f64;
    Served {
        per_second: requests / wall.as_secs_f64(),
        per_cpu_second: requests / cpu.as_secs_f64(),
        p99_us: outcome.p99_us,
    }
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
