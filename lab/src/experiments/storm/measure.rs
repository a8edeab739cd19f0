//! One server under one storm.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::machine::{self, Others, Veth};
use super::rows::{CAMERAS, MBIT, Row, Storm};
use crate::error::{Error, Result};
use crate::load::{CameraSummary, EchoSummary};
use crate::peers::{Peer, ServerSpec};
use crate::process::{Process, Server, TemporaryDirectory};
use crate::serve::{CameraStats, RING_LEN, RuntimeStats, bucket_end_us};
use crate::trial::figures::median;
use crate::trial::{Lab, client, or_nan};

/// From the first frame until the load of as many cameras as are usual is steady: each has its
/// recording made first.
const RAMP: Duration = Duration::from_millis(300);
/// Between the beginnings of two API calls.
const API_EVERY: Duration = Duration::from_millis(250);
/// How long an answer may take before it counts as if it came then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of moments nothing is expected.
pub(super) const MOMENT: Duration = Duration::from_millis(400);
/// Of a processor of the servers', more than this is too much for others to have.
pub(super) const CROWDED: f64 = 0.1;
const PROBE_HZ: u32 = 200;

/// Until every recording has gone round once. Before, servers write to memory that nobody has
/// touched yet: a megabyte then costs up to half as much again, and what it costs differs from run
/// to run by as much as there is to compare.
fn lap(storm: &Storm) -> Duration {
    let bytes = f64::from(storm.cameras) * RING_LEN as f64;
    Duration::from_secs_f64(bytes / (f64::from(MBIT) * 1e6 / 8.0))
}

/// Whether there is time for it: not in a run in brief, nor in one of moments.
fn has_lap(lab: &Lab) -> bool {
    !lab.is_brief() && lab.measured(MOMENT) >= MOMENT
}

/// What all measurements have in common.
pub(super) struct Scene<'a> {
    pub(super) lab: &'a Lab,
    /// Whether system calls can be counted, or why not.
    pub(super) syscalls: Result<(), String>,
}

/// What a server did under a storm.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    /// API calls before the storm and under it, as their caller saw them.
    pub(super) api_idle_us: Vec<f64>,
    pub(super) api_us: Vec<f64>,
    pub(super) quiet: Stretch,
    /// Ready tasks, of a few readings.
    pub(super) tasks_active: Option<f64>,
    /// System calls for each megabyte that came in.
    pub(super) syscalls_per_mb: Option<f64>,
    pub(super) echo: EchoSummary,
    pub(super) load: CameraSummary,
    /// Processors of the servers' that others had meanwhile.
    pub(super) others_cores: Option<f64>,
    /// Frames that were due and never came whole.
    pub(super) lost: u64,
    /// All the server had, in the end.
    pub(super) end: CameraStats,
    /// What the runtime says of itself, since its start.
    pub(super) stats: Option<RuntimeStats>,
}

/// A stretch of the storm without API calls.
#[derive(Debug, Serialize)]
pub(super) struct Stretch {
    pub(super) cores: f64,
    pub(super) mb_per_s: f64,
    pub(super) deliveries_per_s: f64,
    pub(super) bytes_per_delivery: f64,
    /// The way of deliveries' first frames.
    pub(super) way_p50_us: f64,
    pub(super) way_p99_us: f64,
    pub(super) way_max_us: f64,
}

/// Buckets of the server's, with how many frames' way each has.
pub(super) type Ways = Vec<(usize, u64)>;

impl Found {
    /// Processor time for each megabyte that came in, in milliseconds.
    pub(super) fn cpu_ms_per_mb(&self) -> f64 {
        1e3 * self.quiet.cores / self.quiet.mb_per_s
    }

    /// The longest that the runtime says it held anything back; not a number if it does not say.
    pub(super) fn longest_held_ms(&self) -> f64 {
        let longest_us = |stats: &RuntimeStats| Some(stats.delivery.as_ref()?.longest_us);
        or_nan(self.stats.as_ref().and_then(longest_us)) / 1e3
    }

    /// Whether others had so much of the servers' processors that figures are theirs, too.
    pub(super) fn is_crowded(&self) -> bool {
        self.others_cores.is_some_and(|cores| cores > CROWDED)
    }
}

/// A server, and its recordings.
pub(super) struct Running {
    pub(super) server: Server,
    pub(super) api: SocketAddr,
    _directory: TemporaryDirectory,
}

impl<'a> Scene<'a> {
    pub(super) fn new(lab: &'a Lab) -> Self {
        Scene {
            lab,
            syscalls: machine::can_count(lab),
        }
    }

    pub(super) fn length(&self) -> Duration {
        self.lab.measured(Duration::from_millis(500))
    }

    pub(super) fn serve(
        &self,
        peer: Peer,
        spec: impl FnOnce(&Path) -> ServerSpec,
    ) -> Result<Running> {
        let directory = TemporaryDirectory::new("storm")?;
        let server = self.lab.serve(peer, &spec(directory.path()))?;
        Ok(Running {
            api: server.address("api")?,
            server,
            _directory: directory,
        })
    }

