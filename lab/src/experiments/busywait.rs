//! `busywait`: what spinning before parking costs and brings, level by level.

use serde_json::json;
use std::time::Duration;

use crate::error::Result;
use crate::load::{EchoSummary, StreamSummary};
use crate::peers::{Peer, ServerSpec};
use crate::process::{Server, Usage};
use crate::report::{Cell, Experiment, Plot, Table};
use crate::serve::{BusyWait, RuntimeStats};
use crate::trial::client::{self, accounts};
use crate::trial::figures::{cell, median};
use crate::trial::lab::Lab;

/// A runtime at a level of busy wait; `None` where it has no levels.
struct Variant {
    peer: Peer,
    level: Option<BusyWait>,
}

/// One measurement.
struct Sample {
    variant: usize,
    round: u32,
    found: Result<Found, String>,
}

/// What it found. Processor time and accounts are of the time of the probe.
struct Found {
    cpu_cores: f64,
    switches_per_s: f64,
    stats: Option<RuntimeStats>,
    /// Time spent running tasks over wall time, of all workers together.
    utilisation_cores: Option<f64>,
    echo: EchoSummary,
    stream: StreamSummary,
}

/// The published load: so many connections at 1 Mbit/s each, in ten writes a second.
const CONNECTIONS: &str = "700";
const WRITES_PER_S: &str = "10";
/// The probe beside it: rare enough to add little work, often enough for a p99.
const PROBE_HZ: &str = "200";

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let variants = variants(&lab.lineup.present, lab.is_brief());
    let mut samples = Vec::new();
    for round in 0..lab.rounds() {
        for (index, variant) in variants.iter().enumerate() {
            let found = measure(lab, variant).map_err(|error| error.to_string());
            let words = found.as_ref().map_or_else(Clone::clone, describe);
            lab.progress(&format!("busywait: {}: {words}", variant.name()));
            samples.push(Sample {
                variant: index,
                round,
                found,
            });
        }
    }
    Ok(Experiment {
        name: "busywait".to_owned(),
        claim: "Spinning is counted apart from work, its price and its gain are known for each \
                level, and the default costs no more than Erlang's `none` for the same work."
            .to_owned(),
        how: format!(
            "{CONNECTIONS} connections of 1 Mbit/s each, {WRITES_PER_S} writes a second, in an \
             open loop, at a server that reads and discards; a probe of {PROBE_HZ} Hz beside them \
             gives the latency of waking up. CPU is the server's processor time over wall time, \
             utilisation the time its workers spent running tasks over wall time, both in percent \
             of one core. On the loopback device a write arrives in one piece. {}",
            lab.conditions()
        ),
        tables: vec![table(&variants, &samples)],
        plots: plots(&variants, &samples),
        notes: notes(lab, &samples),
        verdicts: Vec::new(),
        raw: raw(&variants, &samples),
    })
}

/// The levels that are measured in brief: the two ends and one between. Each takes two seconds.
const LEVELS_IN_BRIEF: [BusyWait; 3] = [BusyWait::VeryLong, BusyWait::Medium, BusyWait::None];

fn variants(peers: &[Peer], brief: bool) -> Vec<Variant> {
    let mut variants = Vec::new();
    let fixed = if brief {
        &LEVELS_IN_BRIEF[..]
    } else {
        &BusyWait::FIXED
    };
    let fixed = fixed.iter().copied().map(Some);
    for &peer in peers {
        let levels: Vec<Option<BusyWait>> = match peer {
            Peer::Evenkeel => {
                let adaptive = Some(BusyWait::Adaptive);
                fixed.clone().chain([adaptive]).collect()
            }
            Peer::Erlang => fixed.clone().collect(),
            Peer::Tokio | Peer::Go | Peer::OsThread | Peer::EvenkeelRealTime => vec![None],
        };
        variants.extend(levels.into_iter().map(|level| Variant { peer, level }));
    }
    variants
}

impl Variant {
    fn name(&self) -> String {
        match self.level {
            Some(level) => format!("{}, {}", self.peer.name(), level.word()),
            None => self.peer.name().to_owned(),
        }
    }
}

