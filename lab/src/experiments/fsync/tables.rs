//! What disk work does to others: tables, plots, verdicts.

use super::All;
use super::log::{CLIENTS, on};
use super::measure::{Both, Found};
use super::rows::Beside;
use crate::load::{AppendsSummary, EchoSummary, LogSummary, TurnSummary};
use crate::peers::Peer;
use crate::report::{Cell, Plot, Table};
use crate::trial::columns::{Column, column};
use crate::trial::echoes::Figure::{P50, P99, Unanswered};
use crate::trial::figures::{self, bars, median, micros};
use crate::trial::matrix::Row;
use crate::trial::verdict::Reach::{AtLeast, AtMost};
use crate::trial::verdict::{self, Rule, TIMES, Verdict, ratio};

/// What is to be reached.
const PING_OVER_IDLE: f64 = 1.2;
const STAT_OVER_IDLE: f64 = 1.5;
const APPENDS_OVER_EACH: f64 = 50.0;
const P99_IN_SYNCS: f64 = 3.0;

/// Whose latency a figure is.
type Of = fn(&Found) -> &EchoSummary;
const PING: Of = |found| &found.echo;
const STAT: Of = |found| &found.stat;

const LOG: [Column<AppendsSummary>; 4] = [
    column("durable appends", "/s", 0, |found| found.per_second),
    column("p50", "ms", 1, |found| found.latency.p50_us / 1e3),
    column("p99", "ms", 1, |found| found.latency.p99_us / 1e3),
    column("hung up on", "", 0, |found| found.clients_lost as f64),
];

const WITHIN: [Column<TurnSummary>; 6] = [
    column("durable appends", "/s", 0, |turn| turn.per_second),
    column("p50", "ms", 2, |turn| turn.p50_us / 1e3),
    column("p99", "ms", 2, |turn| turn.p99_us / 1e3),
    column("a sync, p50", "ms", 2, |turn| turn.sync_p50_us / 1e3),
    column("a sync, p99", "ms", 2, |turn| turn.sync_p99_us / 1e3),
    column("records in one", "", 1, |turn| turn.records_per_sync),
];

impl All {
    pub(super) fn tables(&self) -> Vec<Table> {
        let all = &self.beside;
        let table =
            |title, cell: &dyn Fn(usize, Peer) -> Cell| all.table(title, "beside", |_| true, cell);
        let pair = |row, peer, of: Of| {
            let echoes = all.echoes(row, peer, |both| Some(of(&both.found)));
            echoes.pair([P50, P99], || all.why(row, peer))
        };
        let mut tables = vec![
            table("Ping beside it, p50 / p99 in us", &|row, peer| {
                pair(row, peer, PING)
            }),
            table(
                "State of an unrelated file beside it, p50 / p99 in us",
                &|row, peer| pair(row, peer, STAT),
            ),
            table(
                "Calls for that state without an answer, in %",
                &|row, peer| {
                    let lost = all
                        .echoes(row, peer, |both| Some(&both.found.stat))
                        .median(Unanswered);
                    figures::number(lost.ok_or_else(|| all.why(row, peer)), ("%", 1))
                },
            ),
            table("Syncs per second / length of one in ms", &|row, peer| {
                self.syncs(row, peer)
            }),
            self.log_table(),
        ];
        if all.peers.contains(&Peer::Evenkeel) {
            tables.push(self.within_table());
            tables.push(self.floor_table());
            tables.push(verdict::table(
                "Verdicts on evenkeel",
                "beside",
                &self.verdicts(),
            ));
        }
        tables
    }

    fn syncs(&self, row: usize, peer: Peer) -> Cell {
        let found = || self.beside.found(row, peer).map(|both| &both.found);
        match median(found().filter_map(|found| found.sync_us)) {
            _ if self.beside.rows[row].writers == 0 => Cell::Missing("no writers".to_owned()),
            None => Cell::Missing(self.beside.why(row, peer)),
            Some(us) => {
                let rate = median(found().map(|found| found.syncs_per_s)).unwrap_or(0.0);
                Cell::Text(format!("{} / {:.1}", micros(rate), us / 1e3))
            }
        }
    }

