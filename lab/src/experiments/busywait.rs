//! `busywait`: what spinning before parking costs and brings, level by level.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::error::Result;
use crate::load::{EchoSummary, StreamSummary};
use crate::peers::{Peer, ServerSpec};
use crate::process::Server;
use crate::report::Experiment;
use crate::serve::{BusyWait, RuntimeStats};
use crate::trial::client::{self, accounts};
use crate::trial::{Column, Lab, Samples, column, or_else, or_nan};

/// A runtime at a level of busy wait; `None` where it has no levels.
#[derive(Clone, Copy, PartialEq)]
struct Variant {
    peer: Peer,
    level: Option<BusyWait>,
}

/// What one measurement found. Processor time and accounts are of the time of the probe.
#[derive(Serialize)]
struct Found {
    cpu_cores: f64,
    #[serde(rename = "context_switches_per_s")]
    switches_per_s: f64,
    stats: Option<RuntimeStats>,
    /// Time spent running tasks over wall time, of all workers together.
    utilisation_cores: Option<f64>,
    echo: EchoSummary,
    stream: StreamSummary,
}

/// The published load: so many connections at 1 Mbit/s each, in ten writes a second.
const CONNECTIONS: u32 = 700;
const WRITES_PER_S: u32 = 10;
/// The probe beside it: rare enough to add little work, often enough for a p99.
const PROBE_HZ: u32 = 200;

const CPU: Column<Found> = column("CPU", "%", 1, |f| 100.0 * f.cpu_cores);
const P99: Column<Found> = column("p99", "us", 0, |f| f.echo.latency.p99_us);
#[rustfmt::skip]
const COLUMNS: [Column<Found>; 6] = [
    CPU,
    or_else(UNCOUNTED, column("utilisation", "%", 1, |f| percent(f.utilisation_cores))),
    or_else(UNCOUNTED, column("spin", "%", 1,
        |f| percent(f.stats.as_ref().and_then(RuntimeStats::spin_cores)))),
    column("p50", "us", 0, |f| f.echo.latency.p50_us),
    P99,
    column("context switches", "/s", 0, |f| f.switches_per_s),
];
const UNCOUNTED: &str = "not counted";

fn percent(cores: Option<f64>) -> f64 {
    100.0 * or_nan(cores)
}

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let variants = variants(&lab.lineup.present, lab.is_brief());
    let name = |variant: Variant| format!("busywait: {}", variant.name());
    let one = |variant| measure(lab, variant);
    let samples = Samples::measure(lab, lab.rounds(), variants, name, &COLUMNS, one);
    let row = |variant: Variant| ([variant.name().into()], variant);
    let rows = samples.keys().map(row);
    let bars = samples.keys().map(|variant| {
        let level = variant.level().unwrap_or_else(|| "default".to_owned());
        (variant.peer.name(), level, variant)
    });
    let plot = |title, column| samples.bars(title, false, column, bars.clone());
    let case = |of: Variant| json!({ "peer": of.peer.name(), "level": of.level() });
    let title = "700 connections of 1 Mbit/s: cost and wake-up latency";
    Ok(Experiment {
        how: lab.conditions(),
        tables: vec![samples.table(title, ["runtime, level"], rows, &COLUMNS)],
        plots: vec![
            plot("CPU of the server, of one core", &CPU),
            plot("Wake-up latency beside the load, p99", &P99),
        ],
        notes: behind(&samples).into_iter().collect(),
        raw: samples.raw(case, |found| json!(found)),
        ..Experiment::default()
    })
}

/// The levels that are measured in brief: the two ends and one between. Each takes two seconds.
const LEVELS_IN_BRIEF: [BusyWait; 3] = [BusyWait::VeryLong, BusyWait::Medium, BusyWait::None];

fn variants(peers: &[Peer], brief: bool) -> Vec<Variant> {
    let fixed = |level: &&BusyWait| **level != BusyWait::Adaptive;
    let fixed: Vec<BusyWait> = match brief {
        true => LEVELS_IN_BRIEF.to_vec(),
        false => BusyWait::ALL.iter().rev().filter(fixed).copied().collect(),
    };
    let mut variants = Vec::new();
    for &peer in peers {
        let mut levels: Vec<_> = fixed.iter().copied().map(Some).collect();
        match peer {
            Peer::Evenkeel => levels.push(Some(BusyWait::Adaptive)),
            Peer::Erlang => {}
            _ => levels = vec![None],
        }
        variants.extend(levels.into_iter().map(|level| Variant { peer, level }));
    }
    variants
}

