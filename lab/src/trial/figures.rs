//! Figures: how they come of several rounds, and how columns, cells and bars show them.

use evenkeel_measure::statistics;

use crate::report::{Bars, Cell, Lists, NARROW_SPACE, Plot, fixed};

/// A unit, and how many digits stand after the point.
pub(crate) type Unit = (&'static str, usize);

/// A figure of what the rounds of a case found, under the name that tables have for it.
pub(crate) struct Column<F> {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    over: Over<F>,
    /// Why there is none although something was found; else the case says.
    none: Option<&'static str>,
}

/// A figure, or why there is none.
pub(crate) type Figured = Result<f64, String>;

/// How a figure comes of several rounds.
enum Over<F> {
    /// By the median of those that are numbers.
    Median(fn(&F) -> f64),
    Rounds(fn(&[&F]) -> Option<f64>),
}

/// A column of medians, with that many digits after the point.
pub(crate) const fn column<F>(
    name: &'static str,
    unit: &'static str,
    digits: usize,
    figure: fn(&F) -> f64,
) -> Column<F> {
    with(name, (unit, digits), Over::Median(figure))
}

/// A column of figures of all rounds together.
pub(crate) const fn over_rounds<F>(
    name: &'static str,
    unit: &'static str,
    digits: usize,
    figure: fn(&[&F]) -> Option<f64>,
) -> Column<F> {
    with(name, (unit, digits), Over::Rounds(figure))
}

const fn with<F>(name: &'static str, unit: Unit, over: Over<F>) -> Column<F> {
    let none = None;
    Column {
        name,
        unit,
        over,
        none,
    }
}

/// The same column, with the reason why something that was found may lack this figure.
pub(crate) const fn or_else<F>(none: &'static str, mut column: Column<F>) -> Column<F> {
    column.none = Some(none);
    column
}

impl<F> Column<F> {
    /// What all rounds together come to.
    pub(crate) fn value(&self, found: &[&F]) -> Option<f64> {
        match self.over {
            Over::Median(figure) => median(found.iter().map(|found| figure(found))),
            Over::Rounds(figure) => figure(found),
        }
    }

    /// The same, or why there is none; `why` says it of a case in which nothing was found.
    pub(super) fn of(&self, found: &[&F], why: impl FnOnce() -> String) -> Figured {
        self.value(found).ok_or_else(|| match self.none {
            Some(none) if !found.is_empty() => none.to_owned(),
            _ => why(),
        })
    }

    /// With its name and its unit, for a line of progress; nothing if there is none.
    pub(super) fn words(&self, found: &F) -> Option<String> {
        let value = grouped(self.value(&[found])?, self.unit.1);
        let words = format!("{} {value} {}", self.name, self.unit.0);
        Some(words.trim_end().to_owned())
    }
}

/// The median of those that are finite: of the rounds that have a figure. `None` if there is none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    statistics::median(values.into_iter().filter(|value| value.is_finite()))
}

/// A figure that there may be; not a number if there is none.
pub(crate) fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

/// A figure as a cell, or why there is none.
pub(crate) fn number(value: Figured, (unit, digits): Unit) -> Cell {
    value.map_or_else(Cell::Missing, |value| Cell::number(value, unit, digits))
}

/// A cell that shows these figures of several rounds, with what each round came to. Of a single
/// round, or without figures, it is the cell alone.
pub(crate) fn measured<F>(cell: Cell, found: &[&F], shown: &[&Column<F>]) -> Cell {
    if found.len() < 2 || matches!(cell, Cell::Missing(_)) {
        return cell;
    }
    let rounds = |column: &&Column<F>| {
        let each = found.iter().filter_map(|found| column.value(&[*found]));
        each.collect()
    };
    cell.measured(shown.iter().map(rounds).collect())
}

/// A number of things as a cell.
pub(crate) fn count(value: impl Into<f64>) -> Cell {
    Cell::number(value.into(), "", 0)
}

/// Groups of bars, each of which has an end.
pub(crate) fn bars(title: impl Into<String>, unit: &str, log: bool, groups: Lists<String>) -> Plot {
    Plot::Bars(Bars {
        title: title.into(),
        unit: unit.to_owned(),
        log,
        groups,
        ..Bars::default()
    })
}

/// A number of microseconds for people: whole, with thousands apart.
pub(crate) fn micros(value: f64) -> String {
    grouped(value.max(0.0), 0)
}

/// A number for people, with `digits` digits after the point and its thousands apart, by a space at
/// which no line breaks.
pub(crate) fn grouped(value: f64, digits: usize) -> String {
    fixed(value, digits, NARROW_SPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_a_figure_does_not_count() {
        assert_eq!(median([f64::NAN, 5.0, f64::INFINITY]), Some(5.0));
        assert_eq!(median([f64::INFINITY]), None);
    }

    #[test]
    fn thousands_stand_apart() {
        let plain = |text: String| text.replace(NARROW_SPACE, " ");
        assert_eq!(plain(micros(28.4)), "28");
        assert_eq!(plain(micros(-3.0)), "0");
        assert_eq!(plain(micros(999_572.2)), "999 572");
        assert_eq!(plain(grouped(-12_345_678.25, 1)), "-12 345 678.2");
    }
}
