//! What has to hold of the figures, and whether it does.

use std::fmt;

use evenkeel_measure::statistics::{Better, Ratio, geometric_mean};

/// No row may be worse than Tokio in every round: what lies within the noise decides nothing.
const NO_WORSE: f64 = 1.0;

/// Something that has to be so many times as good as on Tokio.
#[derive(Debug)]
struct Verdict {
    what: String,
    /// As a ratio, where more is better.
    bound: f64,
    /// None, if nothing was measured.
    found: Option<f64>,
}

impl Verdict {
    fn holds(&self) -> bool {
        self.found.is_some_and(|found| found >= self.bound)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds() {
            "holds"
        } else {
            "DOES NOT HOLD"
        };
        write!(f, "{word}: {}, {} at least", self.what, self.bound)?;
        match self.found {
            Some(found) => write!(f, ": {found:.2}"),
            None => f.write_str(": nothing was measured"),
        }
    }
}

/// The verdicts on a table.
pub(super) struct Verdicts {
    better: Better,
    all: Vec<Verdict>,
    /// Of all rows.
    ratios: Vec<Ratio>,
}

impl Verdicts {
    pub(super) fn new(better: Better) -> Self {
        Self {
            better,
            all: Vec::new(),
            ratios: Vec::new(),
        }
    }

    /// Adds a row, from the figures of both by rounds. Its ratio has to be this at least; without
    /// one, it may not be worse in every round.
    pub(super) fn add(&mut self, name: &str, figures: &[Vec<f64>], bound: Option<f64>) {
        let ratio = match figures {
            [ours, theirs, ..] => self.better.ratio_of_rounds(ours, theirs),
            _ => None,
        };
        self.ratios.extend(ratio);
        self.all.push(match bound {
            Some(bound) => Verdict {
                what: format!("{name}: the ratio"),
                bound,
                found: ratio.map(|ratio| ratio.of_medians),
            },
            None => Verdict {
                what: format!("{name}: the ratio of the best round"),
                bound: NO_WORSE,
                found: ratio.map(|ratio| ratio.spread.greatest),
            },
        });
    }

    /// The mean of all rows' ratios has to be this at least.
    pub(super) fn mean(&mut self, bound: f64) {
        let ratios = self.ratios.iter().map(|ratio| ratio.of_medians);
        self.all.push(Verdict {
            what: "geometric mean of the ratios".to_owned(),
            bound,
            found: geometric_mean(ratios),
        });
    }

    pub(super) fn hold(&self) -> bool {
        self.all.iter().all(Verdict::holds)
    }

    /// A line for each.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.all.iter().map(Verdict::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(ours: [f64; 2], bound: Option<f64>, mean: Option<f64>) -> Verdicts {
        let mut verdicts = Verdicts::new(Better::Less);
        verdicts.add("checks", &[ours.to_vec(), vec![100.0, 100.0]], bound);
        mean.into_iter().for_each(|bound| verdicts.mean(bound));
        verdicts
    }

    #[test]
    fn figures_decide_what_holds() {
        assert!(verdicts([10.0, 10.0], Some(10.0), None).hold(), "a tenth");
        assert!(!verdicts([10.0, 11.0], Some(10.0), None).hold());
        // It was better in a round.
        assert!(verdicts([90.0, 150.0], None, None).hold());
        assert!(!verdicts([101.0, 150.0], None, None).hold());
        assert!(verdicts([50.0, 50.0], None, Some(2.0)).hold());
        assert!(!verdicts([50.0, 50.0], None, Some(2.1)).hold());
        let mut nothing = Verdicts::new(Better::More);
        nothing.add("none", &[Vec::new(), Vec::new()], None);
        assert!(!nothing.hold());
    }

    #[test]
    fn each_verdict_is_a_line() {
        let verdicts = verdicts([50.0, 50.0], Some(10.0), Some(1.05));
        assert_eq!(
            verdicts.lines().collect::<Vec<_>>(),
            [
                "DOES NOT HOLD: checks: the ratio, 10 at least: 2.00",
                "holds: geometric mean of the ratios, 1.05 at least: 2.00",
            ]
        );
    }
}
