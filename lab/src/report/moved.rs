//! What moved since an earlier report, beyond the spread of the rounds.
//!
//! A figure has moved if all rounds of one report are above all of the other. Chance does that too:
//! with three rounds in each, to one figure in ten. So the summary says how many of them chance
//! would have moved. A figure of a single round has no spread, and is not compared.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::number::{NARROW_SPACE, fixed};
use super::{Cell, Report, Table, VERSION};
use crate::error::{Error, Result};

/// What came of the comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Moved {
    pub summary: String,
    /// A line for each cell with a figure that moved.
    pub lines: Vec<String>,
    /// What may have moved them, beside a change of the code.
    pub notes: Vec<String>,
}

/// An earlier report, as its JSON says it.
#[derive(Debug)]
pub(crate) struct Earlier {
    path: String,
    report: Value,
}

impl Earlier {
    /// Reads a report in which all these experiments are.
    pub(crate) fn read(path: &Path, experiments: &[&str]) -> Result<Self> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path);
        let text = text.map_err(|source| Error::new(format!("cannot read {name}: {source}")))?;
        Self::parse(name, &text, experiments)
    }

    fn parse(path: String, text: &str, experiments: &[&str]) -> Result<Self> {
        let no_report = |why: String| Error::new(format!("{path} is no report of the lab: {why}"));
        let report: Value = serde_json::from_str(text).map_err(|why| no_report(why.to_string()))?;
        let Some(all) = report["experiments"].as_array() else {
            return Err(no_report("it has no experiments".to_owned()));
        };
        if report["version"] != VERSION {
            let what = match report["version"].as_u64() {
                Some(version) => format!("has version {version}"),
                None => "has no version".to_owned(),
            };
            return Err(Error::new(format!(
                "{path} {what}, and this lab compares version {VERSION}: make it anew with this \
                 lab, on the code of that time"
            )));
        }
        let names: Vec<_> = all.iter().filter_map(|of| of["name"].as_str()).collect();
        if let Some(wanted) = experiments.iter().find(|name| !names.contains(name)) {
            let names = names.join(", ");
            return Err(Error::new(format!(
                "{path} has no experiment `{wanted}`, but {names}"
            )));
        }
        Ok(Self { path, report })
    }

    fn table(&self, experiment: &str, title: &str) -> Option<&Value> {
        let find = |all: &'_ Value, key: &str, name: &str| {
            let all = all.as_array()?;
            all.iter().position(|of| of[key] == name)
        };
        let experiments = &self.report["experiments"];
        let experiment = &experiments[find(experiments, "name", experiment)?];
        let tables = &experiment["tables"];
        Some(&tables[find(tables, "title", title)?])
    }
}

impl Report {
    /// Marks the figures of the tables that moved since an earlier report, and lists them.
    pub(crate) fn compare(&mut self, earlier: &Earlier) {
        let mut tally = Tally::default();
        for experiment in &mut self.experiments {
            for table in &mut experiment.tables {
                if let Some(before) = earlier.table(&experiment.name, &table.title) {
                    let name = format!("{}: {}", experiment.name, table.title);
                    tally.compare(&name, before, table);
                }
            }
        }
        let facts = |key| (&earlier.report["machine"][key], key);
        let now = serde_json::to_value(&self.machine).unwrap_or_default();
        let differ = ["cpu_model", "cores", "kernel", "rustc", "profile"]
            .map(facts)
            .into_iter()
            .filter(|(was, key)| **was != now[key]);
        let notes = differ.map(|(was, key)| format!("{key} was {was}, and is {}", now[key]));
        self.moved = Some(Moved {
            summary: tally.summary(&earlier.path),
            lines: tally.lines,
            notes: notes.collect(),
        });
    }
}

/// What was found so far.
#[derive(Default)]
struct Tally {
    compared: usize,
    moved: usize,
    /// How many figures chance would have moved.
    by_chance: f64,
    lines: Vec<String>,
}

impl Tally {
    fn compare(&mut self, name: &str, before: &Value, table: &mut Table) {
        let named = columns_of_names(table);
        for row in &mut table.rows {
            let Some(was) = row_of(before, &row[..named.min(row.len())]) else {
                continue;
            };
            let of: Vec<_> = row.iter().take(named).map(plain).collect();
            let of = of.join(", ");
            for (column, cell) in row.iter_mut().enumerate().skip(named) {
                let column = table.columns.get(column).map_or("", String::as_str);
                let was = column_of(before, column).map(|column| &was[column]["measured"]);
                if let Some(was) = was.filter(|was| was.is_object()) {
                    let words = format!("{name}: {of}, {column}");
                    self.compare_cell(&words, was, cell);
                }
            }
        }
    }

