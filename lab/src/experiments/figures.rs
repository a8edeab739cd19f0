//! Medians, and cells of tables.

use crate::report::Cell;

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

/// The median as a cell, or why there is none.
pub(crate) fn cell(
    values: impl IntoIterator<Item = f64>,
    unit: &'static str,
    digits: usize,
    why_missing: &str,
) -> Cell {
    match median(values) {
        Some(value) => Cell::Number {
            value,
            unit,
            digits,
        },
        None => Cell::Missing(why_missing.to_owned()),
    }
}

/// A number of microseconds for people: whole, with thousands apart.
pub(crate) fn micros(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
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
        assert_eq!(micros(28.4), "28");
        assert_eq!(micros(1_663.0), "1 663");
        assert_eq!(micros(999_572.2), "999 572");
        assert_eq!(micros(12_345_678.0), "12 345 678");
    }
}
