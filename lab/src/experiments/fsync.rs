//! `fsync`: pings and an unrelated file's state beside disk work, and a log's durable appends.
//!
//! - [`measure`]: one server beside disk work, also on a disk that is slow on purpose
//! - [`log`]: appends to a log

mod log;
mod measure;

use serde_json::json;

use self::log::Logged;
use self::measure::{Both, Places};
use crate::error::Result;
use crate::peers::Peer;
use crate::report::{Cell, Experiment, Table};
use crate::trial::echoes::{P50, P99};
use crate::trial::figures::{grouped, number};
use crate::trial::matrix::{At, Matrix, Of, Row};
use crate::trial::{AtMost, Column, Figured, Lab, Rule, TIMES, by_rules, column, or_nan, ratio};

/// What is to be reached.
const PING_OVER_IDLE: f64 = 1.2;
const STAT_OVER_IDLE: f64 = 1.5;

/// What goes on beside the probes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Beside {
    name: String,
    bytes: usize,
    writers: usize,
    /// Opens that never return.
    hanging: usize,
    slow: bool,
    /// Whether the kernel's own part is left out.
    without_threads: bool,
}

impl Row for Beside {
    fn name(&self) -> &str {
        &self.name
    }

    fn lacks(&self, peer: Peer) -> Option<&'static str> {
        (self.without_threads && peer == Peer::OsThread).then_some("not measured")
    }
}

/// All measurements beside disk work.
type All = Matrix<Beside, Both>;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let mut notes = Vec::new();
    let places = Places::open(&mut notes)?;
    let rows = rows(lab.is_brief(), places.slow.is_some());
    let nothing = rows[0].clone();
    let one = |row: &Beside, peer| measure::both(lab, &places, peer, (row, &nothing));
    let all = All::measure(lab, ("fsync", "beside"), (rows, peers(lab)), &TOLD, one);
    let logged = Logged::measure(lab, &places);
    let [log, within] = logged.raw();
    notes.extend(all.failures());
    let stat = "State of an unrelated file beside disk work, p99";
    let experiment = Experiment {
        how: lab.conditions(),
        tables: [all.tables(), logged.tables(), vec![all.floor_table()]].concat(),
        plots: vec![
            all.bars("Ping beside disk work, p99", "", PING[0]),
            all.bars(stat, "", STAT[0]),
            logged.bars(),
        ],
        notes,
        raw: json!({ "beside": all.raw(|both| json!(both)), "log": log, "within": within }),
        ..Experiment::default()
    };
    let mut verdicts = by_rules(&all, all.named().skip(1), &BESIDE);
    verdicts.extend(logged.verdicts());
    Ok(experiment.judged("beside", verdicts))
}

/// Whom to measure, and what the kernel makes of it without any of them.
fn peers(lab: &Lab) -> Vec<Peer> {
    let in_brief = |peer: &Peer| matches!(peer, Peer::Evenkeel | Peer::Tokio);
    let present = lab.lineup.present.iter().copied();
    let measured = present.filter(|peer| !lab.is_brief() || in_brief(peer));
    measured.chain([Peer::OsThread]).collect()
}

/// More than any peer has threads for: Tokio has 512.
const OPENS: usize = 600;

/// First nothing, then every kind of work; in brief those that say most.
fn rows(brief: bool, slow: bool) -> Vec<Beside> {
    let mut rows = vec![row(0, 0)];
    let (sizes, writers): (&[usize], &[usize]) = match brief {
        true => (&[1_048_576], &[8]),
        false => (&[1, 4_096, 65_536, 1_048_576], &[1, 8, 32]),
    };
    for &bytes in sizes {
        rows.extend(writers.iter().map(|&writers| row(bytes, writers)));
    }
    if slow {
        let row = row(4_096, 32);
        rows.push(Beside {
            name: format!("{}, on a slow disk", row.name),
            slow: true,
            // In brief the kernel's own part is for the row that costs it most.
            without_threads: brief,
            ..row
        });
    }
    rows.push(Beside {
        name: format!("{OPENS} opens that never return"),
        hanging: OPENS,
        without_threads: brief,
        ..row(0, 0)
    });
    rows
}

fn row(bytes: usize, writers: usize) -> Beside {
    let size = match bytes {
        1 => "1 byte".to_owned(),
        1_048_576 => "1 MiB".to_owned(),
        _ => format!("{} KiB", bytes / 1_024),
    };
    let name = match writers {
        0 => "nothing".to_owned(),
        1 => format!("1 writer of {size}"),
        _ => format!("{writers} writers of {size}"),
    };
    Beside {
        name,
        bytes,
        writers,
        hanging: 0,
        slow: false,
        without_threads: false,
    }
}

