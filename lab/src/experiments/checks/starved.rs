//! The third part of `checks`, the case that the published experiment never ran: much computing,
//! little I/O.

use std::time::Duration;

use super::throughput::checks_table;
use crate::error::Result;
use crate::report::Experiment;
use crate::serve::HogPoll;
use crate::trial::grid::{Beside, Grid, Probe};
use crate::trial::lab::Lab;

const PROBE: Probe = Probe {
    experiment: "checks",
    rate: 250,
    connections: 8,
    brief: Duration::from_millis(800),
    with_stats: true,
    with_stalls: false,
    with_work: false,
};

pub(super) fn run(lab: &Lab) -> Result<Experiment> {
    let hogs = [0, 4, 32].map(|per_core| per_core * lab.workers);
    let poll = HogPoll::Micros(100);
    let row = |hogs: usize| Beside::hogs(format!("{hogs} hogs of 100 us"), hogs, poll);
    let rows = hogs.into_iter().map(row).collect();
    let grid = Grid::of_probe(lab, &PROBE, rows, lab.lineup.present.clone());
    let mut tables = grid.tables();
    for table in &mut tables {
        table.title = format!("Hogs with little I/O: {}", table.title);
    }
    let counted = grid.stats().map(|(name, stats)| (name, stats, None));
    tables.extend(checks_table(
        "Hogs with little I/O: evenkeel's I/O checks",
        counted,
    ));
    Ok(Experiment {
        how: format!(
            "Hogs: tasks that compute for 100 us and yield, up to 32 for each worker, beside an \
             echo of {} requests a second over {} connections, in an open loop. Readiness to run \
             is what its latency has above that of no hogs.",
            PROBE.rate, PROBE.connections
        ),
        tables,
        plots: vec![grid.p99_bars()],
        notes: vec![
            "Evenkeel's own account of waits is of all tasks: that of the hogs, which wait for \
             each other, is in it."
                .to_owned(),
        ],
        raw: grid.raw(),
        ..Experiment::default()
    })
}
