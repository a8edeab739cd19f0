//! What is shown of two snapshots: pure, so that it can be tested without a terminal.

use std::time::Duration;

use evenkeel::stats::{CheckCounts, HogFunction, HogStats, LaneStats, Stats};
use evenkeel_admin::Snapshot;

/// The states of a worker, in the order in which they are shown.
pub(crate) const STATES: [&str; 6] = ["run", "check", "spin", "steal", "lend", "park"];

/// What happened between two snapshots.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// How long that is, in seconds.
    pub(crate) seconds: f64,
    /// Since the runtime began.
    pub(crate) up: Duration,
    pub(crate) utilisation: f64,
    pub(crate) occupancy: f64,
    /// For each worker, the part of its time in each state.
    pub(crate) workers: Vec<[f64; STATES.len()]>,
    pub(crate) classes: Vec<ClassRow>,
    /// Since the runtime began, as hogs are rare.
    pub(crate) hogs: Vec<HogStats>,
    /// What they were doing; likewise.
    pub(crate) functions: Vec<HogFunction>,
    pub(crate) lanes: Vec<LaneStats>,
    pub(crate) rates: Rates,
    /// The names of the classes, by index.
    pub(crate) names: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClassRow {
    pub(crate) name: String,
    pub(crate) share: u32,
    /// The part that its share makes of the time, beside the classes that ran.
    pub(crate) wanted: f64,
    /// The part of all classes' time that it got.
    pub(crate) got: f64,
    pub(crate) polls: f64,
    pub(crate) hogs: u64,
    /// Polls that are under way and too long, and for how long the first of them.
    pub(crate) hogging: usize,
    pub(crate) oldest_hog: Duration,
    pub(crate) ready: usize,
    /// How long the one of these has waited that came first.
    pub(crate) oldest: Option<Duration>,
    pub(crate) wait_half: Option<Duration>,
    pub(crate) wait_most: Option<Duration>,
    pub(crate) longest_poll: Option<Duration>,
}

/// Figures of the whole runtime; rates are per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// The mean time between two I/O checks of a worker.
    pub(crate) loop_time: Option<Duration>,
    pub(crate) checks: f64,
    pub(crate) events: f64,
    pub(crate) polls: f64,
    /// Of the process's threads; not known on all systems.
    pub(crate) switches: Option<f64>,
    /// Deliveries and writes.
    pub(crate) inputs: f64,
    pub(crate) outputs: f64,
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
    pub(crate) ready: usize,
    /// Processors in use by the process.
    pub(crate) cpu: Option<f64>,
    pub(crate) memory: Option<u64>,
    pub(crate) tasks: usize,
    pub(crate) timers: usize,
    pub(crate) descriptors: usize,
}

/// How hogs are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    #[default]
    Total,
    Count,
    Longest,
}

impl Sort {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Total => Self::Count,
            Self::Count => Self::Longest,
            Self::Longest => Self::Total,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Total => "time in all",
            Self::Count => "polls",
            Self::Longest => "longest poll",
        }
    }

    pub(crate) fn sort(self, hogs: &mut [HogStats], functions: &mut [HogFunction]) {
        let by = |total: Duration, count: u64, longest: Duration| {
            std::cmp::Reverse(match self {
                Self::Total => total.as_nanos(),
                Self::Count => count.into(),
                Self::Longest => longest.as_nanos(),
            })
        };
        hogs.sort_by_key(|row| by(row.total, row.count, row.longest));
        functions.sort_by_key(|row| by(row.total, row.count, row.longest));
    }
}

impl View {
    /// `None` if no time lies between the two, or they are of different runs of the process.
    pub(crate) fn new(before: &Snapshot, now: &Snapshot) -> Option<Self> {
        let since = now.stats.since(&before.stats);
        let wall: Duration = since.workers.iter().map(|worker| worker.wall).sum();
        let workers = now.stats.workers.len();
        if wall.is_zero() || workers == 0 || is_another(before, now) {
            return None;
        }
        let seconds = wall.as_secs_f64() / workers as f64;
        let ups = now.stats.workers.iter().map(|worker| worker.wall);
        Some(Self {
            seconds,
            up: ups.max().unwrap_or_default(),
            utilisation: since.utilisation(),
            occupancy: since.occupancy(),
            workers: states(&since),
            classes: classes(&since, seconds),
            hogs: now.stats.hogs.clone(),
            functions: now.stats.hog_functions.clone(),
            lanes: since.lanes.clone(),
            rates: rates(before, now, &since, seconds),
            names: (now.stats.classes.iter())
                .map(|class| class.name.clone())
                .collect(),
        })
    }

