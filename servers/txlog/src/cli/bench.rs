//! `txlog bench`: durable appends per second, beside one sync per record.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use txlog::bench::{Bench, Turn, one_by_one, together};

use super::{BenchArguments, Outcome};

fn print(turn: &Turn, name: &str) {
    println!(
        "{name:<16}{:>12.0}{:>11.3}{:>11.3}{:>11.3}{:>11.3}{:>10.1}",
        turn.per_second(),
        ms(turn.latencies.percentile(50)),
        ms(turn.latencies.percentile(99)),
        ms(turn.syncs.percentile(50)),
        ms(turn.syncs.percentile(99)),
        turn.appends as f64 / turn.syncs.len().max(1) as f64,
    );
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn run(arguments: &BenchArguments) -> Outcome {
    let made = !arguments.dir.exists();
    fs::create_dir_all(&arguments.dir)?;
    if fs::read_dir(&arguments.dir)?.next().is_some() {
        return Err(format!("{} is not empty", arguments.dir.display()).into());
    }
    println!(
        "{:<16}{:>12}{:>11}{:>11}{:>11}{:>11}{:>10}",
        "", "appends/s", "p50 ms", "p99 ms", "sync p50", "sync p99", "per sync"
    );
    let bench = Bench {
        directory: arguments.dir.clone(),
        appenders: arguments.appenders,
        record_bytes: arguments.record_bytes,
        length: Duration::try_from_secs_f64(arguments.seconds)?,
        ahead_bytes: arguments.ahead_bytes,
    };
    let mut ratios = Vec::new();
    let (mut in_syncs, mut in_median_syncs) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds.max(1) {
        let single = one_by_one(&bench)?;
        print(&single, "sync each");
        let grouped = together(&bench)?;
        print(&grouped, "txlog");
        ratios.push(grouped.per_second() / single.per_second());
        let p99 = grouped.latencies.percentile(99).as_secs_f64();
        in_syncs.push(p99 / grouped.syncs.percentile(99).as_secs_f64());
        in_median_syncs.push(p99 / grouped.syncs.percentile(50).as_secs_f64());
    }
    println!(
        "{} appenders: {} times the appends of one sync each; p99 is {} times the \
         syncs' p99, {} times their median",
        arguments.appenders,
        listed(&ratios),
        listed(&in_syncs),
        listed(&in_median_syncs),
    );
    if made {
        fs::remove_dir(&arguments.dir)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(figures: &[f64]) -> String {
    let texts: Vec<String> = figures
        .iter()
        .map(|figure| format!("{figure:.1}"))
        .collect();
    texts.join(", ")
}
