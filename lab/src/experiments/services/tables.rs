//! What the measurements come to, and whether that is what was promised.

use self::Figure::{LateP50, LateP99, Longest, P50, P99, P999, Unanswered};
use super::measure::Whose::{self, Echo, Hogs, Innocents, Urgent};
use super::{Row, Samples, Scene};
use crate::load::EchoSummary;
use crate::peers::Peer;
use crate::report::{Cell, Plot, Table};
use crate::trial::figures::{grouped, median, micros};
use crate::trial::grid::P999_REQUESTS_MIN;
use crate::trial::verdict::{self, Reach, Verdict, ratio};

/// What is to be reached: latency beside hogs of the same line over that beside others.
const OVER_A_LINE_EACH: f64 = 1.5;
/// A fresh task's wait beside the most handlers that block: its p99, the longest, and how late it
/// may be spawned, as a wait after a late beginning says little.
const FRESH_P99_US: f64 = 1_000.0;
const FRESH_LONGEST_US: f64 = 20_000.0;
const FRESH_LATE_US: f64 = 20_000.0;
/// The hogs' own latency over Tokio's.
const POSTS_OVER_TOKIO: f64 = 1.15;

/// What is told of a set of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    P50,
    P99,
    P999,
    Longest,
    /// How late whoever asked was itself.
    LateP50,
    LateP99,
    /// In percent.
    Unanswered,
}

impl Figure {
    fn of(self, found: &EchoSummary) -> f64 {
        match self {
            P50 => found.latency.p50_us,
            P99 => found.latency.p99_us,
            P999 => found.latency.p999_us,
            Longest => found.latency.max_us,
            LateP50 => found.late_p50_us,
            LateP99 => found.late_p99_us,
            Unanswered => 100.0 * found.unanswered as f64 / found.requests.max(1) as f64,
        }
    }
}

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

impl Samples {
    pub(super) fn tables(&self) -> Vec<Table> {
        let pairs = |(title, rows, whose, figures)| self.pairs(title, rows, whose, figures);
        let mut tables = PAIRS.map(pairs).to_vec();
        let unanswered = |row, peer| self.unanswered(row, peer);
        tables.push(self.table("Without an answer, in %", |_| true, unanswered));
        let verdicts = self.verdicts();
        if !verdicts.is_empty() {
            tables.push(verdict::table("Verdicts on evenkeel", "scene", &verdicts));
        }
        tables
    }

    /// The p99 of the innocents as bars; of who never answers there is no end.
    pub(super) fn bars(&self) -> Plot {
        let bar = |row: usize, peer: Peer| {
            let whose = self.rows[row].scene.judged();
            let p99 = match self.is_silent(row, peer, whose) {
                true => Some(f64::INFINITY),
                false => self.median(row, peer, whose, P99),
            };
            Some((peer.name().to_owned(), p99?))
        };
        let bars = |row| {
            self.peers
                .iter()
                .filter_map(|&peer| bar(row, peer))
                .collect()
        };
        let groups = self.rows.iter().enumerate();
        Plot::Bars {
            title: "p99 of innocent calls, of a fresh task's wait, and of POSTs".to_owned(),
            unit: "us".to_owned(),
            log: true,
            endless: "no answer".to_owned(),
            groups: groups
                .map(|(row, scene)| (scene.name.clone(), bars(row)))
                .collect(),
        }
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        if !self.peers.contains(&Peer::Evenkeel) {
            return Vec::new();
        }
        let rows = self.rows.iter().enumerate();
        rows.flat_map(|(index, row)| self.verdicts_on(index, row))
            .collect()
    }

    fn verdicts_on(&self, index: usize, row: &Row) -> Vec<Verdict> {
        let own = Peer::Evenkeel;
        let reached = |figure| self.reached(index, own, figure);
        let verdict = |what: &str, found, reach, unit, digits| Verdict {
            of: row.name.clone(),
            what: what.to_owned(),
            found,
            reach,
            unit,
            digits,
        };
        match row.scene {
            Scene::Mixed { apart: false, .. } => {
                // The next row is the same with a line each.
                let over = |of: Figure| ratio(reached(of), self.measure(index + 1, own, of));
                let reach = Reach::AtMost(OVER_A_LINE_EACH);
                vec![
                    verdict(
                        "innocents' p50 over that of a line each",
                        over(P50),
                        reach,
                        "×",
                        2,
                    ),
                    verdict(
                        "innocents' p99 over that of a line each",
                        over(P99),
                        reach,
                        "×",
                        2,
                    ),
                ]
            }
            Scene::Blocked { tasks: 400 } => {
                let bounds = [
                    ("a fresh task's wait, p99", P99, FRESH_P99_US),
                    ("a fresh task's wait, longest", Longest, FRESH_LONGEST_US),
                    ("how late it was spawned, p99", LateP99, FRESH_LATE_US),
                ];
                let bound = |(what, figure, most)| {
                    verdict(what, reached(figure), Reach::AtMost(most), "us", 0)
                };
                bounds.map(bound).into()
            }
            Scene::Posts => {
                let over = ratio(reached(P99), self.measure(index, Peer::Tokio, P99));
                let reach = Reach::AtMost(POSTS_OVER_TOKIO);
                vec![verdict("POSTs' p99 over Tokio's", over, reach, "×", 2)]
            }
            _ => Vec::new(),
        }
    }

