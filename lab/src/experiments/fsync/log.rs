//! Durable appends: one sync for each record on every runtime, and the log that syncs for many,
//! asked over TCP and from within its process.

use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::measure::{Places, settle};
use super::slow::SlowDisk;
use crate::error::Result;
use crate::load::{AppendsSummary, LogSummary};
use crate::peers::{Peer, ServerSpec};
use crate::serve::BusyWait;
use crate::trial::lab::Lab;

/// Who appends at once.
pub(super) const CLIENTS: u32 = 1_000;

/// A log server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) name: String,
    pub(super) peer: Peer,
    /// Whether it syncs for many records at a time.
    pub(super) together: bool,
    pub(super) slow: bool,
    pub(super) clients: u32,
}

/// What came of each.
pub(super) struct Logged {
    pub(super) ways: Vec<Way>,
    pub(super) found: Vec<(usize, Result<AppendsSummary, String>)>,
    /// Without a network: whether the disk is slow, and what came of it.
    pub(super) within: Vec<(bool, Result<LogSummary, String>)>,
}

pub(super) fn run(lab: &Lab, places: &Places, notes: &mut Vec<String>) -> Logged {
    let ways = ways(&lab.lineup.present, places.slow.is_some(), lab.is_brief());
    let (mut found, mut within) = (Vec::new(), Vec::new());
    for _ in 0..lab.rounds() {
        for (index, way) in ways.iter().enumerate() {
            settle(&directory_of(places, way));
            let appended = measure(lab, places, way).map_err(|error| error.to_string());
            let words = match &appended {
                Ok(appended) => format!(
                    "{:.0} appends/s, {:.1} / {:.1} ms",
                    appended.per_second,
                    appended.latency.p50_us / 1e3,
                    appended.latency.p99_us / 1e3
                ),
                Err(why) => why.clone(),
            };
            lab.progress(&format!("fsync: log, {}: {words}", way.name));
            found.push((index, appended));
        }
        if lab.lineup.present.contains(&Peer::Evenkeel) {
            within.extend(both_within(lab, places));
        }
    }
    notes.push(
        "Tokio, Go and OTP have no group commit of their own; their logs sync each record by \
         itself, as does the first of evenkeel's."
            .to_owned(),
    );
    Logged {
        ways,
        found,
        within,
    }
}

/// On the disk, and on the slow one if there is one.
fn both_within(lab: &Lab, places: &Places) -> Vec<(bool, Result<LogSummary, String>)> {
    let slow = places.slow.as_ref().map(|slow| (true, slow.path()));
    let disks = [(false, places.disk.path().to_owned())].into_iter();
    let measured = disks.chain(slow).map(|(slow, directory)| {
        settle(&directory);
        let appended = within(lab, &directory, slow).map_err(|error| error.to_string());
        let words = match &appended {
            Ok(found) => format!(
                "{:.0} appends/s, p99 {:.2} ms, sync {:.2} ms",
                found.together.per_second,
                found.together.p99_us / 1e3,
                found.together.sync_p50_us / 1e3
            ),
            Err(why) => why.clone(),
        };
        let disk = if slow { ", slow disk" } else { "" };
        lab.progress(&format!("fsync: log within one process{disk}: {words}"));
        (slow, appended)
    });
    measured.collect()
}

fn within(lab: &Lab, directory: &Path, slow: bool) -> Result<LogSummary> {
    let path = directory.join("within");
    std::fs::create_dir_all(&path).map_err(|source| crate::error::Error::Write {
        path: path.clone(),
        source,
    })?;
    let brief = Duration::from_millis(if slow { 1_000 } else { 600 });
    let seconds = lab.measured(brief).as_secs_f64().to_string();
    let (path, appenders) = (path.to_string_lossy(), CLIENTS.to_string());
    let args = ["log", &path, "--appenders", &appenders];
    lab.load(&[&args[..], &["--seconds", &seconds]].concat())?
        .result()
}

