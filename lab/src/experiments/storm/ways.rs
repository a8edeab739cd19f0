//! What the longest way of a frame was made of: what the runtime added, and what else there was.
//!
//! A way is from when a frame was written to when the server had it. In it is what the kernel
//! takes, how long the load was put aside in the middle of writing, how long the server was put
//! aside or at other frames, and the delay. Only the last is the runtime's promise, and the
//! runtime counts it.

use super::Samples;
use super::measure::Found;
use super::rows::{ADAPTIVE_ROW, API_FIRST, COALESCE_API_FIRST, COALESCE_ROW, IMMEDIATE, TOKIO};
use crate::report::{Cell, Table};
use crate::trial::figures::{cell, grouped, median};

impl Samples {
    pub(super) fn longest_ways(&self) -> Table {
        let columns = [
            "in",
            "longest way",
            "the runtime's part: longest added delay",
            "at least the others' part",
            "longest way where nothing is held back",
        ];
        let rows = [COALESCE_ROW, COALESCE_API_FIRST, ADAPTIVE_ROW, API_FIRST];
        let places = |storm: usize| {
            let of = |row: &_| self.rows.iter().position(|other| other == row);
            rows.iter().filter_map(move |row| Some((storm, of(row)?)))
        };
        Table {
            title: "A frame's longest way: what the runtime added, and the rest".to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: (0..self.storms.len())
                .flat_map(places)
                .map(|(storm, row)| self.longest_way(storm, row))
                .collect(),
        }
    }

    fn longest_way(&self, storm: usize, row: usize) -> Vec<Cell> {
        let why = self.failure(storm, row);
        let number = |figure: fn(&Found) -> Option<f64>| {
            cell(self.found(storm, row).filter_map(figure), "ms", 1, &why)
        };
        vec![
            Cell::Text(format!(
                "{}; {}",
                self.rows[row].name, self.storms[storm].name
            )),
            number(|found| Some(found.quiet.way_max_us / 1e3)),
            number(added_ms),
            // The delay is the longest since the server began, which may have been before the way.
            number(|found| Some((found.quiet.way_max_us / 1e3 - added_ms(found)?).max(0.0))),
            match self.undelayed_ms(storm) {
                Some((value, _)) => Cell::Number {
                    value,
                    unit: "ms",
                    digits: 1,
                },
                None => Cell::Missing("nobody takes part who holds nothing back".to_owned()),
            },
        ]
    }

    /// The longest way without any delay, in a process that is as busy or busier, and whose.
    fn undelayed_ms(&self, storm: usize) -> Option<(f64, &'static str)> {
        [IMMEDIATE, TOKIO].iter().find_map(|row| {
            let place = self.rows.iter().position(|other| other == row)?;
            let ways = self.found(storm, place).map(|found| found.quiet.way_max_us);
            Some((median(ways)? / 1e3, row.name))
        })
    }

    /// In words.
    pub(super) fn undelayed(&self, storm: usize) -> Option<String> {
        let (longest, name) = self.undelayed_ms(storm)?;
        Some(format!(
            "{}: a frame's way was up to {} ms where nothing is held back (`{name}`): how late \
             servers were let or got to it is in every way, beside the delay.",
            self.storms[storm].name,
            grouped(longest, 1),
        ))
    }
}

fn added_ms(found: &Found) -> Option<f64> {
    Some(found.longest_held_us()? / 1e3)
}
