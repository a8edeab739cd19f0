//! What the storm comes to: tables, plots, verdicts.

use std::time::Duration;

use super::measure::{CROWDED, Found};
use super::rows::{
    ADAPTIVE_MS, BYTES_ALONE, IMMEDIATE, JUDGED, MBIT, OTP_DEFERRED, Row, Storm, TOKIO,
};
use super::{All, Key};
use crate::report::{Cell, Plot, Table, Verdict};
use crate::trial::figures::{grouped, median, number};
use crate::trial::{AtMost, Column, Figured, Rule, TIMES, by_rules, column};
use crate::trial::{or_else, or_nan, over_rounds, ratio};

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

type Of = Column<Found>;
const API: Of = column("API in the storm", "ms", 1, |f| calls_ms(&f.api_us));
/// Calls in the storm over calls before it: the medians of all rounds together.
const OVER_IDLE: Of = or_else(BEHIND, over_rounds("over idle", "×", 2, over_idle));
const CPU: Of = column("CPU per MB", "ms", 2, Found::cpu_ms_per_mb);
/// The same, of who took in what was sent.
const CPU_KEPT_UP: Of = or_else(BEHIND, over_rounds("CPU per MB", "ms", 2, cpu_kept_up));
const DELIVERIES: Of = column("deliveries", "/s", 0, |f| f.quiet.deliveries_per_s);
const WAY_P99: Of = column("p99", "ms", 2, |f| f.quiet.way_p99_us / 1e3);
const WAY: Of = column("longest", "ms", 1, |f| f.quiet.way_max_us / 1e3);
#[rustfmt::skip]
const ADDED: Of = or_else(SILENT, column("longest added delay", "ms", 2, Found::longest_held_ms));
const LOST: Of = column("frames lost", "", 0, |f| (f.lost + f.load.missed) as f64);
const SILENT: &str = "it does not say";
const BEHIND: &str = "it took in less than what was sent";

pub(super) const TOLD: [Of; 4] = [API, CPU, DELIVERIES, WAY_P99];
#[rustfmt::skip]
const COLUMNS: [Of; 17] = [
    column("API idle", "ms", 1, |f| calls_ms(&f.api_idle_us)),
    API,
    column("longest", "ms", 1, |f| f.api_us.iter().copied().fold(0.0, f64::max) / 1e3),
    OVER_IDLE,
    column("CPU", "%", 0, |f| 100.0 * f.quiet.cores),
    CPU,
    column("came in", "MB/s", 1, |f| f.quiet.mb_per_s),
    DELIVERIES,
    column("bytes each", "", 0, |f| f.quiet.bytes_per_delivery),
    or_else("not counted", column("system calls per MB", "", 0, |f| or_nan(f.syscalls_per_mb))),
    or_else(SILENT, column("tasks ready", "", 0, |f| or_nan(f.tasks_active))),
    column("frames' way p50", "ms", 2, |f| f.quiet.way_p50_us / 1e3),
    WAY_P99,
    WAY,
    ADDED,
    column("probe p99", "ms", 2, |f| f.echo.latency.p99_us / 1e3),
    LOST,
];

/// What the longest way of a frame was made of. A way is from when a frame was written to when the
/// server had it. In it is what the kernel takes, how long the load was put aside in the middle of
/// writing, how long the server was put aside or at other frames, and the delay. Only the last is
/// the runtime's promise, and the runtime counts it.
#[rustfmt::skip]
const WAYS: [Of; 3] = [
    column("longest way", "ms", 1, |f| f.quiet.way_max_us / 1e3),
    column("the runtime's part: longest added delay", "ms", 1, Found::longest_held_ms),
    // The delay is the longest since the server began, which may have been before the way.
    column("at least the others' part", "ms", 1, |f| match f.longest_held_ms() {
        unsaid if unsaid.is_nan() => unsaid,
        added => (f.quiet.way_max_us / 1e3 - added).max(0.0),
    }),
];

#[rustfmt::skip]
const PLOTS: [(&str, bool, Of); 4] = [
    ("An API call in the storm (20 ms of work)", true, API),
    ("CPU for each megabyte", false, CPU),
    ("Deliveries per second", true, DELIVERIES),
    ("Frames' way, p99", true, WAY_P99),
];