    /// The figure of a cell, or why there is none. Of one that never answered it is the time waited
    /// so far: less than the figure would be, so what is missed by it is missed.
    fn reached(&self, row: usize, peer: Peer, figure: Figure) -> Result<f64, String> {
        if !self.peers.contains(&peer) {
            return Err(format!("{} takes no part", peer.name()));
        }
        let median = self.median(row, peer, self.rows[row].scene.judged(), figure);
        median.ok_or_else(|| format!("{}: {}", peer.name(), self.failure(row, peer)))
    }

    /// As [`reached`](Self::reached), for what others are held against.
    fn measure(&self, row: usize, peer: Peer, figure: Figure) -> Result<f64, String> {
        match self.is_silent(row, peer, self.rows[row].scene.judged()) {
            true => Err(format!("{} does not answer", peer.name())),
            false => self.reached(row, peer, figure),
        }
    }

    fn table(
        &self,
        title: &str,
        rows: impl Fn(Scene) -> bool,
        cell: impl Fn(usize, Peer) -> Cell,
    ) -> Table {
        let names = self.peers.iter().map(|peer| peer.name().to_owned());
        let row = |(index, row): (usize, &Row)| {
            let cells = self.peers.iter().map(|&peer| cell(index, peer));
            std::iter::once(Cell::Text(row.name.clone()))
                .chain(cells)
                .collect()
        };
        let shown = self.rows.iter().enumerate();
        Table {
            title: title.to_owned(),
            columns: std::iter::once("scene".to_owned()).chain(names).collect(),
            rows: shown
                .filter(|(_, each)| rows(each.scene))
                .map(row)
                .collect(),
        }
    }

    /// A table of two figures in each cell.
    fn pairs(
        &self,
        title: &str,
        rows: impl Fn(Scene) -> bool,
        whose: Whose,
        [first, second]: [Figure; 2],
    ) -> Table {
        self.table(title, rows, |row, peer| {
            if self.is_silent(row, peer, whose) {
                return Cell::Text("no answer at all".to_owned());
            }
            let both = [first, second].map(|figure| {
                let is_rare = figure == P999 && !self.has_p999(row, peer, whose);
                let median = self.median(row, peer, whose, figure)?;
                Some(if is_rare {
                    "–".to_owned()
                } else {
                    micros(median)
                })
            });
            match both {
                [Some(first), Some(second)] => Cell::Text(format!("{first} / {second}")),
                _ => Cell::Missing(self.failure(row, peer)),
            }
        })
    }

    /// How much of what is judged there was no answer to.
    fn unanswered(&self, row: usize, peer: Peer) -> Cell {
        match self.median(row, peer, self.rows[row].scene.judged(), Unanswered) {
            Some(share) => Cell::Text(grouped(share, 1)),
            None => Cell::Missing(self.failure(row, peer)),
        }
    }

    fn of(&self, row: usize, peer: Peer, whose: Whose) -> impl Iterator<Item = &EchoSummary> {
        let samples = self.samples.iter();
        let cell = samples.filter(move |sample| sample.row == row && sample.peer == peer);
        cell.filter_map(move |sample| sample.found.as_ref().ok()?.latencies.get(&whose))
    }

    fn median(&self, row: usize, peer: Peer, whose: Whose, figure: Figure) -> Option<f64> {
        median(self.of(row, peer, whose).map(|found| figure.of(found)))
    }

    fn has_p999(&self, row: usize, peer: Peer, whose: Whose) -> bool {
        let requests: u64 = self.of(row, peer, whose).map(|found| found.requests).sum();
        requests >= P999_REQUESTS_MIN
    }

    /// Whether nothing at all was answered.
    fn is_silent(&self, row: usize, peer: Peer, whose: Whose) -> bool {
        let mut all = self.of(row, peer, whose).peekable();
        all.peek().is_some() && all.all(|found| found.unanswered == found.requests)
    }

    /// Why a cell has nothing to show.
    fn failure(&self, row: usize, peer: Peer) -> String {
        let samples = self.samples.iter();
        let mut cell = samples.filter(|sample| sample.row == row && sample.peer == peer);
        let error = cell.find_map(|sample| sample.found.as_ref().err().cloned());
        let lacks = self.rows[row].scene.lacks(peer).map(str::to_owned);
        error.or(lacks).unwrap_or_else(|| "not measured".to_owned())
    }
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
    use super::super::{Found, Sample, rows};
    use super::*;

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
    fn samples(of: impl Fn(usize, Peer) -> f64) -> Samples {
        let rows = rows(false);
        let peers = vec![Peer::Evenkeel, Peer::Tokio];
        let sample = |(row, peer): (usize, Peer)| {
            let p99: f64 = of(row, peer);
            let unanswered = if p99 < 0.0 { 10 } else { 0 };
            Sample {
                row,
                peer,
                round: 0,
                found: Ok(found(rows[row].scene.judged(), p99.abs(), unanswered)),
            }
        };
        let cells = (0..rows.len()).flat_map(|row| peers.iter().map(move |peer| (row, *peer)));
        Samples {
            samples: cells.map(sample).collect(),
            rows,
            peers,
        }
    }

    fn outcomes(samples: &Samples, of: &str) -> Vec<Option<bool>> {
        let verdicts = samples.verdicts();
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
        let text = |samples: &Samples| match &samples.tables()[3].rows[3][1] {
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