fn measure(lab: &Lab, variant: &Variant) -> Result<Found> {
    /// From the first write until the load is steady.
    const RAMP: Duration = Duration::from_millis(300);
    let mut services = vec!["sink", "echo"];
    if variant.peer.has_stats() || variant.peer == Peer::Erlang {
        services.push("api");
    }
    let spec = ServerSpec {
        services,
        busy_wait: variant.level,
        ..ServerSpec::default()
    };
    let server = lab.serve(variant.peer, &spec)?;
    let (sink, echo) = (
        server.address("sink")?.to_string(),
        server.address("echo")?.to_string(),
    );
    let length = lab.measured(Duration::from_millis(900));
    let probed = length.as_secs_f64().to_string();
    let streamed = (RAMP + length + Duration::from_millis(500))
        .as_secs_f64()
        .to_string();
    let stream = [
        "stream",
        &sink,
        "--connections",
        CONNECTIONS,
        "--mbit",
        "1",
        "--say-ready",
    ];
    let stream = [
        &stream[..],
        &["--writes-per-s", WRITES_PER_S, "--seconds", &streamed],
    ]
    .concat();
    let stream = lab.load(&stream)?.until_ready()?;
    std::thread::sleep(RAMP);
    let (usage_before, stats_before) = (server.usage(), accounts(&server, variant.peer));
    // The first reading begins the stretch that the second one is of.
    let _ = erlang_utilisation(&server, variant.peer);
    let probe = [
        "echo", &echo, "--rate", PROBE_HZ, "--warmup", "0", "--drain", "0.3",
    ];
    let probe = lab
        .load(&[&probe[..], &["--seconds", &probed]].concat())?
        .result()?;
    let (usage, stats) = (server.usage(), accounts(&server, variant.peer));
    let stats = stats.zip(stats_before).map(|(now, then)| now.since(&then));
    let erlang = erlang_utilisation(&server, variant.peer);
    let utilisation = stats.as_ref().map(RuntimeStats::utilisation_cores);
    Ok(Found {
        cpu_cores: usage.cores_since(&usage_before),
        switches_per_s: switches_per_s(&usage, &usage_before),
        stats,
        utilisation_cores: utilisation.or(erlang.map(|share| share * lab.workers as f64)),
        echo: probe,
        stream: stream.result()?,
    })
}

/// The share of its schedulers' time since the reading before in which they ran processes.
fn erlang_utilisation(server: &Server, peer: Peer) -> Option<f64> {
    if peer != Peer::Erlang {
        return None;
    }
    let patience = Duration::from_secs(2);
    let stats = client::get::<serde_json::Value>(server.address("api").ok()?, "/stats", patience);
    stats.ok()?["utilisation"].as_f64()
}

fn switches_per_s(now: &Usage, then: &Usage) -> f64 {
    let total = |usage: &Usage| usage.switches_voluntary + usage.switches_forced;
    let wall = now
        .at
        .zip(then.at)
        .map_or(Duration::ZERO, |(now, then)| now - then);
    total(now).saturating_sub(total(then)) as f64 / wall.as_secs_f64().max(f64::EPSILON)
}

fn describe(found: &Found) -> String {
    let (cpu, latency) = (100.0 * found.cpu_cores, &found.echo.latency);
    format!(
        "CPU {cpu:.1} %, wake-up {:.0} / {:.0} us",
        latency.p50_us, latency.p99_us
    )
}

fn found(samples: &[Sample], variant: usize) -> impl Iterator<Item = &Found> + Clone {
    let of_variant = samples
        .iter()
        .filter(move |sample| sample.variant == variant);
    of_variant.filter_map(|sample| sample.found.as_ref().ok())
}

fn table(variants: &[Variant], samples: &[Sample]) -> Table {
    let columns = [
        "runtime, level",
        "CPU",
        "utilisation",
        "spin",
        "p50",
        "p99",
        "context switches",
    ];
    let row = |(index, variant): (usize, &Variant)| {
        let found = found(samples, index);
        let errors = samples.iter().filter(|sample| sample.variant == index);
        let error = errors
            .filter_map(|sample| sample.found.as_ref().err())
            .next();
        let why = error.map_or("not counted", String::as_str);
        let stats = found.clone().filter_map(|f| f.stats.as_ref());
        let used = found.clone().filter_map(|f| f.utilisation_cores);
        let used = used.map(|cores| 100.0 * cores);
        let spun = stats
            .filter_map(RuntimeStats::spin_cores)
            .map(|cores| 100.0 * cores);
        vec![
            Cell::Text(variant.name()),
            cell(found.clone().map(|f| 100.0 * f.cpu_cores), "%", 1, why),
            cell(used, "%", 1, why),
            cell(spun, "%", 1, why),
            cell(found.clone().map(|f| f.echo.latency.p50_us), "us", 0, why),
            cell(found.clone().map(|f| f.echo.latency.p99_us), "us", 0, why),
            cell(found.map(|f| f.switches_per_s), "/s", 0, why),
        ]
    };
    Table {
        title: "700 connections of 1 Mbit/s: cost and wake-up latency".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: variants.iter().enumerate().map(row).collect(),
    }
}