fn ways(present: &[Peer], has_slow: bool, brief: bool) -> Vec<Way> {
    let mut ways = Vec::new();
    // In brief the slow disk is for the log within one process alone.
    for slow in [false, true]
        .into_iter()
        .take(1 + usize::from(has_slow && !brief))
    {
        let disk = if slow { ", slow disk" } else { "" };
        let mut add = |peer: Peer, together, clients: u32| {
            let how = match together {
                true => "txlog",
                false => "one sync each",
            };
            let many = if clients == 1 { ", one client" } else { "" };
            ways.push(Way {
                name: format!("{}, {how}{many}{disk}", peer.name()),
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

fn directory_of(places: &Places, way: &Way) -> PathBuf {
    let slow = places.slow.as_ref().filter(|_| way.slow);
    slow.map_or_else(|| places.disk.path().to_owned(), SlowDisk::path)
}

fn measure(lab: &Lab, places: &Places, way: &Way) -> Result<AppendsSummary> {
    let directory = directory_of(places, way);
    let (flag, name) = match way.together {
        true => ("--log-directory", "txlog"),
        false => ("--log-path", "log"),
    };
    let path = directory.join(name).display().to_string();
    let server = lab.serve(
        way.peer,
        &ServerSpec {
            services: vec!["log"],
            flags: vec![flag.to_owned(), path],
            busy_wait: (way.peer == Peer::Erlang).then_some(BusyWait::None),
            ..ServerSpec::default()
        },
    )?;
    let (log, clients) = (server.address("log")?.to_string(), way.clients.to_string());
    // On a slow disk one round of a thousand clients takes longer.
    let brief = Duration::from_millis(if way.slow { 1_200 } else { 600 });
    let seconds = lab.measured(brief).as_secs_f64().to_string();
    let args = [
        "appends",
        &log,
        "--clients",
        &clients,
        "--seconds",
        &seconds,
    ];
    let found = lab.load(&args)?.result();
    drop(server);
    if way.together {
        // The next round begins with a new log; what is left goes with the directory.
        let _ = std::fs::remove_dir_all(directory.join(name));
    }
    found
}

impl Logged {
    pub(super) fn found(&self, way: usize) -> impl Iterator<Item = &AppendsSummary> + Clone {
        let of = self.found.iter().filter(move |(index, _)| *index == way);
        of.filter_map(|(_, found)| found.as_ref().ok())
    }

    pub(super) fn failure(&self, way: usize) -> String {
        let mut of = self.found.iter().filter(|(index, _)| *index == way);
        let error = of.find_map(|(_, found)| found.as_ref().err());
        error.map_or_else(|| "not measured".to_owned(), Clone::clone)
    }

    pub(super) fn has_within(&self, slow: bool) -> bool {
        self.within.iter().any(|(on_slow, _)| *on_slow == slow)
    }

    pub(super) fn within(&self, slow: bool) -> impl Iterator<Item = &LogSummary> + Clone {
        let of = self
            .within
            .iter()
            .filter(move |(on_slow, _)| *on_slow == slow);
        of.filter_map(|(_, found)| found.as_ref().ok())
    }

    pub(super) fn within_failure(&self, slow: bool) -> String {
        let mut of = self.within.iter().filter(|(on_slow, _)| *on_slow == slow);
        let error = of.find_map(|(_, found)| found.as_ref().err());
        error.map_or_else(|| "not measured".to_owned(), Clone::clone)
    }

    pub(super) fn within_raw(&self) -> serde_json::Value {
        let one = |(slow, found): &(bool, Result<LogSummary, String>)| {
            json!({
                "slow": slow,
                "found": found.as_ref().ok(),
                "error": found.as_ref().err(),
            })
        };
        self.within.iter().map(one).collect()
    }

    pub(super) fn raw(&self) -> serde_json::Value {
        let way = |(index, found): &(usize, Result<AppendsSummary, String>)| {
            json!({
                "way": self.ways[*index].name,
                "found": found.as_ref().ok(),
                "error": found.as_ref().err(),
            })
        };
        self.found.iter().map(way).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_syncs_each_and_evenkeel_for_many() {
        let ways = ways(&[Peer::Evenkeel, Peer::Tokio], true, false);
        let names: Vec<&str> = ways.iter().map(|way| way.name.as_str()).collect();
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
