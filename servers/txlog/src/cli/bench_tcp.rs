//! `txlog bench --tcp`: durable appends over TCP, beside one sync per record and a JetStream.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use evenkeel_measure::results::Results;
use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::{Spread, median};
use evenkeel_measure::table::{Cell, Table};
use txlog::bench::over_tcp::{Tcp, TcpTurn, batches, pipelined, singles};
use txlog::bench::{Bench, one_by_one};

use super::{BenchArguments, Outcome};

type Failure = Box<dyn Error + Send + Sync>;

/// What to measure over TCP.
#[derive(Debug, Args)]
pub(crate) struct TcpArguments {
    /// Append over TCP, to a server that this starts as a process of its own for each turn.
    #[arg(long)]
    tcp: bool,
    /// Append to the server there instead; its processor time is not known then.
    #[arg(long, value_name = "ADDRESS", requires = "tcp")]
    server: Option<String>,
    /// How many connections append one record at a time, and then one batch at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, requires = "tcp")]
    connections: usize,
    /// How many records there are in such a batch.
    #[arg(long, value_name = "COUNT", default_value_t = 16, requires = "tcp")]
    batched: usize,
    /// How many clients have several records pending.
    #[arg(long, value_name = "COUNT", default_value_t = 16, requires = "tcp")]
    clients: usize,
    /// How many.
    #[arg(long, value_name = "COUNT", default_value_t = 64, requires = "tcp")]
    pipelined: usize,
    /// The program of NATS to compare with; version 2.10 or newer, which can sync each record.
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "nats-server",
        requires = "tcp"
    )]
    nats_server: std::path::PathBuf,
}

impl TcpArguments {
    pub(crate) fn is_wanted(&self) -> bool {
        self.tcp
    }
}

/// Something that takes turns.
type Candidate<'a> = (String, Box<dyn Fn() -> Result<TcpTurn, Failure> + 'a>);

pub(crate) fn run(arguments: &BenchArguments) -> Outcome {
    let mut results = arguments.json.begin("txlog bench --tcp")?;
    let given = &arguments.tcp;
    let tcp = |clients: usize| -> Result<Tcp, Failure> {
        Ok(Tcp {
            directory: arguments.dir.clone(),
            server: given.server.clone(),
            clients,
            pipelined: given.pipelined,
            batched: given.batched.max(1),
            record_bytes: arguments.record_bytes,
            length: Duration::try_from_secs_f64(arguments.seconds)?,
        })
    };
    let (many, few) = (tcp(given.connections)?, tcp(given.clients)?);
    let in_batches = format!("txlog, {} a frame", many.batched);
    let one_at_a_time: [Candidate<'_>; 3] = [
        ("sync each".to_owned(), Box::new(|| sync_each(arguments))),
        ("txlog".to_owned(), Box::new(|| singles(&many))),
        (in_batches, Box::new(|| batches(&many))),
    ];
    let title = format!("{} connections, one frame at a time", given.connections);
    compare(&title, arguments, &one_at_a_time, &mut results)?;
    let mut pipelining: Vec<Candidate<'_>> = Vec::new();
    add_jetstream(&mut pipelining, given, &few);
    pipelining.push(("txlog".to_owned(), Box::new(|| pipelined(&few))));
    let title = format!(
        "{} clients, {} records pending each",
        given.clients, given.pipelined
    );
    compare(&title, arguments, &pipelining, &mut results)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the JetStream, if it can be started.
#[cfg(feature = "nats")]
fn add_jetstream<'a>(candidates: &mut Vec<Candidate<'a>>, given: &'a TcpArguments, tcp: &'a Tcp) {
    use txlog::bench::jetstream::jetstream;
    use txlog::bench::process::Process;

    let directory = tcp.directory.join("nats");
    let started = Process::nats(&given.nats_server, &directory);
    let _ = std::fs::remove_dir_all(&directory);
    match started {
        Ok(_) => {
            let run = || jetstream(&given.nats_server, tcp);
            candidates.push(("JetStream, sync always".to_owned(), Box::new(run)));
        }
        Err(error) => eprintln!(
            "txlog bench: no JetStream to compare with ({error}): give a nats-server of version \
             2.10 or newer by --nats-server"
        ),
    }
}