    /// Cameras that send from now on until their result is asked for, when what is measured is
    /// steady. By the clock they would end while something is still measured whenever that takes
    /// longer than expected, and then all recordings are written out at once.
    pub(super) fn cameras(
        &self,
        server: &Server,
        storm: &Storm,
        veth: Option<&Veth>,
        mbit: u32,
    ) -> Result<Process> {
        // Longer than anything takes: what is never told ends all the same.
        let most = lap(storm) + self.length() * 4 + 3 * PATIENCE;
        let (camera, watch) = (server.address("camera")?, server.address("watch")?);
        let network = veth.map(|veth| veth.network.as_str());
        let (Storm { cameras, burst, .. }, nice) = (storm, self.lab.load_nice());
        let load = format!(
            "cameras {camera} --watch {watch} --connections {cameras} --mbit {mbit} \
             --burst {burst} --nice {nice} --say-ready --until-told"
        );
        let load = self.lab.load_from(network, load).lasts(most);
        let load = load.start()?.until_ready()?;
        sleep(RAMP * storm.cameras / CAMERAS);
        Ok(load)
    }

    /// Waits until recordings have gone round, where there is time for it.
    fn wait_a_lap(&self, storm: &Storm) {
        if has_lap(self.lab) {
            sleep(lap(storm));
        }
    }
}

pub(super) fn storm(
    scene: &Scene<'_>,
    row: &Row,
    storm: &Storm,
    veth: Option<&Veth>,
    work_us: u64,
) -> Result<Found> {
    let running = scene.serve(row.peer, |directory| ServerSpec {
        host: veth.map(Veth::host),
        ..row.spec(directory, work_us)
    })?;
    let (server, api) = (&running.server, running.api);
    let api_idle_us = (0..5).map(|_| call(scene.lab, api)).collect();
    let length = scene.length();
    let counted = length.min(Duration::from_secs(1));
    let cameras = scene.cameras(server, storm, veth, MBIT)?;
    scene.wait_a_lap(storm);
    let others = Others::begin(&scene.lab.server_cpus, server);
    let quiet = stretch(server, length)?;
    // Of a server that sleeps all through a short count there is none.
    let can_count = scene.syscalls.is_ok();
    let syscalls = can_count.then(|| syscalls_per_mb(scene, server, counted).ok());
    // Last, as a call that takes for ever leaves nothing to measure.
    let (echo, api_us, tasks_active) = beside(scene, server, length)?;
    let others_cores = others.cores(server);
    let load: CameraSummary = cameras.result()?;
    let has_stats = row.peer.has_stats();
    let stats = has_stats.then(|| runtime_stats(api).ok());
    let end = ended(api)?;
    Ok(Found {
        api_idle_us,
        api_us,
        quiet,
        tasks_active,
        syscalls_per_mb: syscalls.flatten().flatten(),
        echo,
        lost: load.frames.saturating_sub(end.frames),
        load,
        others_cores,
        end,
        stats: stats.flatten(),
    })
}

/// Processor time over all of the server's processors, and deliveries per second, with so much
/// computing for each.
pub(super) fn load_of(
    scene: &Scene<'_>,
    row: &Row,
    storm: &Storm,
    work_us: u64,
) -> Result<(f64, f64)> {
    let running = scene.serve(row.peer, |directory| row.spec(directory, work_us))?;
    let cameras = scene.cameras(&running.server, storm, None, MBIT)?;
    scene.wait_a_lap(storm);
    let found = stretch(&running.server, scene.length())?;
    drop(cameras);
    let load = found.cores / scene.lab.workers as f64;
    Ok((load, found.deliveries_per_s))
}

/// Watches a server for so long.
fn stretch(server: &Server, length: Duration) -> Result<Stretch> {
    let api = server.address("api")?;
    let (before, usage_before, began) = (accounts(api)?, server.process.usage(), Instant::now());
    sleep(length);
    let (after, usage, ended) = (accounts(api)?, server.process.usage(), Instant::now());
    let seconds = (ended - began).as_secs_f64().max(f64::EPSILON);
    let bytes = after.bytes.saturating_sub(before.bytes) as f64;
    let deliveries = after.deliveries.saturating_sub(before.deliveries) as f64;
    let ways = since(&after.delays, &before.delays);
    Ok(Stretch {
        cores: usage.cores_since(&usage_before),
        mb_per_s: bytes / 1e6 / seconds,
        deliveries_per_s: deliveries / seconds,
        bytes_per_delivery: bytes / deliveries.max(1.0),
        way_p50_us: quantile(&ways, 0.5),
        way_p99_us: quantile(&ways, 0.99),
        way_max_us: quantile(&ways, 1.0),
    })
}

