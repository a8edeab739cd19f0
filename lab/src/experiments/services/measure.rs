//! One server in one scene.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;

use super::Scene;
use crate::error::{Error, Result};
use crate::load::{EchoSummary, Latencies, MixedSummary, Over};
use crate::peers::{Peer, ServerSpec};
use crate::process::{Process, Server};
use crate::serve::{Fresh, RuntimeStats, Waits};
use crate::trial::lab::warmup;
use crate::trial::{Column, Lab, client, column};

/// Calls a second, of which one in four computes for [`HOG`]: a core's worth.
pub(super) const MIXED_HZ: u32 = 200;
/// The same at high load: 1.6 cores' worth.
pub(super) const HIGH_HZ: u32 = 320;
/// Tasks a second, of which one in five computes for [`HOG`].
const TASKS_HZ: u32 = 250;
const HOG: Duration = Duration::from_millis(20);
/// Fresh tasks a second beside handlers that block.
const FRESH_HZ: u32 = 200;
/// For how long those block.
const BLOCK: Duration = Duration::from_secs(2);
/// POSTs a second, and for how long each computes: half a core's worth.
const POSTS_HZ: u32 = 10;
const POST: Duration = Duration::from_millis(50);

const PATIENCE: Duration = Duration::from_secs(5);

/// Whose latency a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Whose {
    /// Calls and tasks that compute.
    Hogs,
    /// Calls and tasks that do not.
    Innocents,
    /// Tasks that do not, in a class that goes before others.
    Urgent,
    Echo,
}

/// What a server did in a scene.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) latencies: Heard,
    /// Its own account in the end, if it could still tell.
    pub(super) stats: Option<RuntimeStats>,
}

/// What was heard of whom.
type Heard = BTreeMap<Whose, EchoSummary>;

pub(super) const TOLD: [Column<Found>; 4] = [
    column("hogs p99", "us", 0, |of| of.p99(Whose::Hogs)),
    column("innocents p99", "us", 0, |of| of.p99(Whose::Innocents)),
    column("urgent p99", "us", 0, |of| of.p99(Whose::Urgent)),
    column("echo p99", "us", 0, |of| of.p99(Whose::Echo)),
];

impl Found {
    /// Not a number of who was not heard of.
    fn p99(&self, whose: Whose) -> f64 {
        let found = self.latencies.get(&whose);
        found.map_or(f64::NAN, |found| found.latency.p99_us)
    }
}

pub(super) fn measure(lab: &Lab, peer: Peer, scene: Scene) -> Result<Found> {
    let mut spec = spec(scene);
    // Of Evenkeel's accounts the raw figures tell what it did of which line.
    let with_stats = peer == Peer::Evenkeel;
    spec.services.extend(with_stats.then_some("api"));
    let server = lab.serve(peer, &spec)?;
    let latencies = match scene {
        Scene::Mixed { over, apart, rate } => mixed(lab, &server, (over, apart), rate)?,
        Scene::Tasks { .. } => tasks(lab, &server)?,
        Scene::Blocked { .. } => blocked(lab, &server)?,
        Scene::Posts => posts(lab, &server)?,
    };
    // Accounts that are not to be had are absent from the report; what was measured stands.
    let stats = with_stats.then(|| client::accounts(&server, peer));
    let stats = stats.flatten();
    Ok(Found { latencies, stats })
}

fn spec(scene: Scene) -> ServerSpec {
    let of = ServerSpec::of;
    let [hog, block, post] = [HOG, BLOCK, POST].map(|length| length.as_micros());
    match scene {
        Scene::Mixed { over, .. } => of(&names(over)).with(format_args!("--post-us {hog}")),
        Scene::Tasks { apart } => {
            let apart = if apart { "--fresh-apart" } else { "" };
            let flags = format_args!("--fresh {TASKS_HZ} --fresh-hog-us {hog} {apart}");
            of(&["waits"]).with(flags)
        }
        Scene::Blocked { tasks } => {
            let flags = format!("--fresh {FRESH_HZ} --block-tasks {tasks} --block-us {block}");
            of(&["echo", "block", "waits"]).with(flags)
        }
        Scene::Posts => of(&["echo", "mixed"]).with(format_args!("--post-us {post}")),
    }
}

