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

/// Whether there is a hook, or a subscriber of `tracing` that may want such events.
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

/// Whether some subscriber wants warnings. The subscriber is not asked, as that is the user's code:
/// the monitor and threads that take over a seat call this.
#[cfg(feature = "tracing")]
fn is_traced() -> bool {
    use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
    LevelFilter::WARN <= STATIC_MAX_LEVEL.min(LevelFilter::current())
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

#[cfg(all(test, feature = "tracing", not(evenkeel_loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Notes that it was asked.
    struct Asked(Arc<AtomicBool>);

    impl Subscriber for Asked {
        fn enabled(&self, of: &Metadata<'_>) -> bool {
            if of.target() == TARGET {
                // Relaxed: on one thread.
                self.0.store(true, Ordering::Relaxed);
            }
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn whether_reports_are_heard_is_found_out_without_the_subscriber() {
        let asked = Arc::new(AtomicBool::new(false));
        let subscriber = Asked(Arc::clone(&asked));
        tracing::subscriber::with_default(subscriber, || assert!(is_traced()));
        // Relaxed: on one thread.
        assert!(!asked.load(Ordering::Relaxed));
    }
}
