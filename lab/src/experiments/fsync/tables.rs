//! What disk work does to others: tables, plots, verdicts.

use super::log::{CLIENTS, Way};
use super::measure::Found;
use super::{Beside, Samples};
use crate::load::{AppendsSummary, EchoSummary, LogSummary, TurnSummary};
use crate::peers::Peer;
use crate::report::{Cell, Plot, Table};
use crate::trial::figures::{cell, median, micros};
use crate::trial::verdict::{self, Reach, Verdict, ratio};

/// What is to be reached.
const PING_OVER_IDLE: f64 = 1.2;
const STAT_OVER_IDLE: f64 = 1.5;
const APPENDS_OVER_EACH: f64 = 50.0;
const P99_IN_SYNCS: f64 = 3.0;

/// One part of what was found.
type Of<Whole, Part> = fn(&Whole) -> &Part;

impl Samples {
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables = vec![
            self.table("Ping beside it, p50 / p99 in us", |row, peer| {
                self.pair(row, peer, |found| &found.echo)
            }),
            self.table(
                "State of an unrelated file beside it, p50 / p99 in us",
                |row, peer| self.pair(row, peer, |found| &found.stat),
            ),
            self.table(
                "Calls for that state without an answer, in %",
                |row, peer| {
                    let lost = |found: &Found| {
                        let stat = &found.stat;
                        100.0 * stat.unanswered as f64 / stat.requests.max(1) as f64
                    };
                    let why = self.failure(row, peer);
                    cell(self.found(row, peer).map(lost), "%", 1, &why)
                },
            ),
            self.table("Syncs per second / length of one in ms", |row, peer| {
                let each = median(self.found(row, peer).filter_map(|found| found.sync_us));
                match (self.rows[row].writers, each) {
                    (0, _) => Cell::Missing("no writers".to_owned()),
                    (_, None) => Cell::Missing(self.failure(row, peer)),
                    (_, Some(us)) => {
                        let rate = median(self.found(row, peer).map(|found| found.syncs_per_s));
                        let rate = micros(rate.unwrap_or(0.0));
                        Cell::Text(format!("{rate} / {:.1}", us / 1e3))
                    }
                }
            }),
            self.log_table(),
        ];
        if self.peers.contains(&Peer::Evenkeel) {
            tables.push(self.within_table());
            tables.push(self.floor_table());
            let verdicts = self.verdicts();
            tables.push(verdict::table("Verdicts on evenkeel", "beside", &verdicts));
        }
        tables
    }

    fn table(&self, title: &str, cell: impl Fn(usize, Peer) -> Cell) -> Table {
        let names = self.peers.iter().map(|peer| peer.name().to_owned());
        let row = |(index, row): (usize, &Beside)| {
            let cells = self.peers.iter().map(|&peer| cell(index, peer));
            std::iter::once(Cell::Text(row.name.clone()))
                .chain(cells)
                .collect()
        };
        Table {
            title: title.to_owned(),
            columns: std::iter::once("beside".to_owned()).chain(names).collect(),
            rows: self.rows.iter().enumerate().map(row).collect(),
        }
    }

    fn found(&self, row: usize, peer: Peer) -> impl Iterator<Item = &Found> + Clone {
        let of = self
            .samples
            .iter()
            .filter(move |sample| sample.row == row && sample.peer == peer);
        of.filter_map(|sample| sample.found.as_ref().ok())
    }

    fn failure(&self, row: usize, peer: Peer) -> String {
        let mut of = self
            .samples
            .iter()
            .filter(|sample| sample.row == row && sample.peer == peer);
        let error = of.find_map(|sample| sample.found.as_ref().err());
        error.map_or_else(|| "not measured".to_owned(), Clone::clone)
    }

    fn pair(&self, row: usize, peer: Peer, of: fn(&Found) -> &EchoSummary) -> Cell {
        let all = || self.found(row, peer).map(of);
        let mut silent = all().map(|summary| summary.unanswered == summary.requests);
        if all().next().is_some() && silent.all(|silent| silent) {
            return Cell::from("no answer at all");
        }
        let p50 = median(all().map(|summary| summary.latency.p50_us));
        match p50.zip(median(all().map(|summary| summary.latency.p99_us))) {
            Some((p50, p99)) => Cell::Text(format!("{} / {}", micros(p50), micros(p99))),
            None => Cell::Missing(self.failure(row, peer)),
        }
    }

    fn p99(&self, row: usize, peer: Peer, of: fn(&Found) -> &EchoSummary) -> Result<f64, String> {
        let p99 = median(self.found(row, peer).map(|found| of(found).latency.p99_us));
        p99.ok_or_else(|| self.failure(row, peer))
    }

    /// Without the disk work: measured beside the row, or else the row with nothing.
    fn idle_p99(
        &self,
        row: usize,
        peer: Peer,
        of: fn(&Found) -> &EchoSummary,
    ) -> Result<f64, String> {
        let mine = self
            .samples
            .iter()
            .filter(|s| s.row == row && s.peer == peer);
        let beside = mine.filter_map(|sample| sample.idle.as_ref());
        let nothing = self.rows.iter().position(Beside::is_nothing);
        match (median(beside.map(|idle| of(idle).latency.p99_us)), nothing) {
            (Some(p99), _) => Ok(p99),
            (None, Some(nothing)) => self.p99(nothing, peer, of),
            (None, None) => Err("not measured".to_owned()),
        }
    }

    fn over_idle(
        &self,
        row: usize,
        peer: Peer,
        of: fn(&Found) -> &EchoSummary,
    ) -> Result<f64, String> {
        ratio(self.p99(row, peer, of), self.idle_p99(row, peer, of))
    }

    /// What the disk work costs others, beside what it costs them without any runtime.
    fn floor_table(&self) -> Table {
        let whom: [(Peer, Of<Found, EchoSummary>); 4] = [
            (Peer::Evenkeel, |found| &found.echo),
            (Peer::OsThread, |found| &found.echo),
            (Peer::Evenkeel, |found| &found.stat),
            (Peer::OsThread, |found| &found.stat),
        ];
        let cells = |(row, beside): (usize, &Beside)| {
            let over = whom.map(|(peer, of)| match self.over_idle(row, peer, of) {
                Ok(over) => Cell::Text(format!("{over:.2}×")),
                Err(why) => Cell::Missing(why),
            });
            std::iter::once(Cell::Text(beside.name.clone()))
                .chain(over)
                .collect()
        };
        let loaded = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| !row.is_nothing());
        let columns = [
            "beside",
            "ping, evenkeel",
            "ping, OS thread",
            "stat, evenkeel",
            "stat, OS thread",
        ];
        Table {
            title: "p99 beside it over p99 without it, and the same without any runtime".to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: loaded.map(cells).collect(),
        }
    }

    fn within_table(&self) -> Table {
        let mut rows = Vec::new();
        for slow in [false, true] {
            let ways: [(&str, Of<LogSummary, TurnSummary>); 2] = [
                ("one sync each, one thread", |found| &found.each),
                ("txlog", |found| &found.together),
            ];
            for (name, way) in ways.into_iter().filter(|_| self.logged.has_within(slow)) {
                let why = self.logged.within_failure(slow);
                let number = |figure: fn(&TurnSummary) -> f64, unit, digits| {
                    let all = self.logged.within(slow).map(|found| figure(way(found)));
                    cell(all, unit, digits, &why)
                };
                let disk = if slow { ", slow disk" } else { "" };
                rows.push(vec![
                    Cell::Text(format!("{name}{disk}")),
                    number(|turn| turn.per_second, "/s", 0),
                    number(|turn| turn.p50_us / 1e3, "ms", 2),
                    number(|turn| turn.p99_us / 1e3, "ms", 2),
                    number(|turn| turn.sync_p50_us / 1e3, "ms", 2),
                    number(|turn| turn.sync_p99_us / 1e3, "ms", 2),
                    number(|turn| turn.records_per_sync, "", 1),
                ]);
            }
        }
        let columns = [
            "log",
            "durable appends",
            "p50",
            "p99",
            "a sync, p50",
            "a sync, p99",
            "records in one",
        ];
        Table {
            title: format!("A log within one process: {CLIENTS} tasks that append 100 bytes each"),
            columns: columns.map(str::to_owned).into(),
            rows,
        }
    }

    /// The log within one process, and syncs as long as they were meanwhile.
    fn within_verdicts(&self, slow: bool) -> Vec<Verdict> {
        let found = |figure: fn(&LogSummary) -> f64| {
            let all = self.logged.within(slow).map(figure);
            median(all).ok_or_else(|| self.logged.within_failure(slow))
        };
        if !self.logged.has_within(slow) {
            return Vec::new();
        }
        let disk = if slow { ", slow disk" } else { "" };
        let verdict = |what: &str, figure, reach| Verdict {
            of: format!("log within one process{disk}"),
            what: what.to_owned(),
            found: found(figure),
            reach,
            unit: "×",
            digits: 1,
        };
        vec![
            verdict(
                "appends over one sync each",
                |found| found.together.per_second / found.each.per_second,
                Reach::AtLeast(APPENDS_OVER_EACH),
            ),
            verdict(
                "append's p99 over a sync's median",
                |found| found.together.p99_us / found.together.sync_p50_us,
                Reach::AtMost(P99_IN_SYNCS),
            ),
            verdict(
                "append's p99 over a sync's p99",
                |found| found.together.p99_us / found.together.sync_p99_us,
                Reach::AtMost(P99_IN_SYNCS),
            ),
        ]
    }

    fn log_table(&self) -> Table {
        let logged = &self.logged;
        let row = |(index, way): (usize, &Way)| {
            let why = logged.failure(index);
            let number = |figure: &dyn Fn(&AppendsSummary) -> f64, unit, digits| {
                cell(logged.found(index).map(figure), unit, digits, &why)
            };
            vec![
                Cell::Text(way.name.clone()),
                number(&|_| f64::from(way.clients), "", 0),
                number(&|found| found.per_second, "/s", 0),
                number(&|found| found.latency.p50_us / 1e3, "ms", 1),
                number(&|found| found.latency.p99_us / 1e3, "ms", 1),
                number(&|found| found.clients_lost as f64, "", 0),
            ]
        };
        let columns = [
            "log",
            "clients",
            "durable appends",
            "p50",
            "p99",
            "hung up on",
        ];
        Table {
            title: "A log: durable appends of 100 bytes".to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: logged.ways.iter().enumerate().map(row).collect(),
        }
    }

    /// What is to be reached; none where evenkeel takes no part.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let own = Peer::Evenkeel;
        let mut verdicts = Vec::new();
        if !self.peers.contains(&own) {
            return verdicts;
        }
        let loaded = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| !row.is_nothing());
        for (row, beside) in loaded {
            let mut over = |what: &str, of: fn(&Found) -> &EchoSummary, most| {
                verdicts.push(Verdict {
                    of: beside.name.clone(),
                    what: what.to_owned(),
                    found: self.over_idle(row, own, of),
                    reach: Reach::AtMost(most),
                    unit: "×",
                    digits: 2,
                });
            };
            over("ping p99 over idle", |found| &found.echo, PING_OVER_IDLE);
            over("stat p99 over idle", |found| &found.stat, STAT_OVER_IDLE);
        }
        for slow in [false, true] {
            verdicts.extend(self.log_verdicts(slow));
            verdicts.extend(self.within_verdicts(slow));
        }
        verdicts
    }

    /// The log that syncs for many against one that syncs each: of a thousand clients, and, for
    /// how long a sync takes, of one.
    fn log_verdicts(&self, slow: bool) -> Vec<Verdict> {
        let logged = &self.logged;
        let find = |together: bool, clients: u32, figure: fn(&AppendsSummary) -> f64| {
            let way = logged.ways.iter().position(|way| {
                let same = way.peer == Peer::Evenkeel && way.slow == slow;
                same && way.together == together && way.clients == clients
            });
            let way = way.ok_or_else(|| "not measured".to_owned())?;
            median(logged.found(way).map(figure)).ok_or_else(|| logged.failure(way))
        };
        if !logged.ways.iter().any(|way| way.slow == slow) {
            return Vec::new();
        }
        let rate = |found: &AppendsSummary| found.per_second;
        let disk = if slow { "log, slow disk" } else { "log" };
        let verdict = |what: &str, found, reach| Verdict {
            of: disk.to_owned(),
            what: what.to_owned(),
            found,
            reach,
            unit: "×",
            digits: 1,
        };
        let appends = ratio(find(true, CLIENTS, rate), find(false, CLIENTS, rate));
        let p99 = find(true, CLIENTS, |found| found.latency.p99_us);
        let sync = find(false, 1, |found| found.latency.mean_us);
        vec![
            verdict(
                "appends over one sync each",
                appends,
                Reach::AtLeast(APPENDS_OVER_EACH),
            ),
            verdict(
                "append's p99 over the mean of one alone",
                ratio(p99, sync),
                Reach::AtMost(P99_IN_SYNCS),
            ),
        ]
    }

    pub(super) fn plots(&self) -> Vec<Plot> {
        let bars = |title: &str, of: fn(&Found) -> &EchoSummary| {
            let group = |(index, row): (usize, &Beside)| {
                let bar = |&peer: &Peer| {
                    let p99 = self.p99(index, peer, of).ok()?;
                    Some((peer.name().to_owned(), p99))
                };
                (
                    row.name.clone(),
                    self.peers.iter().filter_map(bar).collect(),
                )
            };
            Plot::Bars {
                title: title.to_owned(),
                unit: "us".to_owned(),
                log: true,
                endless: String::new(),
                groups: self.rows.iter().enumerate().map(group).collect(),
            }
        };
        let logged = &self.logged;
        let appends = |(index, way): (usize, &Way)| {
            let rate = median(logged.found(index).map(|found| found.per_second))?;
            Some((way.name.clone(), vec![("appends".to_owned(), rate)]))
        };
        vec![
            bars("Ping beside disk work, p99", |found| &found.echo),
            bars(
                "State of an unrelated file beside disk work, p99",
                |found| &found.stat,
            ),
            Plot::Bars {
                title: "Durable appends per second".to_owned(),
                unit: "/s".to_owned(),
                log: true,
                endless: String::new(),
                groups: logged.ways.iter().enumerate().filter_map(appends).collect(),
            },
        ]
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let found = self.samples.iter().filter_map(|s| s.found.as_ref().ok());
        let failed = found.filter_map(|found| Some(found.end.as_ref()?.failed));
        let failed: u64 = failed.sum();
        let words = format!("{failed} writers failed in all.");
        (failed > 0).then_some(words).into_iter().collect()
    }
}
