//! What the measurements come to, and whether that is what was promised.

use super::measure::Whose::{self, Echo, Hogs, Innocents, Urgent};
use super::{Scene, Services};
use crate::peers::Peer;
use crate::report::{Cell, Plot, Table};
use crate::trial::echoes::Echoes;
use crate::trial::echoes::Figure::{self, LateP50, LateP99, Longest, P50, P99, P999, Unanswered};
use crate::trial::figures::grouped;
use crate::trial::verdict::Reach::AtMost;
use crate::trial::verdict::{self, MICROS, Rule, TIMES, Verdict, ratio};

/// What is to be reached: latency beside hogs of the same line over that beside others.
const OVER_A_LINE_EACH: f64 = 1.5;
/// A fresh task's wait beside the most handlers that block: its p99, the longest, and how late it
/// may be spawned, as a wait after a late beginning says little.
const FRESH_P99_US: f64 = 1_000.0;
const FRESH_LONGEST_US: f64 = 20_000.0;
const FRESH_LATE_US: f64 = 20_000.0;
/// The hogs' own latency over Tokio's.
const POSTS_OVER_TOKIO: f64 = 1.15;

/// A table of two figures in each cell: title, rows, and of whom the figures are.
type Pairs = (&'static str, fn(Scene) -> bool, Whose, [Figure; 2]);

#[rustfmt::skip]
const PAIRS: [Pairs; 11] = [
    ("Innocents beside calls that compute, p50 / p99 in us", is_mixed, Innocents, [P50, P99]),
    ("The same, p99.9 / longest in us", is_mixed, Innocents, [P999, Longest]),
    ("Latency of the calls that compute, p50 / p99 in us", is_mixed, Hogs, [P50, P99]),
    ("A fresh task's wait for its first poll, p50 / p99 in us", is_fresh, Innocents, [P50, P99]),
    ("The same, p99.9 / longest in us", is_fresh, Innocents, [P999, Longest]),
    ("The same of an urgent task, p50 / p99 in us", is_fresh, Urgent, [P50, P99]),
    ("How late fresh tasks were spawned, p50 / p99 in us", is_fresh, Innocents, [LateP50, LateP99]),
    ("Echo beside handlers that block, p50 / p99 in us", is_blocked, Echo, [P50, P99]),
    ("The same, p99.9 / longest in us", is_blocked, Echo, [P999, Longest]),
    ("Latency of the POSTs, p50 / p99 in us", is_posts, Hogs, [P50, P99]),
    ("Echo beside the POSTs, p50 / p99 in us", is_posts, Echo, [P50, P99]),
];

fn is_mixed(scene: Scene) -> bool {
    matches!(scene, Scene::Mixed { .. })
}

fn is_blocked(scene: Scene) -> bool {
    matches!(scene, Scene::Blocked { .. })
}

fn is_fresh(scene: Scene) -> bool {
    matches!(scene, Scene::Tasks { .. } | Scene::Blocked { .. })
}

fn is_posts(scene: Scene) -> bool {
    scene == Scene::Posts
}

pub(super) fn tables(all: &Services) -> Vec<Table> {
    let pairs = |(title, rows, whose, figures): Pairs| {
        all.table(
            title,
            "scene",
            |row| rows(row.scene),
            |row, peer| echoes(all, row, peer, whose).pair(figures, || all.why(row, peer)),
        )
    };
    let mut tables = PAIRS.map(pairs).to_vec();
    let unanswered = |row, peer| match judged(all, row, peer).median(Unanswered) {
        Some(share) => Cell::Text(grouped(share, 1)),
        None => Cell::Missing(all.why(row, peer)),
    };
    tables.push(all.table("Without an answer, in %", "scene", |_| true, unanswered));
    let verdicts = verdicts(all);
    if !verdicts.is_empty() {
        tables.push(verdict::table("Verdicts on evenkeel", "scene", &verdicts));
    }
    tables
}

/// The p99 of the innocents as bars; of who never answers there is no end.
pub(super) fn bars(all: &Services) -> Plot {
    let title = "p99 of innocent calls, of a fresh task's wait, and of POSTs";
    all.bars(title, "no answer", |row, peer| judged(all, row, peer).p99())
}

/// What is to be reached of a line that spawns both kinds, beside the most handlers that block, and
/// of POSTs.
#[rustfmt::skip]
const VERDICTS: [Rule<Services>; 6] = [
    ("innocents' p50 over that of a line each", is_shared,
        |all, row| over_a_line_each(all, row, P50), AtMost(OVER_A_LINE_EACH), TIMES),
    ("innocents' p99 over that of a line each", is_shared,
        |all, row| over_a_line_each(all, row, P99), AtMost(OVER_A_LINE_EACH), TIMES),
    ("a fresh task's wait, p99", is_most_blocked,
        |all, row| reached(all, row, OWN, P99), AtMost(FRESH_P99_US), MICROS),
    ("a fresh task's wait, longest", is_most_blocked,
        |all, row| reached(all, row, OWN, Longest), AtMost(FRESH_LONGEST_US), MICROS),
    ("how late it was spawned, p99", is_most_blocked,
        |all, row| reached(all, row, OWN, LateP99), AtMost(FRESH_LATE_US), MICROS),
    ("POSTs' p99 over Tokio's", |all, row| all.rows[row].scene == Scene::Posts,
        |all, row| ratio(reached(all, row, OWN, P99), measure(all, row, Peer::Tokio, P99)),
        AtMost(POSTS_OVER_TOKIO), TIMES),
];

const OWN: Peer = Peer::Evenkeel;

fn is_shared(all: &Services, row: usize) -> bool {
    matches!(all.rows[row].scene, Scene::Mixed { apart: false, .. })
}

fn is_most_blocked(all: &Services, row: usize) -> bool {
    all.rows[row].scene == Scene::Blocked { tasks: 400 }
}

pub(super) fn verdicts(all: &Services) -> Vec<Verdict> {
    if !all.peers.contains(&OWN) {
        return Vec::new();
    }
    verdict::by_rules(all, all.rows.iter().map(|row| row.name.as_str()), &VERDICTS)
}

/// The next row is the same with a line each.
fn over_a_line_each(all: &Services, row: usize, figure: Figure) -> Result<f64, String> {
    ratio(
        reached(all, row, OWN, figure),
        measure(all, row + 1, OWN, figure),
    )
}

/// The figure of a cell, or why there is none. Of one that never answered it is the time waited so
/// far: less than the figure would be, so what is missed by it is missed.
fn reached(all: &Services, row: usize, peer: Peer, figure: Figure) -> Result<f64, String> {
    let median = judged(all, row, peer).median(figure);
    median.ok_or_else(|| all.absence(row, peer))
}

/// As [`reached`], for what others are held against.
fn measure(all: &Services, row: usize, peer: Peer, figure: Figure) -> Result<f64, String> {
    match judged(all, row, peer).is_silent() {
        true => Err(format!("{} does not answer", peer.name())),
        false => reached(all, row, peer, figure),
    }
}

fn echoes(all: &Services, row: usize, peer: Peer, whose: Whose) -> Echoes<'_> {
    all.echoes(row, peer, |found| found.latencies.get(&whose))
}

