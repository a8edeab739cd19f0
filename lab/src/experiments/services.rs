//! `services`: what handlers do in real services: one line of source spawns all of them, some of
//! them compute for long, and some block their thread.
//!
//! - [`measure`]: one server in one scene

mod measure;

use serde_json::{Value, json};

use self::measure::{Found, HIGH_HZ, MIXED_HZ, Whose};
use crate::error::Result;
use crate::load::Over;
use crate::peers::Peer;
use crate::report::{Experiment, Table};
use crate::trial::echoes::{Figure, LATE_P50, LATE_P99, LONGEST, P50, P99, P999};
use crate::trial::matrix::{self, At, Matrix};
use crate::trial::{AtMost, Figured, Lab, MICROS, Rule, TIMES, by_rules, ratio};

/// What handlers do, and how they come to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// Calls of which one in four computes; `apart` if another line of source spawns these.
    Mixed { over: Over, apart: bool, rate: u32 },
    /// As `Mixed`, without a network.
    Tasks { apart: bool },
    /// So many tasks that block their thread.
    Blocked { tasks: usize },
    /// Calls that each compute for long.
    Posts,
}

impl Scene {
    /// Whose latency is judged.
    fn judged(self) -> Whose {
        match self {
            Scene::Posts => Whose::Hogs,
            _ => Whose::Innocents,
        }
    }
}

struct Row {
    name: &'static str,
    scene: Scene,
}

/// All measurements.
type Services = Matrix<Row, Found>;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let cells = (rows(lab.is_brief()), lab.lineup.present.clone());
    let one = |row: &Row, peer| measure::measure(lab, peer, row.scene);
    let all = Services::measure(lab, ("services", "scene"), cells, &measure::TOLD, one);
    let bars = "p99 of innocent calls, of a fresh task's wait, and of POSTs";
    let experiment = Experiment {
        how: lab.conditions(),
        tables: tables(&all),
        plots: vec![all.bars(bars, "no answer", JUDGED)],
        raw: all.raw(|found| json!({ "found": found })),
        ..Experiment::default()
    };
    Ok(experiment.judged("scene", by_rules(&all, all.named(), &VERDICTS)))
}

const fn mixed(name: &'static str, over: Over, apart: bool, rate: u32) -> Row {
    let scene = Scene::Mixed { over, apart, rate };
    Row { name, scene }
}

const fn row(name: &'static str, scene: Scene) -> Row {
    Row { name, scene }
}

/// Every row in which one line spawns both kinds stands before the same with a line each.
#[rustfmt::skip]
const ROWS: [Row; 13] = [
    mixed("HTTP/1.1, fresh connections, one line", Over::Fresh, false, MIXED_HZ),
    mixed("HTTP/1.1, fresh connections, a line each", Over::Fresh, true, MIXED_HZ),
    mixed("HTTP/1.1, kept connections, one line", Over::Kept, false, MIXED_HZ),
    mixed("HTTP/1.1, kept connections, a line each", Over::Kept, true, MIXED_HZ),
    mixed("HTTP/2, one line", Over::H2, false, MIXED_HZ),
    mixed("HTTP/2, a line each", Over::H2, true, MIXED_HZ),
    row("tasks, one line", Scene::Tasks { apart: false }),
    row("tasks, a line each", Scene::Tasks { apart: true }),
    mixed("HTTP/1.1, kept connections, high load, both kinds over each",
        Over::Shared, false, HIGH_HZ),
    mixed("HTTP/1.1, kept connections, high load, a line each", Over::Kept, true, HIGH_HZ),
    row("40 handlers that block", Scene::Blocked { tasks: 40 }),
    row("400 handlers that block", Scene::Blocked { tasks: 400 }),
    row("10 POSTs a second of 50 ms", Scene::Posts),
];

/// In brief only what is judged of handlers that block.
fn rows(brief: bool) -> Vec<Row> {
    let left_out = |row: &Row| brief && row.scene == Scene::Blocked { tasks: 40 };
    ROWS.into_iter().filter(|row| !left_out(row)).collect()
}

impl matrix::Row for Row {
    fn name(&self) -> &str {
        self.name
    }

    fn case(&self) -> Value {
        json!({ "scene": self.name })
    }

    fn lacks(&self, peer: Peer) -> Option<&'static str> {
        let lacks = match self.scene {
            Scene::Mixed { over: Over::H2, .. } => "OTP's standard library has no HTTP/2",
            Scene::Blocked { .. } => "a process of OTP blocks no scheduler, but in native code",
            _ => return None,
        };
        (peer == Peer::Erlang).then_some(lacks)
    }
}

