//! `txlog bench`: durable appends per second, beside one sync per record.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use txlog::advice;
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
    let turns = turns(arguments);
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

/// Each of the two in turn.
fn turns(arguments: &BenchArguments) -> Outcome {
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
    Ok(ExitCode::SUCCESS)
}

fn listed(figures: &[f64]) -> String {
    let texts: Vec<String> = figures
        .iter()
        .map(|figure| format!("{figure:.1}"))
        .collect();
    texts.join(", ")
}
