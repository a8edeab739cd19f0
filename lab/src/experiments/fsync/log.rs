//! Durable appends: one sync for each record on every runtime, and the log that syncs for many,
//! asked over TCP and from within its process.

use std::time::Duration;

use super::measure::{Places, settle};
use crate::error::{Error, Result};
use crate::load::{AppendsSummary, LogSummary};
use crate::peers::{Peer, ServerSpec};
use crate::trial::figures::Column;
use crate::trial::lab::Lab;
use crate::trial::samples::{Describe, Samples};

/// Who appends at once.
pub(super) const CLIENTS: u32 = 1_000;

/// A log server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) peer: Peer,
    /// Whether it syncs for many records at a time.
    pub(super) together: bool,
    pub(super) slow: bool,
    pub(super) clients: u32,
}

impl Way {
    pub(super) fn name(&self) -> String {
        let how = ["one sync each", "txlog"][usize::from(self.together)];
        let many = if self.clients == 1 {
            ", one client"
        } else {
            ""
        };
        format!("{}, {how}{many}{}", self.peer.name(), on(self.slow))
    }
}

/// What came of each.
pub(super) struct Logged {
    pub(super) disks: &'static [bool],
    pub(super) ways: Vec<Way>,
    pub(super) found: Samples<Way, AppendsSummary>,
    /// Without a network, by whether the disk is slow.
    pub(super) within: Samples<bool, LogSummary>,
}

/// A figure of the appends at a server.
pub(super) type AppendsColumn = Column<AppendsSummary>;

impl Describe for AppendsSummary {
    fn describe(&self) -> String {
        let [p50, p99] = [self.latency.p50_us, self.latency.p99_us].map(|us| us / 1e3);
        format!("{:.0} appends/s, {p50:.1} / {p99:.1} ms", self.per_second)
    }
}

impl Describe for LogSummary {
    fn describe(&self) -> String {
        let found = &self.together;
        let [p99, sync] = [found.p99_us, found.sync_p50_us].map(|us| us / 1e3);
        format!(
            "{:.0} appends/s, p99 {p99:.2} ms, sync {sync:.2} ms",
            found.per_second
        )
    }
}

pub(super) fn run(lab: &Lab, places: &Places) -> Logged {
    let disks = disks(places.slow.is_some());
    let ways = ways(&lab.lineup.present, disks, lab.is_brief());
    let name = |way: Way| format!("fsync: log, {}", way.name());
    let one = |way: Way| measure(lab, places, way);
    let found = Samples::measure(lab, lab.rounds(), ways.iter().copied(), name, one);
    let name = |slow| format!("fsync: log within one process{}", on(slow));
    let one = |slow| within(lab, places, slow);
    let within = Samples::measure(lab, lab.rounds(), disks.iter().copied(), name, one);
    Logged {
        disks,
        ways,
        found,
        within,
    }
}

/// By whether they are slow.
fn disks(has_slow: bool) -> &'static [bool] {
    if has_slow { &[false, true] } else { &[false] }
}

/// What a disk adds to a name.
pub(super) fn on(slow: bool) -> &'static str {
    if slow { ", slow disk" } else { "" }
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

fn ways(present: &[Peer], disks: &[bool], brief: bool) -> Vec<Way> {
    let mut ways = Vec::new();
    // In brief the slow disk is for the log within one process alone.
    for &slow in disks.iter().filter(|slow| !**slow || !brief) {
        let mut add = |peer: Peer, together, clients: u32| {
            ways.push(Way {
                peer,
                together,
                slow,
                clients,
            });
        };
        for &peer in present {
            let own = peer == Peer::Evenkeel;
            // In brief Tokio stands for all peers.
            if own || !brief || peer == Peer::Tokio {
                add(peer, false, CLIENTS);
            }
            if own {
                add(peer, false, 1);
                add(peer, true, CLIENTS);
            }
        }
    }
    ways
}

fn measure(lab: &Lab, places: &Places, way: Way) -> Result<AppendsSummary> {
    let directory = places.of(way.slow);
    settle(&directory);
    let both = [("--log-path", "log"), ("--log-directory", "txlog")];
    let (flag, name) = both[usize::from(way.together)];
    let path = directory.join(name);
    let spec = ServerSpec::of(&["log"])
        .without_spin(way.peer)
        .set(flag, &path);
    let server = lab.serve(way.peer, &spec)?;
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
        let ways = ways(&[Peer::Evenkeel, Peer::Tokio], disks(true), false);
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
