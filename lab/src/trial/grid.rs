//! A grid of echo probes: what stands beside the probe down, who answers across.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::client;
use super::echoes::{self, CALM_LONGEST, CALM_P999, CALM_PERCENT, Figure};
use super::echoes::{LONGEST, P50, P99, P999, is_silent};
use super::figures::{Column, Figured, column, or_nan};
use super::lab::Lab;
use super::matrix::{At, Matrix, Of, Row};
use crate::error::{Error, Result};
use crate::load::EchoSummary;
use crate::peers::{Peer, ServerSpec};
use crate::process::Server;
use crate::report::{Cell, NARROW_SPACE, Plot, Table};
use crate::serve::{Burn, HogPoll, HogYield, RuntimeStats, Work};

/// What stands beside the probe.
pub(crate) struct Beside {
    pub(crate) name: String,
    pub(crate) hogs: usize,
    pub(crate) poll: HogPoll,
    pub(crate) yields: HogYield,
    pub(crate) burn: Option<Burn>,
}

impl Beside {
    /// So many hogs that yield, if they do, by their runtime's own function.
    pub(crate) fn hogs(name: String, hogs: usize, poll: HogPoll) -> Self {
        Beside {
            name,
            hogs,
            poll,
            yields: HogYield::Runtime,
            burn: None,
        }
    }

    /// Whether anything computes beside the probe.
    pub(crate) fn computes(&self) -> bool {
        self.hogs > 0 || self.burn.is_some()
    }

    /// Whether there are hogs, and each of them yields at some time.
    pub(crate) fn yields_in_time(&self) -> bool {
        self.hogs > 0 && matches!(self.poll, HogPoll::Micros(_))
    }

    /// Whether what computes beside the probe does so in short polls.
    pub(crate) fn is_short(&self) -> bool {
        self.hogs > 0 && matches!(self.poll, HogPoll::Micros(..1_000))
    }
}

impl Row for Beside {
    fn name(&self) -> &str {
        &self.name
    }

    fn case(&self) -> Value {
        json!({ "beside": self.name, "hogs": self.hogs })
    }

    fn lacks(&self, peer: Peer) -> Option<&'static str> {
        let concerns = self.yields == HogYield::Runtime || peer.has_futures();
        (!concerns).then_some("as the row above")
    }
}

/// How the probe asks.
pub(crate) struct Probe {
    pub(crate) experiment: &'static str,
    pub(crate) rate: u32,
    pub(crate) connections: u32,
    /// Seconds of each measurement in brief.
    pub(crate) brief: Duration,
    /// Whether what the hogs compute is counted, alone and beside the probe.
    pub(crate) with_work: bool,
    /// Whether requests in whose time no processor stood still are told of apart.
    pub(crate) with_stalls: bool,
}

/// All measurements of a grid.
pub(crate) type Grid = Matrix<Beside, Found>;

/// What one probe found, and what evenkeel said of itself afterwards.
#[derive(Serialize)]
pub(crate) struct Found {
    #[serde(rename = "found")]
    echo: EchoSummary,
    stats: Option<RuntimeStats>,
    #[serde(rename = "hog_work_cores")]
    hog_work: Option<HogWork>,
}

/// What the hogs computed, in cores: alone, then beside the probe.
#[derive(Debug, Clone, Copy, Serialize)]
struct HogWork {
    alone: f64,
    beside: f64,
}

impl Found {
    fn work(&self, of: fn(HogWork) -> f64) -> f64 {
        self.hog_work.map_or(f64::NAN, of)
    }
}

const ALONE: Column<Found> = column("alone", "", 2, |found| found.work(|work| work.alone));
/// What hogs compute beside the probe, in cores.
pub(crate) const CORES: Column<Found> =
    column("beside", "", 2, |found| found.work(|work| work.beside));
/// The same in percent of what they do alone.
pub(crate) const KEPT: Column<Found> = column("kept", "%", 0, |found| {
    found.work(|work| 100.0 * work.beside / work.alone)
});
/// What the thread that looks for stuck workers uses, in percent of a core.
pub(crate) const MONITOR: Column<Found> = column("monitor", "%", 2, |found| {
    let stats = found.stats.as_ref();
    100.0 * or_nan(stats.and_then(RuntimeStats::monitor_cores))
});
const TOLD: [Column<Found>; 3] = [
    column("p50", "us", 0, |found| found.echo.latency.p50_us),
    column("p99", "us", 0, |found| found.echo.latency.p99_us),
    column("unanswered", "", 0, |found| found.echo.unanswered as f64),
];