/// What is to be reached by every server that waits for more. How long those that wait for so many
/// bytes do so is not bounded by the delay alone.
#[rustfmt::skip]
const VERDICTS: [Rule<All, Key>; 6] = [
    ("API over idle", anybody, |all, key| all.of(key, &OVER_IDLE), AtMost(API_OVER_IDLE), TIMES),
    ("CPU per MB over that of tokio", anybody,
        |all, key| all.cpu_over(key, TOKIO), AtMost(CPU_OVER_TOKIO), TIMES),
    ("CPU per MB over that of OTP, once after 100 ms", anybody,
        |all, key| all.cpu_over(key, OTP_DEFERRED), AtMost(CPU_OVER_OTP), TIMES),
    ("frames lost", anybody, |all, key| all.of(key, &LOST), AtMost(0.0), ("", 0)),
    ("longest added delay", anybody,
        |all, key| all.of(key, &ADDED), AtMost(ADAPTIVE_MS as f64), ("ms", 2)),
    ("longest way of a frame", |_, (_, row)| !row.is_coalesced(),
        |all, key| all.of(key, &WAY), AtMost((ADAPTIVE_MS as f64 + TICK_MS) * BUCKET), ("ms", 1)),
];

fn anybody(_: &All, _: Key) -> bool {
    true
}

fn calls_ms(us: &[f64]) -> f64 {
    or_nan(median(us.iter().copied())) / 1e3
}

/// Whether a server took in what was sent: of one that did not, nothing is quoted.
fn kept_up(found: &[&Found]) -> bool {
    let came = median(found.iter().map(|f| f.quiet.mb_per_s));
    came.is_some_and(|came| came >= KEPT_UP * f64::from(MBIT) / 8.0)
}

fn over_idle(found: &[&Found]) -> Option<f64> {
    let all = |calls: fn(&Found) -> &[f64]| median(found.iter().flat_map(|f| calls(f)).copied());
    let (calls, idle) = (all(|f| &f.api_us)?, all(|f| &f.api_idle_us)?);
    kept_up(found).then_some(calls / idle)
}

fn cpu_kept_up(found: &[&Found]) -> Option<f64> {
    let cpu = median(found.iter().map(|f| f.cpu_ms_per_mb()));
    cpu.filter(|_| kept_up(found))
}

impl All {
    pub(super) fn tables(&self) -> Vec<Table> {
        let table = |storm: &Storm| {
            let rows = self.rows.iter();
            let rows = rows.map(|row| ([Cell::from(row.name)], (*storm, *row)));
            self.samples.table(storm.name, ["server"], rows, &COLUMNS)
        };
        let mut tables: Vec<Table> = self.storms.iter().map(table).collect();
        tables.push(self.longest_ways());
        tables.extend(self.breeze.tables());
        tables
    }

    /// The servers that are judged, under every storm.
    fn judged(&self) -> impl Iterator<Item = (String, Key)> {
        let judged = JUDGED.iter().filter(|row| self.rows.contains(row));
        let under = move |storm: &Storm| {
            let storm = *storm;
            let name = move |row: &Row| format!("{}; {}", row.name, storm.name);
            judged.clone().map(move |row| (name(row), (storm, *row)))
        };
        self.storms.iter().flat_map(under)
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = by_rules(self, self.judged(), &VERDICTS);
        verdicts.push(self.breeze.verdict());
        verdicts
    }

    /// A figure, or who has none and why.
    fn of(&self, key: Key, column: &Of) -> Figured {
        let (name, found) = (key.1.name, self.samples.figure(key, column));
        match self.rows.contains(&key.1) {
            true => found.map_err(|why| format!("{name}: {why}")),
            false => Err(format!("{name} takes no part")),
        }
    }

    fn cpu_over(&self, key: Key, other: Row) -> Figured {
        let [own, others] = [key, (key.0, other)].map(|key| self.of(key, &CPU_KEPT_UP));
        ratio(own, others)
    }

