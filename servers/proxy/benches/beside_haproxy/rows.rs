//! Rows of figures: ours, and beside it each HAProxy's with the ratio of ours to it.

use evenkeel_measure::statistics::{Spread, median};
use evenkeel_measure::table::{Cell, Table};

use super::proxies::Kind;

/// A table of rows with the same candidates, of which ours is the first.
pub(crate) struct Rows {
    title: String,
    kinds: Vec<Kind>,
    digits: usize,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// `what` says what is measured, in which unit, and whether less is better.
    pub(crate) fn new(what: &str, kinds: &[Kind], digits: usize) -> Self {
        Self {
            title: format!("{what}; the ratio is ours to HAProxy's"),
            kinds: kinds.to_vec(),
            digits,
            rows: Vec::new(),
        }
    }

    /// Adds the medians of `figures[candidate][round]`, and the spread of the rounds' ratios.
    pub(crate) fn add(&mut self, name: &str, figures: &[Vec<f64>]) {
        let middle = |of: &[f64]| median(of.iter().copied()).unwrap_or(f64::NAN);
        let Some((ours, others)) = figures.split_first() else {
            return;
        };
        let mut cells = vec![name.into(), Cell::number(middle(ours), "", self.digits)];
        for theirs in others {
            let each = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
            let spread = Spread::of(each).map(|spread| spread.to_string());
            cells.push(Cell::number(middle(theirs), "", self.digits));
            cells.push(Cell::number(middle(ours) / middle(theirs), "", 2));
            cells.push(spread.map_or(Cell::Missing(String::new()), Cell::Text));
        }
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All of it.
    pub(crate) fn table(&self) -> Table {
        let mut columns = vec![String::new()];
        for &kind in &self.kinds {
            columns.push(kind.name().to_owned());
            if kind != Kind::Ours {
                columns.extend(["ratio".to_owned(), "spread".to_owned()]);
            }
        }
        Table::new(self.title.clone(), columns, self.rows.clone())
    }
}
