//! `responsive`: an echo probe beside tasks that hog the workers.

use std::time::Duration;

use super::grid::{Beside, Grid, Probe};
use super::lab::Lab;
use crate::error::Result;
use crate::peers::Peer;
use crate::report::Experiment;
use crate::serve::{HogPoll, HogYield};

const PROBE: Probe = Probe {
    experiment: "responsive",
    rate: 1_000,
    connections: 1,
    brief: Duration::from_millis(800),
    with_stats: false,
};

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let mut peers = lab.lineup.present.clone();
    peers.push(Peer::OsThread);
    let grid = Grid::measure(lab, &PROBE, rows(lab.workers), peers);
    let mut plots = vec![grid.bars()];
    plots.extend(grid.curves());
    Ok(Experiment {
        name: PROBE.experiment.to_owned(),
        claim: "Beside tasks that compute for 100 us at a time, an echo's latency stays near what \
                the kernel gives a thread of its own. The rows of 10 ms and of tasks that never \
                yield are shown as they are: they need the hand-off that evenkeel does not have \
                yet."
            .to_owned(),
        how: format!(
            "A probe of 1 kHz over one connection, in an open loop: latency counts from when a \
             request was due, and a request without an answer counts with the time waited so far. \
             The column `{}` has no runtime: one thread that echoes beside as many spinning \
             threads as there are hogs. A hog yields by its runtime's own function, or, where \
             tasks are futures, by waking itself and returning, as streams and combinators do. {}",
            Peer::OsThread.name(),
            lab.conditions()
        ),
        tables: grid.tables(),
        plots,
        notes: lab.lineup.missing.clone(),
        raw: grid.raw(),
    })
}

fn rows(workers: usize) -> Vec<Beside> {
    let hogs = 2 * workers;
    let row = |name: String, hogs, poll, yields| Beside {
        name,
        hogs,
        poll,
        yields,
    };
    let mut rows = vec![row(
        "nothing".to_owned(),
        0,
        HogPoll::Micros(100),
        HogYield::Runtime,
    )];
    for (length, us) in [("100 us", 100), ("10 ms", 10_000)] {
        for (how, yields) in [
            ("yielding", HogYield::Runtime),
            ("waking itself", HogYield::Wake),
        ] {
            let name = format!("{hogs} tasks, each poll {length}, {how}");
            rows.push(row(name, hogs, HogPoll::Micros(us), yields));
        }
    }
    let name = format!("{workers} tasks that never yield");
    rows.push(row(name, workers, HogPoll::Never, HogYield::Runtime));
    rows
}