impl Variant {
    fn level(self) -> Option<String> {
        self.level.map(|level| level.to_string())
    }

    fn name(self) -> String {
        let peer = self.peer.name();
        let level = self.level().map(|level| format!("{peer}, {level}"));
        level.unwrap_or_else(|| peer.to_owned())
    }
}

fn measure(lab: &Lab, variant: Variant) -> Result<Found> {
    /// From the first write until the load is steady.
    const RAMP: Duration = Duration::from_millis(300);
    let peer = variant.peer;
    let mut spec = ServerSpec::of(&["sink", "echo"]);
    let tells = peer.has_stats() || peer == Peer::Erlang;
    spec.services.extend(tells.then_some("api"));
    spec.busy_wait = variant.level;
    let server = lab.serve(peer, &spec)?;
    let length = lab.measured(Duration::from_millis(900));
    let (sink, echo) = (server.address("sink")?, server.address("echo")?);
    let stream = lab.load(format_args!(
        "stream {sink} --connections {CONNECTIONS} --mbit 1 --writes-per-s {WRITES_PER_S} \
         --say-ready"
    ));
    let stream = stream.lasts(RAMP + length + Duration::from_millis(500));
    let stream = stream.start()?.until_ready()?;
    std::thread::sleep(RAMP);
    let (usage_before, stats_before) = (server.process.usage(), accounts(&server, peer));
    // The first reading begins the stretch that the second one is of.
    let _ = erlang_utilisation(&server, peer);
    let probe = format!("echo {echo} --rate {PROBE_HZ} --warmup 0 --drain 0.3");
    let probe = lab.load(probe).lasts(length).result()?;
    let (usage, stats) = (server.process.usage(), accounts(&server, peer));
    let stats = stats.zip(stats_before).map(|(now, then)| now.since(&then));
    let erlang = erlang_utilisation(&server, peer);
    let utilisation = stats.as_ref().map(RuntimeStats::utilisation_cores);
    Ok(Found {
        cpu_cores: usage.cores_since(&usage_before),
        switches_per_s: usage.switches_per_s_since(&usage_before),
        stats,
        utilisation_cores: utilisation.or(erlang.map(|share| share * lab.workers as f64)),
        echo: probe,
        stream: stream.result()?,
    })
}

/// The share of its schedulers' time since the reading before in which they ran processes.
fn erlang_utilisation(server: &Server, peer: Peer) -> Option<f64> {
    let api = server.address("api").ok();
    let api = api.filter(|_| peer == Peer::Erlang)?;
    let stats = client::get::<serde_json::Value>(api, "/stats", Duration::from_secs(2));
    stats.ok()?["utilisation"].as_f64()
}

fn behind(samples: &Samples<Variant, Found>) -> Option<String> {
    let behind = |found: &&Found| found.stream.writes_behind > 0;
    let (behind, all) = (samples.all().filter(behind).count(), samples.0.len());
    let found = "a write found its connection's earlier bytes not yet taken";
    (behind > 0).then(|| format!("In {behind} of {all} measurements {found}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_measured_where_there_are_levels() {
        let names = |peers: &[Peer]| -> Vec<String> {
            let variants = variants(peers, false);
            variants.iter().map(|variant| variant.name()).collect()
        };
        assert_eq!(names(&[Peer::Tokio, Peer::Go]), ["tokio", "go"]);
        assert_eq!(names(&[Peer::Erlang]).len(), 6);
        let evenkeel = names(&[Peer::Evenkeel]);
        assert_eq!(evenkeel.len(), 7);
        assert!(evenkeel.contains(&"evenkeel, adaptive".to_owned()));
        let brief = variants(&[Peer::Evenkeel, Peer::Erlang], true);
        assert_eq!(brief.len(), 4 + 3);
    }

    #[test]
    fn the_page_says_the_same() {
        let load = format!("{CONNECTIONS} connections of 1 Mbit/s each, {WRITES_PER_S} writes");
        let probe = format!("a probe of {PROBE_HZ} Hz");
        crate::experiments::tests::assert_page_says("busywait", &[load, probe]);
    }
}
