//! Delivery of reports of hogs.

use std::panic::{self, AssertUnwindSafe, Location};

use crate::blocking;
use crate::sched::HogReport;
use crate::sched::shared::{OnHog, Shared};
#[cfg(feature = "tracing")]
use crate::sched::short::short;
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
        // Not the whole type, which may have some thousand characters: it goes into logs.
        future = short(report.future),
        name = report.name,
        class = %report.class,
        length_us = report.length.as_micros() as u64,
        count = report.count,
        suppressed = report.suppressed,
        running = report.running,
        blocked = report.blocked,
        function = report.function,
        callee = report.callee,
        within = report.within,
        "{report}"
    );
}

#[cfg(not(feature = "tracing"))]
fn trace(_: &HogReport) {}

#[cfg(all(test, feature = "tracing", not(evenkeel_loom)))]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::time::Duration;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::Interest;
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::class::Class;
    use crate::sync::Mutex;
    use crate::sync::atomic::{AtomicBool, Ordering};

    /// Notes that it was asked, and the fields of the last event.
    #[derive(Clone, Default)]
    struct Asked(Arc<AtomicBool>, Arc<Mutex<Fields>>);

    #[derive(Clone, Default)]
    struct Fields(BTreeMap<&'static str, String>);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }
    }

    impl Subscriber for Asked {
        /// Other tests, on other threads, make places of events known, of which each is told.
        fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
            Interest::sometimes()
        }

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
        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields::default();
            event.record(&mut fields);
            *self.1.lock() = fields;
        }

        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn whether_reports_are_heard_is_found_out_without_the_subscriber() {
        let asked = Asked::default();
        tracing::subscriber::with_default(asked.clone(), || assert!(is_traced()));
        // Relaxed: on one thread.
        assert!(!asked.0.load(Ordering::Relaxed));
    }

    /// What a program sorts events by is not to be read out of their text.
    #[test]
    fn an_event_has_the_names_of_its_hog_as_fields() {
        let report = HogReport {
            spawned_at: Location::caller(),
            future: "tower::Timeout<app::serve<app::Db>::{{closure}}>",
            name: None,
            class: Class::BULK,
            length: Duration::from_millis(3),
            count: 2,
            suppressed: 1,
            running: true,
            blocked: false,
            function: Some("app::parse".to_owned()),
            callee: None,
            within: Some("request{uri=/}".to_owned()),
        };
        let heard = Asked::default();
        tracing::subscriber::with_default(heard.clone(), || trace(&report));
        let Fields(fields) = heard.1.lock().clone();
        let field = |name| fields.get(name).map(String::as_str);
        assert_eq!(field("function"), Some("\"app::parse\""), "{fields:?}");
        assert_eq!(field("within"), Some("\"request{uri=/}\""));
        assert_eq!(field("class"), Some("bulk"));
        assert_eq!(field("future"), Some("\"app::serve\""));
        assert_eq!(field("length_us"), Some("3000"));
        assert_eq!([field("callee"), field("name")], [None, None]);
    }
}
