//! Servers under load: what a contender needs for a request, and how long requests take.

use std::io;
use std::time::{Duration, Instant};

use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::Better;

use crate::CONTENDERS;
use crate::bare::Bare;
use crate::client::Load;
use crate::cpu::{self, Division};
use crate::options::Options;
use crate::peer::{Evenkeel, Peer, Tokio};
#[cfg(target_os = "linux")]
use crate::ring::Ring;
use crate::server::{self, Service};

pub(crate) const PART: &str = "network";

const ECHO: Service = Service::Echo { buffer_bytes: 4096 };

/// The loads: name, service, connections.
pub(crate) const ROWS: [(&str, Service, usize); 6] = [
    ("echo, 1 connection", ECHO, 1),
    ("echo, 64 connections", ECHO, 64),
    ("echo, 1000 connections", ECHO, 1_000),
    ("hello, 1 connection", Service::Hello, 1),
    ("hello, 64 connections", Service::Hello, 64),
    ("hello, 1000 connections", Service::Hello, 1_000),
];

/// One load, and where it runs.
struct Trial {
    service: Service,
    connections: usize,
    sample: Duration,
    division: Option<Division>,
}

/// What one contender made of one load.
struct Served {
    per_second: f64,
    per_cpu_second: f64,
    p99_us: f64,
}

/// Starts a contender's server, and measures it.
type Serve = fn(&Trial) -> io::Result<Served>;

/// Servers without any runtime, for echo.
struct Limits {
    names: Vec<&'static str>,
    serve: Vec<Serve>,
    /// Which one there would be, and why there is not.
    missing: Option<String>,
}

impl Limits {
    fn of_machine() -> Self {
        let mut limits = Self {
            names: vec!["bare"],
            serve: vec![serve_bare],
            missing: None,
        };
        match ring_of_machine() {
            Ok(serve) => {
                limits.names.push("ring");
                limits.serve.push(serve);
            }
            Err(why) => limits.missing = Some(format!("ring: not measured: {why}")),
        }
        limits
    }
}

/// A table of what is in a [`Served`].
type Figure = (&'static str, &'static str, Better, fn(&Served) -> f64);

const FIGURES: [Figure; 3] = [
    (
        "network: requests per second of the server's processor time",
        "1/s",
        Better::More,
        |served| served.per_cpu_second,
    ),
    (
        "network: 99th percentile of latency",
        "us",
        Better::Less,
        |served| served.p99_us,
    ),
    (
        "network: requests per second",
        "1/s",
        Better::More,
        |served| served.per_second,
    ),
];

pub(crate) fn compare(options: &Options) -> io::Result<Vec<Comparison>> {
    let limits = Limits::of_machine();
    let names = [&CONTENDERS[..], &limits.names].concat();
    let mut tables = FIGURES.map(|(title, unit, better, _)| {
        let table = Comparison::new(title, unit, better, &names);
        limits.missing.iter().fold(table, Comparison::with_note)
    });
    // Asked for once: what the calling thread may use is changed below.
    let division = Division::of_machine();
    for (name, service, connections) in ROWS {
        if !options.wants(PART, name) {
            continue;
        }
        let trial = Trial {
            service,
            connections,
            sample: options.sample(),
            division,
        };
        let mut contenders: Vec<Serve> = vec![serve::<Evenkeel>, serve::<Tokio>];
        if matches!(service, Service::Echo { .. }) {
            contenders.extend(&limits.serve);
        }
        let measure = |serve: &Serve| serve(&trial);
        let served = alternate_aloud(name, options.rounds(), &contenders, measure)?;
        for (table, (.., figure)) in tables.iter_mut().zip(FIGURES) {
            let of_each = |rounds: &Vec<Served>| rounds.iter().map(figure).collect();
            table.add(name, &served.iter().map(of_each).collect::<Vec<_>>());
        }
    }
    Ok(tables.into())
}

fn serve<P: Peer>(trial: &Trial) -> io::Result<Served> {
    let workers = trial
        .division
        .map_or(1, |division| division.server_processors());
    let (_peer, port) = cpu::on_server_side(trial.division, || {
        let peer = P::new(workers);
        let port = server::start(&peer, trial.service);
        (peer, port)
    });
    measure(trial, port, &[P::THREADS])
}

fn serve_bare(trial: &Trial) -> io::Result<Served> {
    let server = cpu::on_server_side(trial.division, Bare::start)?;
    measure(trial, server.port(), &[Bare::THREADS])
}

/// Tries whether there can be a ring.
#[cfg(target_os = "linux")]
fn ring_of_machine() -> Result<Serve, String> {
    Ring::start().map_err(|error| {
        format!("no io_uring of the kind it needs could be made (since Linux 6.1): {error}")
    })?;
    Ok(|trial| {
        let server = cpu::on_server_side(trial.division, Ring::start)?;
        measure(trial, server.port(), &Ring::THREADS)
    })
}

#[cfg(not(target_os = "linux"))]
fn ring_of_machine() -> Result<Serve, String> {
    Err("only Linux has io_uring".to_owned())
}

/// Loads the server on `port`, whose threads' names begin with one of `threads`.
fn measure(trial: &Trial, port: u16, threads: &[&str]) -> io::Result<Served> {
    std::thread::scope(|scope| {
        let load = std::thread::Builder::new()
            .name("load".to_owned())
            .spawn_scoped(scope, || {
                trial.division.iter().for_each(Division::take_load_side);
                let mut load = match trial.service {
                    Service::Echo { .. } => Load::echo(port, trial.connections)?,
                    Service::Hello => Load::hello(port, trial.connections)?,
                };
                load.run(trial.sample / 2)?;
                let (began, cpu_before) = (Instant::now(), cpu::time_of_threads(threads));
                let outcome = load.run(trial.sample * 2)?;
                let cpu = cpu::time_of_threads(threads).saturating_sub(cpu_before);
                let requests = outcome.requests as f64;
                Ok(Served {
                    per_second: requests / began.elapsed().as_secs_f64(),
                    per_cpu_second: requests / cpu.as_secs_f64(),
                    p99_us: outcome.p99_us,
                })
            })?;
        load.join().expect("the load does not panic")
    })
}
