//! A table of candidates beside a baseline: medians over rounds, ratios and spreads.

use std::fmt;

use crate::statistics::{Better, Ratio, geometric_mean, median};
use crate::table::{Cell, Table, lines};

/// A table with a row for each load. The first candidate is the one under test, the second the
/// baseline; others are for reference.
///
/// A row has the median of each candidate over the rounds. For each candidate but the baseline it
/// also has the ratio of its median to the baseline's, and the spread of the ratios of single
/// rounds. A ratio above 1 is better than the baseline, whether less or more is better.
///
/// Each row is displayed as one line, however wide. The geometric mean of the first candidate's
/// ratios follows, and then the notes. A comparison without rows is displayed as nothing. The
/// crate's documentation has an example.
#[derive(Clone, Debug)]
pub struct Comparison {
    title: String,
    unit: &'static str,
    better: Better,
    names: Vec<String>,
    notes: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    name: String,
    /// By candidate; reference candidates at the end may be absent.
    medians: Vec<Option<f64>>,
    /// To the baseline, likewise.
    ratios: Vec<Option<Ratio>>,
}

/// The index of the baseline.
const BASELINE: usize = 1;

impl Comparison {
    /// A comparison of these candidates, without rows.
    ///
    /// # Panics
    ///
    /// With fewer than two names.
    pub fn new(title: &str, unit: &'static str, better: Better, names: &[&str]) -> Self {
        assert!(names.len() > BASELINE, "a comparison is of two at least");
        Self {
            title: title.to_owned(),
            unit,
            better,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            notes: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a line of text below the table.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a row from `figures[candidate][round]`, as [`alternate`](crate::rounds::alternate)
    /// returns them. Figures of the last candidates may be absent.
    pub fn add(&mut self, name: &str, figures: &[Vec<f64>]) {
        let baseline = figures.get(BASELINE).map_or(&[][..], Vec::as_slice);
        self.rows.push(Row {
            name: name.to_owned(),
            medians: figures
                .iter()
                .map(|of| median(of.iter().copied()))
                .collect(),
            ratios: figures
                .iter()
                .map(|ours| self.better.ratio_of_rounds(ours, baseline))
                .collect(),
        });
    }

    /// The number of rows.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The table as data, without its [`notes`](Self::notes).
    pub fn table(&self) -> Table {
        let better = match self.better {
            Better::Less => "less",
            Better::More => "more",
        };
        let baseline = &self.names[BASELINE];
        Table {
            title: format!(
                "{} ({}, {better} is better; ratio above 1: better than {baseline})",
                self.title, self.unit
            ),
            columns: self.columns(),
            rows: self.rows.iter().map(|row| self.cells(row)).collect(),
        }
    }

    /// The lines below the table: the mean of the first candidate's ratios, if there is one, and
    /// the notes.
    pub fn notes(&self) -> Vec<String> {
        let rows = self.rows.iter();
        let ratios = rows.filter_map(|row| row.ratios.first()?.as_ref());
        let mean = geometric_mean(ratios.map(|ratio| ratio.of_medians));
        let mean = mean.map(|mean| format!("geometric mean of the ratios: {mean:.2}"));
        mean.into_iter().chain(self.notes.clone()).collect()
    }

    fn columns(&self) -> Vec<String> {
        let names = &self.names;
        let main = ["", &names[0], &names[BASELINE], "ratio", "spread"].map(str::to_owned);
        let others = names[BASELINE + 1..].iter().flat_map(|name| {
            let ratio = format!("{name}:{}", names[BASELINE]);
            [name.clone(), ratio, "spread".to_owned()]
        });
        main.into_iter().chain(others).collect()
    }

    fn cells(&self, row: &Row) -> Vec<Cell> {
        let median = |index: usize| number(row.medians.get(index).copied().flatten(), 1);
        let ratio = |index: usize| {
            let ratio = row.ratios.get(index).copied().flatten();
            let spread = ratio.map_or(Cell::Missing(String::new()), |ratio| {
                Cell::Text(ratio.spread.to_string())
            });
            [number(ratio.map(|ratio| ratio.of_medians), 2), spread]
        };
        let mut cells = vec![row.name.as_str().into(), median(0), median(BASELINE)];
        cells.extend(ratio(0));
        for index in BASELINE + 1..self.names.len() {
            cells.push(median(index));
            cells.extend(ratio(index));
        }
        cells
    }
}

fn number(value: Option<f64>, digits: usize) -> Cell {
    value.map_or(Cell::Missing(String::new()), |value| {
        Cell::number(value, "", digits)
    })
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let table = self.table();
        writeln!(f, "\n{}", table.title)?;
        for line in lines(&table, usize::MAX) {
            writeln!(f, "{line}")?;
        }
        let notes = self.notes();
        notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ratios_and_spreads_stand_in_their_columns() {
        let mut loads = Comparison::new("loads", "1/s", Better::More, &["ours", "theirs", "bare"])
            .with_note("nothing else ran");
        let ours = vec![100.0, 4_000.0, 300.0];
        let theirs = vec![200.0, 1_000.0, 100.0];
        loads.add("echo", &[ours.clone(), theirs.clone(), vec![400.0; 3]]);
        loads.add("hello", &[theirs, ours]);
        let expected = "
loads (1/s, more is better; ratio above 1: better than theirs)
───────────────────────────────────────────────────────────────────────────
        ours  theirs  ratio  spread         bare  bare:theirs  spread
───────────────────────────────────────────────────────────────────────────
echo   300.0   200.0   1.50  0.50 .. 4.00  400.0         2.00  0.40 .. 4.00
hello  200.0   300.0   0.67  0.25 .. 2.00      —            —  —
───────────────────────────────────────────────────────────────────────────
geometric mean of the ratios: 1.00
nothing else ran
";
        assert_eq!(loads.to_string(), expected);
        assert_eq!(loads.row_count(), 2);
    }

    #[test]
    fn a_row_is_one_line_however_wide() {
        let name = ["a load with a name that is long"; 4].join(" ");
        let mut loads = Comparison::new(&name, "us", Better::Less, &["a", "b"]);
        loads.add(&name, &[vec![1.0], vec![2.0]]);
        let said = loads.to_string();
        let row = format!("{name}  1.0  2.0   2.00  2.00 .. 2.00");
        assert!(said.lines().any(|line| line == row), "{said}");
    }

    #[test]
    fn without_rows_it_is_nothing() {
        let none = Comparison::new("none", "us", Better::Less, &["a", "b"]);
        assert_eq!(none.to_string(), "");
    }

    #[test]
    fn a_row_without_figures_is_shown_all_the_same() {
        let mut loads = Comparison::new("loads", "us", Better::Less, &["a", "b"]);
        loads.add("echo", &[vec![f64::NAN], vec![1.0]]);
        let said = loads.to_string();
        assert!(said.contains("echo  —  1.0  —      —"), "{said}");
        assert!(!said.contains("mean"), "{said}");
    }
}
