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

/// What all measurements have in common.
pub(super) struct Scene<'a> {
    pub(super) lab: &'a Lab,
    /// Whether system calls can be counted.
    counts_syscalls: bool,
    /// For storms over a network of its own, where that can be had.
    pub(super) veth: Option<Veth>,
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
pub(super) struct Running<'a> {
    scene: &'a Scene<'a>,
    server: Server,
    api: SocketAddr,
    _directory: TemporaryDirectory,
}

impl<'a> Scene<'a> {
    pub(super) fn open(lab: &'a Lab, notes: &mut Vec<String>) -> Self {
        let can_count = machine::can_count(lab);
        notes.extend(can_count.as_ref().err().map(machine::advice));
        let veth = (!lab.is_brief()).then(Veth::open).transpose();
        Scene {
            lab,
            counts_syscalls: can_count.is_ok(),
            veth: veth.unwrap_or_else(|error| {
                notes.push(format!(
                    "Not possible here, and so left out: a network of its own with Ethernet's \
                     segments ({error})."
                ));
                None
            }),
        }
    }

    pub(super) fn length(&self) -> Duration {
        self.lab.measured(Duration::from_millis(500))
    }

    fn veth(&self, storm: &Storm) -> Option<&Veth> {
        self.veth.as_ref().filter(|_| storm.over_veth)
    }

    /// Starts a server of which it is known where it records.
    pub(super) fn serve(
        &self,
        peer: Peer,
        spec: impl FnOnce(&Path) -> ServerSpec,
    ) -> Result<Running<'_>> {
        let directory = TemporaryDirectory::new("storm")?;
        let server = self.lab.serve(peer, &spec(directory.path()))?;
        Ok(Running {
            scene: self,
            api: server.address("api")?,
            server,
            _directory: directory,
        })
    }
}

pub(super) fn storm(scene: &Scene<'_>, row: &Row, storm: &Storm, work_us: u64) -> Result<Found> {
    let running = scene.serve(row.peer, |directory| ServerSpec {
        host: scene.veth(storm).map(Veth::host),
        ..row.spec(directory, work_us)
    })?;
    let api_idle_us = (0..5).map(|_| running.call()).collect();
    let cameras = running.cameras(storm, MBIT)?;
    running.wait_a_lap(storm);
    let others = Others::begin(&scene.lab.server_cpus, &running.server);
    let quiet = running.quiet()?;
    // Of a server that sleeps all through a short count there is none.
    let counts = scene.counts_syscalls;
    let syscalls = counts.then(|| running.syscalls_per_mb().ok()).flatten();
    // Last, as a call that takes for ever leaves nothing to measure.
    let (echo, api_us, tasks_active) = running.beside()?;
    let others_cores = others.cores(&running.server);
    let load: CameraSummary = cameras.result()?;
    let stats = client::accounts(&running.server, row.peer);
    let end = running.ended()?;
    Ok(Found {
        api_idle_us,
        api_us,
        quiet,
        tasks_active,
        syscalls_per_mb: syscalls.flatten(),
        echo,
        lost: load.frames.saturating_sub(end.frames),
        load,
        others_cores,
        end,
        stats,
    })
}

/// Processor time over all of the server's processors, and deliveries per second, with so much
/// computing for each.
pub(super) fn load_of(scene: &Scene<'_>, row: &Row, storm: &Storm, us: u64) -> Result<(f64, f64)> {
    let running = scene.serve(row.peer, |directory| row.spec(directory, us))?;
    let cameras = running.cameras(storm, MBIT)?;
    running.wait_a_lap(storm);
    let found = running.quiet()?;
    drop(cameras);
    let load = found.cores / scene.lab.workers as f64;
    Ok((load, found.deliveries_per_s))
}