fn plots(variants: &[Variant], samples: &[Sample]) -> Vec<Plot> {
    let bars = |title: &str, unit: &str, figure: fn(&Found) -> f64| {
        let mut groups: Vec<(String, Vec<(String, f64)>)> = Vec::new();
        for (index, variant) in variants.iter().enumerate() {
            let Some(value) = median(found(samples, index).map(figure)) else {
                continue;
            };
            let (group, bar) = (
                variant.peer.name(),
                variant.level.map_or("default", BusyWait::word),
            );
            if groups.last().is_none_or(|(name, _)| name != group) {
                groups.push((group.to_owned(), Vec::new()));
            }
            if let Some((_, bars)) = groups.last_mut() {
                bars.push((bar.to_owned(), value));
            }
        }
        Plot::Bars {
            title: title.to_owned(),
            unit: unit.to_owned(),
            log: false,
            endless: String::new(),
            groups,
        }
    };
    vec![
        bars("CPU of the server, of one core", "%", |f| {
            100.0 * f.cpu_cores
        }),
        bars("Wake-up latency beside the load, p99", "us", |f| {
            f.echo.latency.p99_us
        }),
    ]
}

fn notes(lab: &Lab, samples: &[Sample]) -> Vec<String> {
    let mut notes = lab.lineup.missing.clone();
    notes.push(
        "Tokio's utilisation is all time that its workers were not parked: it does not count I/O \
         checks apart from running tasks. It and Go have no levels to set."
            .to_owned(),
    );
    if lab.is_brief() {
        notes.push(
            "In brief three levels are measured; `evenkeel-lab busywait --seconds 10` measures all."
                .to_owned(),
        );
    }
    let behind = samples
        .iter()
        .filter_map(|sample| sample.found.as_ref().ok());
    let behind = behind
        .filter(|found| found.stream.writes_behind > 0)
        .count();
    if behind > 0 {
        let all = samples.len();
        notes.push(format!(
            "In {behind} of {all} measurements a write found its connection's earlier bytes not \
             yet taken."
        ));
    }
    notes
}

fn raw(variants: &[Variant], samples: &[Sample]) -> serde_json::Value {
    let sample = |sample: &Sample| {
        let variant = &variants[sample.variant];
        let found = sample.found.as_ref().ok();
        json!({
            "peer": variant.peer.name(),
            "level": variant.level.map(BusyWait::word),
            "round": sample.round,
            "cpu_cores": found.map(|f| f.cpu_cores),
            "utilisation_cores": found.and_then(|f| f.utilisation_cores),
            "context_switches_per_s": found.map(|f| f.switches_per_s),
            "stats": found.and_then(|f| f.stats.as_ref()),
            "echo": found.map(|f| &f.echo),
            "stream": found.map(|f| &f.stream),
            "error": sample.found.as_ref().err(),
        })
    };
    samples.iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_measured_where_there_are_levels() {
        let names = |peers: &[Peer]| -> Vec<String> {
            let variants = variants(peers, false);
            variants.iter().map(Variant::name).collect()
        };
        assert_eq!(names(&[Peer::Tokio, Peer::Go]), ["tokio", "go"]);
        assert_eq!(names(&[Peer::Erlang]).len(), 6);
        let evenkeel = names(&[Peer::Evenkeel]);
        assert_eq!(evenkeel.len(), 7);
        assert!(evenkeel.contains(&"evenkeel, adaptive".to_owned()));
        let brief = variants(&[Peer::Evenkeel, Peer::Erlang], true);
        assert_eq!(brief.len(), 4 + 3);
    }
}
