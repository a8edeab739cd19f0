//! Rows of figures: the first, and beside it each other one with the ratio of the first to it.

use evenkeel_measure::statistics::{Spread, median};
use evenkeel_measure::table::{Cell, Table};

use super::proxies::Kind;

/// A table of rows with the same candidates.
pub(crate) struct Rows {
    title: String,
    names: Vec<&'static str>,
    digits: usize,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// Of proxies. `what` says what is measured, in which unit, and whether less is better.
    pub(crate) fn new(what: &str, kinds: &[Kind], digits: usize) -> Self {
        let title = format!("{what}; the ratio is ours to HAProxy's");
        Self::of(title, kinds.iter().map(|kind| kind.name()), digits)
    }

    /// Of other candidates.
    pub(crate) fn of(
        title: impl Into<String>,
        names: impl IntoIterator<Item = &'static str>,
        digits: usize,
    ) -> Self {
        Self {
            title: title.into(),
            names: names.into_iter().collect(),
            digits,
            rows: Vec::new(),
        }
    }

    /// Adds the medians of `figures[candidate][round]`, and the spread of the rounds' ratios. For
    /// each other candidate, a target says what the ratio should be; it may be empty.
    pub(crate) fn add(&mut self, name: &str, targets: &[&str], figures: &[Vec<f64>]) {
        let middle = |of: &[f64]| median(of.iter().copied()).unwrap_or(f64::NAN);
        let Some((ours, others)) = figures.split_first() else {
            return;
        };
        let mut cells = vec![name.into(), Cell::number(middle(ours), "", self.digits)];
        for (index, theirs) in others.iter().enumerate() {
            let each = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
            let spread = Spread::of(each).map(|spread| spread.to_string());
            cells.push(Cell::number(middle(theirs), "", self.digits));
            cells.push(Cell::number(middle(ours) / middle(theirs), "", 2));
            cells.push(spread.map_or(Cell::Missing(String::new()), Cell::Text));
            cells.push(targets.get(index).copied().unwrap_or_default().into());
        }
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All of it, without columns that say nothing.
    pub(crate) fn table(&self) -> Table {
        let mut columns = vec![String::new()];
        for (index, name) in self.names.iter().enumerate() {
            columns.push((*name).to_owned());
            if index > 0 {
                columns.extend(["ratio", "spread", "target"].map(str::to_owned));
            }
        }
        let says = |column: usize| {
            let mut rows = self.rows.iter();
            rows.any(|row| !matches!(&row[column], Cell::Text(text) if text.is_empty()))
        };
        let kept: Vec<usize> = (0..columns.len()).filter(|&column| says(column)).collect();
        let of = |row: &Vec<Cell>| -> Vec<Cell> {
            kept.iter().map(|&column| row[column].clone()).collect()
        };
        let rows: Vec<_> = self.rows.iter().map(of).collect();
        let columns: Vec<_> = kept.iter().map(|&column| columns[column].clone()).collect();
        Table::new(self.title.clone(), columns, rows)
    }
}
