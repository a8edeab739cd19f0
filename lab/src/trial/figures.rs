//! Medians, and cells of tables.

use crate::report::plot::Lists;
use crate::report::{Cell, NARROW_SPACE, Plot, Table, fixed};

/// The median; of an even number the mean of the middle two. `None` of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values
        .into_iter()
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
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
    fn a_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([f64::NAN, 5.0]), Some(5.0));
        assert_eq!(median([]), None);
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
