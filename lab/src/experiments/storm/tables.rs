//! What the storm comes to: tables, plots, verdicts.

use std::time::Duration;

use super::breeze::Breeze;
use super::measure::{CROWDED, Found};
use super::rows::{
    ADAPTIVE_MS, ADAPTIVE_ROW, API_FIRST, BYTES_ALONE, COALESCE_API_FIRST, COALESCE_ROW, MBIT,
    OTP_DEFERRED, Row, Storm, TOKIO,
};
use super::{All, Key};
use crate::report::plot::Lists;
use crate::report::{Cell, Plot, Table};
use crate::trial::columns::{Column, column, or_else};
use crate::trial::figures::{self, Unit, bars, grouped, median, number};
use crate::trial::verdict::Reach::AtMost;
use crate::trial::verdict::{self, TIMES, Verdict, ratio};

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

/// What stands before `over idle`, and after it.
const API: [Column<Found>; 3] = [
    column("API idle", "ms", 1, |f| calls_ms(&f.api_idle_us)),
    column("API in the storm", "ms", 1, |f| calls_ms(&f.api_us)),
    column("longest", "ms", 1, |f| {
        f.api_us.iter().copied().fold(0.0, f64::max) / 1e3
    }),
];
#[rustfmt::skip]
const COLUMNS: [Column<Found>; 13] = [
    column("CPU", "%", 0, |f| 100.0 * f.quiet.cores),
    column("CPU per MB", "ms", 2, Found::cpu_ms_per_mb),
    column("came in", "MB/s", 1, |f| f.quiet.mb_per_s),
    column("deliveries", "/s", 0, |f| f.quiet.deliveries_per_s),
    column("bytes each", "", 0, |f| f.quiet.bytes_per_delivery),
    or_else("not counted",
        column("system calls per MB", "", 0, |f| f.syscalls_per_mb.unwrap_or(f64::NAN))),
    or_else(SILENT, column("tasks ready", "", 0, |f| f.tasks_active.unwrap_or(f64::NAN))),
    column("frames' way p50", "ms", 2, |f| f.quiet.way_p50_us / 1e3),
    column("p99", "ms", 2, |f| f.quiet.way_p99_us / 1e3),
    column("longest", "ms", 1, |f| f.quiet.way_max_us / 1e3),
    or_else(SILENT, column("longest added delay", "ms", 2, longest_held_ms)),
    column("probe p99", "ms", 2, |f| f.echo.latency.p99_us / 1e3),
    column("frames lost", "", 0, lost),
];
const SILENT: &str = "it does not say";

fn calls_ms(us: &[f64]) -> f64 {
    median(us.iter().copied()).unwrap_or(f64::NAN) / 1e3
}

fn longest_held_ms(found: &Found) -> f64 {
    found.longest_held_us().map_or(f64::NAN, |us| us / 1e3)
}

fn lost(found: &Found) -> f64 {
    (found.lost + found.load.missed) as f64
}

impl All {
    pub(super) fn tables(&self) -> Vec<Table> {
        let names = ["server"].into_iter().chain(API.iter().map(Column::name));
        let names = names
            .chain(["over idle"])
            .chain(COLUMNS.iter().map(Column::name));
        let table = |storm: &Storm| {
            let row = |row: &Row| {
                let key = (*storm, *row);
                let over_idle = number(self.api_over_idle(key), TIMES);
                let [api, rest] = [&API[..], &COLUMNS].map(|of| self.samples.cells(key, of));
                [vec![Cell::from(row.name)], api, vec![over_idle], rest].concat()
            };
            figures::table(
                storm.name,
                names.clone(),
                self.rows.iter().map(row).collect(),
            )
        };
        let mut tables: Vec<Table> = self.storms.iter().map(table).collect();
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

    /// What is to be reached; none where evenkeel takes no part.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let judged = [COALESCE_ROW, COALESCE_API_FIRST, ADAPTIVE_ROW, API_FIRST];
        let judged = judged.into_iter().filter(|row| self.rows.contains(row));
        let under = |storm: &Storm| {
            let storm = *storm;
            judged
                .clone()
                .flat_map(move |row| self.verdicts_on((storm, row)))
        };
        let breeze = self.breeze.as_ref().map(Breeze::verdict);
        self.storms.iter().flat_map(under).chain(breeze).collect()
    }

    fn verdicts_on(&self, key: Key) -> impl Iterator<Item = Verdict> {
        let (storm, row) = key;
        // How long these wait for so many bytes is not bounded by the delay alone.
        let is_coalesced = [COALESCE_ROW, COALESCE_API_FIRST].contains(&row);
        let verdicts = VERDICTS.len() - usize::from(is_coalesced);
        VERDICTS[..verdicts]
            .iter()
            .map(move |&(what, found, most, unit)| {
                let of = format!("{}; {}", row.name, storm.name);
                Verdict::new(of, what, found(self, key), AtMost(most), unit)
            })
    }

    fn median_of(&self, key: Key, figure: fn(&Found) -> f64) -> Result<f64, String> {
        let name = key.1.name;
        if !self.rows.contains(&key.1) {
            return Err(format!("{name} takes no part"));
        }
        let found = self.samples.median(key, figure);
        found.map_err(|why| format!("{name}: {why}"))
    }

