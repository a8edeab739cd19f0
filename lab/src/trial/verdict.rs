//! Verdicts: what was reached, against what is to be reached.

use super::figures::{Figured, Unit, grouped};
use crate::report::{Cell, Experiment, Outcome, Table, Verdict};

/// Times as much, percent, and microseconds.
pub(crate) const TIMES: Unit = ("×", 2);
pub(crate) const PERCENT: Unit = ("%", 0);
pub(crate) const MICROS: Unit = ("us", 0);

/// What a figure has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reach {
    AtMost(f64),
    AtLeast(f64),
    MoreThan(f64),
}

impl Reach {
    pub(crate) fn holds(self, found: f64) -> bool {
        match self {
            Reach::AtMost(most) => found <= most,
            Reach::AtLeast(least) => found >= least,
            Reach::MoreThan(bound) => found > bound,
        }
    }

    pub(crate) fn words(self, unit: Unit) -> String {
        let (sign, bound) = match self {
            Reach::AtMost(bound) => ("≤", bound),
            Reach::AtLeast(bound) => ("≥", bound),
            Reach::MoreThan(bound) => (">", bound),
        };
        format!("{sign} {}", with_unit(bound, unit))
    }
}

/// A verdict on `of`, a row or a setting: on the figure `what`, or why there is none.
pub(crate) fn judge(
    of: impl Into<String>,
    what: &str,
    found: Figured,
    reach: Reach,
    unit: Unit,
) -> Verdict {
    let outcome = match &found {
        Ok(found) if reach.holds(*found) => Outcome::Holds,
        Ok(_) => Outcome::Missed,
        Err(_) => Outcome::NotSaid,
    };
    Verdict {
        of: of.into(),
        what: what.to_owned(),
        found: found.map_or_else(Cell::Missing, |found| with_unit(found, unit).into()),
        reach: reach.words(unit),
        outcome,
    }
}

/// A verdict on every row of some kind: what the figure is, on which rows, how it is found, and
/// what it has to be.
pub(crate) type Rule<All, Row = usize> = (
    &'static str,
    fn(&All, Row) -> bool,
    fn(&All, Row) -> Figured,
    Reach,
    Unit,
);

/// The verdicts on named rows, row by row.
pub(crate) fn by_rules<All, Row: Copy>(
    all: &All,
    rows: impl IntoIterator<Item = (impl Into<String>, Row)>,
    rules: &[Rule<All, Row>],
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, row) in rows {
        let name = name.into();
        let rules = rules.iter().filter(|(_, concerns, ..)| concerns(all, row));
        verdicts.extend(rules.map(|&(what, _, found, reach, unit)| {
            judge(name.as_str(), what, found(all, row), reach, unit)
        }));
    }
    verdicts
}

impl Experiment {
    /// With verdicts, and last a table of them, whose first column is named.
    pub(crate) fn judged(mut self, of: &str, verdicts: Vec<Verdict>) -> Self {
        let columns = [of, "figure", "found", "to be reached", "verdict"];
        let rows = verdicts.iter().map(Verdict::cells);
        self.tables
            .push(Table::new("Verdicts on evenkeel", columns, rows));
        self.verdicts = verdicts;
        self
    }
}

/// `a` over `b`, or which of the two is missing.
pub(crate) fn ratio(a: Figured, b: Figured) -> Figured {
    match (a?, b?) {
        (a, b) if b > 0.0 && a.is_finite() => Ok(a / b),
        _ => Err("there is nothing to divide by".to_owned()),
    }
}

fn with_unit(value: f64, (unit, digits): Unit) -> String {
    let value = grouped(value, digits);
    match unit {
        "" | "×" => format!("{value}{unit}"),
        _ => format!("{value} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_is_met_holds() {
        for (found, reach, holds) in [
            (1.5, Reach::AtMost(1.5), true),
            (1.51, Reach::AtMost(1.5), false),
            (90.0, Reach::AtLeast(90.0), true),
            (89.9, Reach::AtLeast(90.0), false),
            (0.0, Reach::MoreThan(0.0), false),
            (0.1, Reach::MoreThan(0.0), true),
        ] {
            assert_eq!(reach.holds(found), holds, "{found} {reach:?}");
        }
    }

    #[test]
    fn a_verdict_says_figure_reach_and_outcome() {
        let found = [Ok(1.234), Err("it burnt".to_owned())];
        let what = "p99 over the lone thread's";
        let verdicts = found
            .map(|found| judge("4 hogs", what, found, Reach::AtMost(1.5), TIMES))
            .into();
        let experiment = Experiment::default().judged("row", verdicts);
        let text = |row: usize, column: usize| match &experiment.tables[0].rows[row][column] {
            Cell::Text(text) => text.clone(),
            Cell::Missing(why) => format!("missing: {why}"),
            other => format!("{other:?}"),
        };
        assert_eq!((text(0, 0), text(0, 1)), ("4 hogs".into(), what.into()));
        assert_eq!((text(0, 2), text(0, 3)), ("1.23×".into(), "≤ 1.50×".into()));
        assert_eq!(text(0, 4), "holds");
        assert_eq!(
            (text(1, 2), text(1, 4)),
            ("missing: it burnt".into(), "not said".into())
        );
    }

    #[test]
    fn a_ratio_needs_both_of_its_figures() {
        assert_eq!(ratio(Ok(3.0), Ok(2.0)), Ok(1.5));
        assert_eq!(ratio(Err("a".into()), Ok(2.0)), Err("a".into()));
        assert_eq!(ratio(Ok(3.0), Err("b".into())), Err("b".into()));
        assert!(ratio(Ok(3.0), Ok(0.0)).is_err());
        assert!(ratio(Ok(f64::INFINITY), Ok(1.0)).is_err());
    }
}
