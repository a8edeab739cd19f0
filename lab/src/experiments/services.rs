//! `services`: what handlers do in real services: one line of source spawns all of them, some of
//! them compute for long, and some block their thread.
//!
//! - [`measure`]: one server in one scene
//! - [`tables`]: what it comes to, with verdicts

mod measure;
mod tables;

use serde_json::json;

use self::measure::{Found, HIGH_HZ, MIXED_HZ};
use self::tables::JUDGED;
use crate::error::Result;
use crate::load::Over;
use crate::peers::Peer;
use crate::report::Experiment;
use crate::trial::lab::Lab;
use crate::trial::matrix::{self, Matrix};

/// What handlers do, and how they come to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// Calls of which one in four computes; `apart` if another line of source spawns these.
    Mixed { over: Over, apart: bool, rate: u32 },
    /// As `Mixed`, without a network.
    Tasks { apart: bool },
    /// So many tasks that block their thread.
    Blocked { tasks: usize },
    /// Calls that each compute for long.
    Posts,
}

struct Row {
    name: &'static str,
    scene: Scene,
}

/// All measurements.
type Services = Matrix<Row, Found>;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let (rows, peers) = (rows(lab.is_brief()), lab.lineup.present.clone());
    let one = |row: &Row, peer| measure::measure(lab, peer, row.scene);
    let all = Services::measure(lab, ("services", "scene"), rows, peers, one);
    let case =
        |(row, peer): (usize, Peer)| json!({ "scene": all.rows[row].name, "peer": peer.name() });
    let bars = "p99 of innocent calls, of a fresh task's wait, and of POSTs";
    let experiment = Experiment {
        how: lab.conditions(),
        tables: tables::tables(&all),
        plots: vec![all.bars(bars, "no answer", JUDGED)],
        raw: all.samples.raw(case, |found| json!({ "found": found })),
        ..Experiment::default()
    };
    Ok(experiment.judged("scene", tables::verdicts(&all)))
}

const fn mixed(name: &'static str, over: Over, apart: bool, rate: u32) -> Row {
    let scene = Scene::Mixed { over, apart, rate };
    Row { name, scene }
}

const fn row(name: &'static str, scene: Scene) -> Row {
    Row { name, scene }
}

/// Every row in which one line spawns both kinds stands before the same with a line each.
#[rustfmt::skip]
const ROWS: [Row; 13] = [
    mixed("HTTP/1.1, fresh connections, one line", Over::Fresh, false, MIXED_HZ),
    mixed("HTTP/1.1, fresh connections, a line each", Over::Fresh, true, MIXED_HZ),
    mixed("HTTP/1.1, kept connections, one line", Over::Kept, false, MIXED_HZ),
    mixed("HTTP/1.1, kept connections, a line each", Over::Kept, true, MIXED_HZ),
    mixed("HTTP/2, one line", Over::H2, false, MIXED_HZ),
    mixed("HTTP/2, a line each", Over::H2, true, MIXED_HZ),
    row("tasks, one line", Scene::Tasks { apart: false }),
    row("tasks, a line each", Scene::Tasks { apart: true }),
    mixed("HTTP/1.1, kept connections, high load, both kinds over each",
        Over::Shared, false, HIGH_HZ),
    mixed("HTTP/1.1, kept connections, high load, a line each", Over::Kept, true, HIGH_HZ),
    row("40 handlers that block", Scene::Blocked { tasks: 40 }),
    row("400 handlers that block", Scene::Blocked { tasks: 400 }),
    row("10 POSTs a second of 50 ms", Scene::Posts),
];

/// In brief only what is judged of handlers that block.
fn rows(brief: bool) -> Vec<Row> {
    let left_out = |row: &Row| brief && row.scene == Scene::Blocked { tasks: 40 };
    ROWS.into_iter().filter(|row| !left_out(row)).collect()
}

impl matrix::Row for Row {
    fn name(&self) -> &str {
        self.name
    }

    fn lacks(&self, peer: Peer) -> Option<&'static str> {
        let lacks = match self.scene {
            Scene::Mixed { over: Over::H2, .. } => "OTP's standard library has no HTTP/2",
            Scene::Blocked { .. } => "a process of OTP blocks no scheduler, but in native code",
            _ => return None,
        };
        (peer == Peer::Erlang).then_some(lacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::matrix::Row as _;

    #[test]
    fn what_shares_a_line_stands_before_what_does_not() {
        let rows = rows(false);
        for pair in rows[..8].chunks(2) {
            assert!(pair[0].name.ends_with(", one line"), "{}", pair[0].name);
            assert!(pair[1].name.ends_with(", a line each"), "{}", pair[1].name);
        }
        assert_eq!(rows.len(), 13);
    }

    #[test]
    fn only_erlang_lacks_anything() {
        for row in rows(false) {
            for peer in [Peer::Evenkeel, Peer::Tokio, Peer::Go] {
                assert_eq!(row.lacks(peer), None);
            }
        }
        let lacks = |name: &str| {
            let rows = rows(false);
            let row = rows.iter().find(|row| row.name.contains(name));
            row.expect("a row").lacks(Peer::Erlang).is_some()
        };
        assert!(lacks("HTTP/2") && lacks("block") && !lacks("POSTs"));
    }
}
