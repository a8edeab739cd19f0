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

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::measure::{MOMENT, Scene, Ways, merged, quantile};
use super::rows::{self, BREEZE_MBIT};
use crate::error::Result;
use crate::peers::{Peer, ServerSpec};
use crate::report::{Cell, Table};
use crate::serve::{Deliveries, Delivery};
use crate::trial::figures::{grouped, median, number, table};
use crate::trial::verdict::{Reach, TIMES, Verdict};

/// Shorter than this, too few frames come to say anything of one in a hundred.
const SHORTEST: Duration = Duration::from_secs(1);
const OVER_IMMEDIATE: f64 = 1.05;
const SHARES: [f64; 3] = [0.5, 0.99, 0.999];

/// Two ways of delivery that are held against each other.
#[derive(Debug, Clone, Copy, Serialize)]
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
    of: Match,
    ways: [Ways; 2],
    /// Deliveries that were held back at all.
    held_back: u64,
}

/// All turns, or why there are no more of them.
#[derive(Debug, Serialize)]
pub(super) struct Breeze {
    turns: Vec<Turn>,
    failure: Option<String>,
}

/// `None` where there is nobody to measure.
pub(super) fn measure(scene: &Scene<'_>) -> Option<Breeze> {
    scene.lab.lineup.present.contains(&Peer::Evenkeel).then(|| {
        let (turns, matches): (_, &[Match]) = match scene.length() {
            length if length < MOMENT => (1, &[Match::Compared]),
            _ if scene.lab.is_brief() => (2, &[Match::Compared]),
            _ => (6, &[Match::Compared, Match::Control]),
        };
        let mut breeze = Breeze {
            turns: Vec::new(),
            failure: None,
        };
        let both = (0..turns).flat_map(|number| matches.iter().map(move |of| (number, *of)));
        for (number, of) in both {
            let places = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            match turn(scene, of, places) {
                Ok(turn) => {
                    scene.lab.progress(&turn.describe());
                    breeze.turns.push(turn);
                }
                Err(error) => breeze.failure = Some(error.to_string()),
            }
        }
        breeze
    })
}

/// `places`: which side the first connection has, and which the second.
fn turn(scene: &Scene<'_>, of: Match, places: [usize; 2]) -> Result<Turn> {
    let deliveries = places.map(|side| of.sides()[side]);
    let spec = |record: &Path| spec(record, deliveries);
    let found = scene.breeze(spec, scene.length().max(SHORTEST))?;
    let mut turn = Turn {
        of,
        ways: Default::default(),
        held_back: found.held_back,
    };
    for (side, ways) in places.into_iter().zip(found.ways) {
        turn.ways[side] = ways;
    }
    Ok(turn)
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

    fn describe(&self) -> String {
        let [of, over] = self.ways.each_ref().map(|ways| quantile(ways, 0.99));
        let [name, other] = self.of.names();
        format!("storm: a breeze, p99 of {name} {of:.0} us, {other} {over:.0} us")
    }
}

impl Breeze {
    fn of(&self, of: Match) -> impl Iterator<Item = &Turn> + Clone {
        let alike = move |turn: &&Turn| turn.of as u8 == of as u8;
        self.turns.iter().filter(alike)
    }

    fn matches(&self) -> impl Iterator<Item = Match> {
        let all = [Match::Compared, Match::Control].into_iter();
        all.filter(|of| self.of(*of).next().is_some())
    }

    pub(super) fn tables(&self) -> [Table; 2] {
        let sides = self.matches().flat_map(|of| self.sides(of)).collect();
        let title = format!(
            "A breeze of {BREEZE_MBIT} Mbit/s: the way of frames to connections of one process"
        );
        let columns = ["connections", "frames", "p50", "p99", "p99.9", "held back"];
        let ways = table(&title, columns, sides);
        let ratios = self.matches().map(|of| self.ratios(of)).collect();
        let columns = [
            "one over the other, lowest to highest turn",
            "p50",
            "p99",
            "p99.9",
        ];
        [
            ways,
            table("The same, one over the other in each turn", columns, ratios),
        ]
    }