/// What is judged of a scene.
fn judged(all: &Services, row: usize, peer: Peer) -> Echoes<'_> {
    echoes(all, row, peer, all.rows[row].scene.judged())
}

impl Scene {
    /// Whose latency is judged.
    fn judged(self) -> Whose {
        match self {
            Scene::Posts => Hogs,
            _ => Innocents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Found, rows};
    use super::*;
    use crate::load::EchoSummary;
    use crate::trial::samples::{Sample, Samples};

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
            samples: Samples(cells.map(sample).collect()),
            rows,
            peers,
        }
    }

    fn outcomes(samples: &Services, of: &str) -> Vec<Option<bool>> {
        let verdicts = super::verdicts(samples);
        let of = verdicts.iter().filter(|verdict| verdict.of.contains(of));
        of.map(Verdict::holds).collect()
    }

    #[test]
    fn one_line_is_held_against_the_row_below_it() {
        let each = samples(|row, _| if row % 2 == 0 { 150.0 } else { 100.0 });
        assert_eq!(outcomes(&each, "one line"), [Some(true); 6]);
        let each = samples(|row, _| if row % 2 == 0 { 151.0 } else { 100.0 });
        assert_eq!(outcomes(&each, "one line"), [Some(false); 6]);
        assert_eq!(outcomes(&each, "both kinds"), [Some(false); 2]);
        // Against what never answered nothing can be held.
        let each = samples(|row, _| if row % 2 == 0 { 1.0 } else { -1e6 });
        assert_eq!(outcomes(&each, "one line"), [None; 6]);
    }

    #[test]
    fn who_never_answers_misses_a_bound_in_time() {
        let silent = samples(|_, _| -1e6);
        assert_eq!(outcomes(&silent, "400 handlers"), [Some(false); 3]);
        let quick = samples(|_, _| 1_000.0);
        assert_eq!(outcomes(&quick, "400 handlers"), [Some(true); 3]);
        let text = |samples: &Services| match &tables(samples)[3].rows[3][1] {
            Cell::Text(text) => text.clone(),
            _ => panic!("no text"),
        };
        assert_eq!(text(&silent), "no answer at all");
        assert_ne!(text(&quick), "no answer at all");
    }

    #[test]
    fn posts_are_held_against_tokio() {
        for (own, holds) in [(115.0, true), (116.0, false), (-116.0, false)] {
            let each = samples(|_, peer| if peer == Peer::Evenkeel { own } else { 100.0 });
            assert_eq!(outcomes(&each, "POSTs"), [Some(holds)]);
        }
    }
}
