//! Rows of figures, each beside MediaMTX's and beside what is wanted.

use evenkeel_measure::table::{Cell, Table};

use super::Arguments;

/// The table, which grows.
pub(crate) struct Rows {
    title: String,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    pub(crate) fn new(arguments: &Arguments) -> Self {
        let (cameras, kbit) = (arguments.cameras, arguments.kbit);
        Self {
            title: format!(
                "{cameras} cameras of {kbit} kbit/s, recorded, a tenth of them watched, for {} s",
                arguments.sample().as_secs()
            ),
            rows: Vec::new(),
        }
    }

    /// A figure that has to be at most `target`; less is better.
    pub(crate) fn at_most(&mut self, name: &str, unit: &'static str, ours: f64, target: f64) {
        self.beside(name, unit, ours, None, Some(target));
    }

    /// A figure without a target.
    pub(crate) fn figure(&mut self, name: &str, unit: &'static str, ours: f64) {
        self.beside(name, unit, ours, None, None);
    }

    /// A figure beside MediaMTX's, if that was measured.
    pub(crate) fn beside(
        &mut self,
        name: &str,
        unit: &'static str,
        ours: f64,
        theirs: Option<f64>,
        target: Option<f64>,
    ) {
        let none = || Cell::Missing(String::new());
        let number = |value: f64| Cell::number(value, unit, digits(value));
        let verdict = target.map_or_else(none, |target| {
            Cell::Text(if ours <= target { "met" } else { "missed" }.to_owned())
        });
        let row = vec![
            name.into(),
            number(ours),
            theirs.map_or_else(none, number),
            target.map_or_else(none, number),
            verdict,
        ];
        // Seen at once: a whole run takes minutes.
        let theirs = theirs.map_or_else(String::new, |theirs| format!("; MediaMTX {theirs:.3}"));
        let target = target.map_or_else(String::new, |target| format!("; at most {target}"));
        eprintln!("{name}: {ours:.3} {unit}{theirs}{target}");
        self.rows.push(row);
    }

    /// A row that was not measured, and why.
    pub(crate) fn missing(&mut self, name: &str, why: &str) {
        eprintln!("{name}: {why}");
        self.rows
            .push(vec![name.into(), Cell::Missing(why.to_owned())]);
    }

    pub(crate) fn table(&self) -> Table {
        let columns = ["", "evenkeel-cameras", "MediaMTX", "at most", ""];
        Table::new(self.title.clone(), columns, self.rows.clone())
    }
}

/// Three digits of what is small, and none behind the point of what is large.
fn digits(value: f64) -> usize {
    match value.abs() {
        0.0 => 0,
        small if small < 1.0 => 3,
        small if small < 20.0 => 2,
        small if small < 200.0 => 1,
        _ => 0,
    }
}
