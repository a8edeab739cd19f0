//! Durable appends: one sync for each record on every runtime, and the log that syncs for many,
//! asked over TCP and from within its process.

use std::time::Duration;

use serde_json::{Value, json};

use super::measure::{Places, settle};
use crate::error::{Error, Result};
use crate::load::{AppendsSummary, LogSummary, TurnSummary};
use crate::peers::{Peer, ServerSpec};
use crate::report::{Plot, Table, Verdict};
use crate::trial::figures::count;
use crate::trial::{AtLeast, AtMost, Column, Figured, Lab, Rule, Samples, by_rules, column, ratio};

/// What is to be reached.
const APPENDS_OVER_EACH: f64 = 50.0;
const P99_IN_SYNCS: f64 = 3.0;

/// Who appends at once.
const CLIENTS: u32 = 1_000;

/// A log server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    peer: Peer,
    /// Whether it syncs for many records at a time.
    together: bool,
    slow: bool,
    clients: u32,
}

impl Way {
    pub(super) fn name(&self) -> String {
        let how = ["one sync each", "txlog"][usize::from(self.together)];
        let many = ["", ", one client"][usize::from(self.clients == 1)];
        format!("{}, {how}{many}{}", self.peer.name(), on(self.slow))
    }
}

/// What came of each.
pub(super) struct Logged {
    found: Samples<Way, AppendsSummary>,
    /// Without a network, by whether the disk is slow.
    within: Samples<bool, LogSummary>,
}

/// A figure of the appends at a server.
type AppendsColumn = Column<AppendsSummary>;

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
const WITHIN_TOLD: [Column<LogSummary>; 3] = [
    column("appends", "/s", 0, |found| found.together.per_second),
    column("p99", "ms", 2, |found| found.together.p99_us / 1e3),
    column("records in one", "", 1, |of| of.together.records_per_sync),
];

impl Logged {
    pub(super) fn measure(lab: &Lab, places: &Places) -> Self {
        let has_slow = usize::from(places.slow.is_some());
        let disks = &[false, true][..=has_slow];
        let ways = ways(&lab.lineup.present, disks, lab.is_brief());
        let (rounds, disks) = (lab.rounds(), disks.iter().copied());
        let name = |way: Way| format!("fsync: log, {}", way.name());
        let found = Samples::measure(lab, rounds, ways, name, &LOG, |way| at(lab, places, way));
        let name = |slow| format!("fsync: log within one process{}", on(slow));
        let one = |slow| within(lab, places, slow);
        let within = Samples::measure(lab, rounds, disks, name, &WITHIN_TOLD, one);
        Logged { found, within }
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        let named = |way: Way| ([way.name().into(), count(way.clients)], way);
        let named = self.found.keys().map(named);
        let title = "A log: durable appends of 100 bytes";
        let over_tcp = self.found.table(title, ["log", "clients"], named, &LOG);
        let each = self.within.part(|found| found.each.clone());
        let together = self.within.part(|found| found.together.clone());
        let ways = [("one sync each, one thread", each), ("txlog", together)];
        let rows = self.within.keys().flat_map(|slow| {
            ways.each_ref().map(|(name, way)| {
                let name = format!("{name}{}", on(slow));
                [vec![name.into()], way.cells(slow, &WITHIN)].concat()
            })
        });
        let title = format!("A log within one process: {CLIENTS} tasks that append 100 bytes each");
        let names = ["log"].into_iter().chain(WITHIN.map(|column| column.name));
        vec![over_tcp, Table::new(title, names, rows)]
    }

    pub(super) fn bars(&self) -> Plot {
        let ways = self.found.keys().map(|way| (way.name(), "appends", way));
        let title = "Durable appends per second";
        self.found.bars(title, true, &APPENDS, ways)
    }

    /// A figure of an evenkeel's log: whether it syncs for many, and of how many clients.
    fn of(&self, slow: bool, together: bool, clients: u32, of: &AppendsColumn) -> Figured {
        let peer = Peer::Evenkeel;
        let way = Way {
            peer,
            together,
            slow,
            clients,
        };
        self.found.figure(way, of)
    }

    fn within(&self, slow: bool, of: fn(&LogSummary) -> f64) -> Figured {
        self.within.figure(slow, &column("", "", 0, of))
    }

    /// The log that syncs for many against one that syncs each, on every disk.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let on_disk = |slow| {
            let over_tcp = by_rules(self, [(format!("log{}", on(slow)), slow)], &OVER_TCP);
            let of = format!("log within one process{}", on(slow));
            [over_tcp, by_rules(self, [(of, slow)], &IN_PROCESS)].concat()
        };
        self.within.keys().flat_map(on_disk).collect()
    }

    /// Every measurement over TCP, and within one process.
    pub(super) fn raw(&self) -> [Value; 2] {
        let way = |way: Way| json!({ "way": way.name() });
        let slow = |slow| json!({ "slow": slow });
        let over_tcp = self.found.raw(way, |found| json!({ "found": found }));
        let within = self.within.raw(slow, |found| json!({ "found": found }));
        [over_tcp, within]
    }

    fn has_ways(&self, slow: bool) -> bool {
        self.found.keys().any(|way| way.slow == slow)
    }
}

