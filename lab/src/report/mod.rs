//! What the experiments found, for people and for programs.
use serde::Serialize;
use std::{io, path::Path};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) machine: Machine,
    pub(crate) experiments: Vec<Experiment>,
}
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {}
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Experiment {
    pub(crate) name: String,
    pub(crate) claim: String,
    pub(crate) how: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
    pub(crate) notes: Vec<String>,
    pub(crate) raw: serde_json::Value,
}
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Cell {
    Text(String),
    Number {
        value: f64,
        unit: &'static str,
        digits: usize,
    },
    Missing(String),
}
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Plot {
    Bars {
        title: String,
        unit: String,
        log: bool,
        groups: Vec<(String, Vec<(String, f64)>)>,
    },
    Lines {
        title: String,
        x: String,
        y: String,
        log_x: bool,
        log_y: bool,
        series: Vec<(String, Vec<(f64, f64)>)>,
    },
}
impl Machine {
    pub(crate) fn detect() -> Machine {
        Machine {}
    }
}
impl Report {
    pub(crate) fn print(&self) {
        println!("{self:#?}");
    }
    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(self).unwrap_or_default())
    }
    pub(crate) fn write_html(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, "stub")
    }
}
