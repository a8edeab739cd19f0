//! `cameras`: the program evenkeel-cameras, which receives, records and passes on, beside MediaMTX.
//!
//! - [`servers`]: the two, how each is found and started
//! - [`mod@measure`]: one measurement of one of them
//! - [`files`]: what is in the files that were recorded
//!
//! The benchmark of evenkeel-cameras has more rows, of one run without rounds. What stands around
//! the servers is the same in both, [`evenkeel_measure::cameras`]; the processes are the lab's own
//! here, so that an interrupted run leaves none behind.

mod files;
mod measure;
mod servers;

use serde_json::json;

use self::files::Kept;
use self::measure::{Disk, Found, Row, measure};
use self::servers::By;
use crate::error::Result;
use crate::report::{Experiment, Plot, Table, Verdict};
use crate::trial::{AtMost, Column, Figured, Lab, MICROS, Samples, TIMES};
use crate::trial::{column, judge, or_else, or_nan, ratio};

/// What is to be reached: over MediaMTX, over the same without load, and in microseconds.
const CPU_OVER_MEDIAMTX: f64 = 1.0 / 3.0;
const MEMORY_OVER_MEDIAMTX: f64 = 0.5;
const LOADED_OVER_IDLE: f64 = 1.2;
const P99_US: f64 = 2_000.0;
/// From this length on there are as many cameras as in the published figures, and disks that fail.
const WHOLE_S: f64 = 1.0;
const CAMERAS: u32 = 350;
const CAMERAS_IN_BRIEF: u32 = 12;

const DISKS: [Disk; 3] = [Disk::Usual, Disk::Frozen, Disk::Slow];

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let is_whole = lab
        .seconds
        .is_some_and(|length| length.as_secs_f64() >= WHOLE_S);
    let mut notes = Vec::new();
    let mut told = |line: String| {
        lab.progress(&line);
        notes.push(line);
    };
    let mediamtx = By::MediaMtx.missing();
    let servers = if mediamtx.is_none() {
        vec![By::Ours, By::MediaMtx]
    } else {
        vec![By::Ours]
    };
    mediamtx.into_iter().for_each(&mut told);
    let disks = if is_whole { &DISKS[..] } else { &DISKS[..1] };
    let mut rows = Vec::new();
    for &disk in disks {
        if let Some(why) = disk.lacks() {
            let name = disk.name();
            told(format!(
                "Not possible here, and so left out: cameras, {name} ({why})."
            ));
            continue;
        }
        let cameras = if is_whole { CAMERAS } else { CAMERAS_IN_BRIEF };
        rows.extend(servers.iter().map(|&by| Row { by, disk, cameras }));
    }
    let apart = lab.apart();
    let name = |row: Row| format!("cameras: disk {}, {}", row.disk.name(), row.by.name());
    let one = |row: Row| measure(&apart, row);
    let all = All(Samples::measure(
        lab,
        lab.rounds(),
        rows,
        name,
        &COLUMNS[..4],
        one,
    ));
    let experiment = Experiment {
        how: format!("{} cameras. {}", all.cameras(), apart.conditions()),
        tables: all.tables(),
        plots: vec![all.cpu_bars(), all.memory_bars(), all.answer_bars()],
        notes,
        raw: all.raw(),
        ..Experiment::default()
    };
    Ok(experiment.judged("disk", all.verdicts()))
}

const CPU: Column<Found> = column("CPU of a camera", "%", 3, |found| found.cpu_percent);
const MEMORY: Column<Found> = column("memory", "MiB", 0, |found| found.memory_mib);
const LOADED_P99: Column<Found> = column("answer p99", "us", 0, |found| found.loaded.p99_us);
const NOT_IDLE: &str = "measured on the usual disk alone";
#[rustfmt::skip]
const IDLE_P99: Column<Found> = or_else(NOT_IDLE,
    column("idle p99", "us", 0, |found| or_nan(found.idle.as_ref().map(|idle| idle.p99_us))));
const MISSING: Column<Found> = column("missing", "", 0, |found| missing(&found.usual));
#[rustfmt::skip]
const MISSING_THERE: Column<Found> = or_else("all are on the usual one",
    column("missing there", "", 0, |found| or_nan(found.own.as_ref().map(missing))));
const UNTOLD: &str = "it does not say it";
const COLUMNS: [Column<Found>; 12] = [
    CPU,
    MEMORY,
    LOADED_P99,
    MISSING,
    column("answer p50", "us", 0, |found| found.loaded.p50_us),
    or_else(
        NOT_IDLE,
        column("idle p50", "us", 0, |found| {
            or_nan(found.idle.as_ref().map(|idle| idle.p50_us))
        }),
    ),
    IDLE_P99,
    column("no answer", "", 0, |found| found.unanswered as f64),
    column("pictures", "", 0, |found| {
        let there = found.own.as_ref().map_or(0, |own| own.pictures);
        (found.usual.pictures + there) as f64
    }),
    MISSING_THERE,
    or_else(
        UNTOLD,
        column("lost", "", 0, |found| {
            or_nan(found.lost.map(|lost| lost as f64))
        }),
    ),
    or_else(
        UNTOLD,
        column("gaps", "", 0, |found| {
            or_nan(found.gaps.map(|gaps| gaps as f64))
        }),
    ),
];

/// Pictures that are not in the files; of a camera without any, all of them, which are counted as
/// one.
fn missing(kept: &Kept) -> f64 {
    (kept.missing + kept.without + kept.again) as f64
}

/// All measurements.
struct All(Samples<Row, Found>);

