//! Verdicts: what was reached, against what is to be reached.

use super::figures::{self, Unit, grouped};
use crate::report::{Cell, Judged, Outcome, Table};

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
    fn holds(self, found: f64) -> bool {
        match self {
            Reach::AtMost(most) => found <= most,
            Reach::AtLeast(least) => found >= least,
            Reach::MoreThan(bound) => found > bound,
        }
    }

    fn words(self, unit: Unit) -> String {
        let (sign, bound) = match self {
            Reach::AtMost(bound) => ("≤", bound),
            Reach::AtLeast(bound) => ("≥", bound),
            Reach::MoreThan(bound) => (">", bound),
        };
        format!("{sign} {}", with_unit(bound, unit))
    }
}

/// One figure against what it has to be.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    /// Of which row or setting.
    pub(crate) of: String,
    /// What the figure is.
    pub(crate) what: String,
    /// The figure, or why there is none.
    pub(crate) found: Result<f64, String>,
    pub(crate) reach: Reach,
    pub(crate) unit: Unit,
}

impl Verdict {
    pub(crate) fn new(
        of: impl Into<String>,
        what: impl Into<String>,
        found: Result<f64, String>,
        reach: Reach,
        unit: Unit,
    ) -> Self {
        let (of, what) = (of.into(), what.into());
        Verdict {
            of,
            what,
            found,
            reach,
            unit,
        }
    }

    /// Whether it holds; `None` without a figure.
    pub(crate) fn holds(&self) -> Option<bool> {
        let found = self.found.as_ref().ok()?;
        Some(self.reach.holds(*found))
    }

    /// In words, for the report's account of all verdicts.
    pub(crate) fn judged(&self) -> Judged {
        let found = match &self.found {
            Ok(found) => Cell::Text(with_unit(*found, self.unit)),
            Err(why) => Cell::Missing(why.clone()),
        };
        Judged {
            of: self.of.clone(),
            what: self.what.clone(),
            found,
            reach: self.reach.words(self.unit),
            outcome: match self.holds() {
                Some(true) => Outcome::Holds,
                Some(false) => Outcome::Missed,
                None => Outcome::NotSaid,
            },
        }
    }

    fn row(&self) -> Vec<Cell> {
        let judged = self.judged();
        vec![
            Cell::Text(judged.of),
            Cell::Text(judged.what),
            judged.found,
            Cell::Text(judged.reach),
            Cell::from(judged.outcome.word()),
        ]
    }
}

/// A verdict on every row of some kind: what the figure is, on which rows, how it is found, and
/// what it has to be.
pub(crate) type Rule<All> = (
    &'static str,
    fn(&All, usize) -> bool,
    fn(&All, usize) -> Result<f64, String>,
    Reach,
    Unit,
);

/// The verdicts on rows of those names, row by row.
pub(crate) fn by_rules<'a, All>(
    all: &All,
    rows: impl IntoIterator<Item = &'a str>,
    rules: &[Rule<All>],
) -> Vec<Verdict> {
    let rows = rows.into_iter().enumerate();
    let of_row = |(row, name): (usize, &'a str)| {
        let rules = rules
            .iter()
            .filter(move |(_, concerns, ..)| concerns(all, row));
        rules.map(move |&(what, _, found, reach, unit)| {
            Verdict::new(name, what, found(all, row), reach, unit)
        })
    };
    rows.flat_map(of_row).collect()
}

/// The verdicts as a table.
pub(crate) fn table(title: &str, of: &str, verdicts: &[Verdict]) -> Table {
    let columns = [of, "figure", "found", "to be reached", "verdict"];
    figures::table(title, columns, verdicts.iter().map(Verdict::row).collect())
}

/// The verdicts in words.
pub(crate) fn judged(verdicts: &[Verdict]) -> Vec<Judged> {
    verdicts.iter().map(Verdict::judged).collect()
}

/// `a` over `b`, or which of the two is missing.
pub(crate) fn ratio(a: Result<f64, String>, b: Result<f64, String>) -> Result<f64, String> {
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

    fn verdict(found: Result<f64, String>, reach: Reach) -> Verdict {
        Verdict {
            of: "4 hogs".to_owned(),
            what: "p99 over the lone thread's".to_owned(),
            found,
            reach,
            unit: TIMES,
        }
    }

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
            assert_eq!(
                verdict(Ok(found), reach).holds(),
                Some(holds),
                "{found} {reach:?}"
            );
        }
    }

    #[test]
    fn a_verdict_says_figure_reach_and_outcome() {
        let verdicts = [
            verdict(Ok(1.234), Reach::AtMost(1.5)),
            verdict(Err("it burnt".to_owned()), Reach::AtMost(1.5)),
        ];
        let table = table("Verdicts", "row", &verdicts);
        let text = |row: usize, column: usize| match &table.rows[row][column] {
            Cell::Text(text) => text.clone(),
            Cell::Missing(why) => format!("missing: {why}"),
            Cell::Number { value, .. } => value.to_string(),
        };
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