    fn sides(&self, of: Match) -> [Vec<Cell>; 2] {
        [0, 1].map(|side| {
            let turns = self.of(of).map(|turn| &turn.ways[side]);
            let ways = turns.fold(Ways::new(), |all, ways| merged(&all, ways));
            let frames: u64 = ways.iter().map(|(_, count)| count).sum();
            let held_back: u64 = self.of(of).map(|turn| turn.held_back).sum();
            let mut cells = vec![
                Cell::from(of.names()[side]),
                number(Ok(frames as f64), ("", 0)),
            ];
            cells.extend(SHARES.map(|share| number(Ok(quantile(&ways, share)), ("us", 0))));
            cells.push(match of.sides()[side] {
                Delivery::Immediate => Cell::Missing("nothing ever is".to_owned()),
                _ => number(Ok(held_back as f64), ("", 0)),
            });
            cells
        })
    }

    fn ratios(&self, of: Match) -> Vec<Cell> {
        let [name, other] = of.names();
        let mut cells = vec![Cell::Text(format!("{name} over {other}"))];
        cells.extend(SHARES.map(|share| {
            let ratios = self.of(of).map(|turn| turn.ratio(share));
            let lowest = ratios.clone().fold(f64::INFINITY, f64::min);
            let highest = ratios.clone().fold(0.0, f64::max);
            let middle = median(ratios).unwrap_or(f64::NAN);
            let [middle, lowest, highest] = [middle, lowest, highest].map(|r| grouped(r, 2));
            Cell::Text(format!("{middle}× ({lowest} to {highest})"))
        }));
        cells
    }

    /// The 99th percentile: the median of all turns.
    pub(super) fn verdict(&self) -> Verdict {
        let ratios = self.of(Match::Compared).map(|turn| turn.ratio(0.99));
        let why = || {
            let failure = self.failure.as_deref();
            failure.unwrap_or("no frames came").to_owned()
        };
        let of = format!("{}; a breeze", rows::ADAPTIVE_ROW.name);
        let what = "p99 of frames' way over that of immediate, beside it";
        let found = median(ratios).ok_or_else(why);
        Verdict::new(of, what, found, Reach::AtMost(OVER_IMMEDIATE), TIMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(of: Match, ways: [Ways; 2]) -> Turn {
        Turn {
            of,
            ways,
            held_back: 0,
        }
    }

    #[test]
    fn the_verdict_is_the_median_of_turns_and_heeds_no_control() {
        let turns = vec![
            turn(Match::Compared, [vec![(640, 9)], vec![(640, 9)]]),
            turn(Match::Control, [vec![(1_280, 9)], vec![(640, 9)]]),
            turn(Match::Compared, [vec![(704, 9)], vec![(640, 9)]]),
            turn(Match::Compared, [vec![(640, 9)], vec![(640, 9)]]),
        ];
        let breeze = Breeze {
            turns,
            failure: None,
        };
        assert_eq!(breeze.verdict().found, Ok(1.0));
        let [ways, ratios] = breeze.tables();
        assert_eq!((ways.rows.len(), ratios.rows.len()), (4, 2));
        let Cell::Text(p99) = &ratios.rows[0][2] else {
            panic!("{:?}", ratios.rows[0]);
        };
        assert_eq!(p99, "1.00× (1.00 to 2.00)");
    }

    #[test]
    fn without_turns_the_verdict_says_why() {
        let breeze = Breeze {
            turns: Vec::new(),
            failure: Some("it burnt".to_owned()),
        };
        assert_eq!(breeze.verdict().found, Err("it burnt".to_owned()));
    }

    #[test]
    fn sides_change_places_in_one_process() {
        let [adaptive, immediate] = Match::Compared.sides();
        let flags = spec("recordings".as_ref(), [immediate, adaptive]).own_flags;
        assert_eq!(flags, ["--delivery", "immediate/adaptive:100"]);
    }
}
