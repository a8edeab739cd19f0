//! Durable appends: one sync for each record on every runtime, and the log that syncs for many.

use serde_json::json;
use std::time::Duration;

use super::measure::{Places, settle};
use super::slow::SlowDisk;
use crate::error::Result;
use crate::experiments::lab::Lab;
use crate::load::AppendsSummary;
use crate::peers::{Peer, ServerSpec};
use crate::serve::BusyWait;

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
}

pub(super) fn run(lab: &Lab, places: &Places, notes: &mut Vec<String>) -> Logged {
    let ways = ways(&lab.lineup.present, places.slow.is_some(), lab.is_brief());
    let mut found = Vec::new();
    for _ in 0..lab.rounds() {
        for (index, way) in ways.iter().enumerate() {
            settle();
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
    }
    notes.push(
        "Tokio, Go and OTP have no group commit of their own; their logs sync each record by \
         itself, as does the first of evenkeel's."
            .to_owned(),
    );
    Logged { ways, found }
}

fn ways(present: &[Peer], has_slow: bool, brief: bool) -> Vec<Way> {
    let mut ways = Vec::new();
    for slow in [false, true].into_iter().take(1 + usize::from(has_slow)) {
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
            // In brief Tokio stands for all peers, and the slow disk is for the verdicts alone.
            if own || !(brief && (slow || peer != Peer::Tokio)) {
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

fn measure(lab: &Lab, places: &Places, way: &Way) -> Result<AppendsSummary> {
    let slow = places.slow.as_ref().filter(|_| way.slow);
    let directory = slow.map_or_else(|| places.disk.path().to_owned(), SlowDisk::path);
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