impl All {
    fn cameras(&self) -> u32 {
        self.0.keys().next().map_or(0, |row| row.cameras)
    }

    fn tables(&self) -> Vec<Table> {
        let rows = self.0.keys();
        let row = |row: Row| ([row.disk.name().into(), row.by.name().into()], row);
        let title = "Cameras that are recorded, a tenth of them watched";
        let named = ["disk", "server"];
        vec![self.0.table(title, named, rows.map(row), &COLUMNS)]
    }

    fn bars(&self, title: &str, log: bool, column: &Column<Found>) -> Plot {
        let bar = |row: Row| (row.disk.name(), row.by.name(), row);
        self.0.bars(title, log, column, self.0.keys().map(bar))
    }

    fn cpu_bars(&self) -> Plot {
        self.bars("Processor time for each camera, of a core", false, &CPU)
    }

    fn memory_bars(&self) -> Plot {
        self.bars("Memory", false, &MEMORY)
    }

    fn answer_bars(&self) -> Plot {
        let title = "How long a camera's state takes while all send, 99th percentile";
        self.bars(title, true, &LOADED_P99)
    }

    fn figure(&self, by: By, disk: Disk, column: &Column<Found>) -> Figured {
        let is_it = |row: &Row| row.by == by && row.disk == disk;
        let row = self.0.keys().find(is_it);
        let row = row.ok_or_else(|| format!("{} takes no part", by.name()))?;
        self.0.figure(row, column)
    }

    /// Ours, beside MediaMTX and beside itself.
    fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for disk in DISKS {
            let ours = |column: &Column<Found>| self.figure(By::Ours, disk, column);
            if !self.0.keys().any(|row| row.disk == disk) {
                continue;
            }
            let mut say = |what: &str, found: Figured, most: f64, unit| {
                verdicts.push(judge(disk.name(), what, found, AtMost(most), unit));
            };
            if disk == Disk::Usual {
                let over = |column| ratio(ours(column), self.figure(By::MediaMtx, disk, column));
                say("CPU over MediaMTX's", over(&CPU), CPU_OVER_MEDIAMTX, TIMES);
                say(
                    "memory over MediaMTX's",
                    over(&MEMORY),
                    MEMORY_OVER_MEDIAMTX,
                    TIMES,
                );
                let loaded = ratio(ours(&LOADED_P99), ours(&IDLE_P99));
                say("answer p99 over idle", loaded, LOADED_OVER_IDLE, TIMES);
            }
            say("answer p99", ours(&LOADED_P99), P99_US, MICROS);
            say("pictures missing", ours(&MISSING), 0.0, ("", 0));
            if disk == Disk::Frozen {
                let there = ours(&MISSING_THERE);
                say("pictures missing on that disk", there, 0.0, ("", 0));
            }
        }
        verdicts
    }

    fn raw(&self) -> serde_json::Value {
        let case = |row: Row| {
            json!({
                "server": row.by.name(),
                "disk": row.disk.name(),
                "cameras": row.cameras,
            })
        };
        self.0.raw(case, |found| json!({ "found": found }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LatencySummary;
    use crate::trial::samples::Sample;

    fn sample(by: By, disk: Disk, found: Found) -> Sample<Row, Found> {
        Sample {
            key: Row {
                by,
                disk,
                cameras: 2,
            },
            round: 0,
            found: Ok(found),
        }
    }

    fn answered(cpu_percent: f64, p99_us: f64, missing: u64) -> Found {
        let summary = |p99_us| LatencySummary {
            p99_us,
            ..LatencySummary::default()
        };
        let kept = |missing| Kept {
            pictures: 100,
            missing,
            ..Kept::default()
        };
        Found {
            cpu_percent,
            memory_mib: 100.0,
            loaded: summary(p99_us),
            idle: Some(summary(500.0)),
            usual: kept(0),
            own: Some(kept(missing)),
            ..Found::default()
        }
    }

    #[test]
    fn verdicts_set_ours_beside_mediamtx_and_beside_itself() {
        let all = All(Samples(vec![
            sample(By::Ours, Disk::Usual, answered(0.05, 550.0, 0)),
            sample(By::MediaMtx, Disk::Usual, answered(0.16, 900.0, 0)),
            sample(By::Ours, Disk::Frozen, answered(0.05, 2_100.0, 3)),
        ]));
        let words: Vec<_> = all
            .verdicts()
            .iter()
            .map(|it| format!("{}: {:?} {}", it.what, it.found, it.outcome.word()))
            .collect();
        let all = words.join("\n");
        assert_eq!(words.len(), 8, "{all}");
        for (line, found, outcome) in [
            (0, "0.31×", "holds"),
            (1, "1.00×", "missed"),
            (2, "1.10×", "holds"),
            (4, "0", "holds"),
            (5, "2\u{202f}100 us", "missed"),
            (7, "3", "missed"),
        ] {
            let line: &String = &words[line];
            let line = line.replace("\\u{202f}", "\u{202f}");
            assert!(
                line.contains(found) && line.ends_with(outcome),
                "{line}\n{all}"
            );
        }
    }

    #[test]
    fn the_page_says_the_same() {
        let phrases = [
            format!("{CAMERAS} cameras, in brief {CAMERAS_IN_BRIEF},"),
            format!("{} kbit/s", measure::KBIT),
            format!("{} times a second", measure::CALLS_HZ),
            format!("Every {}th", measure::WATCHED),
        ];
        crate::experiments::tests::assert_page_says("cameras", &phrases);
        let page = include_str!("cameras.md").replace('\n', " ");
        assert!(page.contains(&format!("`--seconds {WHOLE_S}` or more")));
    }
}