/// The services at which one line spawns both kinds, and at which another does.
fn names(over: Over) -> [&'static str; 2] {
    match over {
        Over::Fresh | Over::Kept | Over::Shared => ["mixed", "apart"],
        Over::H2 => ["mixed-h2", "apart-h2"],
    }
}

fn mixed(lab: &Lab, server: &Server, (over, apart): (Over, bool), rate: u32) -> Result<Heard> {
    const BRIEF: Duration = Duration::from_millis(400);
    let [shared, own] = names(over);
    let (target, over) = (server.address(shared)?, over.word());
    let hogs = server.address(if apart { own } else { shared })?;
    let load = format!("mixed {target} --hogs-at {hogs} --over {over} --rate {rate}");
    let load = lab.load(load).lasts_with_margins(lab.measured(BRIEF));
    let MixedSummary { innocents, hogs } = load.result()?;
    Ok([(Whose::Innocents, innocents), (Whose::Hogs, hogs)].into())
}

fn tasks(lab: &Lab, server: &Server) -> Result<Heard> {
    const BRIEF: Duration = Duration::from_millis(400);
    let seconds = lab.measured(BRIEF);
    sleep(warmup(seconds));
    let from_us = waits(server)?.at_us;
    sleep(seconds);
    let told = waits(server)?;
    let kinds = [
        (Whose::Innocents, Fresh::Innocent),
        (Whose::Hogs, Fresh::Hog),
        (Whose::Urgent, Fresh::Urgent),
    ];
    let of = |(whose, kind)| (whose, waited(&told, from_us, |fresh| fresh == kind));
    Ok(kinds.map(of).into())
}

fn blocked(lab: &Lab, server: &Server) -> Result<Heard> {
    const BRIEF: Duration = Duration::from_millis(800);
    /// Longer than they block: how it is when they wake is measured, too.
    const LONGEST: Duration = Duration::from_secs(3);
    /// For some fresh tasks to come.
    const SHORTEST: Duration = Duration::from_millis(500);
    /// For the probe to have begun.
    const SETTLING: Duration = Duration::from_millis(50);
    let seconds = lab.measured(BRIEF).clamp(SHORTEST, LONGEST);
    let echo = probe(lab, server, seconds)?;
    sleep(warmup(seconds) + SETTLING);
    let from_us = waits(server)?.at_us;
    block(server)?;
    let echo: EchoSummary = echo.result()?;
    let told = waits(server)?;
    let of = |urgent| waited(&told, from_us, |fresh| (fresh == Fresh::Urgent) == urgent);
    let (innocents, urgent) = ((Whose::Innocents, of(false)), (Whose::Urgent, of(true)));
    Ok([innocents, urgent, (Whose::Echo, echo)].into())
}

/// Starts the tasks that block.
fn block(server: &Server) -> Result<()> {
    let address = server.address("block")?;
    let begin = || {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // Where they already block all threads, the answer may come when it is over.
        let _ = stream.read(&mut [0; 1]);
        Ok(())
    };
    begin().map_err(Error::system("the handlers that block did not begin"))
}

fn posts(lab: &Lab, server: &Server) -> Result<Heard> {
    const BRIEF: Duration = Duration::from_secs(1);
    /// There are few of them.
    const SHORTEST: Duration = Duration::from_millis(500);
    let seconds = lab.measured(BRIEF).max(SHORTEST);
    let echo = probe(lab, server, seconds)?;
    let target = server.address("mixed")?;
    let load = lab.load(format_args!("calls {target} --post --rate {POSTS_HZ}"));
    let hogs: EchoSummary = load.lasts_with_margins(seconds).result()?;
    Ok([(Whose::Hogs, hogs), (Whose::Echo, echo.result()?)].into())
}

/// Starts the echo's probe.
fn probe(lab: &Lab, server: &Server, seconds: Duration) -> Result<Process> {
    let load = lab.load(format_args!("echo {}", server.address("echo")?));
    load.lasts_with_margins(seconds).start()
}

fn waits(server: &Server) -> Result<Waits> {
    client::line(server.address("waits")?, PATIENCE).map_err(Error::system(
        "the server does not say how long its tasks waited",
    ))
}

