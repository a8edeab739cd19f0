//! Medians, and cells of tables.

use evenkeel_measure::statistics;

use crate::report::plot::Lists;
use crate::report::{Cell, NARROW_SPACE, Plot, Table, fixed};

/// The median of those that are finite: of the rounds that have a figure. `None` if there is none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    statistics::median(values.into_iter().filter(|value| value.is_finite()))
}

/// A unit, and how many digits stand after the point.
pub(crate) type Unit = (&'static str, usize);

/// A figure as a cell, or why there is none.
pub(crate) fn number(value: Result<f64, String>, (unit, digits): Unit) -> Cell {
    match value {
        Ok(value) => Cell::Number {
            value,
            unit,
            digits,
        },
        Err(why) => Cell::Missing(why),
    }
}

/// A table under named columns.
pub(crate) fn table<'a>(
    title: &str,
    columns: impl IntoIterator<Item = &'a str>,
    rows: Vec<Vec<Cell>>,
) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns.into_iter().map(str::to_owned).collect(),
        rows,
    }
}

/// Groups of bars, each of which has an end.
pub(crate) fn bars(title: &str, unit: &str, log: bool, groups: Lists<String>) -> Plot {
    Plot::Bars {
        title: title.to_owned(),
        unit: unit.to_owned(),
        log,
        endless: String::new(),
        groups,
    }
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
