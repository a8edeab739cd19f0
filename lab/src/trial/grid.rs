//! A grid of echo probes: what stands beside the probe down, who answers across.

use serde_json::json;
use std::time::Duration;

use super::client;
use super::figures::{self, grouped, median, micros};
use super::lab::Lab;
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

    /// Whether `peer` has this case apart from the one before it.
    fn concerns(&self, peer: Peer) -> bool {
        self.yields == HogYield::Runtime || peer.has_futures()
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

/// Requests, of all rounds together, from which a 99.9th percentile is quoted: ten of them lie
/// beyond it. Of fewer it would be a name for the one or two slowest.
pub(crate) const P999_REQUESTS_MIN: u64 = 10_000;

/// All measurements of a grid.
pub(crate) struct Grid {
    pub(crate) rows: Vec<Beside>,
    pub(crate) peers: Vec<Peer>,
    measurements: Vec<Measurement>,
}

/// One measurement: which row, whose column, what was found or why nothing was.
struct Measurement {
    row: usize,
    peer: Peer,
    round: u32,
    found: Result<Found, String>,
}

/// What one probe found, and what the runtime said of itself.
struct Found {
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

impl Grid {
    /// Measures every cell in every round; a cell that fails is reported, and stops no other.
    pub(crate) fn measure(lab: &Lab, probe: &Probe, rows: Vec<Beside>, peers: Vec<Peer>) -> Self {
        let mut measurements = Vec::new();
        for round in 0..lab.rounds() {
            for (row, beside) in rows.iter().enumerate() {
                for &peer in peers.iter().filter(|&&peer| beside.concerns(peer)) {
                    let found = measure(lab, probe, peer, beside).map_err(|e| e.to_string());
                    let words = found
                        .as_ref()
                        .map_or_else(Clone::clone, |f| describe(&f.echo));
                    let (name, beside) = (probe.experiment, &beside.name);
                    lab.progress(&format!("{name}: {beside}, {}: {words}", peer.name()));
                    measurements.push(Measurement {
                        row,
                        peer,
                        round,
                        found,
                    });
                }
            }
        }
        Grid {
            rows,
            peers,
            measurements,
        }
    }

    /// Latencies, longest, unanswered and, where it was counted, the hogs' work.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let mut tables = vec![
            self.table("Echo latency, p50 / p99 in us", |row, peer| {
                let p50 = self.median(row, peer, |e| e.latency.p50_us);
                self.pair(row, peer, p50, |e| e.latency.p99_us)
            }),
            self.table("Echo latency, p99.9 / longest in us", |row, peer| {
                let p999 = self.p999(row, peer);
                self.pair(row, peer, p999.ok(), |e| e.latency.max_us)
            }),
            self.table("Requests without an answer, in %", |row, peer| {
                let share =
                    |e: &EchoSummary| 100.0 * e.unanswered as f64 / e.requests.max(1) as f64;
                let shares = self.echoes(row, peer).map(share);
                figures::cell(shares, "%", 1, &self.failure(row, peer))
            }),
        ];
        let calm = |m: &Measurement| m.found.as_ref().is_ok_and(|f| f.echo.calm.is_some());
        if self.measurements.iter().any(calm) {
            let title = "Echo latency where no processor stood still, p99.9 / longest in us, and \
                         of how many requests, in %";
            let table = self.table(title, |row, peer| self.calm(row, peer));
            tables.insert(2, table);
        }
        if self.measurements.iter().any(|m| m.hog_work().is_some()) {
            tables.push(self.table(
                "What the hogs computed, in cores: alone, beside the probe, and kept in %",
                |row, peer| self.work(row, peer),
            ));
        }
        tables
    }

    /// The p99 of every cell as bars; that of a peer which never answers has no end.
    pub(crate) fn bars(&self) -> Plot {
        let p99 = |row, peer| match self.is_silent(row, peer) {
            true => Some(f64::INFINITY),
            false => self.median(row, peer, |e| e.latency.p99_us),
        };
        let bars = |row: usize| {
            let bar = |&peer: &Peer| Some((peer.name().to_owned(), p99(row, peer)?));
            self.peers.iter().filter_map(bar).collect()
        };
        let groups = self.rows.iter().enumerate();
        Plot::Bars {
            title: "Echo latency, p99 (unanswered requests count with the time waited)".to_owned(),
            unit: "us".to_owned(),
            log: true,
            endless: "no answer".to_owned(),
            groups: groups
                .map(|(row, beside)| (beside.name.clone(), bars(row)))
                .collect(),
        }
    }

    /// The p99 of a cell in microseconds, or why there is none. Where a peer has not this case
    /// apart from the one above, that of the one above.
    pub(crate) fn p99(&self, row: usize, peer: Peer) -> Result<f64, String> {
        let row = self.row_of(row, peer);
        if self.is_silent(row, peer) {
            return Err(format!("{} does not answer", peer.name()));
        }
        let p99 = self.median(row, peer, |e| e.latency.p99_us);
        p99.ok_or_else(|| self.absence(row, peer))
    }

    /// As [`p99`](Self::p99), for the 99.9th percentile.
    pub(crate) fn p999(&self, row: usize, peer: Peer) -> Result<f64, String> {
        self.p99(row, peer)?;
        let row = self.row_of(row, peer);
        enough(self.echoes(row, peer).map(|e| e.requests).sum())?;
        let p999 = self.median(row, peer, |e| e.latency.p999_us);
        p999.ok_or_else(|| self.absence(row, peer))
    }

    /// As [`p999`](Self::p999), of the requests in whose time no processor stood still.
    pub(crate) fn calm_p999(&self, row: usize, peer: Peer) -> Result<f64, String> {
        self.p99(row, peer)?;
        let row = self.row_of(row, peer);
        let calm = || self.calm_rounds(row, peer);
        if self.echoes(row, peer).all(|e| e.calm.is_none()) {
            return Err("no thread could see whether a processor stood still".to_owned());
        }
        enough(calm().map(|(requests, _)| requests).sum())?;
        let p999 = median(calm().map(|(_, latency)| latency.p999_us));
        p999.ok_or_else(|| self.absence(row, peer))
    }

    /// The rounds in which some requests met no stall.
    fn calm_rounds(
        &self,
        row: usize,
        peer: Peer,
    ) -> impl Iterator<Item = &(u64, LatencySummary)> + Clone {
        let calm = self.echoes(row, peer).filter_map(|e| e.calm.as_ref());
        calm.filter(|(requests, _)| *requests > 0)
    }

    /// What the hogs of a cell computed beside the probe, in cores.
    pub(crate) fn cores(&self, row: usize, peer: Peer) -> Result<f64, String> {
        let row = self.row_of(row, peer);
        let works = self.of(row, peer).filter_map(Measurement::hog_work);
        median(works.map(|work| work.beside)).ok_or_else(|| self.absence(row, peer))
    }

    /// What the hogs of a cell still computed beside the probe, in percent of what they did alone.
    pub(crate) fn kept_percent(&self, row: usize, peer: Peer) -> Result<f64, String> {
        let kept = self.of(row, peer).filter_map(Measurement::hog_work);
        median(kept.map(|work| work.kept_percent())).ok_or_else(|| self.absence(row, peer))
    }

    /// What the thread that looks for stuck workers used in a cell, in percent of a core.
    pub(crate) fn monitor_percent(&self, row: usize, peer: Peer) -> Result<f64, String> {
        let stats = self
            .of(row, peer)
            .filter_map(|m| m.found.as_ref().ok()?.stats.as_ref()?.monitor_cores());
        median(stats.map(|cores| 100.0 * cores)).ok_or_else(|| self.absence(row, peer))
    }

    /// The whole distribution of every row, a curve for each peer.
    pub(crate) fn curves(&self) -> Vec<Plot> {
        let curve = |row: usize, peer: Peer| {
            let first = self.echoes(row, peer).next()?;
            // How many requests in so many were slower: the tail becomes the right half of the
            // axis, as far as there were that many requests.
            let points = first
                .latency
                .curve
                .iter()
                .map(|(share, us)| (1.0 / (1.0 - share), *us));
            let points = points
                .filter(|(one_in, _)| *one_in <= first.requests as f64)
                .collect();
            Some((peer.name().to_owned(), points))
        };
        let plot = |(row, beside): (usize, &Beside)| Plot::Lines {
            title: format!(
                "Beside {}: the slowest request in so many (first round)",
                beside.name
            ),
            x: "one request in".to_owned(),
            y: "latency, us".to_owned(),
            log_x: true,
            log_y: true,
            series: self
                .peers
                .iter()
                .filter_map(|&peer| curve(row, peer))
                .collect(),
        };
        self.rows.iter().enumerate().map(plot).collect()
    }

    /// What evenkeel said of itself in the first round, row by row.
    pub(crate) fn stats(&self) -> impl Iterator<Item = (&str, &RuntimeStats)> {
        let first = self.measurements.iter().filter(|m| m.round == 0);
        first.filter_map(|m| {
            let stats = m.found.as_ref().ok()?.stats.as_ref()?;
            Some((self.rows[m.row].name.as_str(), stats))
        })
    }

    /// Every measurement.
    pub(crate) fn raw(&self) -> serde_json::Value {
        let row = |m: &Measurement| {
            json!({
                "beside": self.rows[m.row].name,
                "hogs": self.rows[m.row].hogs,
                "peer": m.peer.name(),
                "round": m.round,
                "found": m.found.as_ref().ok().map(|found| &found.echo),
                "stats": m.found.as_ref().ok().and_then(|found| found.stats.as_ref()),
                "hog_work_cores": m.hog_work(),
                "error": m.found.as_ref().err(),
            })
        };
        self.measurements.iter().map(row).collect()
    }

    fn table(&self, title: &str, cell: impl Fn(usize, Peer) -> Cell) -> Table {
        let names = self.peers.iter().map(|peer| peer.name().to_owned());
        let row = |(row, beside): (usize, &Beside)| {
            let cells = self.peers.iter().map(|&peer| cell(row, peer));
            std::iter::once(Cell::Text(beside.name.clone()))
                .chain(cells)
                .collect()
        };
        Table {
            title: title.to_owned(),
            columns: std::iter::once("beside the probe".to_owned())
                .chain(names)
                .collect(),
            rows: self.rows.iter().enumerate().map(row).collect(),
        }
    }

    fn of(&self, row: usize, peer: Peer) -> impl Iterator<Item = &Measurement> + Clone {
        self.measurements
            .iter()
            .filter(move |m| m.row == row && m.peer == peer)
    }

    /// The probes of one cell that found something.
    fn echoes(&self, row: usize, peer: Peer) -> impl Iterator<Item = &EchoSummary> + Clone {
        self.of(row, peer)
            .filter_map(|m| m.found.as_ref().ok())
            .map(|found| &found.echo)
    }

    fn median(&self, row: usize, peer: Peer, figure: fn(&EchoSummary) -> f64) -> Option<f64> {
        median(self.echoes(row, peer).map(figure))
    }

    /// Whether not one request of a cell was answered.
    fn is_silent(&self, row: usize, peer: Peer) -> bool {
        let mut echoes = self.echoes(row, peer).peekable();
        echoes.peek().is_some() && echoes.all(|e| e.unanswered == e.requests)
    }

    /// The row that has the figures of this one.
    fn row_of(&self, row: usize, peer: Peer) -> usize {
        let concerns = self.rows[row].concerns(peer);
        if concerns { row } else { row.saturating_sub(1) }
    }

    /// Two figures, of which the first may not be quoted.
    fn pair(
        &self,
        row: usize,
        peer: Peer,
        first: Option<f64>,
        second: fn(&EchoSummary) -> f64,
    ) -> Cell {
        if self.is_silent(row, peer) {
            return Cell::Text("no answer at all".to_owned());
        }
        match self.median(row, peer, second) {
            Some(second) => {
                let first = first.map_or_else(|| "–".to_owned(), micros);
                Cell::Text(format!("{first} / {}", micros(second)))
            }
            None => Cell::Missing(self.failure(row, peer)),
        }
    }

    fn calm(&self, row: usize, peer: Peer) -> Cell {
        if self.is_silent(row, peer) {
            return Cell::Text("no answer at all".to_owned());
        }
        let longest = median(self.calm_rounds(row, peer).map(|(_, calm)| calm.max_us));
        let share = |e: &EchoSummary| {
            let (calm, _) = e.calm.as_ref()?;
            Some(100.0 * *calm as f64 / e.requests.max(1) as f64)
        };
        let share = median(self.echoes(row, peer).filter_map(share));
        match (longest, share) {
            (Some(longest), Some(share)) => {
                let p999 = self.calm_p999(row, peer).ok();
                let p999 = p999.map_or_else(|| "–".to_owned(), micros);
                let longest = micros(longest);
                Cell::Text(format!("{p999} / {longest}, {share:.1}{NARROW_SPACE}%"))
            }
            _ => Cell::Missing(self.failure(row, peer)),
        }
    }

    fn work(&self, row: usize, peer: Peer) -> Cell {
        let works = || self.of(row, peer).filter_map(Measurement::hog_work);
        let alone = median(works().map(|work| work.alone));
        let beside = median(works().map(|work| work.beside));
        match (alone, beside, self.kept_percent(row, peer)) {
            (Some(alone), Some(beside), Ok(kept)) => Cell::Text(format!(
                "{alone:.2} → {beside:.2}, {kept:.0}{NARROW_SPACE}%"
            )),
            _ if !self.rows[row].computes() => Cell::Missing("no hogs".to_owned()),
            _ => Cell::Missing(self.failure(row, peer)),
        }
    }

    fn absence(&self, row: usize, peer: Peer) -> String {
        match self.peers.contains(&peer) {
            true => format!("{}: {}", peer.name(), self.failure(row, peer)),
            false => format!("{} takes no part", peer.name()),
        }
    }

    /// Why a cell has nothing to show.
    fn failure(&self, row: usize, peer: Peer) -> String {
        let error = self.of(row, peer).find_map(|m| m.found.as_ref().err());
        let has_case = self.rows[row].concerns(peer);
        let none = if has_case {
            "not measured"
        } else {
            "as the row above"
        };
        error.cloned().unwrap_or_else(|| none.to_owned())
    }
}