    fn p99(&self, row: usize, peer: Peer, of: Of) -> Result<f64, String> {
        let p99 = self
            .beside
            .echoes(row, peer, |both| Some(of(&both.found)))
            .median(P99);
        p99.ok_or_else(|| self.beside.why(row, peer))
    }

    /// What the disk work makes of a p99: over that without it, which was measured beside the row,
    /// or else in the row with nothing.
    fn over_idle(&self, row: usize, peer: Peer, of: Of) -> Result<f64, String> {
        let idle = |both: &'_ Both| Some(of(both.idle.as_ref()?).latency.p99_us);
        let beside = median(self.beside.found(row, peer).filter_map(idle));
        let nothing = self.beside.rows.iter().position(Beside::is_nothing);
        let idle = match (beside, nothing) {
            (Some(p99), _) => Ok(p99),
            (None, Some(nothing)) => self.p99(nothing, peer, of),
            (None, None) => Err("not measured".to_owned()),
        };
        ratio(self.p99(row, peer, of), idle)
    }

    /// What the disk work costs others, beside what it costs them without any runtime.
    fn floor_table(&self) -> Table {
        let columns = [
            ("ping, evenkeel", Peer::Evenkeel, PING),
            ("ping, OS thread", Peer::OsThread, PING),
            ("stat, evenkeel", Peer::Evenkeel, STAT),
            ("stat, OS thread", Peer::OsThread, STAT),
        ];
        let rows = self.beside.rows.iter().enumerate();
        let row = |(row, beside): (usize, &Beside)| {
            let over = columns.map(|(_, peer, of)| match self.over_idle(row, peer, of) {
                Ok(over) => Cell::Text(format!("{over:.2}×")),
                Err(why) => Cell::Missing(why),
            });
            [Cell::from(beside.name())]
                .into_iter()
                .chain(over)
                .collect()
        };
        let title = "p99 beside it over p99 without it, and the same without any runtime";
        let names = ["beside"].into_iter().chain(columns.map(|(name, ..)| name));
        figures::table(
            title,
            names,
            rows.filter(|(_, row)| !row.is_nothing()).map(row).collect(),
        )
    }

    fn within_table(&self) -> Table {
        let within = &self.logged.within;
        let ways = [
            (
                "one sync each, one thread",
                within.part(|found| found.each.clone()),
            ),
            ("txlog", within.part(|found| found.together.clone())),
        ];
        let disks = [false, true].into_iter().filter(|slow| within.has(*slow));
        let rows = disks.flat_map(|slow| {
            ways.each_ref().map(|(name, way)| {
                let name = Cell::Text(format!("{name}{}", on(slow)));
                [vec![name], way.cells(slow, &WITHIN)].concat()
            })
        });
        let title = format!("A log within one process: {CLIENTS} tasks that append 100 bytes each");
        let names = ["log"].into_iter().chain(WITHIN.iter().map(Column::name));
        figures::table(&title, names, rows.collect())
    }

    fn log_table(&self) -> Table {
        let ways = self.logged.ways.iter().enumerate();
        let rows = ways.map(|(index, way)| {
            let clients = figures::number(Ok(way.clients.into()), ("", 0));
            let named = vec![Cell::Text(way.name.clone()), clients];
            [named, self.logged.found.cells(index, &LOG)].concat()
        });
        let names = ["log", "clients"]
            .into_iter()
            .chain(LOG.iter().map(Column::name));
        figures::table("A log: durable appends of 100 bytes", names, rows.collect())
    }

