//! Columns of tables: which figure of every case they show.

use super::figures::{Unit, median};

/// A column: a figure of what the rounds of a case found.
pub(crate) struct Column<F> {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    over: Over<F>,
    /// Why there is none although something was found; else the case says.
    pub(super) none: Option<&'static str>,
}

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
    Column::new(name, (unit, digits), Over::Median(figure))
}

/// A column of figures of all rounds together.
pub(crate) const fn over_rounds<F>(
    name: &'static str,
    unit: &'static str,
    digits: usize,
    figure: fn(&[&F]) -> Option<f64>,
) -> Column<F> {
    Column::new(name, (unit, digits), Over::Rounds(figure))
}

/// The same column, with the reason why something that was found may lack this figure.
pub(crate) const fn or_else<F>(none: &'static str, mut column: Column<F>) -> Column<F> {
    column.none = Some(none);
    column
}

impl<F> Column<F> {
    const fn new(name: &'static str, unit: Unit, over: Over<F>) -> Self {
        let none = None;
        Column {
            name,
            unit,
            over,
            none,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// What all rounds together come to.
    pub(super) fn value(&self, found: &[&F]) -> Option<f64> {
        match self.over {
            Over::Median(figure) => median(found.iter().map(|found| figure(found))),
            Over::Rounds(figure) => figure(found),
        }
    }
}
