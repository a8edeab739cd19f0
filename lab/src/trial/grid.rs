//! A grid of echo probes: what stands beside the probe down, who answers across.

use std::time::Duration;

use serde_json::json;

use super::client;
use super::echoes::{self, Echoes, Figure};
use super::figures::{self, median, micros};
use super::lab::Lab;
use super::matrix::{Matrix, Row};
use super::samples::Describe;
use crate::error::{Error, Result};
use crate::load::{EchoSummary, LatencySummary};
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
        let short = matches!(self.poll, HogPoll::Micros(us) if us < 1_000);
        self.hogs > 0 && short
    }
}

impl Row for Beside {
    fn name(&self) -> &str {
        &self.name
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
    /// Whether evenkeel is asked for its accounts afterwards.
    pub(crate) with_stats: bool,
    /// Whether what the hogs compute is counted, alone and beside the probe.
    pub(crate) with_work: bool,
    /// Whether requests in whose time no processor stood still are told of apart.
    pub(crate) with_stalls: bool,
}

/// All measurements of a grid.
pub(crate) struct Grid(pub(crate) Matrix<Beside, Found>);

/// What one probe found, and what the runtime said of itself.
pub(crate) struct Found {
    echo: EchoSummary,
    stats: Option<RuntimeStats>,
    hog_work: Option<HogWork>,
}

/// What the hogs computed, in cores: alone, then beside the probe.
#[derive(Debug, Clone, Copy, serde::Serialize)]
struct HogWork {
    alone: f64,
    beside: f64,
}

impl HogWork {
    fn kept_percent(&self) -> f64 {
        100.0 * self.beside / self.alone
    }
}

impl Describe for Found {
    fn describe(&self) -> String {
        if self.echo.unanswered == self.echo.requests {
            return "no answer at all".to_owned();
        }
        let latency = &self.echo.latency;
        format!("{} / {} us", micros(latency.p50_us), micros(latency.p99_us))
    }
}

impl Grid {
    pub(crate) fn measure(lab: &Lab, probe: &Probe, rows: Vec<Beside>, peers: Vec<Peer>) -> Self {
        let one = |beside: &Beside, peer| measure(lab, probe, peer, beside);
        Grid(Matrix::measure(lab, probe.experiment, rows, peers, one))
    }

