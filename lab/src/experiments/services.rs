//! `services`: what handlers do in real services: one line of source spawns all of them, some of
//! them compute for long, and some block their thread.
//!
//! - [`measure`]: one server in one scene
//! - [`tables`]: what it comes to, with verdicts

mod measure;
mod tables;

use serde_json::json;

use self::measure::{BLOCK, FRESH_HZ, Found, HIGH_HZ, HOG, MIXED_HZ, POST, POSTS_HZ, TASKS_HZ};
use self::tables::JUDGED;
use crate::error::Result;
use crate::load::Over;
use crate::peers::Peer;
use crate::report::Experiment;
use crate::trial::echoes::P999_REQUESTS_MIN;
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
    let note = format!(
        "A p99.9 is quoted where a cell has at least {P999_REQUESTS_MIN} requests in all its \
         rounds, which takes some 25 seconds for each measurement (`--seconds 25`)."
    );
    let case =
        |(row, peer): (usize, Peer)| json!({ "scene": all.rows[row].name, "peer": peer.name() });
    let bars = "p99 of innocent calls, of a fresh task's wait, and of POSTs";
    let experiment = Experiment {
        how: how(lab),
        tables: tables::tables(&all),
        plots: vec![all.bars(bars, "no answer", JUDGED)],
        notes: vec![note],
        raw: all.samples.raw(case, |found| json!({ "found": found })),
        ..Experiment::default()
    };
    Ok(experiment.judged("scene", tables::verdicts(&all)))
}

fn how(lab: &Lab) -> String {
    format!(
        "{MIXED_HZ} calls a second in an open loop, latency counting from when a call was due; one \
         in four makes the server compute for {} ms in a single poll, a core's worth in all, and \
         the others are innocent: answered at once. Over HTTP/1.1 a task serves a connection, \
         fresh for each call, kept for calls of one kind, or kept for both kinds; over HTTP/2 a \
         task serves a call, and all have one connection. `one line`: one line of source \
         spawns the tasks of both kinds; `a line each`: those that compute come in at an address, \
         and from a line, of their own; `high load`: {HIGH_HZ} calls a second. Tasks \
         without a network are {TASKS_HZ} a second, a fifth of which computes as long and a \
         fifth of which is urgent, where there is such a class or priority; their wait is that \
         from being spawned to the first poll. Handlers that block hold their thread for {} s, all \
         begun at once, beside {FRESH_HZ} fresh tasks a second and an echo probed 1 000 times a \
         second. POSTs come {POSTS_HZ} times a second, each over a connection of its own, and \
         compute for {} ms, beside such an echo. What is never spawned or answered counts with the \
         time waited. {}",
        HOG.as_millis(),
        BLOCK.as_secs(),
        POST.as_millis(),
        lab.conditions()
    )
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
