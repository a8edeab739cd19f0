//! Servers under load: what a contender needs for a request, and how long requests take.

use std::io;
use std::time::{Duration, Instant};

use crate::bare::Bare;
use crate::client::Load;
use crate::cpu::{self, Division};
use crate::options::Options;
use crate::peer::{Evenkeel, Peer, Tokio};
use crate::rounds::{Each, in_turn};
use crate::server::{self, Service};
use crate::table::{Better, Table};

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

pub(crate) fn compare(options: &Options) -> io::Result<Vec<Table>> {
    let mut per_cpu_second = Table::new(
        "network: requests per second of the server's processor time",
        "1/s",
        Better::More,
    );
    let mut p99 = Table::new("network: 99th percentile of latency", "us", Better::Less);
    let mut per_second = Table::new("network: requests per second", "1/s", Better::More);
    // Asked for once: what the calling thread may use is changed below.
    let division = Division::of_machine();
    for (name, service, connections) in ROWS {
        if !options.wants(PART, name) {
            continue;
        }
        let trial = Trial {
            service,
            connections,
            sample: options.sample,
            division,
        };
        let each: Each<Serve> = Each {
            evenkeel: serve::<Evenkeel>,
            tokio: serve::<Tokio>,
            bare: match service {
                Service::Echo { .. } => Some(serve_bare),
                Service::Hello => None,
            },
        };
        let rounds = in_turn(name, options.rounds, &each, |serve| serve(&trial))?;
        let figures = |figure: fn(&Served) -> f64| -> Vec<_> {
            rounds.iter().map(|round| round.map(figure)).collect()
        };
        per_cpu_second.add(name, &figures(|served| served.per_cpu_second));
        p99.add(name, &figures(|served| served.p99_us));
        per_second.add(name, &figures(|served| served.per_second));
    }
    Ok(vec![per_cpu_second, p99, per_second])
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
    measure(trial, port, P::THREADS)
}

fn serve_bare(trial: &Trial) -> io::Result<Served> {
    let server = cpu::on_server_side(trial.division, Bare::start)?;
    measure(trial, server.port(), Bare::THREADS)
}

/// Loads the server on `port`, whose threads' names begin with `threads`.
fn measure(trial: &Trial, port: u16, threads: &str) -> io::Result<Served> {
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