    fn compare_cell(&mut self, name: &str, was: &Value, cell: &mut Cell) {
        let Cell::Measured {
            shown,
            rounds,
            mark,
        } = cell
        else {
            return;
        };
        let before: Vec<Vec<f64>> = list(&was["rounds"])
            .map(|rounds| list(rounds).filter_map(Value::as_f64).collect())
            .collect();
        let mut signs = Vec::new();
        for (before, now) in before.iter().zip(rounds.iter()) {
            let now: Vec<f64> = now.iter().copied().filter(|of| of.is_finite()).collect();
            let sign = sign(before, &now);
            if let Some(sign) = sign {
                self.compared += 1;
                self.moved += usize::from(sign != SAME);
                self.by_chance += chance(before.len(), now.len());
            }
            signs.push(sign.unwrap_or(SAME));
        }
        if signs.iter().any(|sign| *sign != SAME) {
            *mark = signs.join("/");
            let (now, was) = (plain(shown), plain_json(&was["shown"]));
            self.lines.push(format!("{name}: {now}, was {was} {mark}"));
        }
    }

    fn summary(&self, path: &str) -> String {
        match self.compared {
            0 => format!(
                "Nothing can be compared with {path}: it takes the same tables, and two rounds or \
                 more in both."
            ),
            compared => format!(
                "{} of {compared} figures moved since {path}: all rounds of one are above all of \
                 the other (↑ is more now). Chance alone would have moved about {:.0}.",
                self.moved, self.by_chance
            ),
        }
    }
}

const SAME: &str = "=";

/// Where a figure went; `None` if one side has no spread.
fn sign(before: &[f64], now: &[f64]) -> Option<&'static str> {
    if before.len() < 2 || now.len() < 2 {
        return None;
    }
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(if least(now) > most(before) {
        "↑"
    } else if most(now) < least(before) {
        "↓"
    } else {
        SAME
    })
}

/// How likely it is that the rounds of two reports do not overlap although nothing changed: two of
/// all the orders in which they can come.
fn chance(before: usize, now: usize) -> f64 {
    let orders = (1..=before).map(|n| (now + n) as f64 / n as f64);
    2.0 / orders.product::<f64>()
}

/// How many columns, from the first on, name the rows: those without figures.
fn columns_of_names(table: &Table) -> usize {
    let is_name = |column: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.get(column));
        cells.all(|cell| matches!(cell, Cell::Text(_)))
    };
    (0..table.columns.len())
        .take_while(|column| is_name(*column))
        .count()
}

fn row_of<'a>(table: &'a Value, names: &[Cell]) -> Option<&'a Value> {
    let is_it = |row: &&Value| {
        let mut names = names.iter().enumerate();
        names.all(|(column, name)| row[column]["text"] == plain(name))
    };
    list(&table["rows"]).find(is_it)
}

fn column_of(table: &Value, name: &str) -> Option<usize> {
    list(&table["columns"]).position(|column| column == name)
}

fn list(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

fn plain(cell: &Cell) -> String {
    match cell.shown() {
        Cell::Text(text) => text.clone(),
        Cell::Number {
            value,
            unit,
            digits,
        } => with_unit(*value, unit, *digits),
        Cell::Missing(_) | Cell::Measured { .. } => "—".to_owned(),
    }
}

fn plain_json(cell: &Value) -> String {
    let number = &cell["number"];
    match (cell["text"].as_str(), number["value"].as_f64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(value)) => {
            let digits = number["digits"].as_u64().map_or(0, |digits| digits.min(9));
            with_unit(
                value,
                number["unit"].as_str().unwrap_or(""),
                digits as usize,
            )
        }
        (None, None) => "—".to_owned(),
    }
}

fn with_unit(value: f64, unit: &str, digits: usize) -> String {
    let text = format!("{} {unit}", fixed(value, digits, NARROW_SPACE));
    text.trim_end().to_owned()
}

#[cfg(test)]
#[path = "tests/moved.rs"]
mod tests;