    /// What no way of delivery can fall below.
    fn bound(&self, storm: Storm) -> Option<String> {
        let bytes = self.of((storm, BYTES_ALONE), &CPU_KEPT_UP).ok()?;
        let over = self.cpu_over((storm, BYTES_ALONE), TOKIO).ok()?;
        let fewest = storm.fewest_deliveries(Duration::from_millis(ADAPTIVE_MS.into()));
        let deliveries = |row| self.samples.figure((storm, row), &DELIVERIES).ok();
        let (few, many) = (deliveries(BYTES_ALONE)?, deliveries(TOKIO)?);
        Some(format!(
            "{}: of bytes nearly alone a megabyte costs {bytes:.2} ms (`{}`, with {} deliveries a \
             second), {over:.2} of tokio's (with {}): deliveries can be saved, bytes cannot. A \
             delay of {ADAPTIVE_MS} ms leaves at least {} deliveries; between the two that is \
             {:.2} of tokio's.",
            storm.name,
            BYTES_ALONE.name,
            grouped(few, 0),
            grouped(many, 0),
            grouped(fewest, 0),
            least(over, few, fewest, many),
        ))
    }

    fn longest_ways(&self) -> Table {
        let row = |(name, key): (String, Key)| {
            let undelayed = self.undelayed_ms(key.0).map(|(value, _)| value);
            let nobody = || "nobody takes part who holds nothing back".to_owned();
            let undelayed = number(undelayed.ok_or_else(nobody), ("ms", 1));
            let cells = self.samples.cells(key, &WAYS);
            [vec![Cell::Text(name)], cells, vec![undelayed]].concat()
        };
        let [first, second, third] = WAYS.map(|column| column.name);
        let last = "longest way where nothing is held back";
        let title = "A frame's longest way: what the runtime added, and the rest";
        let columns = ["in", first, second, third, last];
        Table::new(title, columns, self.judged().map(row))
    }

    /// The longest way without any delay, in a process that is as busy or busier, and whose.
    fn undelayed_ms(&self, storm: Storm) -> Option<(f64, &'static str)> {
        let of = |row: Row| Some((self.samples.figure((storm, row), &WAY).ok()?, row.name));
        [IMMEDIATE, TOKIO].into_iter().find_map(of)
    }

    fn undelayed(&self, storm: Storm) -> Option<String> {
        let (longest, name) = self.undelayed_ms(storm)?;
        Some(format!(
            "{}: a frame's way was up to {} ms where nothing is held back (`{name}`): how late \
             servers were let or got to it is in every way, beside the delay.",
            storm.name,
            grouped(longest, 1),
        ))
    }

    pub(super) fn plots(&self) -> Vec<Plot> {
        let keys = self.storms.iter().flat_map(|storm| {
            let bar = |row: &Row| (storm.name, row.name, (*storm, *row));
            self.rows.iter().map(bar)
        });
        let plot = |(title, log, column)| self.samples.bars(title, log, &column, keys.clone());
        PLOTS.map(plot).into()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let of = |storm: &Storm| self.bound(*storm).into_iter().chain(self.undelayed(*storm));
        let mut notes: Vec<String> = self.storms.iter().flat_map(of).collect();
        let found = || self.samples.all();
        let count = found().count();
        let late = found().filter(|f| f.load.late_p99_us > 5_000.0).count();
        if late > 0 {
            notes.push(format!(
                "In {late} of {count} measurements the cameras themselves were late by more than \
                 5 ms at the 99th percentile: their processor had other work."
            ));
        }
        let crowded = found().filter(|f| f.is_crowded()).count();
        if crowded > 0 {
            notes.push(format!(
                "In {crowded} of {count} measurements others had more than {:.0} % of the \
                 servers' processors, also when measured again: part of all waits there was for \
                 them.",
                100.0 * CROWDED,
            ));
        }
        let broken: u64 = found().map(|f| f.end.broken + f.end.unrecorded).sum();
        notes.extend((broken > 0).then(|| format!("{broken} cameras or recordings broke.")));
        notes
    }
}

/// What so many deliveries cost at the least, where a `few` cost `share` of what `many` do.
fn least(share: f64, few: f64, deliveries: f64, many: f64) -> f64 {
    let way = (deliveries - few) / (many - few).max(f64::EPSILON);
    share + (1.0 - share).max(0.0) * way.clamp(0.0, 1.0)
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
