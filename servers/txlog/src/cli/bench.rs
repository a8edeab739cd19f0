//! `txlog bench`: durable appends per second, beside one sync per record.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::{Spread, median};
use evenkeel_measure::table::{Cell, Table};
use txlog::advice;
use txlog::bench::{Bench, Turn, one_by_one, together};

use super::{BenchArguments, Outcome, bench_tcp};

pub(crate) fn run(arguments: &BenchArguments) -> Outcome {
    let shown = arguments.dir.display();
    let cannot = |error| format!("cannot use {shown}: {}", advice::of_files(&error));
    let above = arguments.dir.ancestors();
    let made: Vec<&Path> = above
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .collect();
    fs::create_dir_all(&arguments.dir).map_err(cannot)?;
    let mut entries = fs::read_dir(&arguments.dir).map_err(cannot)?;
    if entries.next().is_some() {
        return Err(format!("{shown} is not empty; give a directory that is, or a new one").into());
    }
    let turns = match arguments.tcp.is_wanted() {
        true => bench_tcp::run(arguments),
        false => turns(arguments),
    };
    // Also after a failure, what it has made is taken away, as far as that is empty.
    for directory in made {
        let _ = fs::remove_dir(directory);
    }
    turns.map_err(|error| {
        let system = error.downcast_ref();
        let why = system.map_or_else(|| error.to_string(), advice::of_files);
        format!("the bench in {shown} failed: {why}").into()
    })
}

type Measure = fn(&Bench) -> Result<Turn, Box<dyn Error + Send + Sync>>;

/// The two that take turns.
const CANDIDATES: [(&str, Measure); 2] = [
    ("sync each", |bench| Ok(one_by_one(bench)?)),
    ("txlog", together),
];

/// Each of the two in turn.
fn turns(arguments: &BenchArguments) -> Outcome {
    let bench = Bench {
        directory: arguments.dir.clone(),
        appenders: arguments.appenders,
        record_bytes: arguments.record_bytes,
        length: Duration::try_from_secs_f64(arguments.seconds)?,
        ahead_bytes: arguments.ahead_bytes,
    };
    let mut results = arguments.json.begin("txlog bench")?;
    let rounds = arguments.rounds.max(1) as usize;
    let turns = alternate_aloud("txlog bench", rounds, &CANDIDATES, |(_, turn)| turn(&bench))?;
    let table = table(&turns);
    println!("{table}");
    let over_rounds = |ratio: fn((&Turn, &Turn)) -> f64| {
        let ratios: Vec<f64> = turns[0].iter().zip(&turns[1]).map(ratio).collect();
        middle_and_spread(&ratios)
    };
    let summary = format!(
        "{} appenders: {} times the appends of one sync each; p99 is {} times the syncs' p99, {} \
         times their median; medians of the rounds, and the least and the greatest",
        arguments.appenders,
        over_rounds(|(single, grouped)| grouped.per_second() / single.per_second()),
        over_rounds(|(_, grouped)| p99_over_syncs(grouped, 99)),
        over_rounds(|(_, grouped)| p99_over_syncs(grouped, 50)),
    );
    println!("{summary}");
    results.add(table, vec![summary])?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each turn, the two of a round below each other.
fn table(turns: &[Vec<Turn>]) -> Table {
    let names = CANDIDATES.iter().map(|(name, _)| *name);
    let round = |round: usize| {
        let turns = turns.iter().map(move |turns| &turns[round]);
        names.clone().zip(turns)
    };
    let rounds = 0..turns.first().map_or(0, Vec::len);
    Table::new("", COLUMNS, rounds.flat_map(round).map(cells))
}

const COLUMNS: [&str; 7] = [
    "",
    "appends/s",
    "p50",
    "p99",
    "sync p50",
    "sync p99",
    "per sync",
];

fn cells((name, turn): (&str, &Turn)) -> Vec<Cell> {
    let ms = |duration: Duration| Cell::number(duration.as_secs_f64() * 1e3, "ms", 3);
    vec![
        name.into(),
        Cell::number(turn.per_second(), "", 0),
        ms(turn.latencies.percentile(50)),
        ms(turn.latencies.percentile(99)),
        ms(turn.syncs.percentile(50)),
        ms(turn.syncs.percentile(99)),
        Cell::number(turn.appends as f64 / turn.syncs.len().max(1) as f64, "", 1),
    ]
}

/// How many times as long the slowest appends took as syncs did.
fn p99_over_syncs(turn: &Turn, percent: u8) -> f64 {
    turn.latencies.percentile(99).as_secs_f64() / turn.syncs.percentile(percent).as_secs_f64()
}

fn middle_and_spread(ratios: &[f64]) -> String {
    let ratios = || ratios.iter().copied();
    match (median(ratios()), Spread::of(ratios())) {
        (Some(median), Some(spread)) => format!("{median:.1} ({spread:.1})"),
        _ => "?".to_owned(),
    }
}