/// What is to be reached: latency beside hogs of the same line over that beside others.
const OVER_A_LINE_EACH: f64 = 1.5;
/// A fresh task's wait beside the most handlers that block: its p99, the longest, and how late it
/// may be spawned, as a wait after a late beginning says little.
const FRESH_P99_US: f64 = 1_000.0;
const FRESH_LONGEST_US: f64 = 20_000.0;
const FRESH_LATE_US: f64 = 20_000.0;
/// The hogs' own latency over Tokio's.
const POSTS_OVER_TOKIO: f64 = 1.15;

/// Of whom figures are.
type Of = matrix::Of<Row, Found>;
const HOGS: Of = |_, found| found.latencies.get(&Whose::Hogs);
const INNOCENTS: Of = |_, found| found.latencies.get(&Whose::Innocents);
const URGENT: Of = |_, found| found.latencies.get(&Whose::Urgent);
const ECHO: Of = |_, found| found.latencies.get(&Whose::Echo);
/// Of those who are judged.
const JUDGED: Of = |row, found| found.latencies.get(&row.scene.judged());

/// A table of two figures in each cell: title, rows, and of whom the figures are.
type Pairs = (&'static str, fn(&Row) -> bool, Of, [Figure; 2]);

#[rustfmt::skip]
const PAIRS: [Pairs; 11] = [
    ("Innocents beside calls that compute, p50 / p99 in us", is_mixed, INNOCENTS, [P50, P99]),
    ("The same, p99.9 / longest in us", is_mixed, INNOCENTS, [P999, LONGEST]),
    ("Latency of the calls that compute, p50 / p99 in us", is_mixed, HOGS, [P50, P99]),
    ("A fresh task's wait for its first poll, p50 / p99 in us", is_fresh, INNOCENTS, [P50, P99]),
    ("The same, p99.9 / longest in us", is_fresh, INNOCENTS, [P999, LONGEST]),
    ("The same of an urgent task, p50 / p99 in us", is_fresh, URGENT, [P50, P99]),
    ("How late fresh tasks were spawned, p50 / p99 in us", is_fresh, INNOCENTS,
        [LATE_P50, LATE_P99]),
    ("Echo beside handlers that block, p50 / p99 in us", is_blocked, ECHO, [P50, P99]),
    ("The same, p99.9 / longest in us", is_blocked, ECHO, [P999, LONGEST]),
    ("Latency of the POSTs, p50 / p99 in us", is_posts, HOGS, [P50, P99]),
    ("Echo beside the POSTs, p50 / p99 in us", is_posts, ECHO, [P50, P99]),
];

fn is_mixed(row: &Row) -> bool {
    matches!(row.scene, Scene::Mixed { .. })
}

fn is_blocked(row: &Row) -> bool {
    matches!(row.scene, Scene::Blocked { .. })
}

fn is_fresh(row: &Row) -> bool {
    is_blocked(row) || matches!(row.scene, Scene::Tasks { .. })
}

fn is_posts(row: &Row) -> bool {
    row.scene == Scene::Posts
}

fn tables(all: &Services) -> Vec<Table> {
    let pairs = |(title, shown, of, figures): Pairs| all.pairs(title, shown, of, figures);
    let mut tables = PAIRS.map(pairs).to_vec();
    tables.push(all.unanswered("Without an answer, in %", JUDGED));
    tables
}

/// What is to be reached of a line that spawns both kinds, which is held against the next row, the
/// same with a line each; beside the most handlers that block; and of POSTs.
#[rustfmt::skip]
const VERDICTS: [Rule<Services>; 6] = [
    ("innocents' p50 over that of a line each", is_shared,
        |all, row| over(all, row, (row + 1, OWN), &P50), AtMost(OVER_A_LINE_EACH), TIMES),
    ("innocents' p99 over that of a line each", is_shared,
        |all, row| over(all, row, (row + 1, OWN), &P99), AtMost(OVER_A_LINE_EACH), TIMES),
    ("a fresh task's wait, p99", is_most_blocked,
        |all, row| all.reached((row, OWN), JUDGED, &P99), AtMost(FRESH_P99_US), MICROS),
    ("a fresh task's wait, longest", is_most_blocked,
        |all, row| all.reached((row, OWN), JUDGED, &LONGEST), AtMost(FRESH_LONGEST_US), MICROS),
    ("how late it was spawned, p99", is_most_blocked,
        |all, row| all.reached((row, OWN), JUDGED, &LATE_P99), AtMost(FRESH_LATE_US), MICROS),
    ("POSTs' p99 over Tokio's", |all, row| is_posts(&all.rows[row]),
        |all, row| over(all, row, (row, Peer::Tokio), &P99), AtMost(POSTS_OVER_TOKIO), TIMES),
];

const OWN: Peer = Peer::Evenkeel;

fn is_shared(all: &Services, row: usize) -> bool {
    matches!(all.rows[row].scene, Scene::Mixed { apart: false, .. })
}

fn is_most_blocked(all: &Services, row: usize) -> bool {
    all.rows[row].scene == Scene::Blocked { tasks: 400 }
}

/// Evenkeel's figure over another cell's.
fn over(all: &Services, row: usize, other: At, figure: &Figure) -> Figured {
    let own = all.reached((row, OWN), JUDGED, figure);
    ratio(own, all.quoted(other, JUDGED, figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::EchoSummary;
    use crate::report::Cell;
    use crate::report::Outcome::{self, Holds, Missed, NotSaid};
    use crate::trial::matrix::Row as _;
    use crate::trial::samples::{Sample, Samples};

    #[test]
    fn what_shares_a_line_stands_before_what_does_not() {
        let rows = rows(false);
        for pair in rows[..8].chunks(2) {
            assert!(pair[0].name.ends_with(", one line"), "{}", pair[0].name);
            assert!(pair[1].name.ends_with(", a line each"), "{}", pair[1].name);
        }
        assert_eq!(rows.len(), 13);
    }

    #[test]
    fn only_erlang_lacks_anything() {
        for row in rows(false) {
            for peer in [Peer::Evenkeel, Peer::Tokio, Peer::Go] {
                assert_eq!(row.lacks(peer), None);
            }
        }
        let lacks = |name: &str| {
            let rows = rows(false);
            let row = rows.iter().find(|row| row.name.contains(name));
            row.expect("a row").lacks(Peer::Erlang).is_some()
        };
        assert!(lacks("HTTP/2") && lacks("block") && !lacks("POSTs"));
    }

    fn found(whose: Whose, p99_us: f64, unanswered: u64) -> Found {
        let mut summary = EchoSummary {
            requests: 10,
            unanswered,
            late_p99_us: p99_us / 10.0,
            ..EchoSummary::default()
        };
        summary.latency.p50_us = p99_us / 2.0;
        summary.latency.p99_us = p99_us;
        summary.latency.max_us = 2.0 * p99_us;
        Found {
            latencies: [(whose, summary)].into(),
            stats: None,
        }
    }

    /// The p99 in each row of two peers; of fewer than none nothing was answered.
    fn samples(of: impl Fn(usize, Peer) -> f64) -> Services {
        let rows = rows(false);
        let peers = vec![Peer::Evenkeel, Peer::Tokio];
        let sample = |(row, peer): (usize, Peer)| {
            let p99: f64 = of(row, peer);
            let unanswered = if p99 < 0.0 { 10 } else { 0 };
            Sample {
                key: (row, peer),
                round: 0,
                found: Ok(found(rows[row].scene.judged(), p99.abs(), unanswered)),
            }
        };
        let cells = (0..rows.len()).flat_map(|row| peers.iter().map(move |peer| (row, *peer)));
        Services {
            heading: "",
            samples: Samples(cells.map(sample).collect()),
            rows,
            peers,
        }
    }

    fn outcomes(samples: &Services, of: &str) -> Vec<Outcome> {
        let verdicts = by_rules(samples, samples.named(), &VERDICTS);
        let of = verdicts.iter().filter(|verdict| verdict.of.contains(of));
        of.map(|verdict| verdict.outcome).collect()
    }

    #[test]
    fn one_line_is_held_against_the_row_below_it() {
        let each = samples(|row, _| if row % 2 == 0 { 150.0 } else { 100.0 });
        assert_eq!(outcomes(&each, "one line"), [Holds; 6]);
        let each = samples(|row, _| if row % 2 == 0 { 151.0 } else { 100.0 });
        assert_eq!(outcomes(&each, "one line"), [Missed; 6]);
        assert_eq!(outcomes(&each, "both kinds"), [Missed; 2]);
        // Against what never answered nothing can be held.
        let each = samples(|row, _| if row % 2 == 0 { 1.0 } else { -1e6 });
        assert_eq!(outcomes(&each, "one line"), [NotSaid; 6]);
    }

    #[test]
    fn who_never_answers_misses_a_bound_in_time() {
        let silent = samples(|_, _| -1e6);
        assert_eq!(outcomes(&silent, "400 handlers"), [Missed; 3]);
        let quick = samples(|_, _| 1_000.0);
        assert_eq!(outcomes(&quick, "400 handlers"), [Holds; 3]);
        let text = |samples: &Services| match &tables(samples)[3].rows[3][1] {
            Cell::Text(text) => text.clone(),
            _ => panic!("no text"),
        };
        assert_eq!(text(&silent), "no answer at all");
        assert_ne!(text(&quick), "no answer at all");
    }

    #[test]
    fn posts_are_held_against_tokio() {
        for (own, holds) in [(115.0, Holds), (116.0, Missed), (-116.0, Missed)] {
            let each = samples(|_, peer| if peer == Peer::Evenkeel { own } else { 100.0 });
            assert_eq!(outcomes(&each, "POSTs"), [holds]);
        }
    }
}
