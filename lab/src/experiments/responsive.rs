//! `responsive`: an echo probe beside tasks that hog the workers.

use std::time::Duration;

use serde_json::json;

use crate::error::Result;
use crate::peers::Peer;
use crate::report::Experiment;
use crate::serve::{Burn, HogPoll, HogYield};
use crate::sys;
use crate::trial::echoes::{CALM_P999, Figure, P99, P999};
use crate::trial::grid::{Beside, CORES, Grid, KEPT, MONITOR, Probe};
use crate::trial::{AtLeast, AtMost, Figured, Lab, MICROS, PERCENT, Rule, TIMES, by_rules, ratio};

const PROBE: Probe = Probe {
    experiment: "responsive",
    rate: 1_000,
    connections: 1,
    brief: Duration::from_millis(500),
    with_work: true,
    with_stalls: true,
};

/// The fresh tasks of the last row: as much as one core, in polls that no yield interrupts.
const BURN: Burn = Burn {
    per_second: 50,
    us: 20_000,
};

/// What is to be reached: latency over that of the lone thread, and hog work that is kept.
const P99_OVER_LONE_THREAD: f64 = 1.5;
/// The same over Tokio's, beside fresh tasks that each compute once.
const P99_OVER_TOKIO: f64 = 1.2;
/// Beside hogs that yield, two for each worker, however they do it; beside any with workers of
/// real-time priority.
const P999_US: f64 = 1_000.0;
const WORK_KEPT_PERCENT: f64 = 90.0;
/// What the thread that watches the workers may take of a core.
const MONITOR_PERCENT: f64 = 0.5;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let mut peers = lab.lineup.present.clone();
    let mut notes = Vec::new();
    if sys::allows_real_time() {
        peers.insert(1, REAL_TIME);
    } else {
        let name = REAL_TIME.name();
        notes.push(format!("{name}: left out, this system does not allow it"));
    }
    peers.push(Peer::OsThread);
    let grid = Grid::of_probe(lab, &PROBE, rows(lab.workers), peers);
    let mut plots = vec![grid.p99_bars()];
    plots.extend(grid.curves());
    let experiment = Experiment {
        how: lab.conditions(),
        tables: grid.tables(),
        plots,
        notes,
        raw: grid.raw(|found| json!(found)),
        ..Experiment::default()
    };
    Ok(experiment.judged("beside the probe", by_rules(&grid, grid.named(), &VERDICTS)))
}

fn rows(workers: usize) -> Vec<Beside> {
    let hogs = 2 * workers;
    let (own, wake) = (HogYield::Runtime, HogYield::Wake);
    let row = |name: String, hogs, poll, yields| Beside {
        yields,
        ..Beside::hogs(name, hogs, poll)
    };
    let mut rows = vec![row("nothing".to_owned(), 0, HogPoll::Never, own)];
    for (length, us) in [("100 us", 100), ("10 ms", 10_000)] {
        for (how, yields) in [("yielding", own), ("waking itself", wake)] {
            let name = format!("{hogs} tasks, each poll {length}, {how}");
            rows.push(row(name, hogs, HogPoll::Micros(us), yields));
        }
    }
    for hogs in [workers, 4 * workers] {
        let name = format!("{hogs} tasks that never return");
        rows.push(row(name, hogs, HogPoll::Never, own));
    }
    let (per_second, ms) = (BURN.per_second, BURN.us / 1_000);
    let fresh = format!("{per_second} fresh tasks a second of {ms} ms");
    rows.push(Beside {
        burn: Some(BURN),
        ..row(fresh, 0, HogPoll::Never, own)
    });
    rows
}

const OWN: Peer = Peer::Evenkeel;
const REAL_TIME: Peer = Peer::EvenkeelRealTime;

