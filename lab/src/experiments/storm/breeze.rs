//! A breeze: so little comes in that nothing waits. Then to be told to adapt should cost nothing.
//!
//! Two servers one after the other differ by more than is looked for, under the same load. So both
//! ways of delivery are in one process: every second connection has the one, all others have the
//! other, and what the machine does meanwhile meets both alike. From turn to turn they change
//! places, as of two frames that come at the same moment the same one is always first. A control,
//! in which both are the same, says what is left to chance.
//!
//! That all connections come at once is no breeze: a worker is behind for a moment, and adaptive
//! readers are held back for up to a second more. What is measured begins after that.

use std::cell::Cell as Counter;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::measure::{MOMENT, Scene, Ways, merged, quantile, since};
use super::rows::{self, BREEZE_MBIT};
use crate::error::Result;
use crate::peers::{Peer, ServerSpec};
use crate::report::{Cell, Table, Verdict};
use crate::serve::{Deliveries, Delivery, RuntimeStats};
use crate::trial::figures::{count, grouped, median, number};
use crate::trial::{AtMost, Column, Samples, TIMES, column, judge, or_else, or_nan};

/// Shorter than this, too few frames come to say anything of one in a hundred.
const SHORTEST: Duration = Duration::from_secs(1);
/// Until what was held back because all connections came at once is forgotten.
const CALMED: Duration = Duration::from_millis(1_100);
const OVER_IMMEDIATE: f64 = 1.05;
const SHARES: [f64; 3] = [0.5, 0.99, 0.999];

/// Two ways of delivery that are held against each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
enum Match {
    /// `Adaptive` against `Immediate`.
    Compared,
    /// `Immediate` against itself.
    Control,
}

impl Match {
    fn sides(self) -> [Delivery; 2] {
        match self {
            Match::Compared => [rows::ADAPTIVE, Delivery::Immediate],
            Match::Control => [Delivery::Immediate; 2],
        }
    }

    fn names(self) -> [&'static str; 2] {
        match self {
            Match::Compared => ["adaptive 100 ms", "immediate, beside them"],
            Match::Control => ["control: immediate", "control: immediate, beside them"],
        }
    }
}

/// Both sides in one process.
#[derive(Debug, Serialize)]
struct Turn {
    ways: [Ways; 2],
    /// Deliveries that were held back at all.
    held_back: u64,
}

/// All turns.
pub(super) struct Breeze(Samples<Match, Turn>);

pub(super) fn measure(scene: &Scene<'_>) -> Breeze {
    let (turns, matches): (_, &[Match]) = match scene.length() {
        length if length < MOMENT => (1, &[Match::Compared]),
        _ if scene.lab.is_brief() => (2, &[Match::Compared]),
        _ => (6, &[Match::Compared, Match::Control]),
    };
    let begun = Counter::new(0);
    let one = |of| {
        let number = begun.replace(begun.get() + 1) / matches.len();
        let places = [[0, 1], [1, 0]];
        turn(scene, of, places[number % 2])
    };
    let name = |of: Match| format!("storm: a breeze, {}", of.names().join(" over "));
    let told = [P99_OF, P99_OVER];
    let matches = matches.iter().copied();
    let turns = Samples::measure(scene.lab, turns, matches, name, &told, one);
    Breeze(turns)
}

/// `places`: which side the first connection has, and which the second.
fn turn(scene: &Scene<'_>, of: Match, places: [usize; 2]) -> Result<Turn> {
    let deliveries = places.map(|side| of.sides()[side]);
    let running = scene.serve(Peer::Evenkeel, |record| spec(record, deliveries))?;
    let cameras = running.cameras(&rows::EVEN, BREEZE_MBIT)?;
    sleep(CALMED);
    let read = || -> Result<(Vec<Ways>, u64)> {
        let held_back = held_back(&running.runtime_stats()?);
        Ok((running.accounts()?.delays_in_turn, held_back))
    };
    let (before, held_before) = read()?;
    sleep(scene.length().max(SHORTEST));
    let (after, held_after) = read()?;
    drop(cameras);
    let mut ways = <[Ways; 2]>::default();
    for (side, (after, before)) in places.into_iter().zip(after.iter().zip(&before)) {
        ways[side] = since(after, before);
    }
    let held_back = held_after.saturating_sub(held_before);
    Ok(Turn { ways, held_back })
}

/// Deliveries that were held back for however short, since the start.
fn held_back(stats: &RuntimeStats) -> u64 {
    let buckets = stats.delivery.iter().flat_map(|of| &of.held_back);
    // The first bucket is that of no time at all.
    buckets.skip(1).map(|(_, count)| count).sum()
}

/// Nothing is computed: only how frames are delivered makes a difference.
fn spec(record: &Path, deliveries: [Delivery; 2]) -> ServerSpec {
    let mut spec = rows::IMMEDIATE.spec(record, 0);
    let deliveries = Deliveries::from(deliveries.to_vec());
    spec.own_flags = vec!["--delivery".to_owned(), deliveries.to_string()];
    spec
}

impl Turn {
    /// How much longer the ways of the first side are.
    fn ratio(&self, share: f64) -> f64 {
        let [of, over] = &self.ways;
        quantile(of, share) / quantile(over, share)
    }
}

