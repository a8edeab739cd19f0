//! What the storm comes to: tables, plots, verdicts.

use std::time::Duration;

use super::Samples;
use super::breeze::Breeze;
use super::measure::{CROWDED, Found};
use super::rows::{
    ADAPTIVE_MS, ADAPTIVE_ROW, API_FIRST, BYTES_ALONE, COALESCE_API_FIRST, COALESCE_ROW, MBIT,
    OTP_DEFERRED, Row, Storm, TOKIO,
};
use crate::report::{Cell, Plot, Table};
use crate::trial::figures::{cell, grouped, median};
use crate::trial::verdict::{self, Reach, Verdict, ratio};

/// What is to be reached.
const API_OVER_IDLE: f64 = 1.05;
const CPU_OVER_TOKIO: f64 = 0.5;
const CPU_OVER_OTP: f64 = 1.0;
/// Less of what is sent is not the same storm.
const KEPT_UP: f64 = 0.95;
/// A tick of the runtime's timers: what a delivery may be later than it was told to.
const TICK_MS: f64 = 1.0;
/// By how much the end of a bucket of ways may be above what it holds.
const BUCKET: f64 = 1.011;

const COLUMNS: [&str; 18] = [
    "server",
    "API idle",
    "API in the storm",
    "longest",
    "over idle",
    "CPU",
    "CPU per MB",
    "came in",
    "deliveries",
    "bytes each",
    "system calls per MB",
    "tasks ready",
    "frames' way p50",
    "p99",
    "longest",
    "longest added delay",
    "probe p99",
    "frames lost",
];

impl Samples {
    pub(super) fn tables(&self) -> Vec<Table> {
        let storms = self.storms.iter().enumerate();
        let mut tables: Vec<Table> = storms
            .map(|(index, storm)| Table {
                title: storm.name.to_owned(),
                columns: COLUMNS.map(str::to_owned).into(),
                rows: (0..self.rows.len())
                    .map(|row| self.row(index, row))
                    .collect(),
            })
            .collect();
        if let Some(breeze) = &self.breeze {
            tables.push(self.longest_ways());
            tables.extend(breeze.tables());
            tables.push(verdict::table(
                "Verdicts on evenkeel",
                "in",
                &self.verdicts(),
            ));
        }
        tables
    }

    fn row(&self, storm: usize, row: usize) -> Vec<Cell> {
        let why = self.failure(storm, row);
        let found = || self.found(storm, row);
        let number = |figure: &dyn Fn(&Found) -> f64, unit, digits| {
            cell(found().map(figure), unit, digits, &why)
        };
        let perhaps = |figure: &dyn Fn(&Found) -> Option<f64>, unit, digits, reason: &str| {
            let why = if found().next().is_some() {
                reason
            } else {
                &why
            };
            cell(found().filter_map(figure), unit, digits, why)
        };
        let calls_ms = |us: &[f64]| median(us.iter().copied()).unwrap_or(f64::NAN) / 1e3;
        let longest = |found: &Found| found.api_us.iter().copied().fold(0.0, f64::max) / 1e3;
        vec![
            Cell::from(self.rows[row].name),
            number(&|f| calls_ms(&f.api_idle_us), "ms", 1),
            number(&|f| calls_ms(&f.api_us), "ms", 1),
            number(&longest, "ms", 1),
            match self.api_over_idle(storm, row) {
                Ok(value) => Cell::Number {
                    value,
                    unit: "×",
                    digits: 2,
                },
                Err(why) => Cell::Missing(why),
            },
            number(&|f| 100.0 * f.quiet.cores, "%", 0),
            number(&Found::cpu_ms_per_mb, "ms", 2),
            number(&|f| f.quiet.mb_per_s, "MB/s", 1),
            number(&|f| f.quiet.deliveries_per_s, "/s", 0),
            number(&|f| f.quiet.bytes_per_delivery, "", 0),
            perhaps(&|f| f.syscalls_per_mb, "", 0, "not counted"),
            perhaps(&|f| f.tasks_active, "", 0, "it does not say"),
            number(&|f| f.quiet.way_p50_us / 1e3, "ms", 2),
            number(&|f| f.quiet.way_p99_us / 1e3, "ms", 2),
            number(&|f| f.quiet.way_max_us / 1e3, "ms", 1),
            perhaps(
                &|f| f.longest_held_us().map(|us| us / 1e3),
                "ms",
                2,
                "it does not say",
            ),
            number(&|f| f.echo.latency.p99_us / 1e3, "ms", 2),
            number(&|f| (f.lost + f.load.missed) as f64, "", 0),
        ]
    }

