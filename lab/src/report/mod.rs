//! What the experiments found, written for people and for programs.
//!
//! A [`Report`] is plain data. It prints itself as text for a terminal, as one JSON file, and as
//! one HTML file that needs nothing else: no script, no font, no request. Its tables and numbers
//! are those of the measuring kit.
//!
//! | file | subject |
//! |---|---|
//! | `machine` | where it ran, and what may have disturbed it |
//! | `scale` | axes: domains and ticks, linear and logarithmic |
//! | `moved` | what moved since an earlier report, beyond the spread of the rounds |
//! | `verdicts` | how many verdicts hold, and which do not |
//! | `plot` | a plot's colours, and its numbers as a table |
//! | `svg` | plots as SVG |
//! | `picture` | one plot as a file of its own |
//! | `html` | the page |
//! | `print` | the report on a terminal |

mod html;
mod machine;
mod moved;
pub(crate) mod picture;
mod plot;
mod print;
mod scale;
mod svg;
mod verdicts;

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use evenkeel_measure::{number, table};
pub(crate) use machine::Machine;
pub(crate) use moved::{Earlier, Moved};
pub(crate) use number::{NARROW_SPACE, fixed};
pub(crate) use plot::{Bars, Lines, Lists, Plot};
pub(crate) use table::{Cell, Table};
pub(crate) use verdicts::{Outcome, Verdict};

/// The experiments of one run, and the machine they ran on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Of the JSON.
    pub version: u32,
    pub title: String,
    /// Why the figures are rough, if they are: said before any of them.
    pub rough: Option<String>,
    pub machine: Machine,
    pub experiments: Vec<Experiment>,
    /// How it compares with an earlier one, if that was asked for.
    pub moved: Option<Moved>,
}

/// The version of the reports' JSON, which goes up when something that it says changes its meaning
/// or its place.
pub(crate) const VERSION: u32 = 1;

/// One experiment: what is claimed, how it was tried, what came out.
///
/// In `claim`, `how` and `notes`, text between backticks is set as code and an empty line starts
/// a new paragraph.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Experiment {
    pub name: String,
    pub claim: String,
    pub how: String,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub notes: Vec<String>,
    /// What is to be reached, and what was; none where the tables speak for themselves.
    pub verdicts: Vec<Verdict>,
    /// Everything measured, before it was summed up.
    pub raw: serde_json::Value,
}

impl Report {
    /// Writes the report, raw data included, as one JSON file.
    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self);
        write(path, text.map_err(io::Error::other))
    }

    /// Writes the report as one HTML file that stands alone.
    pub(crate) fn write_html(&self, path: &Path) -> Result<()> {
        write(path, Ok(html::page(self)))
    }
}

fn write(path: &Path, text: io::Result<String>) -> Result<()> {
    let written = text.and_then(|text| fs::write(path, text + "\n"));
    written.map_err(Error::write(path))?;
    eprintln!("written: {}", path.display());
    Ok(())
}