    /// Latencies, longest, unanswered and, where it was counted, the hogs' work.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let pair = |title, figures| {
            self.table(title, |row, peer| {
                self.echoes(row, peer)
                    .pair(figures, || self.0.why(row, peer))
            })
        };
        let mut tables = vec![
            pair("Echo latency, p50 / p99 in us", [Figure::P50, Figure::P99]),
            pair(
                "Echo latency, p99.9 / longest in us",
                [Figure::P999, Figure::Longest],
            ),
        ];
        if self.0.samples.all().any(|found| found.echo.calm.is_some()) {
            let title = "Echo latency where no processor stood still, p99.9 / longest in us, and \
                         of how many requests, in %";
            tables.push(self.table(title, |row, peer| self.calm(row, peer)));
        }
        tables.push(self.table("Requests without an answer, in %", |row, peer| {
            let share = self.echoes(row, peer).median(Figure::Unanswered);
            figures::number(share.ok_or_else(|| self.0.why(row, peer)), ("%", 1))
        }));
        if self.0.samples.all().any(|found| found.hog_work.is_some()) {
            let title = "What the hogs computed, in cores: alone, beside the probe, and kept in %";
            tables.push(self.table(title, |row, peer| self.work(row, peer)));
        }
        tables
    }

    fn table(&self, title: &str, cell: impl Fn(usize, Peer) -> Cell) -> Table {
        self.0.table(title, "beside the probe", |_| true, cell)
    }

    /// The p99 of every cell as bars; that of a peer which never answers has no end.
    pub(crate) fn bars(&self) -> Plot {
        let title = "Echo latency, p99 (unanswered requests count with the time waited)";
        self.0
            .bars(title, "no answer", |row, peer| self.echoes(row, peer).p99())
    }

    /// The whole distribution of every row, a curve for each peer.
    pub(crate) fn curves(&self) -> Vec<Plot> {
        let plot = |(row, beside): (usize, &Beside)| {
            let first = |&peer: &Peer| {
                let found = self.0.found(row, peer).next()?;
                Some((peer.name().to_owned(), &found.echo))
            };
            let name = &beside.name;
            let title = format!("Beside {name}: the slowest request in so many (first round)");
            echoes::curves(title, "request", self.0.peers.iter().filter_map(first))
        };
        self.0.rows.iter().enumerate().map(plot).collect()
    }

    fn echoes(&self, row: usize, peer: Peer) -> Echoes<'_> {
        self.0.echoes(row, peer, |found| Some(&found.echo))
    }

    /// The row that has the figures of this one: where a peer has not this case apart from the one
    /// above it, the one above.
    fn row_of(&self, row: usize, peer: Peer) -> usize {
        let lacks = self.0.rows[row].lacks(peer).is_some();
        if lacks { row.saturating_sub(1) } else { row }
    }

    /// The median of a figure, or why there is none.
    fn median(
        &self,
        row: usize,
        peer: Peer,
        figure: impl Fn(&Found) -> Option<f64>,
    ) -> Result<f64, String> {
        let row = self.row_of(row, peer);
        median(self.0.found(row, peer).filter_map(figure)).ok_or_else(|| self.0.absence(row, peer))
    }

    /// The p99 of a cell in microseconds, or why there is none.
    pub(crate) fn p99(&self, row: usize, peer: Peer) -> Result<f64, String> {
        if self.echoes(self.row_of(row, peer), peer).is_silent() {
            return Err(format!("{} does not answer", peer.name()));
        }
        self.median(row, peer, |found| Some(found.echo.latency.p99_us))
    }

    /// As [`p99`](Self::p99), for the 99.9th percentile.
    pub(crate) fn p999(&self, row: usize, peer: Peer) -> Result<f64, String> {
        self.p99(row, peer)?;
        self.echoes(self.row_of(row, peer), peer).enough()?;
        self.median(row, peer, |found| Some(found.echo.latency.p999_us))
    }

    /// As [`p999`](Self::p999), of the requests in whose time no processor stood still.
    pub(crate) fn calm_p999(&self, row: usize, peer: Peer) -> Result<f64, String> {
        self.p99(row, peer)?;
        let found = || self.0.found(self.row_of(row, peer), peer);
        if found().all(|found| found.echo.calm.is_none()) {
            return Err("no thread could see whether a processor stood still".to_owned());
        }
        echoes::enough(
            found()
                .filter_map(Found::calm)
                .map(|(requests, _)| requests)
                .sum(),
        )?;
        self.median(row, peer, |found| Some(found.calm()?.1.p999_us))
    }

    /// What the hogs of a cell computed beside the probe, in cores.
    pub(crate) fn cores(&self, row: usize, peer: Peer) -> Result<f64, String> {
        self.median(row, peer, |found| Some(found.hog_work?.beside))
    }

    /// What the hogs of a cell still computed beside the probe, in percent of what they did alone.
    pub(crate) fn kept_percent(&self, row: usize, peer: Peer) -> Result<f64, String> {
        self.median(row, peer, |found| Some(found.hog_work?.kept_percent()))
    }

    /// What the thread that looks for stuck workers used in a cell, in percent of a core.
    pub(crate) fn monitor_percent(&self, row: usize, peer: Peer) -> Result<f64, String> {
        self.median(row, peer, |found| {
            Some(100.0 * found.stats.as_ref()?.monitor_cores()?)
        })
    }

    /// What evenkeel said of itself in the first round, row by row.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (&str, &RuntimeStats)> {
        let first = self.0.samples.first();
        first.filter_map(|((row, _), found)| {
            Some((self.0.rows[row].name.as_str(), found.stats.as_ref()?))
        })
    }

    /// Every measurement.
    pub(crate) fn raw(&self) -> serde_json::Value {
        self.0.samples.raw(|(row, peer), round, found| {
            json!({
                "beside": self.0.rows[row].name,
                "hogs": self.0.rows[row].hogs,
                "peer": peer.name(),
                "round": round,
                "found": found.map(|found| &found.echo),
                "stats": found.and_then(|found| found.stats.as_ref()),
                "hog_work_cores": found.and_then(|found| found.hog_work),
            })
        })
    }

    fn calm(&self, row: usize, peer: Peer) -> Cell {
        if self.echoes(row, peer).is_silent() {
            return Cell::from("no answer at all");
        }
        let found = || self.0.found(row, peer);
        let longest = median(found().filter_map(Found::calm).map(|(_, calm)| calm.max_us));
        let share = |found: &Found| {
            let (calm, _) = found.echo.calm.as_ref()?;
            Some(100.0 * *calm as f64 / found.echo.requests.max(1) as f64)
        };
        match longest.zip(median(found().filter_map(share))) {
            Some((longest, share)) => {
                let p999 = self.calm_p999(row, peer).ok();
                let p999 = p999.map_or_else(|| "–".to_owned(), micros);
                let longest = micros(longest);
                Cell::Text(format!("{p999} / {longest}, {share:.1}{NARROW_SPACE}%"))
            }
            None => Cell::Missing(self.0.why(row, peer)),
        }
    }

    fn work(&self, row: usize, peer: Peer) -> Cell {
        let works = || self.0.found(row, peer).filter_map(|found| found.hog_work);
        let alone = median(works().map(|work| work.alone));
        let beside = median(works().map(|work| work.beside));
        match (alone, beside, self.kept_percent(row, peer)) {
            (Some(alone), Some(beside), Ok(kept)) => Cell::Text(format!(
                "{alone:.2} → {beside:.2}, {kept:.0}{NARROW_SPACE}%"
            )),
            _ if !self.0.rows[row].computes() => Cell::Missing("no hogs".to_owned()),
            _ => Cell::Missing(self.0.why(row, peer)),
        }
    }
}

