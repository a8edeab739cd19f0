//! What disk work does to others: tables, plots, verdicts.

use super::All;
use super::log::{AppendsColumn, CLIENTS, Logged, Way, on};
use super::measure::Both;
use super::rows::Beside;
use crate::load::{LogSummary, TurnSummary};
use crate::peers::Peer;
use crate::report::{Cell, Plot, Table, Verdict};
use crate::trial::echoes::Figure::{P50, P99};
use crate::trial::figures::{self, Column, column, count, grouped};
use crate::trial::matrix::Of;
use crate::trial::verdict::Reach::{self, AtLeast, AtMost};
use crate::trial::verdict::{self, Rule, TIMES, judge, ratio};

/// What is to be reached.
const PING_OVER_IDLE: f64 = 1.2;
const STAT_OVER_IDLE: f64 = 1.5;
const APPENDS_OVER_EACH: f64 = 50.0;
const P99_IN_SYNCS: f64 = 3.0;

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

const APPENDS: AppendsColumn = column("durable appends", "/s", 0, |found| found.per_second);
const APPEND_P99: AppendsColumn = column("p99", "ms", 1, |found| found.latency.p99_us / 1e3);
const APPEND_MEAN: AppendsColumn = column("mean", "ms", 1, |found| found.latency.mean_us / 1e3);
const LOG: [AppendsColumn; 4] = [
    APPENDS,
    column("p50", "ms", 1, |found| found.latency.p50_us / 1e3),
    APPEND_P99,
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
        let pairs = |title, [of, _]: Whose| all.pairs(title, |_| true, of, [P50, P99]);
        let stat = "State of an unrelated file beside it, p50 / p99 in us";
        let lost = "Calls for that state without an answer, in %";
        let syncs = "Syncs per second / length of one in ms";
        vec![
            pairs("Ping beside it, p50 / p99 in us", PING),
            pairs(stat, STAT),
            all.unanswered(lost, STAT[0]),
            all.table(syncs, |_| true, |row, peer| self.syncs(row, peer)),
            self.logged.table(),
            self.logged.within_table(),
            self.floor_table(),
        ]
    }

    fn syncs(&self, row: usize, peer: Peer) -> Cell {
        let median = |figure| self.beside.median(row, peer, figure);
        let rate = median(|both| Some(both.found.syncs_per_s));
        match (rate, median(|both| both.found.sync_us)) {
            _ if self.beside.rows[row].writers == 0 => Cell::Missing("no writers".to_owned()),
            (Ok(rate), Ok(us)) => Cell::Text(format!("{} / {:.1}", grouped(rate, 0), us / 1e3)),
            _ => Cell::Missing(self.beside.why(row, peer)),
        }
    }

    /// What the disk work makes of a p99: over that without it, which was measured beside the row,
    /// or else in the first row.
    fn over_idle(&self, row: usize, peer: Peer, [of, idle]: Whose) -> Result<f64, String> {
        let idle = self.beside.echoes(row, peer, idle).median(P99);
        let idle = idle.map_or_else(|| self.beside.reached(0, peer, of, P99), Ok);
        ratio(self.beside.reached(row, peer, of, P99), idle)
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
            let over = |(_, peer, of)| figures::number(self.over_idle(row, peer, of), TIMES);
            [vec![Cell::from(name)], columns.map(over).to_vec()].concat()
        };
        let title = "p99 beside it over p99 without it, and the same without any runtime";
        let names = ["beside"].into_iter().chain(columns.map(|(name, ..)| name));
        figures::table(title, names, self.beside.named().skip(1).map(row))
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = verdict::by_rules(self, self.beside.named().skip(1), &BESIDE);
        for &slow in self.logged.disks {
            verdicts.extend(self.logged.verdicts(slow));
        }
        verdicts
    }

    pub(super) fn plots(&self) -> Vec<Plot> {
        let bars = |title, [of, _]: Whose| self.beside.bars(title, "", of);
        let ways = self.logged.ways.iter();
        let ways = ways.map(|way| (way.name(), "appends", *way));
        let title = "Durable appends per second";
        vec![
            bars("Ping beside disk work, p99", PING),
            bars("State of an unrelated file beside disk work, p99", STAT),
            self.logged.found.bars(title, true, &APPENDS, ways),
        ]
    }

    pub(super) fn notes(&self) -> Option<String> {
        let found = self.beside.samples.all();
        let failed: u64 = found
            .filter_map(|both| Some(both.found.end.as_ref()?.failed))
            .sum();
        (failed > 0).then(|| format!("{failed} writers failed in all."))
    }
}

