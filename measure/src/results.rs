//! The tables of one run, as one JSON file for programs.
//!
//! ```json
//! {
//!   "name": "vs_tokio",
//!   "tables": [
//!     {
//!       "title": "scheduler: time for one iteration (us, less is better; ...)",
//!       "columns": ["", "evenkeel", "tokio", "ratio", "spread"],
//!       "rows": [
//!         [
//!           { "text": "yield_many" },
//!           { "number": { "value": 812.25, "unit": "", "digits": 1 } },
//!           { "missing": "why there is no value; may be empty" },
//!           {
//!             "measured": {
//!               "shown": { "text": "3 / 9" },
//!               "rounds": [[3, 2, 4], [9, 9, 9]],
//!               "mark": "what is printed behind it; may be empty"
//!             }
//!           }
//!         ]
//!       ],
//!       "notes": ["geometric mean of the ratios: 1.52"]
//!     }
//!   ]
//! }
//! ```
//!
//! Titles, columns and rows are those of the printed tables, in their order. A number has all its
//! digits; `digits` says how many are printed. One that is not finite is `null`. `notes` are the
//! lines below a table. Names and tables have the shape that they have in the lab's report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::comparison::Comparison;
use crate::table::Table;

/// The tables of one run, in the file that [`JsonOption`](crate::options::JsonOption) names, if
/// any.
///
/// The file is whole after each table, so a run that is interrupted leaves what it has measured.
#[derive(Debug)]
pub struct Results {
    path: Option<PathBuf>,
    run: Run,
}

#[derive(Debug, Serialize)]
struct Run {
    name: String,
    tables: Vec<Noted>,
}

#[derive(Debug, Serialize)]
struct Noted {
    #[serde(flatten)]
    table: Table,
    notes: Vec<String>,
}

impl Results {
    /// Results of the program `name`, without tables, which are written at once.
    ///
    /// # Errors
    ///
    /// If the file cannot be written: better known now than when all is measured.
    pub fn begin(name: &str, path: Option<&Path>) -> io::Result<Self> {
        let results = Self {
            path: path.map(Path::to_owned),
            run: Run {
                name: name.to_owned(),
                tables: Vec::new(),
            },
        };
        results.write()?;
        Ok(results)
    }

    /// Adds a table, with the lines that are printed below it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add(&mut self, table: Table, notes: Vec<String>) -> io::Result<()> {
        self.run.tables.push(Noted { table, notes });
        self.write()
    }

    /// Adds a comparison; one without rows is left out, as it is displayed as nothing.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add_comparison(&mut self, comparison: &Comparison) -> io::Result<()> {
        if comparison.row_count() == 0 {
            return Ok(());
        }
        self.add(comparison.table(), comparison.notes())
    }

    fn write(&self) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut text = serde_json::to_string_pretty(&self.run)?;
        text.push('\n');
        fs::write(path, text).map_err(|error| {
            let what = format!("cannot write the figures to {}: {error}", path.display());
            io::Error::new(error.kind(), what)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::statistics::Better;
    use crate::table::Cell;

    /// A path in the system's folder for files of no worth, which goes with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("evenkeel-measure-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn read(&self) -> Value {
            let text = fs::read_to_string(&self.0).expect("it was written");
            serde_json::from_str(&text).expect("it is JSON")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn the_file_has_each_table_as_soon_as_it_is_added() {
        let file = Scratch::new("tables.json");
        let mut results = Results::begin("bench", Some(&file.0)).unwrap();
        assert_eq!(file.read(), json!({ "name": "bench", "tables": [] }));
        let cells = vec!["a".into(), Cell::number(0.25, "ms", 1)];
        let table = Table::new("", &["", "p50"], vec![cells]);
        results
            .add(table, vec!["a line below".to_owned()])
            .expect("it can be written");
        let expected = json!({
            "name": "bench",
            "tables": [{
                "title": "",
                "columns": ["", "p50"],
                "rows": [[
                    { "text": "a" },
                    { "number": { "value": 0.25, "unit": "ms", "digits": 1 } },
                ]],
                "notes": ["a line below"],
            }],
        });
        assert_eq!(file.read(), expected);
    }

    #[test]
    fn a_comparison_has_its_rows_its_mean_and_its_notes() {
        let file = Scratch::new("comparison.json");
        let mut results = Results::begin("bench", Some(&file.0)).unwrap();
        let empty = Comparison::new("none", "us", Better::Less, &["a", "b"]);
        let mut loads =
            Comparison::new("loads", "us", Better::Less, &["a", "b"]).with_note("nothing else ran");
        loads.add("echo", &[vec![1.0], vec![2.0]]);
        results.add_comparison(&empty).unwrap();
        results.add_comparison(&loads).unwrap();
        let tables = &file.read()["tables"];
        assert_eq!(tables.as_array().map(Vec::len), Some(1));
        assert_eq!(
            tables[0]["notes"],
            json!(["geometric mean of the ratios: 2.00", "nothing else ran"])
        );
        assert_eq!(
            tables[0]["rows"],
            serde_json::to_value(loads.table().rows).unwrap()
        );
    }

    #[test]
    fn without_a_path_nothing_is_written_and_a_bad_one_is_named_at_once() {
        let mut none = Results::begin("bench", None).unwrap();
        none.add(Table::default(), Vec::new()).unwrap();
        let refused = Results::begin("bench", Some(Path::new("/nonexistent/a.json")));
        let said = refused.expect_err("there is no such folder").to_string();
        assert!(said.contains("/nonexistent/a.json"), "{said}");
    }
}