impl Running<'_> {
    /// Cameras that send from now on until their result is asked for, when what is measured is
    /// steady. By the clock they would end while something is still measured whenever that takes
    /// longer than expected, and then all recordings are written out at once.
    pub(super) fn cameras(&self, storm: &Storm, mbit: u32) -> Result<Process> {
        let Scene { lab, .. } = self.scene;
        // Longer than anything takes: what is never told ends all the same.
        let most = lap(storm) + self.scene.length() * 4 + 3 * PATIENCE;
        let camera = self.server.address("camera")?;
        let watch = self.server.address("watch")?;
        let network = self.scene.veth(storm).map(|veth| veth.network.as_str());
        let (Storm { cameras, burst, .. }, nice) = (storm, lab.load_nice());
        let load = format!(
            "cameras {camera} --watch {watch} --connections {cameras} --mbit {mbit} \
             --burst {burst} --nice {nice} --say-ready --until-told"
        );
        let load = lab.load_from(network, load).lasts(most);
        let load = load.start()?.until_ready()?;
        sleep(RAMP * storm.cameras / CAMERAS);
        Ok(load)
    }

    /// Waits until recordings have gone round, where there is time for it: not in a run in brief,
    /// nor in one of moments.
    fn wait_a_lap(&self, storm: &Storm) {
        let lab = self.scene.lab;
        if !lab.is_brief() && lab.measured(MOMENT) >= MOMENT {
            sleep(lap(storm));
        }
    }

    /// What the server does with nothing else beside the storm.
    fn quiet(&self) -> Result<Stretch> {
        self.stretch(|| sleep(self.scene.length()))
    }

    /// Watches the server meanwhile.
    fn stretch(&self, meanwhile: impl FnOnce()) -> Result<Stretch> {
        let process = &self.server.process;
        let (before, usage_before, began) = (self.accounts()?, process.usage(), Instant::now());
        meanwhile();
        let (after, usage, ended) = (self.accounts()?, process.usage(), Instant::now());
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

    /// System calls over megabytes, in a stretch of its own: counting costs a little time itself.
    fn syscalls_per_mb(&self) -> Result<Option<f64>> {
        let length = self.scene.length().min(Duration::from_secs(1));
        let mut count = Ok(0);
        let pid = self.server.process.pid();
        let found = self.stretch(|| count = machine::count(self.scene.lab, pid, length))?;
        // Starting and ending the counter took time in which bytes came and nothing was counted.
        let (count, mb) = (count? as f64, found.mb_per_s * length.as_secs_f64());
        Ok((mb > 0.0).then_some(count / mb))
    }

    /// A probe and API calls beside the storm, and how many tasks are ready.
    fn beside(&self) -> Result<(EchoSummary, Vec<f64>, Option<f64>)> {
        let (echo, length) = (self.server.address("echo")?, self.scene.length());
        let probe = format!("echo {echo} --rate {PROBE_HZ} --warmup 0.1 --drain 0.5");
        let probe = self.scene.lab.load(probe).lasts(length).start()?;
        let end = Instant::now() + length;
        let (mut calls, mut active) = (Vec::new(), Vec::new());
        while calls.is_empty() || Instant::now() + API_EVERY < end {
            let begun = Instant::now();
            calls.push(self.call());
            let stats = client::get::<serde_json::Value>(self.api, "/stats", PATIENCE);
            active.extend(stats.ok().and_then(|stats| stats["tasks_active"].as_f64()));
            sleep((begun + API_EVERY).saturating_duration_since(Instant::now()));
        }
        Ok((probe.result()?, calls, median(active)))
    }

    /// How long a call of the API took, in microseconds.
    fn call(&self) -> f64 {
        self.scene.lab.call_first(|| {
            let begun = Instant::now();
            // One that is not answered counts with the time waited.
            let _ = client::get::<serde_json::Value>(self.api, "/parse", PATIENCE);
            begun.elapsed().as_secs_f64() * 1e6
        })
    }

    pub(super) fn accounts(&self) -> Result<CameraStats> {
        let stats = client::get(self.api, "/camera", PATIENCE);
        stats.map_err(Error::system("the server does not tell of its cameras"))
    }

    /// What the runtime says of itself.
    pub(super) fn runtime_stats(&self) -> Result<RuntimeStats> {
        let stats = client::get(self.api, "/stats", PATIENCE);
        stats.map_err(Error::system("the server tells nothing of itself"))
    }

    /// The accounts once every camera is gone, or as they are when patience is over.
    fn ended(&self) -> Result<CameraStats> {
        const ENDING: Duration = Duration::from_secs(3);
        let deadline = Instant::now() + ENDING;
        loop {
            let stats = self.accounts()?;
            if stats.cameras == 0 || Instant::now() > deadline {
                return Ok(stats);
            }
            sleep(Duration::from_millis(20));
        }
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