/// Whose latency a figure is: beside the disk work, and right before without it.
type Whose = [Of<Beside, Both>; 2];
const PING: Whose = [
    |_, both| Some(&both.found.echo),
    |_, both| Some(&both.idle.as_ref()?.echo),
];
const STAT: Whose = [
    |_, both| Some(&both.found.stat),
    |_, both| Some(&both.idle.as_ref()?.stat),
];

const SYNCS: Column<Both> = column("syncs", "/s", 0, |both| both.found.syncs_per_s);
const SYNC: Column<Both> = column("a sync", "us", 0, |both| or_nan(both.found.sync_us));
const TOLD: [Column<Both>; 3] = [
    column("ping p99", "us", 0, |both| both.found.echo.latency.p99_us),
    column("stat p99", "us", 0, |both| both.found.stat.latency.p99_us),
    SYNCS,
];

impl All {
    fn tables(&self) -> Vec<Table> {
        let pairs = |title, of| self.pairs(title, |_| true, of, [P50, P99]);
        let stat = "State of an unrelated file beside it, p50 / p99 in us";
        let lost = "Calls for that state without an answer, in %";
        let syncs = "Syncs per second / length of one in ms";
        vec![
            pairs("Ping beside it, p50 / p99 in us", PING[0]),
            pairs(stat, STAT[0]),
            self.unanswered(lost, STAT[0]),
            self.table(syncs, |_| true, |at| self.syncs(at)),
        ]
    }

    fn syncs(&self, at: At) -> Cell {
        match [SYNCS, SYNC].map(|column| self.figure(at, &column)) {
            _ if self.rows[at.0].writers == 0 => Cell::Missing("no writers".to_owned()),
            [Ok(rate), Ok(us)] => Cell::Text(format!("{} / {:.1}", grouped(rate, 0), us / 1e3)),
            _ => Cell::Missing(self.why(at)),
        }
    }

    /// What the disk work makes of a p99: over that without it, which was measured beside the row,
    /// or else in the first row.
    fn over_idle(&self, at: At, [of, idle]: Whose) -> Figured {
        let idle = P99.value(&self.echoes(at, idle));
        let idle = idle.map_or_else(|| self.reached((0, at.1), of, &P99), Ok);
        ratio(self.reached(at, of, &P99), idle)
    }

    /// What the disk work costs others, beside what it costs them without any runtime.
    fn floor_table(&self) -> Table {
        let columns = [
            ("ping, evenkeel", Peer::Evenkeel, PING),
            ("ping, OS thread", Peer::OsThread, PING),
            ("stat, evenkeel", Peer::Evenkeel, STAT),
            ("stat, OS thread", Peer::OsThread, STAT),
        ];
        let row = |(name, row): (&str, usize)| {
            let over = |(_, peer, of)| number(self.over_idle((row, peer), of), TIMES);
            [vec![name.into()], columns.map(over).to_vec()].concat()
        };
        let title = "p99 beside it over p99 without it, and the same without any runtime";
        let names = ["beside"].into_iter().chain(columns.map(|(name, ..)| name));
        Table::new(title, names, self.named().skip(1).map(row))
    }

    fn failures(&self) -> Option<String> {
        let failed = |both: &Both| Some(both.found.end.as_ref()?.failed);
        let failed: u64 = self.samples.all().filter_map(failed).sum();
        (failed > 0).then(|| format!("{failed} writers failed in all."))
    }
}

#[rustfmt::skip]
const BESIDE: [Rule<All>; 2] = [
    ("ping p99 over idle", |_, _| true,
        |all, row| all.over_idle((row, Peer::Evenkeel), PING), AtMost(PING_OVER_IDLE), TIMES),
    ("stat p99 over idle", |_, _| true,
        |all, row| all.over_idle((row, Peer::Evenkeel), STAT), AtMost(STAT_OVER_IDLE), TIMES),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(brief: bool, slow: bool) -> Vec<String> {
        let rows = rows(brief, slow).into_iter();
        rows.map(|row| row.name).collect()
    }

    #[test]
    fn in_brief_there_is_one_of_each_kind() {
        assert_eq!(
            names(true, true),
            [
                "nothing",
                "8 writers of 1 MiB",
                "32 writers of 4 KiB, on a slow disk",
                "600 opens that never return",
            ]
        );
    }

    #[test]
    fn in_full_every_size_has_every_number_of_writers() {
        let names = names(false, false);
        assert_eq!(names.len(), 1 + 4 * 3 + 1);
        assert!(names.contains(&"1 writer of 1 byte".to_owned()));
        assert!(!names.iter().any(|name| name.contains("slow")));
    }
}