/// Of a thousand clients and, for how long a sync takes, of one.
#[rustfmt::skip]
const OVER_TCP: [Rule<Logged, bool>; 2] = [
    ("appends over one sync each", Logged::has_ways, |log, slow| ratio(
        log.of(slow, true, CLIENTS, &APPENDS), log.of(slow, false, CLIENTS, &APPENDS)),
        AtLeast(APPENDS_OVER_EACH), ("×", 1)),
    ("append's p99 over the mean of one alone", Logged::has_ways, |log, slow| ratio(
        log.of(slow, true, CLIENTS, &APPEND_P99), log.of(slow, false, 1, &APPEND_MEAN)),
        AtMost(P99_IN_SYNCS), ("×", 1)),
];

/// Of syncs as long as they were meanwhile.
#[rustfmt::skip]
const IN_PROCESS: [Rule<Logged, bool>; 3] = [
    ("appends over one sync each", |_, _| true, |log, slow| log.within(slow,
        |found| found.together.per_second / found.each.per_second),
        AtLeast(APPENDS_OVER_EACH), ("×", 1)),
    ("append's p99 over a sync's median", |_, _| true, |log, slow| log.within(slow,
        |found| found.together.p99_us / found.together.sync_p50_us),
        AtMost(P99_IN_SYNCS), ("×", 1)),
    ("append's p99 over a sync's p99", |_, _| true, |log, slow| log.within(slow,
        |found| found.together.p99_us / found.together.sync_p99_us),
        AtMost(P99_IN_SYNCS), ("×", 1)),
];

/// What a disk adds to a name.
fn on(slow: bool) -> &'static str {
    if slow { ", slow disk" } else { "" }
}

fn ways(present: &[Peer], disks: &[bool], brief: bool) -> Vec<Way> {
    // In brief the slow disk is for the log within one process alone, and Tokio stands for all
    // peers.
    let disks = disks.iter().filter(|slow| !**slow || !brief);
    let kept = |peer: &&Peer| !brief || matches!(peer, Peer::Evenkeel | Peer::Tokio);
    let servers = present.iter().filter(kept).flat_map(|&peer| {
        let own = [(false, CLIENTS), (false, 1), (true, CLIENTS)];
        let kinds = if peer == Peer::Evenkeel { 3 } else { 1 };
        own.into_iter().take(kinds).map(move |kind| (peer, kind))
    });
    let on = |&slow: &bool| {
        servers.clone().map(move |(peer, (together, clients))| Way {
            peer,
            together,
            slow,
            clients,
        })
    };
    disks.flat_map(on).collect()
}

fn within(lab: &Lab, places: &Places, slow: bool) -> Result<LogSummary> {
    let directory = places.of(slow);
    settle(&directory);
    let path = directory.join("within");
    std::fs::create_dir_all(&path).map_err(Error::write(&path))?;
    let brief = Duration::from_millis(if slow { 1_000 } else { 600 });
    let load = lab.load("log").at(&path).lasts(lab.measured(brief));
    load.with(format_args!("--appenders {CLIENTS}")).result()
}

fn at(lab: &Lab, places: &Places, way: Way) -> Result<AppendsSummary> {
    let directory = places.of(way.slow);
    settle(&directory);
    let both = [("--log-path", "log"), ("--log-directory", "txlog")];
    let (flag, name) = both[usize::from(way.together)];
    let path = directory.join(name);
    let spec = ServerSpec::of(&["log"]).without_spin(way.peer);
    let server = lab.serve(way.peer, &spec.set(flag, &path))?;
    // On a slow disk one round of a thousand clients takes longer.
    let brief = Duration::from_millis(if way.slow { 1_200 } else { 600 });
    let (target, clients) = (server.address("log")?, way.clients);
    let load = lab.load(format_args!("appends {target} --clients {clients}"));
    let found = load.lasts(lab.measured(brief)).result();
    drop(server);
    if way.together {
        // The next round begins with a new log; what is left goes with the directory.
        let _ = std::fs::remove_dir_all(path);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_syncs_each_and_evenkeel_for_many() {
        let ways = ways(&[Peer::Evenkeel, Peer::Tokio], &[false, true], false);
        let names: Vec<String> = ways.iter().map(Way::name).collect();
        let fast = [
            "evenkeel, one sync each",
            "evenkeel, one sync each, one client",
            "evenkeel, txlog",
            "tokio, one sync each",
        ];
        assert_eq!(names[..4], fast);
        assert_eq!(names[4], "evenkeel, one sync each, slow disk");
        assert_eq!(names.len(), 8);
    }
}