    /// Has the shares that the classes had in `before`.
    pub(crate) fn keep_shares(&mut self, before: &Self) {
        for class in &mut self.classes {
            let old = before.classes.iter().find(|old| old.name == class.name);
            class.share = old.map_or(class.share, |old| old.share);
        }
    }
}

/// How far the beginnings of one run may seem apart, in milliseconds: snapshots take a moment, and
/// clocks are set.
const SAME_RUN_WITHIN: u64 = 2_000;

/// The process was started anew in between.
fn is_another(before: &Snapshot, now: &Snapshot) -> bool {
    let began = |snapshot: &Snapshot| {
        let walls = snapshot.stats.workers.iter().map(|worker| worker.wall);
        let wall = walls.max().unwrap_or_default().as_millis();
        snapshot
            .taken_at_ms
            .saturating_sub(u64::try_from(wall).unwrap_or(u64::MAX))
    };
    before.stats.workers.len() != now.stats.workers.len()
        || began(now).abs_diff(began(before)) > SAME_RUN_WITHIN
}

fn ratio(part: Duration, all: Duration) -> f64 {
    if all.is_zero() {
        return 0.0;
    }
    part.as_secs_f64() / all.as_secs_f64()
}

fn states(since: &Stats) -> Vec<[f64; STATES.len()]> {
    let workers = since.workers.iter().map(|it| {
        let states = [it.run(), it.check, it.spin, it.steal, it.lend, it.park];
        states.map(|time| ratio(time, it.wall))
    });
    workers.collect()
}

fn classes(since: &Stats, seconds: f64) -> Vec<ClassRow> {
    let all: Duration = since.classes.iter().map(|class| class.run).sum();
    let ran = since.classes.iter().filter(|class| class.polls > 0);
    let shares = ran.map(|class| class.share).fold(0, u32::saturating_add);
    let rows = since.classes.iter().map(|class| ClassRow {
        name: class.name.clone(),
        share: class.share,
        wanted: if class.polls > 0 {
            f64::from(class.share) / f64::from(shares.max(1))
        } else {
            0.0
        },
        got: ratio(class.run, all),
        polls: class.polls as f64 / seconds,
        hogs: class.hogs,
        hogging: class.hogging,
        oldest_hog: class.oldest_hog,
        ready: class.ready,
        oldest: Some(class.oldest_ready).filter(|_| class.ready > 0),
        wait_half: class.waits.quantile(0.5),
        wait_most: class.waits.quantile(0.99),
        longest_poll: class.poll_lengths.quantile(1.0),
    });
    rows.collect()
}

fn rates(before: &Snapshot, now: &Snapshot, since: &Stats, seconds: f64) -> Rates {
    let per_second = |count: u64| count as f64 / seconds;
    let polls = since.classes.iter().map(|class| class.polls);
    let polls = polls.fold(0, u64::saturating_add);
    // Visits are other workers' checks.
    let own = [since.checks.due, since.checks.idle, since.checks.spin];
    let own = own.iter().map(CheckCounts::total);
    let own = own.fold(0, u64::saturating_add);
    let time = Duration::from_secs_f64(seconds * since.workers.len() as f64);
    let process = before.process.zip(now.process);
    let switches = |process: evenkeel_admin::Process| {
        let involuntary = process.involuntary_switches;
        process.voluntary_switches.saturating_add(involuntary)
    };
    Rates {
        loop_time: u32::try_from(own)
            .ok()
            .and_then(|own| time.checked_div(own)),
        checks: per_second(since.checks.total()),
        events: per_second(since.readiness.events),
        polls: per_second(polls),
        switches: process.map(|(was, is)| per_second(switches(is).saturating_sub(switches(was)))),
        inputs: per_second(since.delivery.deliveries),
        outputs: per_second(since.output.writes),
        bytes_in: per_second(since.delivery.bytes),
        bytes_out: per_second(since.output.bytes),
        ready: (since.classes.iter())
            .map(|class| class.ready)
            .fold(0, usize::saturating_add),
        cpu: process.map(|(was, is)| per_second(is.cpu.saturating_sub(was.cpu)) / 1e9),
        memory: now.process.map(|process| process.resident),
        tasks: since.tasks_waiting,
        timers: since.timers,
        descriptors: since.readiness.descriptors,
    }
}
