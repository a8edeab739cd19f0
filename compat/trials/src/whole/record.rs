//! What came of each part: `docs/compat.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part::Part;
use crate::{Error, graph, unstable};

/// By the names of parts.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) parts: BTreeMap<String, Made>,
}

/// A part that was run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    /// Such as 2026-11-23.
    pub(crate) day: String,
    /// Git's name of the sources; with `+` if they were changed since.
    pub(crate) revision: String,
    pub(crate) seconds: u64,
    /// Whether the command found nothing wrong.
    pub(crate) good: bool,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Tokio(OfTokio),
    Suite(OfSuite),
    Graph(graph::Counted),
    Unstable(Vec<unstable::Checked>),
    Programs(Vec<Program>),
    Services(Vec<Table>),
    /// The part could not be run to its end: why.
    Broken(String),
}

/// Tokio's own tests, in one mode.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfTokio {
    pub(crate) passed: usize,
    pub(crate) ignored: usize,
    /// They failed as expected: the test, and why.
    pub(crate) known: BTreeMap<String, String>,
    /// They would hang, and were not run: the test, and why.
    pub(crate) not_run: BTreeMap<String, String>,
    /// They failed, and nobody expected it.
    pub(crate) failed: Vec<String>,
}

/// The tests of a crate.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfSuite {
    pub(crate) version: String,
    pub(crate) on_evenkeel: Count,
    /// With current-thread runtimes on Evenkeel too.
    pub(crate) forced: Count,
    pub(crate) on_tokio: Count,
    /// They failed as expected when forced: the test, and why.
    pub(crate) known: BTreeMap<String, String>,
    /// They pass on Tokio, and not on Evenkeel.
    pub(crate) lost: Vec<String>,
    pub(crate) without: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) passed: usize,
    pub(crate) of: usize,
}

/// A program in a mode, as `trials programs` writes it, as far as it is shown.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) program: String,
    pub(crate) mode: String,
    pub(crate) answered_right: bool,
    /// Why it was not tried.
    pub(crate) left_out: Option<String>,
    /// What was expected otherwise.
    pub(crate) error: Option<String>,
    /// The names of its processes that ran on Evenkeel, and of those that did not. None in what was
    /// recorded before they were judged.
    #[serde(default)]
    pub(crate) on_evenkeel: Option<BTreeSet<String>>,
    #[serde(default)]
    pub(crate) on_tokio: Option<BTreeSet<String>>,
}

/// What was measured. Cells are text here, as they are shown.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) notes: Vec<String>,
}

impl Record {
    /// What was recorded before, if anything.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(serde_json::from_str(&text)
                .map_err(|error| format!("{} is not a record: {error}", path.display()))?),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        Ok(fs::write(path, serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// Forgets parts that there are no more, such as versions that are not supported now.
    pub(crate) fn retain(&mut self, all: &[Part]) {
        (self.parts).retain(|name, _| all.iter().any(|part| part.to_string() == *name));
    }
}

impl Made {
    pub(crate) fn verdict(&self) -> &'static str {
        match (self.good, &self.outcome) {
            (_, Outcome::Broken(_)) => "not finished",
            (true, _) => "good",
            (false, _) => "not good",
        }
    }
}

impl Table {
    /// From tables of `evenkeel-measure`.
    pub(crate) fn all_from(value: &Value) -> Vec<Self> {
        let tables = value["tables"].as_array().into_iter().flatten();
        tables.map(Self::measured).collect()
    }

    fn measured(value: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = value[name].as_array().into_iter().flatten();
            list.map(text).collect()
        };
        let rows = value["rows"].as_array().into_iter().flatten();
        Self {
            title: text(&value["title"]),
            columns: texts("columns"),
            rows: rows
                .map(|row| row.as_array().into_iter().flatten().map(cell).collect())
                .collect(),
            notes: texts("notes"),
        }
    }
}

/// A cell as `evenkeel-measure` writes it.
fn cell(value: &Value) -> String {
    let number = &value["number"];
    match (number["value"].as_f64(), number["digits"].as_u64()) {
        (Some(figure), Some(digits)) => {
            let unit = number["unit"].as_str().unwrap_or_default();
            let digits = usize::try_from(digits).unwrap_or_default();
            format!("{figure:.digits$} {unit}").trim().to_owned()
        }
        _ => text(&value["text"]),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_that_were_measured_are_taken_as_they_are() {
        let tables = Table::all_from(&json!({ "name": "services", "tables": [{
            "title": "Latency",
            "columns": ["", "evenkeel"],
            "rows": [[
                { "text": "alone" },
                { "number": { "value": 12.25, "unit": "us", "digits": 1 } },
            ], [{ "text": "none" }, { "missing": "" }]],
            "notes": ["a note"],
        }] }));
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let expected = Table {
            title: "Latency".to_owned(),
            columns: row(["", "evenkeel"]),
            rows: vec![row(["alone", "12.2 us"]), row(["none", ""])],
            notes: vec!["a note".to_owned()],
        };
        assert_eq!(tables, [expected]);
    }

    #[test]
    fn what_was_written_is_read_again() {
        let made = Made {
            day: "2026-11-23".to_owned(),
            revision: "81e87a8a1".to_owned(),
            seconds: 7,
            good: true,
            outcome: Outcome::Tokio(OfTokio::default()),
        };
        let record = Record {
            parts: BTreeMap::from([("tokio/1.54/off".to_owned(), made)]),
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