    /// What is to be reached; none where evenkeel takes no part.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (storm, name) in self.storms.iter().map(|storm| storm.name).enumerate() {
            let rows = [COALESCE_ROW, COALESCE_API_FIRST, ADAPTIVE_ROW, API_FIRST];
            for row in rows.into_iter().filter(|row| self.rows.contains(row)) {
                let of = format!("{}; {name}", row.name);
                let mut add = |what: &str, found, reach, unit, digits| {
                    verdicts.push(Verdict {
                        of: of.clone(),
                        what: what.to_owned(),
                        found,
                        reach,
                        unit,
                        digits,
                    });
                };
                let over_idle = self
                    .place(&row)
                    .and_then(|row| self.api_over_idle(storm, row));
                let reach = Reach::AtMost(API_OVER_IDLE);
                add("API over idle", over_idle, reach, "×", 2);
                for (other, bound) in [(TOKIO, CPU_OVER_TOKIO), (OTP_DEFERRED, CPU_OVER_OTP)] {
                    let what = format!("CPU per MB over that of {}", other.name);
                    let over = ratio(self.cpu(storm, &row), self.cpu(storm, &other));
                    add(&what, over, Reach::AtMost(bound), "×", 2);
                }
                let lost = self.median_of(storm, &row, |f| (f.lost + f.load.missed) as f64);
                add("frames lost", lost, Reach::AtMost(0.0), "", 0);
                let held = |f: &Found| f.longest_held_us().map_or(f64::NAN, |us| us / 1e3);
                let held = self.median_of(storm, &row, held);
                let most = Reach::AtMost(f64::from(ADAPTIVE_MS));
                add("longest added delay", held, most, "ms", 2);
                if ![COALESCE_ROW, COALESCE_API_FIRST].contains(&row) {
                    let most = Reach::AtMost((f64::from(ADAPTIVE_MS) + TICK_MS) * BUCKET);
                    let way = self.median_of(storm, &row, |f| f.quiet.way_max_us / 1e3);
                    add("longest way of a frame", way, most, "ms", 1);
                }
            }
        }
        verdicts.extend(self.breeze.as_ref().map(Breeze::verdict));
        verdicts
    }

    fn place(&self, row: &Row) -> Result<usize, String> {
        let place = self.rows.iter().position(|other| other == row);
        place.ok_or_else(|| format!("{} takes no part", row.name))
    }

    fn median_of(&self, storm: usize, row: &Row, figure: fn(&Found) -> f64) -> Result<f64, String> {
        let place = self.place(row)?;
        let found = median(self.found(storm, place).map(figure));
        found.ok_or_else(|| format!("{}: {}", row.name, self.failure(storm, place)))
    }

    fn cpu(&self, storm: usize, row: &Row) -> Result<f64, String> {
        self.kept_up(storm, self.place(row)?)?;
        self.median_of(storm, row, Found::cpu_ms_per_mb)
    }

    /// Whether a server took in what was sent: of one that did not, nothing is quoted.
    fn kept_up(&self, storm: usize, row: usize) -> Result<(), String> {
        let came = median(self.found(storm, row).map(|found| found.quiet.mb_per_s));
        let sent = f64::from(MBIT) / 8.0;
        match came {
            Some(came) if came < KEPT_UP * sent => {
                let name = self.rows[row].name;
                Err(format!("{name} took in {came:.1} of {sent:.1} MB/s"))
            }
            _ => Ok(()),
        }
    }

    /// Calls in the storm over calls before it: the medians of all rounds together.
    fn api_over_idle(&self, storm: usize, row: usize) -> Result<f64, String> {
        self.kept_up(storm, row)?;
        let all = |calls: fn(&Found) -> &[f64]| {
            let calls = self.found(storm, row).flat_map(calls).copied();
            median(calls).ok_or_else(|| self.failure(storm, row))
        };
        ratio(all(|found| &found.api_us), all(|found| &found.api_idle_us))
    }

    /// What no way of delivery can fall below.
    fn bound(&self, index: usize, storm: &Storm) -> Option<String> {
        let bytes = self.cpu(index, &BYTES_ALONE);
        let over = ratio(bytes.clone(), self.cpu(index, &TOKIO)).ok()?;
        let fewest = storm.fewest_deliveries(Duration::from_millis(ADAPTIVE_MS.into()));
        let deliveries = |row| {
            self.median_of(index, row, |f| f.quiet.deliveries_per_s)
                .ok()
        };
        let (few, many) = (deliveries(&BYTES_ALONE)?, deliveries(&TOKIO)?);
        Some(format!(
            "{}: of bytes nearly alone a megabyte costs {:.2} ms (`{}`, with {} deliveries a \
             second), {over:.2} of tokio's (with {}): deliveries can be saved, bytes cannot. A \
             delay of {ADAPTIVE_MS} ms leaves at least {} deliveries; between the two that is \
             {:.2} of tokio's.",
            storm.name,
            bytes.ok()?,
            BYTES_ALONE.name,
            grouped(few, 0),
            grouped(many, 0),
            grouped(fewest, 0),
            least(over, few, fewest, many),
        ))
    }

    pub(super) fn plots(&self) -> Vec<Plot> {
        let bars = |title: &str, unit: &str, log, figure: fn(&Found) -> f64| Plot::Bars {
            title: title.to_owned(),
            unit: unit.to_owned(),
            log,
            endless: String::new(),
            groups: self.groups(figure),
        };
        vec![
            bars(
                "An API call in the storm (20 ms of work)",
                "ms",
                true,
                |f| median(f.api_us.iter().copied()).unwrap_or(f64::NAN) / 1e3,
            ),
            bars("CPU for each megabyte", "ms", false, Found::cpu_ms_per_mb),
            bars("Deliveries per second", "/s", true, |f| {
                f.quiet.deliveries_per_s
            }),
            bars("Frames' way, p99", "ms", true, |f| f.quiet.way_p99_us / 1e3),
        ]
    }

    fn groups(&self, figure: fn(&Found) -> f64) -> Vec<(String, Vec<(String, f64)>)> {
        let group = |(index, storm): (usize, &super::Storm)| {
            let bar = |(row, of): (usize, &Row)| {
                let value = median(self.found(index, row).map(figure))?;
                Some((of.name.to_owned(), value))
            };
            let bars = self.rows.iter().enumerate().filter_map(bar).collect();
            (storm.name.to_owned(), bars)
        };
        self.storms.iter().enumerate().map(group).collect()
    }
}