/// Whether so many requests have a 99.9th percentile.
fn enough(requests: u64) -> Result<(), String> {
    if requests >= P999_REQUESTS_MIN {
        return Ok(());
    }
    let least = grouped(P999_REQUESTS_MIN as f64, 0);
    Err(format!(
        "fewer than {least} requests say nothing of a p99.9"
    ))
}

impl Measurement {
    fn hog_work(&self) -> Option<HogWork> {
        self.found.as_ref().ok()?.hog_work
    }
}

fn measure(lab: &Lab, probe: &Probe, peer: Peer, beside: &Beside) -> Result<Found> {
    let with_stats = probe.with_stats && peer.is_evenkeel();
    let with_work = probe.with_work && beside.computes();
    let mut services = vec!["echo"];
    services.extend(with_stats.then_some("api"));
    services.extend(with_work.then_some("work"));
    let server = lab.serve(
        peer,
        &ServerSpec {
            services,
            hogs: beside.hogs,
            hog_poll: Some(beside.poll),
            hog_yield: beside.yields,
            burn: beside.burn,
            ..ServerSpec::default()
        },
    )?;
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
    let stats = match with_stats {
        // Accounts that are not to be had are absent from the report; the probe's result stands.
        true => client::get(server.address("api")?, "/stats", Duration::from_secs(2)).ok(),
        false => None,
    };
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
    let target = server.address("echo")?.to_string();
    // What comes before and after grows with what is measured, up to where more brings nothing.
    let warmup = (seconds / 4).min(Duration::from_millis(500));
    let drain = (seconds / 2).min(Duration::from_secs(1));
    let [seconds, warmup, drain] =
        [seconds, warmup, drain].map(|length| length.as_secs_f64().to_string());
    let (rate, connections) = (probe.rate.to_string(), probe.connections.to_string());
    let mut args = vec!["echo", &target, "--seconds", &seconds, "--warmup", &warmup];
    args.extend(["--drain", &drain, "--rate", &rate]);
    args.extend(["--connections", &connections]);
    args.extend(probe.with_stalls.then_some("--stalls"));
    lab.load(&args)?.result()
}

fn describe(echo: &EchoSummary) -> String {
    if echo.unanswered == echo.requests {
        return "no answer at all".to_owned();
    }
    format!(
        "{} / {} us",
        micros(echo.latency.p50_us),
        micros(echo.latency.p99_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(found: Vec<Result<EchoSummary, String>>) -> Grid {
        let measurement = |(found, round): (Result<EchoSummary, String>, u32)| Measurement {
            row: 0,
            peer: Peer::Go,
            round,
            found: found.map(|echo| Found {
                echo,
                stats: None,
                hog_work: None,
            }),
        };
        Grid {
            rows: vec![Beside {
                name: "nothing".to_owned(),
                hogs: 0,
                poll: HogPoll::Never,
                yields: HogYield::Runtime,
                burn: None,
            }],
            peers: vec![Peer::Go],
            measurements: found.into_iter().zip(0..).map(measurement).collect(),
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
        for (measurement, beside) in grid.measurements.iter_mut().zip([1.8, 1.6]) {
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