/// API calls beside the storm, a probe, and how many tasks are ready.
fn beside(
    scene: &Scene<'_>,
    server: &Server,
    length: Duration,
) -> Result<(EchoSummary, Vec<f64>, Option<f64>)> {
    let api = server.address("api")?;
    let echo = server.address("echo")?;
    let probe = format!("echo {echo} --rate {PROBE_HZ} --warmup 0.1 --drain 0.5");
    let probe = scene.lab.load(probe).lasts(length).start()?;
    let end = Instant::now() + length;
    let (mut calls, mut active) = (Vec::new(), Vec::new());
    while calls.is_empty() || Instant::now() + API_EVERY < end {
        let begun = Instant::now();
        calls.push(call(scene.lab, api));
        active.extend(tasks_active(api));
        sleep((begun + API_EVERY).saturating_duration_since(Instant::now()));
    }
    Ok((probe.result()?, calls, median(active)))
}

fn tasks_active(api: SocketAddr) -> Option<f64> {
    let stats: serde_json::Value = client::get(api, "/stats", PATIENCE).ok()?;
    stats["tasks_active"].as_f64()
}

/// How long a call of the API took, in microseconds.
fn call(lab: &Lab, api: SocketAddr) -> f64 {
    lab.call_first(|| {
        let begun = Instant::now();
        // One that is not answered counts with the time waited.
        let _ = client::get::<serde_json::Value>(api, "/parse", PATIENCE);
        begun.elapsed().as_secs_f64() * 1e6
    })
}

/// System calls over megabytes, in a stretch of its own: counting costs a little time itself.
fn syscalls_per_mb(scene: &Scene<'_>, server: &Server, length: Duration) -> Result<Option<f64>> {
    let api = server.address("api")?;
    let (before, began) = (accounts(api)?, Instant::now());
    let count = machine::count(scene.lab, server.process.pid(), length)?;
    let (after, seconds) = (accounts(api)?, began.elapsed().as_secs_f64());
    let mb = after.bytes.saturating_sub(before.bytes) as f64 / 1e6;
    // Starting and ending the counter took time in which bytes came and nothing was counted.
    let counted_mb = mb * length.as_secs_f64() / seconds.max(f64::EPSILON);
    Ok((counted_mb > 0.0).then(|| count as f64 / counted_mb))
}

pub(super) fn accounts(api: SocketAddr) -> Result<CameraStats> {
    let stats = client::get(api, "/camera", PATIENCE);
    stats.map_err(Error::system("the server does not tell of its cameras"))
}

pub(super) fn runtime_stats(api: SocketAddr) -> Result<RuntimeStats> {
    let stats = client::get(api, "/stats", PATIENCE);
    stats.map_err(Error::system("the server tells nothing of itself"))
}

/// The accounts once every camera is gone, or as they are when patience is over.
fn ended(api: SocketAddr) -> Result<CameraStats> {
    const ENDING: Duration = Duration::from_secs(3);
    let deadline = Instant::now() + ENDING;
    loop {
        let stats = accounts(api)?;
        if stats.cameras == 0 || Instant::now() > deadline {
            return Ok(stats);
        }
        sleep(Duration::from_millis(20));
    }
}

/// What was counted in buckets since `before`.
pub(super) fn since(after: &[(usize, u64)], before: &[(usize, u64)]) -> Ways {
    let then: BTreeMap<usize, u64> = before.iter().copied().collect();
    let since = |&(bucket, count): &(usize, u64)| {
        let count = count.saturating_sub(then.get(&bucket).copied().unwrap_or(0));
        (count > 0).then_some((bucket, count))
    };
    after.iter().filter_map(since).collect()
}

/// What either has.
pub(super) fn merged(one: &[(usize, u64)], other: &[(usize, u64)]) -> Ways {
    let mut counts = BTreeMap::new();
    for &(bucket, count) in one.iter().chain(other) {
        *counts.entry(bucket).or_insert(0) += count;
    }
    counts.into_iter().collect()
}

/// What a share of all did not exceed, in microseconds; not a number where there are none.
pub(super) fn quantile(ways: &[(usize, u64)], share: f64) -> f64 {
    let total: u64 = ways.iter().map(|(_, count)| count).sum();
    let rank = (share * total as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    let found = ways.iter().find(|(_, count)| {
        seen += count;
        seen >= rank
    });
    found.map_or(f64::NAN, |(bucket, _)| bucket_end_us(*bucket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::storm::rows::{EVEN, MANY};

    #[test]
    fn a_quantile_is_of_what_came_between_two_readings() {
        let ways = since(&[(64, 10), (128, 5), (192, 1)], &[(64, 10), (128, 1)]);
        assert_eq!(ways, [(128, 4), (192, 1)]);
        assert_eq!(quantile(&ways, 0.5), bucket_end_us(128));
        assert_eq!(quantile(&ways, 0.99), bucket_end_us(192));
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(
            merged(&ways, &[(128, 2), (7, 1)]),
            [(7, 1), (128, 6), (192, 1)]
        );
    }

    #[test]
    fn the_page_says_the_same() {
        let [even, many] = [EVEN, MANY].map(|storm| lap(&storm).as_secs_f64());
        let phrases = [
            format!("{CAMERAS} cameras send {MBIT} Mbit/s"),
            format!("{even:.1} s after the cameras do, {many:.1} s where they are more"),
            format!("the probe of {PROBE_HZ} Hz"),
        ];
        crate::experiments::tests::assert_page_says("storm", &phrases);
    }
}