const ECHO: Of<Beside, Found> = |_, found| Some(&found.echo);

impl Grid {
    pub(crate) fn of_probe(lab: &Lab, probe: &Probe, rows: Vec<Beside>, peers: Vec<Peer>) -> Self {
        let names = (probe.experiment, "beside the probe");
        Matrix::measure(lab, names, (rows, peers), &TOLD, |beside, peer| {
            measure(lab, probe, peer, beside)
        })
    }

    /// Latencies, longest, unanswered and, where it was counted, the hogs' work.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let pairs = |title, figures| self.pairs(title, |_| true, ECHO, figures);
        let mut tables = vec![
            pairs("Echo latency, p50 / p99 in us", [P50, P99]),
            pairs("Echo latency, p99.9 / longest in us", [P999, LONGEST]),
        ];
        if self.samples.all().any(|found| found.echo.calm.is_some()) {
            let title = "Echo latency where no processor stood still, p99.9 / longest in us, and \
                         of how many requests, in %";
            tables.push(self.table(title, |_| true, |at| self.calm(at)));
        }
        tables.push(self.unanswered("Requests without an answer, in %", ECHO));
        if self.samples.all().any(|found| found.hog_work.is_some()) {
            let title = "What the hogs computed, in cores: alone, beside the probe, and kept in %";
            tables.push(self.table(title, |_| true, |at| self.work_cell(at)));
        }
        tables
    }

    /// The p99 of every cell as bars; that of a peer which never answers has no end.
    pub(crate) fn p99_bars(&self) -> Plot {
        let title = "Echo latency, p99 (unanswered requests count with the time waited)";
        self.bars(title, "no answer", ECHO)
    }

    /// The whole distribution of every row, a curve for each peer.
    pub(crate) fn curves(&self) -> Vec<Plot> {
        let plot = |(name, row): (&str, usize)| {
            let first = |&peer: &Peer| {
                let found = self.samples.found((row, peer)).next()?;
                Some((peer.name().to_owned(), &found.echo))
            };
            let title = format!("Beside {name}: the slowest request in so many (first round)");
            echoes::curves(title, "request", self.peers.iter().filter_map(first))
        };
        self.named().map(plot).collect()
    }

    /// A latency of a cell in microseconds, or why there is none.
    pub(crate) fn latency(&self, row: usize, peer: Peer, figure: &Figure) -> Figured {
        self.quoted(self.told_at(row, peer), ECHO, figure)
    }

    /// Another figure of a cell, or why there is none.
    pub(crate) fn further(&self, row: usize, peer: Peer, figure: &Column<Found>) -> Figured {
        self.figure(self.told_at(row, peer), figure)
    }

    /// The cell that has the figures of this one: where a peer has not this case apart from the one
    /// above it, the one above.
    fn told_at(&self, row: usize, peer: Peer) -> At {
        let lacks = self.rows[row].lacks(peer).is_some();
        (row.saturating_sub(usize::from(lacks)), peer)
    }

    /// What evenkeel said of itself in the first round, row by row.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (&str, &RuntimeStats)> {
        let first = self.samples.first();
        first.filter_map(|((row, _), found)| Some((self.rows[row].name(), found.stats.as_ref()?)))
    }

    fn calm(&self, at: At) -> Cell {
        let echoes = self.echoes(at, ECHO);
        let pair = echoes::pair(&echoes, &[CALM_P999, CALM_LONGEST], || self.why(at));
        match (pair.shown(), CALM_PERCENT.value(&echoes)) {
            (Cell::Text(pair), Some(share)) if !is_silent(&echoes) => {
                Cell::Text(format!("{pair}, {share:.1}{NARROW_SPACE}%"))
            }
            _ => pair,
        }
    }

    fn work_cell(&self, at: At) -> Cell {
        match [ALONE, CORES, KEPT].map(|column| self.figure(at, &column)) {
            [Ok(alone), Ok(beside), Ok(kept)] => Cell::Text(format!(
                "{alone:.2} → {beside:.2}, {kept:.0}{NARROW_SPACE}%"
            )),
            _ if !self.rows[at.0].computes() => Cell::Missing("no hogs".to_owned()),
            _ => Cell::Missing(self.why(at)),
        }
    }
}