/// Evenkeel in every row: its p99 against the lone thread's, its p99.9 against Erlang's and, beside
/// hogs that yield, by itself, the work that its hogs keep and, where polls are short, what it
/// costs to watch for hogs; beside fresh tasks its p99 against Tokio's.
#[rustfmt::skip]
const VERDICTS: [Rule<Grid>; 11] = [
    ("p99 over the lone thread's", |_, _| true,
        |grid, row| over(grid, row, Peer::OsThread, &P99), AtMost(P99_OVER_LONE_THREAD), TIMES),
    ("p99.9 over Erlang's", |_, _| true,
        |grid, row| over(grid, row, Peer::Erlang, &P999), AtMost(1.0), TIMES),
    ("p99.9", |grid, row| grid.rows[row].yields_in_time(),
        |grid, row| grid.latency(row, OWN, &P999), AtMost(P999_US), MICROS),
    ("p99.9 where no processor stood still", |grid, row| grid.rows[row].yields_in_time(),
        |grid, row| grid.latency(row, OWN, &CALM_P999), AtMost(P999_US), MICROS),
    ("p99.9 with real-time workers", is_real_time,
        |grid, row| grid.latency(row, REAL_TIME, &P999), AtMost(P999_US), MICROS),
    ("p99.9 with real-time workers where no processor stood still", is_real_time,
        |grid, row| grid.latency(row, REAL_TIME, &CALM_P999), AtMost(P999_US), MICROS),
    ("hogs' work kept beside them", is_real_time,
        |grid, row| grid.further(row, REAL_TIME, &KEPT), AtLeast(WORK_KEPT_PERCENT), PERCENT),
    ("p99 over Tokio's", |grid, row| grid.rows[row].burn.is_some(),
        |grid, row| over(grid, row, Peer::Tokio, &P99), AtMost(P99_OVER_TOKIO), TIMES),
    ("hogs' work kept", |grid, row| grid.rows[row].computes(),
        |grid, row| grid.further(row, OWN, &KEPT), AtLeast(WORK_KEPT_PERCENT), PERCENT),
    // What is kept says nothing of what was lost before the probe came.
    ("hogs' work over threads'", |grid, row| grid.rows[row].computes(),
        |grid, row| {
            let [own, threads] = [OWN, Peer::OsThread].map(|peer| grid.further(row, peer, &CORES));
            ratio(own, threads).map(|over| 100.0 * over)
        }, AtLeast(WORK_KEPT_PERCENT), PERCENT),
    ("a core's part for the monitor", |grid, row| grid.rows[row].is_short(),
        |grid, row| grid.further(row, OWN, &MONITOR), AtMost(MONITOR_PERCENT), ("%", 2)),
];

/// Evenkeel's latency over another's.
fn over(grid: &Grid, row: usize, other: Peer, figure: &Figure) -> Figured {
    let [own, others] = [OWN, other].map(|peer| grid.latency(row, peer, figure));
    ratio(own, others)
}

fn is_real_time(grid: &Grid, row: usize) -> bool {
    grid.rows[row].computes() && grid.peers.contains(&REAL_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_hog_has_its_row() {
        let rows = rows(2);
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "nothing",
                "4 tasks, each poll 100 us, yielding",
                "4 tasks, each poll 100 us, waking itself",
                "4 tasks, each poll 10 ms, yielding",
                "4 tasks, each poll 10 ms, waking itself",
                "2 tasks that never return",
                "8 tasks that never return",
                "50 fresh tasks a second of 20 ms",
            ]
        );
        let last = rows.last().expect("rows");
        assert!(last.hogs == 0 && last.burn == Some(BURN));
    }

    #[test]
    fn the_page_says_the_same() {
        let (per_second, ms) = (BURN.per_second, BURN.us / 1_000);
        let fresh =
            format!("{per_second} fresh tasks a second, each of which computes for {ms} ms");
        let columns = [Peer::OsThread, REAL_TIME].map(|peer| format!("`{}`", peer.name()));
        crate::experiments::tests::assert_page_says(
            "responsive",
            &[&columns[..], &[fresh]].concat(),
        );
    }
}
