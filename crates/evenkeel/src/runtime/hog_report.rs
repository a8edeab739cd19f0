//! Delivery of reports of hogs.

use std::panic::{self, AssertUnwindSafe, Location};

use crate::blocking;
use crate::sched::HogReport;
use crate::sched::shared::{OnHog, Shared};
use crate::sync::Arc;

/// Of the events of `tracing`.
#[cfg(feature = "tracing")]
const TARGET: &str = "evenkeel::hog";

/// What becomes of reports.
pub(super) const ON_HOG: OnHog = OnHog {
    is_heard,
    deliver: pass_on,
};

/// Whether there is a hook, or a subscriber of `tracing` that wants such events.
fn is_heard(shared: &Shared) -> bool {
    shared.config.on_hog.is_some() || is_traced()
}

/// Passes a report to the user's hook and to `tracing`, on a thread for blocking work, where they
/// may take any time. When the runtime ends, such work would be cancelled: then on this thread.
fn pass_on(shared: &Arc<Shared>, report: HogReport) {
    let hook = shared.config.on_hog.clone();
    if !is_heard(shared) {
        return;
    }
    let pass = move || {
        trace(&report);
        if let Some(hook) = hook {
            hook.run(&report);
        }
    };
    if shared.is_stopping() {
        // As in such work, a panic of the hook ends nothing else; the panic hook has told it.
        drop(panic::catch_unwind(AssertUnwindSafe(pass)));
        return;
    }
    drop(blocking::spawn(shared, Location::caller(), pass));
}

#[cfg(feature = "tracing")]
fn is_traced() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::WARN)
}

#[cfg(not(feature = "tracing"))]
fn is_traced() -> bool {
    false
}

#[cfg(feature = "tracing")]
fn trace(report: &HogReport) {
    tracing::warn!(
        target: TARGET,
        spawned_at = %report.spawned_at,
        future = report.future,
        name = report.name,
        class = %report.class,
        length_us = report.length.as_micros() as u64,
        count = report.count,
        suppressed = report.suppressed,
        running = report.running,
        blocked = report.blocked,
        "{report}"
    );
}

#[cfg(not(feature = "tracing"))]
fn trace(_: &HogReport) {}