    fn cpu(&self, key: Key) -> Result<f64, String> {
        self.kept_up(key)?;
        self.median_of(key, Found::cpu_ms_per_mb)
    }

    fn cpu_over(&self, (storm, row): Key, other: Row) -> Result<f64, String> {
        ratio(self.cpu((storm, row)), self.cpu((storm, other)))
    }

    /// Whether a server took in what was sent: of one that did not, nothing is quoted.
    fn kept_up(&self, key: Key) -> Result<(), String> {
        let sent = f64::from(MBIT) / 8.0;
        match self.samples.median(key, |found| found.quiet.mb_per_s) {
            Ok(came) if came < KEPT_UP * sent => {
                let name = key.1.name;
                Err(format!("{name} took in {came:.1} of {sent:.1} MB/s"))
            }
            _ => Ok(()),
        }
    }

    /// Calls in the storm over calls before it: the medians of all rounds together.
    fn api_over_idle(&self, key: Key) -> Result<f64, String> {
        self.kept_up(key)?;
        let all = |calls: fn(&Found) -> &[f64]| {
            let calls = self.samples.found(key).flat_map(calls).copied();
            median(calls).ok_or_else(|| self.samples.why(key))
        };
        ratio(all(|found| &found.api_us), all(|found| &found.api_idle_us))
    }

    /// What no way of delivery can fall below.
    fn bound(&self, storm: Storm) -> Option<String> {
        let bytes = self.cpu((storm, BYTES_ALONE));
        let over = ratio(bytes.clone(), self.cpu((storm, TOKIO))).ok()?;
        let fewest = storm.fewest_deliveries(Duration::from_millis(ADAPTIVE_MS.into()));
        let deliveries = |row| {
            let figure = |found: &Found| found.quiet.deliveries_per_s;
            self.samples.median((storm, row), figure).ok()
        };
        let (few, many) = (deliveries(BYTES_ALONE)?, deliveries(TOKIO)?);
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
        let plot = |title, unit, log, figure: fn(&Found) -> f64| {
            bars(title, unit, log, self.groups(figure))
        };
        vec![
            plot(
                "An API call in the storm (20 ms of work)",
                "ms",
                true,
                |f| calls_ms(&f.api_us),
            ),
            plot("CPU for each megabyte", "ms", false, Found::cpu_ms_per_mb),
            plot("Deliveries per second", "/s", true, |f| {
                f.quiet.deliveries_per_s
            }),
            plot("Frames' way, p99", "ms", true, |f| f.quiet.way_p99_us / 1e3),
        ]
    }

    fn groups(&self, figure: fn(&Found) -> f64) -> Lists<String> {
        let group = |storm: &Storm| {
            let bar = |row: &Row| {
                let value = self.samples.median((*storm, *row), figure).ok()?;
                Some((row.name.to_owned(), value))
            };
            (
                storm.name.to_owned(),
                self.rows.iter().filter_map(bar).collect(),
            )
        };
        self.storms.iter().map(group).collect()
    }
}

/// What is to be reached by every server that waits for more: the figure, and at most how much. The
/// last is of those alone that wait for nothing but time.
#[rustfmt::skip]
const VERDICTS: [Bound; 6] = [
    ("API over idle", All::api_over_idle, API_OVER_IDLE, TIMES),
    ("CPU per MB over that of tokio",
        |all, key| all.cpu_over(key, TOKIO), CPU_OVER_TOKIO, TIMES),
    ("CPU per MB over that of OTP, once after 100 ms",
        |all, key| all.cpu_over(key, OTP_DEFERRED), CPU_OVER_OTP, TIMES),
    ("frames lost", |all, key| all.median_of(key, lost), 0.0, ("", 0)),
    ("longest added delay", |all, key| all.median_of(key, longest_held_ms),
        ADAPTIVE_MS as f64, ("ms", 2)),
    ("longest way of a frame", |all, key| all.median_of(key, |found| found.quiet.way_max_us / 1e3),
        (ADAPTIVE_MS as f64 + TICK_MS) * BUCKET, ("ms", 1)),
];
type Bound = (
    &'static str,
    fn(&All, Key) -> Result<f64, String>,
    f64,
    Unit,
);

/// What so many deliveries cost at the least, where a `few` cost `share` of what `many` do.
fn least(share: f64, few: f64, deliveries: f64, many: f64) -> f64 {
    let way = (deliveries - few) / (many - few).max(f64::EPSILON);
    share + (1.0 - share).max(0.0) * way.clamp(0.0, 1.0)
}

pub(super) fn notes(all: &All) -> Vec<String> {
    let mut notes = vec![
        "Tokio tells how many tasks are ready in unstable builds alone. Erlang's count has the \
         process that counts."
            .to_owned(),
    ];
    let of = |storm: &Storm| all.bound(*storm).into_iter().chain(all.undelayed(*storm));
    notes.extend(all.storms.iter().flat_map(of));
    let found = || all.samples.all();
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