#[cfg(not(feature = "nats"))]
fn add_jetstream<'a>(_: &mut Vec<Candidate<'a>>, given: &'a TcpArguments, _: &'a Tcp) {
    let program = given.nats_server.display();
    eprintln!("txlog bench: built without its feature `nats`, so {program} is not measured");
}

/// One thread that syncs each record; it is its own server.
fn sync_each(arguments: &BenchArguments) -> Result<TcpTurn, Failure> {
    let turn = one_by_one(&Bench {
        directory: arguments.dir.clone(),
        appenders: 1,
        record_bytes: arguments.record_bytes,
        length: Duration::try_from_secs_f64(arguments.seconds)?,
        ahead_bytes: arguments.ahead_bytes,
    })?;
    Ok(TcpTurn {
        appends: turn.appends,
        seconds: turn.seconds,
        latencies: turn.latencies,
        server_cpu: None,
        load_cpu: None,
    })
}

/// Lets the candidates take turns, and prints what came of it: of each beside the first.
fn compare(
    title: &str,
    arguments: &BenchArguments,
    candidates: &[Candidate<'_>],
    results: &mut Results,
) -> Result<(), Failure> {
    let rounds = arguments.rounds.max(1) as usize;
    let turns = alternate_aloud("txlog bench", rounds, candidates, |(_, turn)| turn())?;
    let names = || candidates.iter().map(|(name, _)| name.as_str());
    let rows = (0..rounds).flat_map(|round| {
        let turns = turns.iter().map(move |turns| &turns[round]);
        names().zip(turns)
    });
    let table = Table::new(title, COLUMNS, rows.map(cells));
    println!("{table}");
    let each = names()
        .zip(&turns)
        .map(|(name, turns)| summary(name, turns));
    let ratios = names().zip(&turns).skip(1).map(|(name, later)| {
        let pairs = turns[0].iter().zip(later);
        let ratios: Vec<f64> = pairs
            .map(|(first, later)| later.per_second() / first.per_second())
            .collect();
        format!(
            "{name}: {} times the appends of {}; medians of the rounds, and the least and the \
             greatest",
            spread_of(&ratios, 1),
            candidates[0].0,
        )
    });
    let said: Vec<String> = each.chain(ratios).collect();
    for line in &said {
        println!("{line}");
    }
    println!();
    results.add(table, said)?;
    Ok(())
}

/// What one candidate came to, over its rounds.
fn summary(name: &str, turns: &[TcpTurn]) -> String {
    let per_second: Vec<f64> = turns.iter().map(TcpTurn::per_second).collect();
    let server: Vec<f64> = turns.iter().filter_map(TcpTurn::server_us).collect();
    let load: Vec<f64> = turns.iter().filter_map(TcpTurn::load_share).collect();
    let mut line = format!("{name}: {} appends/s", spread_of(&per_second, 0));
    if !server.is_empty() {
        let each = spread_of(&server, 2);
        line = format!("{line}; the server's processor time: {each} us each");
    }
    if !load.is_empty() {
        let busy = spread_of(&load, 2);
        line = format!("{line}; the clients kept {busy} processors busy");
    }
    line
}

/// The median, the least and the greatest.
fn spread_of(figures: &[f64], digits: usize) -> String {
    let figures = || figures.iter().copied();
    match (median(figures()), Spread::of(figures())) {
        (Some(median), Some(spread)) => format!("{median:.digits$} ({spread:.digits$})"),
        _ => "?".to_owned(),
    }
}

const COLUMNS: [&str; 6] = [
    "",
    "appends/s",
    "p50",
    "p99",
    "server/append",
    "load, processors",
];

fn cells((name, turn): (&str, &TcpTurn)) -> Vec<Cell> {
    let ms = |duration: Duration| Cell::number(duration.as_secs_f64() * 1e3, "ms", 3);
    let known = |figure: Option<f64>, unit, digits| match figure {
        Some(figure) => Cell::number(figure, unit, digits),
        None => "-".into(),
    };
    vec![
        name.into(),
        Cell::number(turn.per_second(), "", 0),
        ms(turn.latencies.percentile(50)),
        ms(turn.latencies.percentile(99)),
        known(turn.server_us(), "us", 2),
        known(turn.load_share(), "", 2),
    ]
}