    /// What is to be reached; none where evenkeel takes no part.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        if !self.beside.peers.contains(&Peer::Evenkeel) {
            return Vec::new();
        }
        let rows = self.beside.rows.iter().map(Row::name);
        let mut verdicts = verdict::by_rules(self, rows, &BESIDE);
        for slow in [false, true] {
            if self.logged.ways.iter().any(|way| way.slow == slow) {
                verdicts.extend(self.log_verdicts(slow));
            }
            if self.logged.within.has(slow) {
                verdicts.extend(self.within_verdicts(slow));
            }
        }
        verdicts
    }

    /// The log that syncs for many against one that syncs each: of a thousand clients, and, for
    /// how long a sync takes, of one.
    fn log_verdicts(&self, slow: bool) -> [Verdict; 2] {
        let logged = &self.logged;
        let find = |together: bool, clients: u32, figure: fn(&AppendsSummary) -> f64| {
            let way = logged.ways.iter().position(|way| {
                let same = way.peer == Peer::Evenkeel && way.slow == slow;
                same && way.together == together && way.clients == clients
            });
            logged.found.median(way.ok_or("not measured")?, figure)
        };
        let rate = |found: &AppendsSummary| found.per_second;
        let appends = ratio(find(true, CLIENTS, rate), find(false, CLIENTS, rate));
        let p99 = find(true, CLIENTS, |found| found.latency.p99_us);
        let p99 = ratio(p99, find(false, 1, |found| found.latency.mean_us));
        [
            (
                "appends over one sync each",
                appends,
                AtLeast(APPENDS_OVER_EACH),
            ),
            (
                "append's p99 over the mean of one alone",
                p99,
                AtMost(P99_IN_SYNCS),
            ),
        ]
        .map(|(what, found, reach)| {
            Verdict::new(format!("log{}", on(slow)), what, found, reach, ("×", 1))
        })
    }

    /// The log within one process, and syncs as long as they were meanwhile.
    fn within_verdicts(&self, slow: bool) -> [Verdict; 3] {
        WITHIN_VERDICTS.map(|(what, figure, reach)| {
            let found = self.logged.within.median(slow, figure);
            let of = format!("log within one process{}", on(slow));
            Verdict::new(of, what, found, reach, ("×", 1))
        })
    }

    pub(super) fn plots(&self) -> Vec<Plot> {
        let p99 = |title, of: Of| {
            self.beside
                .bars(title, "", |row, peer| self.p99(row, peer, of).ok())
        };
        let ways = self.logged.ways.iter().enumerate();
        let appends = ways.filter_map(|(index, way)| {
            let rate = self
                .logged
                .found
                .median(index, |found| found.per_second)
                .ok()?;
            Some((way.name.clone(), vec![("appends".to_owned(), rate)]))
        });
        vec![
            p99("Ping beside disk work, p99", PING),
            p99("State of an unrelated file beside disk work, p99", STAT),
            bars("Durable appends per second", "/s", true, appends.collect()),
        ]
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let ends = self
            .beside
            .samples
            .all()
            .filter_map(|both| both.found.end.as_ref());
        let failed: u64 = ends.map(|end| end.failed).sum();
        let words = format!("{failed} writers failed in all.");
        (failed > 0).then_some(words).into_iter().collect()
    }
}

#[rustfmt::skip]
const BESIDE: [Rule<All>; 2] = [
    ("ping p99 over idle", is_loaded,
        |all, row| all.over_idle(row, Peer::Evenkeel, PING), AtMost(PING_OVER_IDLE), TIMES),
    ("stat p99 over idle", is_loaded,
        |all, row| all.over_idle(row, Peer::Evenkeel, STAT), AtMost(STAT_OVER_IDLE), TIMES),
];

fn is_loaded(all: &All, row: usize) -> bool {
    !all.beside.rows[row].is_nothing()
}

/// A verdict on the log within one process.
type Within = (&'static str, fn(&LogSummary) -> f64, verdict::Reach);

#[rustfmt::skip]
const WITHIN_VERDICTS: [Within; 3] = [
    ("appends over one sync each",
        |found| found.together.per_second / found.each.per_second, AtLeast(APPENDS_OVER_EACH)),
    ("append's p99 over a sync's median",
        |found| found.together.p99_us / found.together.sync_p50_us, AtMost(P99_IN_SYNCS)),
    ("append's p99 over a sync's p99",
        |found| found.together.p99_us / found.together.sync_p99_us, AtMost(P99_IN_SYNCS)),
];