const P99_OF: Column<Turn> = column("p99", "us", 0, |turn| quantile(&turn.ways[0], 0.99));
const P99_OVER: Column<Turn> = or_else("no frames came", column(OVER, "×", 2, |of| of.ratio(0.99)));
const OVER: &str = "p99 of frames' way over that of immediate, beside it";

impl Breeze {
    fn matches(&self) -> impl Iterator<Item = Match> {
        let all = [Match::Compared, Match::Control].into_iter();
        all.filter(|of| self.0.found(*of).next().is_some())
    }

    pub(super) fn tables(&self) -> [Table; 2] {
        let title = format!(
            "A breeze of {BREEZE_MBIT} Mbit/s: the way of frames to connections of one process"
        );
        let columns = ["connections", "frames", "p50", "p99", "p99.9", "held back"];
        let sides = self.matches().flat_map(|of| self.sides(of));
        let first = "one over the other, lowest to highest turn";
        let ratios = self.matches().map(|of| self.ratios(of));
        let over = "The same, one over the other in each turn";
        [
            Table::new(title, columns, sides),
            Table::new(over, [first, "p50", "p99", "p99.9"], ratios),
        ]
    }

    fn sides(&self, of: Match) -> [Vec<Cell>; 2] {
        [0, 1].map(|side| {
            let turns = self.0.found(of).map(|turn| &turn.ways[side]);
            let ways = turns.fold(Ways::new(), |all, ways| merged(&all, ways));
            let frames: u64 = ways.iter().map(|(_, count)| count).sum();
            let held_back: u64 = self.0.found(of).map(|turn| turn.held_back).sum();
            let mut cells = vec![of.names()[side].into(), count(frames as f64)];
            cells.extend(SHARES.map(|share| number(Ok(quantile(&ways, share)), ("us", 0))));
            cells.push(match of.sides()[side] {
                Delivery::Immediate => Cell::Missing("nothing ever is".to_owned()),
                _ => count(held_back as f64),
            });
            cells
        })
    }

    fn ratios(&self, of: Match) -> Vec<Cell> {
        let mut cells = vec![Cell::Text(of.names().join(" over "))];
        cells.extend(SHARES.map(|share| {
            let ratios = self.0.found(of).map(|turn| turn.ratio(share));
            let lowest = ratios.clone().fold(f64::INFINITY, f64::min);
            let highest = ratios.clone().fold(0.0, f64::max);
            let all = [or_nan(median(ratios)), lowest, highest];
            let [middle, lowest, highest] = all.map(|ratio| grouped(ratio, 2));
            Cell::Text(format!("{middle}× ({lowest} to {highest})"))
        }));
        cells
    }

    /// The 99th percentile: the median of all turns.
    pub(super) fn verdict(&self) -> Verdict {
        let of = format!("{}; a breeze", rows::ADAPTIVE_ROW.name);
        let found = self.0.figure(Match::Compared, &P99_OVER);
        judge(of, P99_OVER.name, found, AtMost(OVER_IMMEDIATE), TIMES)
    }

    pub(super) fn raw(&self) -> serde_json::Value {
        let failure = self.0.0.iter().rfind(|turn| turn.found.is_err());
        json!({
            "turns": self.0.raw(|of| json!({ "of": of }), |turn| json!(turn)),
            "failure": failure.and_then(|turn| turn.found.as_ref().err()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::samples::Sample;

    fn breeze(turns: Vec<(Match, Result<[Ways; 2], String>)>) -> Breeze {
        let sample = |(key, ways): (Match, Result<[Ways; 2], String>)| Sample {
            key,
            round: 0,
            found: ways.map(|ways| Turn { ways, held_back: 0 }),
        };
        Breeze(Samples(turns.into_iter().map(sample).collect()))
    }

    #[test]
    fn the_verdict_is_the_median_of_turns_and_heeds_no_control() {
        let breeze = breeze(vec![
            (Match::Compared, Ok([vec![(640, 9)], vec![(640, 9)]])),
            (Match::Control, Ok([vec![(1_280, 9)], vec![(640, 9)]])),
            (Match::Compared, Ok([vec![(704, 9)], vec![(640, 9)]])),
            (Match::Compared, Ok([vec![(640, 9)], vec![(640, 9)]])),
        ]);
        let found = breeze.verdict().found;
        assert!(
            matches!(&found, Cell::Text(text) if text == "1.00×"),
            "{found:?}"
        );
        let [ways, ratios] = breeze.tables();
        assert_eq!((ways.rows.len(), ratios.rows.len()), (4, 2));
        let Cell::Text(p99) = &ratios.rows[0][2] else {
            panic!("{:?}", ratios.rows[0]);
        };
        assert_eq!(p99, "1.00× (1.00 to 2.00)");
    }

    #[test]
    fn without_turns_the_verdict_says_why() {
        let failed = breeze(vec![(Match::Compared, Err("it burnt".to_owned()))]);
        let found = failed.verdict().found;
        assert!(
            matches!(&found, Cell::Missing(why) if why == "it burnt"),
            "{found:?}"
        );
        assert_eq!(failed.raw()["failure"], "it burnt");
    }

    #[test]
    fn sides_change_places_in_one_process() {
        let [adaptive, immediate] = Match::Compared.sides();
        let flags = spec("recordings".as_ref(), [immediate, adaptive]).own_flags;
        assert_eq!(flags, ["--delivery", "immediate/adaptive:100"]);
    }
}