/// How long the tasks waited that were due from a moment on, each from being spawned to its first
/// poll; and how late they were spawned. One that has not run counts with its wait so far, and if
/// it was not even spawned, from when it was due.
fn waited(told: &Waits, from_us: u64, of: impl Fn(Fresh) -> bool) -> EchoSummary {
    /// What is due right before the end has had no time.
    const GRACE_US: u64 = 50_000;
    let until_us = told.at_us.saturating_sub(GRACE_US);
    let (mut waits, mut lateness) = (Latencies::new(), Latencies::new());
    let mut unanswered = 0;
    for &(kind, due, spawned, ran) in &told.tasks {
        if !of(kind) || !(from_us..=until_us).contains(&due) {
            continue;
        }
        let begun = spawned.unwrap_or(due);
        let wait = ran.unwrap_or(told.at_us).saturating_sub(begun);
        waits.record(Duration::from_micros(wait));
        let late = spawned.unwrap_or(told.at_us).saturating_sub(due);
        lateness.record(Duration::from_micros(late));
        unanswered += u64::from(ran.is_none());
    }
    let late = lateness.summary();
    EchoSummary {
        requests: waits.len(),
        unanswered,
        latency: waits.summary(),
        late_p50_us: late.p50_us,
        late_p99_us: late.p99_us,
        ..EchoSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_waits_from_its_spawning_on() {
        let told = Waits {
            at_us: 1_000_000,
            tasks: vec![
                // Before it counts, and of another kind.
                (Fresh::Innocent, 100, Some(200), Some(90_000)),
                (Fresh::Hog, 200_000, Some(200_000), Some(900_000)),
                // Ran, spawned, not spawned, and too close to the end.
                (Fresh::Innocent, 200_000, Some(201_000), Some(205_000)),
                (Fresh::Innocent, 300_000, Some(302_000), None),
                (Fresh::Innocent, 400_000, None, None),
                (Fresh::Innocent, 990_000, None, None),
            ],
        };
        let found = waited(&told, 1_000, |fresh| fresh == Fresh::Innocent);
        assert_eq!((found.requests, found.unanswered), (3, 2));
        let mean = f64::from(4_000 + 698_000 + 600_000) / 3.0;
        let about = |us: f64, expected: f64| (us - expected).abs() < expected / 500.0;
        assert!(about(found.latency.mean_us, mean), "{found:?}");
        assert!(about(found.latency.max_us, 698_000.0), "{found:?}");
        assert!(about(found.late_p50_us, 2_000.0), "{found:?}");
        assert!(about(found.late_p99_us, 600_000.0), "{found:?}");
    }

    #[test]
    fn each_scene_asks_for_what_it_needs() {
        let words = |scene| {
            let spec = spec(scene);
            format!("{} {}", spec.services.join(","), spec.flags.join(" "))
        };
        let (over, apart, rate) = (Over::H2, true, HIGH_HZ);
        assert_eq!(
            words(Scene::Mixed { over, apart, rate }),
            "mixed-h2,apart-h2 --post-us 20000"
        );
        assert_eq!(
            words(Scene::Tasks { apart }),
            "waits --fresh 250 --fresh-hog-us 20000 --fresh-apart"
        );
        assert_eq!(
            words(Scene::Blocked { tasks: 40 }),
            "echo,block,waits --fresh 200 --block-tasks 40 --block-us 2000000"
        );
        assert_eq!(words(Scene::Posts), "echo,mixed --post-us 50000");
    }

    #[test]
    fn the_page_says_the_same() {
        let [hog, post] = [HOG, POST].map(|length| length.as_millis());
        let phrases = [
            format!("{MIXED_HZ} calls a second"),
            format!("compute for {hog} ms"),
            format!("`high load`: {HIGH_HZ} calls"),
            format!("are {TASKS_HZ} a second"),
            format!(
                "for {} s, all begun at once, beside {FRESH_HZ} fresh",
                BLOCK.as_secs()
            ),
            format!("POSTs come {POSTS_HZ} times a second"),
            format!("compute for {post} ms, beside"),
        ];
        crate::experiments::tests::assert_page_says("services", &phrases);
    }
}