impl Found {
    /// How many requests met no stall, and their latency, if any did so.
    fn calm(&self) -> Option<&(u64, LatencySummary)> {
        self.echo
            .calm
            .as_ref()
            .filter(|(requests, _)| *requests > 0)
    }
}

fn measure(lab: &Lab, probe: &Probe, peer: Peer, beside: &Beside) -> Result<Found> {
    let with_stats = probe.with_stats && peer.is_evenkeel();
    let with_work = probe.with_work && beside.computes();
    let mut services = vec!["echo"];
    services.extend(with_stats.then_some("api"));
    services.extend(with_work.then_some("work"));
    let spec = ServerSpec {
        services,
        hogs: beside.hogs,
        hog_poll: Some(beside.poll),
        hog_yield: beside.yields,
        burn: beside.burn,
        ..ServerSpec::default()
    };
    let server = lab.serve(peer, &spec)?;
    let seconds = lab.measured(probe.brief);
    let alone = match with_work {
        true => Some(work_alone(&server, seconds)?),
        false => None,
    };
    let before = alone.and_then(|_| work(&server).ok());
    let echo = ask(lab, probe, &server, seconds)?;
    let after = before.and_then(|_| work(&server).ok());
    let beside = before
        .zip(after)
        .and_then(|(before, after)| after.cores_since(&before));
    let hog_work = alone
        .zip(beside)
        .map(|(alone, beside)| HogWork { alone, beside });
    // Accounts that are not to be had are absent from the report; the probe's result stands.
    let stats = with_stats
        .then(|| client::accounts(&server, peer))
        .flatten();
    Ok(Found {
        echo,
        stats,
        hog_work,
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
    let Probe {
        rate, connections, ..
    } = probe;
    let stalls = if probe.with_stalls { "--stalls" } else { "" };
    let (target, more) = (
        server.address("echo")?,
        format!("--connections {connections} {stalls}"),
    );
    let load = lab.load(format_args!("echo {target} --rate {rate} {more}"));
    load.lasts_with_margins(seconds).result()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        Grid(Matrix {
            rows: vec![Beside {
                name: "nothing".to_owned(),
                hogs: 0,
                poll: HogPoll::Never,
                yields: HogYield::Runtime,
                burn: None,
            }],
            peers: vec![Peer::Go],
            samples: Samples(found.into_iter().zip(0..).map(sample).collect()),
        })
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
        match &grid(found).tables()[table].rows[0][1] {
            Cell::Text(text) => text.replace(NARROW_SPACE, " "),
            Cell::Missing(why) => format!("missing: {why}"),
            Cell::Number { value, .. } => value.to_string(),
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
        assert!(grid(rounds(4_999)).p999(0, Peer::Go).is_err());
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
        assert_eq!(grid(rounds).calm_p999(0, Peer::Go), Ok(1_000.0));
        let told = grid(calm(10_000)).calm_p999(0, Peer::Go);
        assert_eq!(told, Ok(1_000.0));
        assert!(grid(calm(9_990)).calm_p999(0, Peer::Go).is_err());
        let untold = grid(vec![Ok(summary(100.0, 10_000, 0))]);
        assert!(untold.calm_p999(0, Peer::Go).is_err() && untold.tables().len() == 3);
    }

    #[test]
    fn a_peer_that_never_answers_has_no_p99_and_a_bar_without_end() {
        let grid = grid(vec![Ok(summary(5e5, 10, 10))]);
        assert!(
            grid.p99(0, Peer::Go)
                .is_err_and(|why| why.contains("go does not answer"))
        );
        let Plot::Bars { groups, .. } = grid.bars() else {
            panic!("no bars");
        };
        assert_eq!(groups[0].1, [("go".to_owned(), f64::INFINITY)]);
    }

    #[test]
    fn what_hogs_keep_is_their_work_beside_the_probe_over_that_alone() {
        let mut grid = grid(vec![Ok(summary(1.0, 10, 0)), Ok(summary(1.0, 10, 0))]);
        for (measurement, beside) in grid.0.samples.0.iter_mut().zip([1.8, 1.6]) {
            if let Ok(found) = &mut measurement.found {
                found.hog_work = Some(HogWork { alone: 2.0, beside });
            }
        }
        let kept = grid.kept_percent(0, Peer::Go).expect("both rounds counted");
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
