//! `fsync`: pings and an unrelated file's state beside disk work, and a log's durable appends.
//!
//! - [`rows`]: the disk work, from a byte to a megabyte, on slow disks and hung ones
//! - [`measure`]: one server beside it, also on a disk that is slow on purpose
//! - [`log`]: appends to a log
//! - [`tables`]: what it comes to, with verdicts

mod log;
mod measure;
mod rows;
mod tables;

use serde_json::json;

use self::log::Logged;
use self::measure::{Both, Places};
use self::rows::Beside;
use crate::error::Result;
use crate::peers::Peer;
use crate::report::Experiment;
use crate::trial::lab::Lab;
use crate::trial::matrix::Matrix;

/// All measurements.
struct All {
    beside: Matrix<Beside, Both>,
    logged: Logged,
}

/// What the full form adds.
const IN_BRIEF: &str = "In brief Tokio stands for all peers. `evenkeel-lab fsync --seconds 10` \
    adds Go and Erlang/OTP, all sizes and numbers of writers, what is idle beside each of them, \
    threads in every row, and logs over TCP on the slow disk.";

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let mut notes = Vec::new();
    let places = Places::open(&mut notes)?;
    let rows = rows::rows(lab.is_brief(), places.slow.is_some());
    let nothing = rows[0].clone();
    let one = |row: &Beside, peer| measure::both(lab, &places, peer, (row, &nothing));
    let beside = Matrix::measure(lab, ("fsync", "beside"), rows, peers(lab), one);
    let logged = log::run(lab, &places);
    let all = All { beside, logged };
    notes.extend(all.notes());
    notes.extend(lab.is_brief().then(|| IN_BRIEF.to_owned()));
    let experiment = Experiment {
        how: lab.conditions(),
        tables: all.tables(),
        plots: all.plots(),
        notes,
        raw: all.raw(),
        ..Experiment::default()
    };
    Ok(experiment.judged("beside", all.verdicts()))
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

impl All {
    fn raw(&self) -> serde_json::Value {
        let Logged { found, within, .. } = &self.logged;
        let case = |(row, peer): (usize, Peer)| {
            let name = &self.beside.rows[row].name;
            json!({ "beside": name, "peer": peer.name() })
        };
        json!({
            "beside": self.beside.samples.raw(case, |both| json!(both)),
            "log": found.raw(|way| json!({ "way": way.name() }), |of| json!({ "found": of })),
            "within": within.raw(|slow| json!({ "slow": slow }), |of| json!({ "found": of })),
        })
    }
}
