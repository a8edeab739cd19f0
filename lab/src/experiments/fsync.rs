//! `fsync`: pings and an unrelated file's state beside disk work, and a log's durable appends.
//!
//! - [`rows`]: the disk work, from a byte to a megabyte, on slow disks and hung ones
//! - [`measure`]: one server beside it
//! - [`slow`]: a disk that is slow on purpose
//! - [`log`]: appends to a log
//! - [`tables`]: what it comes to, with verdicts

mod log;
mod measure;
mod rows;
mod slow;
mod tables;

use serde_json::json;

use self::log::Logged;
use self::measure::{Found, Places};
use self::rows::Beside;
use super::lab::Lab;
use crate::error::Result;
use crate::peers::Peer;
use crate::report::Experiment;

/// One measurement.
struct Sample {
    row: usize,
    peer: Peer,
    round: u32,
    found: Result<Found, String>,
}

/// All of them.
struct Samples {
    rows: Vec<Beside>,
    peers: Vec<Peer>,
    samples: Vec<Sample>,
    logged: Logged,
}

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let mut notes = lab.lineup.missing.clone();
    let places = Places::open(&mut notes)?;
    let rows = rows::rows(lab, &places);
    let peers = lab.lineup.present.clone();
    let mut samples = Vec::new();
    for round in 0..lab.rounds() {
        for (index, row) in rows.iter().enumerate() {
            for &peer in &peers {
                let found = measure::beside(lab, &places, peer, row);
                let found = found.map_err(|error| error.to_string());
                let words = found.as_ref().map_or_else(Clone::clone, Found::describe);
                lab.progress(&format!("fsync: {}, {}: {words}", row.name, peer.name()));
                samples.push(Sample {
                    row: index,
                    peer,
                    round,
                    found,
                });
            }
        }
    }
    let logged = log::run(lab, &places, &mut notes);
    let all = Samples {
        rows,
        peers,
        samples,
        logged,
    };
    notes.extend(all.notes());
    Ok(Experiment {
        name: "fsync".to_owned(),
        claim: "Whatever the disk does, nobody else waits for it: a ping beside writes and syncs, \
                and beside opens that never return, takes as long as without them; and a log that \
                syncs for many at a time makes records durable as fast as they come."
            .to_owned(),
        how: format!(
            "Tasks write to a file of their own and `fsync` it, for ever. Beside them an echo \
             is probed {} times a second, and the state of a file that nobody writes to is \
             asked for {} times a second, each by a call of its own: both in an open loop, so \
             that what is not answered counts with the time waited. A FIFO that nobody writes \
             to stands for a disk that hangs: to open it never returns. {} Appends are of 100 \
             bytes, by clients that each wait for the acknowledgement. {}",
            measure::PROBE_HZ,
            measure::STAT_HZ,
            places.words(),
            lab.conditions()
        ),
        tables: all.tables(),
        plots: all.plots(),
        notes,
        raw: all.raw(),
    })
}

impl Samples {
    fn raw(&self) -> serde_json::Value {
        let sample = |sample: &Sample| {
            json!({
                "beside": self.rows[sample.row].name,
                "peer": sample.peer.name(),
                "round": sample.round,
                "found": sample.found.as_ref().ok(),
                "error": sample.found.as_ref().err(),
            })
        };
        json!({
            "beside": self.samples.iter().map(sample).collect::<Vec<_>>(),
            "log": self.logged.raw(),
        })
    }
}