fn measure(lab: &Lab, probe: &Probe, peer: Peer, beside: &Beside) -> Result<Found> {
    let with_work = probe.with_work && beside.computes();
    let mut spec = ServerSpec::of(&["echo"]);
    spec.services.extend(peer.is_evenkeel().then_some("api"));
    spec.services.extend(with_work.then_some("work"));
    if beside.hogs > 0 {
        let (hogs, poll, yields) = (beside.hogs, beside.poll, beside.yields.word());
        spec = spec.with(format_args!("--hogs {hogs} --hog-poll-us {poll}"));
        spec = spec.own(format_args!("--hog-yield {yields}"));
    }
    if let Some(burn) = beside.burn {
        spec = spec.with(format_args!("--burn {burn}"));
    }
    let server = lab.serve(peer, &spec)?;
    let seconds = lab.measured(probe.brief);
    let alone = with_work.then(|| work_alone(&server, seconds));
    let alone = alone.transpose()?;
    let before = alone.and_then(|_| work(&server).ok());
    let echo = ask(lab, probe, &server, seconds)?;
    let now = before.as_ref().and_then(|_| work(&server).ok());
    let both = now.zip(before);
    let beside = both.and_then(|(now, then)| now.cores_since(&then));
    let hog_work = alone.zip(beside);
    // Accounts that are not to be had are absent from the report; the probe's result stands.
    let stats = peer.is_evenkeel().then(|| client::accounts(&server, peer));
    Ok(Found {
        echo,
        stats: stats.flatten(),
        hog_work: hog_work.map(|(alone, beside)| HogWork { alone, beside }),
    })
}

/// What the hogs compute without a probe, once they have found their places.
fn work_alone(server: &Server, seconds: Duration) -> Result<f64> {
    const SETTLING: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(3);
    std::thread::sleep(SETTLING);
    let before = work(server)?;
    std::thread::sleep((seconds / 2).min(LONGEST));
    let cores = work(server)?.cores_since(&before);
    Ok(cores.unwrap_or(0.0))
}

fn work(server: &Server) -> Result<Work> {
    const PATIENCE: Duration = Duration::from_secs(5);
    client::line(server.address("work")?, PATIENCE).map_err(Error::system(
        "the server does not say what its hogs computed",
    ))
}

