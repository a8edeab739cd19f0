//! A line for each interval, for logs and other programs.

use evenkeel::stats::show::{Count, Percent, Time};

use crate::view::View;

/// How many lines come between two heads.
const HEAD_EACH: usize = 20;

const COLUMNS: [&str; 12] = [
    "loop", "polls/s", "switch/s", "in/s", "out/s", "queue", "cpu", "util", "occup", "memory",
    "tasks", "conns",
];

/// The head of the columns, if one is due before this line.
pub(crate) fn head(line: usize) -> Option<String> {
    line.is_multiple_of(HEAD_EACH)
        .then(|| joined(COLUMNS.map(str::to_owned)))
}

/// What happened between two snapshots: the mean time between two I/O checks of a worker; polls of
/// tasks, switches of threads, deliveries and writes a second; tasks that are ready; processors in
/// use; utilisation; occupancy; memory; tasks; descriptors.
pub(crate) fn line(view: &View) -> String {
    let rates = &view.rates;
    let count = |value: f64| Count(value.round() as u64).to_string();
    let dash = || "-".to_owned();
    joined([
        Time(rates.loop_time).to_string(),
        count(rates.polls),
        rates.switches.map_or_else(dash, count),
        count(rates.inputs),
        count(rates.outputs),
        Count(rates.ready as u64).to_string(),
        rates.cpu.map_or_else(dash, |cpu| Percent(cpu).to_string()),
        Percent(view.utilisation).to_string(),
        Percent(view.occupancy).to_string(),
        rates
            .memory
            .map_or_else(dash, |bytes| format!("{}B", Count(bytes))),
        Count(rates.tasks as u64).to_string(),
        Count(rates.descriptors as u64).to_string(),
    ])
}

fn joined(cells: [String; COLUMNS.len()]) -> String {
    let cells = cells.map(|cell| format!("{cell:>8}"));
    cells.join("  ")
}
