//! Classes by name: how they are set up, found and spawned into, and what each of them had.

use std::future::Future;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::ClassConfig;
use evenkeel::runtime::{Builder, Handle};
use evenkeel::stats::Stats;
use evenkeel::task;

use super::super::{Settings, micros};
use super::in_micros;
use crate::serve::args::{ClassName, HandOff};
use crate::serve::stats::{ClassTimes, HeavyTimes, HogPlace};

/// Sets up what the flags ask of classes and of hand-off.
pub(super) fn configure(builder: &mut Builder, settings: &Settings<'_>) {
    for (name, share) in settings.shares.iter().flat_map(|shares| &shares.0) {
        builder.class(name.as_str(), ClassConfig::new().share(*share));
    }
    if let Some(hand_off) = settings.hand_off {
        builder.hand_off_after(match hand_off {
            HandOff::Off => None,
            HandOff::AfterMicros(us) => Some(Duration::from_micros(us)),
        });
    }
}

/// The class of that name; `None` where there is none.
pub(super) fn find(handle: &Handle, name: &ClassName) -> Option<Class> {
    handle.class(name.as_str())
}

/// Spawns into `class`, or into that of the task that spawns.
#[track_caller]
pub(super) fn spawn(
    class: Option<Class>,
    name: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
) {
    let builder = task::Builder::new().name(name);
    let builder = match class {
        Some(class) => builder.class(class),
        None => builder,
    };
    // Dropping the handle lets the task run on by itself.
    drop(builder.spawn(future));
}

/// What each class had.
pub(super) fn times(stats: &Stats) -> Vec<ClassTimes> {
    let times = stats.classes.iter().map(|class| ClassTimes {
        name: class.name.clone(),
        share: Some(class.share),
        run_us: micros(class.run),
        heavy_us: Some(micros(class.heavy)),
        polls: class.polls,
        waits: in_micros(class.waits.buckets()),
    });
    times.collect()
}

/// The heavy pool.
pub(super) fn heavy(stats: &Stats) -> HeavyTimes {
    let heavy = &stats.heavy;
    HeavyTimes {
        threads: heavy.threads as u64,
        limit: heavy.limit as u64,
        queued: heavy.queued as u64,
        running: heavy.running as u64,
        hand_offs: heavy.hand_offs,
        refused: heavy.refused,
        monitor_us: micros(heavy.monitor),
        priority: format!("{:?}", heavy.priority).to_lowercase(),
    }
}

/// Whose polls were too long, by the place that spawned them.
pub(super) fn hogs(stats: &Stats) -> Vec<HogPlace> {
    let places = stats.hogs.iter().map(|hog| HogPlace {
        spawned_at: hog.spawned_at.to_string(),
        name: hog.name.map(str::to_owned),
        count: hog.count,
        longest_us: micros(hog.longest),
        in_pool: hog.in_pool,
    });
    places.collect()
}
