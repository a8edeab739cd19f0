//! What the longest way of a frame was made of: what the runtime added, and what else there was.
//!
//! A way is from when a frame was written to when the server had it. In it is what the kernel
//! takes, how long the load was put aside in the middle of writing, how long the server was put
//! aside or at other frames, and the delay. Only the last is the runtime's promise, and the
//! runtime counts it.

use super::measure::Found;
use super::rows::{
    ADAPTIVE_ROW, API_FIRST, COALESCE_API_FIRST, COALESCE_ROW, IMMEDIATE, Storm, TOKIO,
};
use super::{All, Key};
use crate::report::{Cell, Table};
use crate::trial::columns::{Column, column};
use crate::trial::figures::{self, grouped, number};

const COLUMNS: [Column<Found>; 3] = [
    column("longest way", "ms", 1, |found| found.quiet.way_max_us / 1e3),
    column("the runtime's part: longest added delay", "ms", 1, added_ms),
    // The delay is the longest since the server began, which may have been before the way.
    column("at least the others' part", "ms", 1, |found| {
        let added = added_ms(found);
        if added.is_nan() {
            added
        } else {
            (found.quiet.way_max_us / 1e3 - added).max(0.0)
        }
    }),
];

impl All {
    pub(super) fn longest_ways(&self) -> Table {
        let rows = [COALESCE_ROW, COALESCE_API_FIRST, ADAPTIVE_ROW, API_FIRST];
        let rows = rows.iter().filter(|row| self.rows.contains(row));
        let keys = self
            .storms
            .iter()
            .flat_map(|storm| rows.clone().map(move |row| (*storm, *row)));
        let row = |(storm, row): Key| {
            let name = format!("{}; {}", row.name, storm.name);
            let undelayed = self.undelayed_ms(storm).map(|(value, _)| value);
            let nobody = || "nobody takes part who holds nothing back".to_owned();
            let undelayed = number(undelayed.ok_or_else(nobody), ("ms", 1));
            let cells = self.samples.cells((storm, row), &COLUMNS);
            [vec![Cell::Text(name)], cells, vec![undelayed]].concat()
        };
        let last = "longest way where nothing is held back";
        let names = ["in"]
            .into_iter()
            .chain(COLUMNS.iter().map(Column::name))
            .chain([last]);
        let title = "A frame's longest way: what the runtime added, and the rest";
        figures::table(title, names, keys.map(row).collect())
    }

    /// The longest way without any delay, in a process that is as busy or busier, and whose.
    fn undelayed_ms(&self, storm: Storm) -> Option<(f64, &'static str)> {
        [IMMEDIATE, TOKIO].into_iter().find_map(|row| {
            let way = |found: &Found| found.quiet.way_max_us / 1e3;
            Some((self.samples.median((storm, row), way).ok()?, row.name))
        })
    }

    /// In words.
    pub(super) fn undelayed(&self, storm: Storm) -> Option<String> {
        let (longest, name) = self.undelayed_ms(storm)?;
        Some(format!(
            "{}: a frame's way was up to {} ms where nothing is held back (`{name}`): how late \
             servers were let or got to it is in every way, beside the delay.",
            storm.name,
            grouped(longest, 1),
        ))
    }
}

fn added_ms(found: &Found) -> f64 {
    found.longest_held_us().map_or(f64::NAN, |us| us / 1e3)
}