impl Logged {
    fn table(&self) -> Table {
        let named = self.ways.iter();
        let named = named.map(|way| ([way.name().into(), count(way.clients)], *way));
        let title = "A log: durable appends of 100 bytes";
        self.found.table(title, ["log", "clients"], named, &LOG)
    }

    fn within_table(&self) -> Table {
        let each = self.within.part(|found| found.each.clone());
        let together = self.within.part(|found| found.together.clone());
        let ways = [("one sync each, one thread", each), ("txlog", together)];
        let rows = self.disks.iter().flat_map(|&slow| {
            ways.each_ref().map(|(name, way)| {
                let name = Cell::Text(format!("{name}{}", on(slow)));
                [vec![name], way.cells(slow, &WITHIN)].concat()
            })
        });
        let title = format!("A log within one process: {CLIENTS} tasks that append 100 bytes each");
        let names = WITHIN.iter().map(|column| column.name);
        figures::table(title, ["log"].into_iter().chain(names), rows)
    }

    /// A figure of an evenkeel's log: whether it syncs for many, and of how many clients.
    fn of(
        &self,
        slow: bool,
        (together, clients): (bool, u32),
        column: &AppendsColumn,
    ) -> Result<f64, String> {
        let way = Way {
            peer: Peer::Evenkeel,
            together,
            slow,
            clients,
        };
        self.found.figure(way, column)
    }

    /// The log that syncs for many against one that syncs each: of a thousand clients and, for how
    /// long a sync takes, of one; and the log within one process.
    fn verdicts(&self, slow: bool) -> Vec<Verdict> {
        let of = format!("log{}", on(slow));
        let mut verdicts = verdict::by_rules(self, [(of, slow)], &LOGS);
        verdicts.extend(WITHIN_VERDICTS.map(|(column, reach)| {
            let of = format!("log within one process{}", on(slow));
            judge(
                of,
                column.name,
                self.within.figure(slow, &column),
                reach,
                column.unit,
            )
        }));
        verdicts
    }

    fn has_ways(&self, slow: bool) -> bool {
        self.ways.iter().any(|way| way.slow == slow)
    }
}

#[rustfmt::skip]
const BESIDE: [Rule<All>; 2] = [
    ("ping p99 over idle", |_, _| true,
        |all, row| all.over_idle(row, Peer::Evenkeel, PING), AtMost(PING_OVER_IDLE), TIMES),
    ("stat p99 over idle", |_, _| true,
        |all, row| all.over_idle(row, Peer::Evenkeel, STAT), AtMost(STAT_OVER_IDLE), TIMES),
];

#[rustfmt::skip]
const LOGS: [Rule<Logged, bool>; 2] = [
    ("appends over one sync each", Logged::has_ways, |log, slow| ratio(
        log.of(slow, (true, CLIENTS), &APPENDS), log.of(slow, (false, CLIENTS), &APPENDS)),
        AtLeast(APPENDS_OVER_EACH), ("×", 1)),
    ("append's p99 over the mean of one alone", Logged::has_ways, |log, slow| ratio(
        log.of(slow, (true, CLIENTS), &APPEND_P99), log.of(slow, (false, 1), &APPEND_MEAN)),
        AtMost(P99_IN_SYNCS), ("×", 1)),
];

/// Of syncs as long as they were meanwhile.
#[rustfmt::skip]
const WITHIN_VERDICTS: [(Column<LogSummary>, Reach); 3] = [
    (column("appends over one sync each", "×", 1,
        |found| found.together.per_second / found.each.per_second), AtLeast(APPENDS_OVER_EACH)),
    (column("append's p99 over a sync's median", "×", 1,
        |found| found.together.p99_us / found.together.sync_p50_us), AtMost(P99_IN_SYNCS)),
    (column("append's p99 over a sync's p99", "×", 1,
        |found| found.together.p99_us / found.together.sync_p99_us), AtMost(P99_IN_SYNCS)),
];