/// What so many deliveries cost at the least, where a `few` cost `share` of what `many` do.
fn least(share: f64, few: f64, deliveries: f64, many: f64) -> f64 {
    let way = (deliveries - few) / (many - few).max(f64::EPSILON);
    share + (1.0 - share).max(0.0) * way.clamp(0.0, 1.0)
}

pub(super) fn notes(all: &Samples) -> Vec<String> {
    let mut notes = vec![
        "Tokio tells how many tasks are ready in unstable builds alone. Erlang's count has the \
         process that counts."
            .to_owned(),
    ];
    let storms = all.storms.iter().enumerate();
    notes.extend(storms.flat_map(|(index, storm)| {
        let bound = all.bound(index, storm);
        bound.into_iter().chain(all.undelayed(index))
    }));
    let found = || all.samples.iter().filter_map(|s| s.found.as_ref().ok());
    let late = found().filter(|f| f.load.late_p99_us > 5_000.0).count();
    if late > 0 {
        notes.push(format!(
            "In {late} of {} measurements the cameras themselves were late by more than 5 ms at \
             the 99th percentile: their processor had other work.",
            found().count()
        ));
    }
    let crowded = found().filter(|f| f.is_crowded()).count();
    if crowded > 0 {
        notes.push(format!(
            "In {crowded} of {} measurements others had more than {:.0} % of the servers' \
             processors, also when measured again: part of all waits there was for them.",
            found().count(),
            100.0 * CROWDED,
        ));
    }
    let broken: u64 = found().map(|f| f.end.broken + f.end.unrecorded).sum();
    if broken > 0 {
        notes.push(format!("{broken} cameras or recordings broke."));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_deliveries_cost_what_their_bytes_do() {
        assert_eq!(least(0.25, 100.0, 50.0, 900.0), 0.25);
        assert_eq!(least(0.25, 100.0, 100.0, 900.0), 0.25);
        assert_eq!(least(0.25, 100.0, 500.0, 900.0), 0.625);
        assert_eq!(least(0.25, 100.0, 1_000.0, 900.0), 1.0);
        // Noise may make the few dearer than the many.
        assert_eq!(least(1.5, 100.0, 500.0, 900.0), 1.5);
    }
}