/// One run of the probe.
fn ask(lab: &Lab, probe: &Probe, server: &Server, seconds: Duration) -> Result<EchoSummary> {
    let (target, rate, connections) = (server.address("echo")?, probe.rate, probe.connections);
    let stalls = if probe.with_stalls { "--stalls" } else { "" };
    let load = format!("echo {target} --rate {rate} --connections {connections} {stalls}");
    lab.load(load).lasts_with_margins(seconds).result()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LatencySummary;
    use crate::report::Bars;
    use crate::trial::samples::{Sample, Samples};

    fn grid(found: Vec<Result<EchoSummary, String>>) -> Grid {
        let sample = |(found, round): (Result<EchoSummary, String>, u32)| Sample {
            key: (0, Peer::Go),
            round,
            found: found.map(|echo| Found {
                echo,
                stats: None,
                hog_work: None,
            }),
        };
        Matrix {
            heading: "",
            rows: vec![Beside::hogs("nothing".to_owned(), 0, HogPoll::Never)],
            peers: vec![Peer::Go],
            samples: Samples(found.into_iter().zip(0..).map(sample).collect()),
        }
    }

    fn summary(p50_us: f64, requests: u64, unanswered: u64) -> EchoSummary {
        let mut found = EchoSummary {
            requests,
            unanswered,
            ..EchoSummary::default()
        };
        found.latency.p50_us = p50_us;
        found.latency.p99_us = 10.0 * p50_us;
        found.latency.p999_us = 20.0 * p50_us;
        found.latency.max_us = 40.0 * p50_us;
        found
    }

    fn shown(found: Vec<Result<EchoSummary, String>>) -> String {
        shown_in(0, found)
    }

    fn shown_in(table: usize, found: Vec<Result<EchoSummary, String>>) -> String {
        match grid(found).tables()[table].rows[0][1].shown() {
            Cell::Text(text) => text.replace(NARROW_SPACE, " "),
            Cell::Missing(why) => format!("missing: {why}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_cell_is_the_median_of_its_rounds() {
        let rounds = [300.0, 100.0, 200.0].map(|us| Ok(summary(us, 10, 1)));
        assert_eq!(shown(rounds.into()), "200 / 2 000");
    }

    #[test]
    fn no_answer_at_all_is_not_a_number() {
        assert_eq!(shown(vec![Ok(summary(5e5, 10, 10))]), "no answer at all");
    }

    #[test]
    fn a_tail_is_quoted_of_enough_requests() {
        let rounds = |requests| {
            vec![
                Ok(summary(100.0, requests, 0)),
                Ok(summary(100.0, 5_000, 0)),
            ]
        };
        assert_eq!(shown_in(1, rounds(5_000)), "2 000 / 4 000");
        assert_eq!(shown_in(1, rounds(4_999)), "– / 4 000");
        assert!(grid(rounds(4_999)).latency(0, Peer::Go, &P999).is_err());
    }

    #[test]
    fn a_tail_without_stalls_is_told_apart() {
        let calm = |requests| {
            let mut found = summary(100.0, 10_000, 0);
            found.calm = Some((requests, summary(50.0, 0, 0).latency));
            vec![Ok(found)]
        };
        assert_eq!(shown_in(1, calm(10_000)), "2 000 / 4 000");
        assert_eq!(shown_in(2, calm(10_000)), "1 000 / 2 000, 100.0 %");
        assert_eq!(shown_in(2, calm(9_990)), "– / 2 000, 99.9 %");
        // A round in which all requests met a stall says nothing.
        let mut stalled = summary(100.0, 10_000, 0);
        stalled.calm = Some((0, LatencySummary::default()));
        let rounds = [calm(10_000), vec![Ok(stalled)]].concat();
        assert_eq!(grid(rounds).latency(0, Peer::Go, &CALM_P999), Ok(1_000.0));
        let told = grid(calm(10_000)).latency(0, Peer::Go, &CALM_P999);
        assert_eq!(told, Ok(1_000.0));
        assert!(grid(calm(9_990)).latency(0, Peer::Go, &CALM_P999).is_err());
        let untold = grid(vec![Ok(summary(100.0, 10_000, 0))]);
        assert!(untold.latency(0, Peer::Go, &CALM_P999).is_err() && untold.tables().len() == 3);
    }

    #[test]
    fn a_peer_that_never_answers_has_no_p99_and_a_bar_without_end() {
        let grid = grid(vec![Ok(summary(5e5, 10, 10))]);
        assert!(
            grid.latency(0, Peer::Go, &P99)
                .is_err_and(|why| why.contains("go does not answer"))
        );
        let Plot::Bars(Bars { groups, .. }) = grid.p99_bars() else {
            panic!("no bars");
        };
        assert_eq!(groups[0].1, [("go".to_owned(), f64::INFINITY)]);
    }

    #[test]
    fn what_hogs_keep_is_their_work_beside_the_probe_over_that_alone() {
        let mut grid = grid(vec![Ok(summary(1.0, 10, 0)), Ok(summary(1.0, 10, 0))]);
        for (measurement, beside) in grid.samples.0.iter_mut().zip([1.8, 1.6]) {
            if let Ok(found) = &mut measurement.found {
                found.hog_work = Some(HogWork { alone: 2.0, beside });
            }
        }
        let kept = grid
            .further(0, Peer::Go, &KEPT)
            .expect("both rounds counted");
        assert!((kept - 85.0).abs() < 1e-9, "{kept}");
        let Cell::Text(text) = &grid.tables()[3].rows[0][1] else {
            panic!("no text");
        };
        assert_eq!(text.replace(NARROW_SPACE, " "), "2.00 → 1.70, 85 %");
    }

    #[test]
    fn a_failure_says_why() {
        assert_eq!(shown(vec![Err("it burnt".to_owned())]), "missing: it burnt");
        assert_eq!(shown(vec![]), "missing: not measured");
    }

    #[test]
    fn a_round_that_failed_does_not_hide_the_others() {
        let rounds = vec![Err("it burnt".to_owned()), Ok(summary(100.0, 10, 0))];
        assert_eq!(shown(rounds), "100 / 1 000");
    }
}
