//! `services`: what handlers do in real services: one line of source spawns all of them, some of
//! them compute for long, and some block their thread.
//!
//! - [`measure`]: one server in one scene
//! - [`tables`]: what it comes to, with verdicts

mod measure;
mod tables;

use serde_json::json;

use self::measure::{Found, POST, POSTS_HZ};
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
    Mixed { over: Over, apart: bool, load: Load },
    /// As `Mixed`, without a network.
    Tasks { apart: bool },
    /// So many tasks that block their thread.
    Blocked { tasks: usize },
    /// Calls that each compute for long.
    Posts,
}

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// A core's worth.
    Half,
    /// So much that a call which computes often finds two others doing so.
    High,
}

struct Row {
    name: String,
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

/// In brief only what is judged of handlers that block.
fn rows(brief: bool) -> Vec<Row> {
    let lines = [("one line", false), ("a line each", true)];
    let mut rows = Vec::new();
    let mut add = |name, scene| rows.push(Row { name, scene });
    for (how, over) in [
        ("HTTP/1.1, fresh connections", Over::Fresh),
        ("HTTP/1.1, kept connections", Over::Kept),
        ("HTTP/2", Over::H2),
    ] {
        for (lines, apart) in lines {
            let load = Load::Half;
            add(
                format!("{how}, {lines}"),
                Scene::Mixed { over, apart, load },
            );
        }
    }
    for (lines, apart) in lines {
        add(format!("tasks, {lines}"), Scene::Tasks { apart });
    }
    for (how, over, apart) in [
        ("both kinds over each", Over::Shared, false),
        ("a line each", Over::Kept, true),
    ] {
        let name = format!("HTTP/1.1, kept connections, high load, {how}");
        let load = Load::High;
        add(name, Scene::Mixed { over, apart, load });
    }
    for &tasks in if brief { &[400][..] } else { &[40, 400] } {
        add(
            format!("{tasks} handlers that block"),
            Scene::Blocked { tasks },
        );
    }
    let posts = format!("{POSTS_HZ} POSTs a second of {} ms", POST.as_millis());
    add(posts, Scene::Posts);
    rows
}

impl matrix::Row for Row {
    fn name(&self) -> &str {
        &self.name
    }

    fn lacks(&self, peer: Peer) -> Option<&'static str> {
        match self.scene {
            Scene::Mixed { over: Over::H2, .. } if peer == Peer::Erlang => {
                Some("OTP's standard library has no HTTP/2")
            }
            Scene::Blocked { .. } if peer == Peer::Erlang => {
                Some("a process of OTP blocks no scheduler, but in native code")
            }
            _ => None,
        }
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
