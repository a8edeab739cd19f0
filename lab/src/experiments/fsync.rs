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
use crate::error::Result;
use crate::peers::Peer;
use crate::report::Experiment;
use crate::trial::lab::Lab;
use crate::trial::verdict;

/// One measurement.
struct Sample {
    row: usize,
    peer: Peer,
    round: u32,
    found: Result<Found, String>,
    /// The same without the disk work, measured right before.
    idle: Option<Found>,
}

/// All of them.
struct Samples {
    rows: Vec<Beside>,
    peers: Vec<Peer>,
    samples: Vec<Sample>,
    logged: Logged,
}

const CLAIM: &str = "No task waits for a disk but those that use it: a ping beside writes and \
    syncs, and beside opens that never return, is to take as long as without them, as far as the \
    kernel gives way (the lone thread's rows); and a log that syncs for many at a time makes \
    records durable as fast as they come.";

/// What the full form adds.
const IN_BRIEF: &str = "In brief Tokio stands for all peers. `evenkeel-lab fsync --seconds 10` \
    adds Go and Erlang/OTP, all sizes and numbers of writers, what is idle beside each of them, \
    threads in every row, and logs over TCP on the slow disk.";

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let mut notes = lab.lineup.missing.clone();
    let places = Places::open(&mut notes)?;
    let rows = rows::rows(lab, &places);
    let peers = peers(lab);
    let mut samples = Vec::new();
    for round in 0..lab.rounds() {
        for (index, row) in rows.iter().enumerate() {
            for &peer in &peers {
                // In brief the kernel's own part is for the row that costs it most.
                if peer == Peer::OsThread && lab.is_brief() && (row.slow || row.hanging > 0) {
                    continue;
                }
                let judged = matches!(peer, Peer::Evenkeel | Peer::OsThread);
                let idle = if judged && !lab.is_brief() && !row.is_nothing() {
                    measure::beside(lab, &places, peer, &rows[0]).ok()
                } else {
                    None
                };
                let found = measure::beside(lab, &places, peer, row);
                let found = found.map_err(|error| error.to_string());
                let words = found.as_ref().map_or_else(Clone::clone, Found::describe);
                lab.progress(&format!("fsync: {}, {}: {words}", row.name, peer.name()));
                samples.push(Sample {
                    row: index,
                    peer,
                    round,
                    found,
                    idle,
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
    notes.extend(lab.is_brief().then(|| IN_BRIEF.to_owned()));
    Ok(Experiment {
        name: "fsync".to_owned(),
        claim: CLAIM.to_owned(),
        how: format!(
            "Tasks write to a file of their own and `fsync` it, for ever. Beside them an echo \
             is probed {} times a second, and the state of a file that nobody writes to is \
             asked for {} times a second, each by a call of its own: both in an open loop, so \
             that what is not answered counts with the time waited. `OS thread` is no runtime but \
             a thread for each writer, connection and call, whose syncs take turns: what the \
             kernel makes of the same work. A FIFO that nobody writes \
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
        verdicts: verdict::judged(&all.verdicts()),
        raw: all.raw(),
    })
}

/// Whom to measure, and what the kernel makes of it without any of them.
fn peers(lab: &Lab) -> Vec<Peer> {
    let in_brief = |peer: &Peer| matches!(peer, Peer::Evenkeel | Peer::Tokio);
    let present = lab.lineup.present.iter().copied();
    present
        .filter(|peer| !lab.is_brief() || in_brief(peer))
        .chain([Peer::OsThread])
        .collect()
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
                "idle": sample.idle,
            })
        };
        json!({
            "beside": self.samples.iter().map(sample).collect::<Vec<_>>(),
            "log": self.logged.raw(),
            "within": self.logged.within_raw(),
        })
    }
}
