//! A grid of echo probes: what stands beside the probe down, who answers across.

use serde_json::json;
use std::time::Duration;

use super::client;
use super::figures::{self, median, micros};
use super::lab::Lab;
use crate::error::Result;
use crate::load::EchoSummary;
use crate::peers::{Peer, ServerSpec};
use crate::report::{Cell, Plot, Table};
use crate::serve::{HogPoll, HogYield, RuntimeStats};

/// What stands beside the probe.
pub(crate) struct Beside {
    pub(crate) name: String,
    pub(crate) hogs: usize,
    pub(crate) poll: HogPoll,
    pub(crate) yields: HogYield,
}

impl Beside {
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
}

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

    /// Three tables: p50 and p99, p99.9 and longest, unanswered.
    pub(crate) fn tables(&self) -> Vec<Table> {
        vec![
            self.table("Echo latency, p50 / p99 in us", |row, peer| {
                self.pair(row, peer, |e| e.latency.p50_us, |e| e.latency.p99_us)
            }),
            self.table("Echo latency, p99.9 / longest in us", |row, peer| {
                self.pair(row, peer, |e| e.latency.p999_us, |e| e.latency.max_us)
            }),
            self.table("Requests without an answer, in %", |row, peer| {
                let share =
                    |e: &EchoSummary| 100.0 * e.unanswered as f64 / e.requests.max(1) as f64;
                let shares = self.echoes(row, peer).map(share);
                figures::cell(shares, "%", 1, &self.failure(row, peer))
            }),
        ]
    }

    /// The p99 of every cell as bars.
    pub(crate) fn bars(&self) -> Plot {
        let p99 = |row, peer| median(self.echoes(row, peer).map(|e| e.latency.p99_us));
        let bars = |row: usize| {
            let bar = |&peer: &Peer| Some((peer.name().to_owned(), p99(row, peer)?));
            self.peers.iter().filter_map(bar).collect()
        };
        let groups = self.rows.iter().enumerate();
        Plot::Bars {
            title: "Echo latency, p99 (unanswered requests count with the time waited)".to_owned(),
            unit: "us".to_owned(),
            log: true,
            groups: groups
                .map(|(row, beside)| (beside.name.clone(), bars(row)))
                .collect(),
        }
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

    fn pair(
        &self,
        row: usize,
        peer: Peer,
        first: fn(&EchoSummary) -> f64,
        second: fn(&EchoSummary) -> f64,
    ) -> Cell {
        let echoes = self.echoes(row, peer);
        if echoes.clone().next().is_some() && echoes.clone().all(|e| e.unanswered == e.requests) {
            return Cell::Text("no answer at all".to_owned());
        }
        match (
            median(echoes.clone().map(first)),
            median(echoes.map(second)),
        ) {
            (Some(first), Some(second)) => {
                Cell::Text(format!("{} / {}", micros(first), micros(second)))
            }
            _ => Cell::Missing(self.failure(row, peer)),
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

fn measure(lab: &Lab, probe: &Probe, peer: Peer, beside: &Beside) -> Result<Found> {
    let with_stats = probe.with_stats && peer == Peer::Evenkeel;
    let services = if with_stats {
        vec!["echo", "api"]
    } else {
        vec!["echo"]
    };
    let (hogs, hog_poll, hog_yield) = (beside.hogs, Some(beside.poll), beside.yields);
    let server = lab.serve(
        peer,
        &ServerSpec {
            services,
            hogs,
            hog_poll,
            hog_yield,
            ..ServerSpec::default()
        },
    )?;
    let target = server.address("echo")?.to_string();
    let seconds = lab.measured(probe.brief);
    // What comes before and after grows with what is measured, up to where more brings nothing.
    let warmup = (seconds / 4)
        .min(Duration::from_millis(500))
        .as_secs_f64()
        .to_string();
    let drain = (seconds / 2)
        .min(Duration::from_secs(1))
        .as_secs_f64()
        .to_string();
    let seconds = seconds.as_secs_f64().to_string();
    let (rate, connections) = (probe.rate.to_string(), probe.connections.to_string());
    let mut args = vec!["echo", &target, "--seconds", &seconds, "--warmup", &warmup];
    args.extend([
        "--drain",
        &drain,
        "--rate",
        &rate,
        "--connections",
        &connections,
    ]);
    let echo = lab.load(&args)?.result()?;
    let stats = match with_stats {
        // Accounts that are not to be had are absent from the report; the probe's result stands.
        true => client::get(server.address("api")?, "/stats", Duration::from_secs(2)).ok(),
        false => None,
    };
    Ok(Found { echo, stats })
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
            found: found.map(|echo| Found { echo, stats: None }),
        };
        Grid {
            rows: vec![Beside {
                name: "nothing".to_owned(),
                hogs: 0,
                poll: HogPoll::Never,
                yields: HogYield::Runtime,
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
        found
    }

    fn shown(found: Vec<Result<EchoSummary, String>>) -> String {
        match &grid(found).tables()[0].rows[0][1] {
            Cell::Text(text) => text.clone(),
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
