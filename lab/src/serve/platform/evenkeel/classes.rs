//! Classes by name: how they are set up, found and spawned into.

use std::future::Future;

use evenkeel::Class;
use evenkeel::runtime::{Builder, Handle};
use evenkeel::stats::Stats;

use super::super::{Settings, micros};
use crate::error::Result;
use crate::serve::args::ClassName;
use crate::serve::stats::ClassTimes;

/// Sets up what the flags ask of classes and of hand-off.
pub(super) fn configure(_: &mut Builder, settings: &Settings<'_>) -> Result<()> {
    if settings.shares.is_some() {
        eprintln!("warning: this runtime's three classes have equal shares; --shares is ignored");
    }
    if settings.hand_off.is_some() {
        eprintln!("warning: this runtime has no hand-off yet; --handoff-us is ignored");
    }
    Ok(())
}

/// The class of that name; `None` where there is none.
pub(super) fn find(_: &Handle, name: &ClassName) -> Option<Class> {
    Class::ALL
        .into_iter()
        .find(|class| class.name() == name.as_str())
}

/// Spawns into `class`, or into that of the task that spawns.
#[track_caller]
pub(super) fn spawn(
    class: Option<Class>,
    _: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
) {
    // Dropping the handle lets the task run on by itself.
    match class {
        Some(class) => drop(evenkeel::spawn_in(class, future)),
        None => drop(evenkeel::spawn(future)),
    }
}

/// What each class had.
pub(super) fn times(stats: &Stats) -> Vec<ClassTimes> {
    let times = stats.classes.iter().map(|class| ClassTimes {
        name: class.class.name().to_owned(),
        share: None,
        run_us: micros(class.run),
        heavy_us: None,
        polls: class.polls,
        hogs: None,
    });
    times.collect()
}
