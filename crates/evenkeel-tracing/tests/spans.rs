//! What a thread is within, as the layer tells it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{Builder, within};
use evenkeel::{task, time};
use tracing::field::Empty;
use tracing::{Level, Span, dispatcher, info_span, span};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{filter, registry};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

fn layered() -> impl tracing::Subscriber + Send + Sync {
    registry().with(evenkeel_tracing::layer())
}

/// Calls a function in a task, with a subscriber.
fn in_task<T: Send + 'static>(
    subscriber: impl tracing::Subscriber + Send + Sync + 'static,
    function: impl FnOnce() -> T + Send + 'static,
) -> T {
    let runtime = Builder::new().workers(1).build().expect("it starts");
    let task = runtime.spawn(async { tracing::subscriber::with_default(subscriber, function) });
    let ended = runtime.block_on(time::timeout(LIMIT, task));
    ended.expect("in time").expect("it does not panic")
}

fn here() -> String {
    within::here().unwrap_or_default()
}

#[test]
fn spans_have_their_fields_and_stand_in_order() {
    in_task(layered(), || {
        let request = info_span!("request", method = %"GET", uri = "/compute", size = 7).entered();
        assert_eq!(here(), "request{method=GET uri=/compute size=7}");
        let query = info_span!("query").entered();
        assert_eq!(here(), "request{method=GET uri=/compute size=7}:query");
        drop(query);
        assert_eq!(here(), "request{method=GET uri=/compute size=7}");
        drop(request);
        assert_eq!(within::here(), None);
    });
}

#[test]
fn what_is_recorded_later_replaces_what_was_there() {
    in_task(layered(), || {
        let span = info_span!("request", status = Empty, user = Empty, tries = 1);
        let entered = span.enter();
        assert_eq!(here(), "request{tries=1}");
        span.record("user", "ann");
        assert_eq!(here(), "request{tries=1 user=ann}");
        span.record("tries", 22);
        span.record("status", 404);
        assert_eq!(here(), "request{tries=22 user=ann status=404}");
        drop(entered);
        assert_eq!(within::here(), None);
        let _entered = span.enter();
        assert_eq!(here(), "request{tries=22 user=ann status=404}");
    });
}

#[test]
fn spans_are_left_in_any_order_and_as_often_as_entered() {
    in_task(layered(), || {
        let (one, two) = (info_span!("one"), info_span!("two"));
        let first = one.enter();
        let second = two.enter();
        let again = one.enter();
        assert_eq!(here(), "one:two");
        drop(first);
        assert_eq!(here(), "one:two");
        drop(second);
        assert_eq!(here(), "one");
        drop(again);
        assert_eq!(within::here(), None);
        let first = one.enter();
        let second = two.enter();
        drop(first);
        assert_eq!(here(), "two");
        drop(second);
        assert_eq!(within::here(), None);
    });
}

/// The registry keeps a span that is entered, and closes it before the layer hears of its end.
#[test]
fn a_span_that_is_closed_as_it_is_left_leaves_nothing() {
    in_task(layered(), || {
        for _ in 0..100 {
            let span = info_span!("gone");
            let id = span.id().expect("it is enabled");
            dispatcher::get_default(|subscriber| subscriber.enter(&id));
            drop(span);
            let _inner = info_span!("inner").entered();
            assert_eq!(here(), "gone:inner");
            dispatcher::get_default(|subscriber| subscriber.exit(&id));
            assert_eq!(here(), "inner");
        }
        assert_eq!(within::here(), None);
    });
}

#[test]
fn a_span_goes_along_with_its_task() {
    let runtime = Builder::new().workers(2).build().expect("it starts");
    let subscriber = tracing::Dispatch::new(layered());
    let make = || {
        use tracing::Instrument;
        use tracing::instrument::WithSubscriber;
        let future = async {
            for _ in 0..50 {
                assert_eq!(here(), "request");
                task::yield_now().await;
            }
        };
        let span = dispatcher::with_default(&subscriber, || info_span!("request"));
        future.instrument(span).with_subscriber(subscriber.clone())
    };
    let tasks: Vec<_> = (0..8).map(|_| runtime.spawn(make())).collect();
    let other = runtime.spawn(async { within::here() });
    for task in tasks {
        let ended = runtime.block_on(time::timeout(LIMIT, task));
        ended.expect("in time").expect("it was within its span");
    }
    let other = runtime.block_on(other).expect("it does not panic");
    assert_eq!(other, None, "it has no span");
}

/// The poll that a dump makes enters the task's spans, as every poll does.
#[test]
fn a_dump_says_which_spans_a_task_waits_in() {
    use evenkeel::stats::DumpOptions;
    use tracing::Instrument;
    use tracing::instrument::WithSubscriber;

    let runtime = Builder::new().workers(1).build().expect("it starts");
    let subscriber = tracing::Dispatch::new(layered());
    let spawn = |uri: &str| {
        let waits = async {
            let query = time::sleep(10 * LIMIT);
            query.instrument(info_span!("query")).await;
        };
        let span = dispatcher::with_default(&subscriber, || info_span!("request", uri));
        runtime.spawn(waits.instrument(span).with_subscriber(subscriber.clone()))
    };
    let tasks = [spawn("/a"), spawn("/b")];
    let other = runtime.spawn(time::sleep(10 * LIMIT));
    let handle = runtime.handle();
    let dumped = runtime.block_on(async {
        let options = DumpOptions::new().timeout(LIMIT);
        // They have to be in the list: polled once.
        while handle.stats().tasks_waiting < 3 {
            task::yield_now().await;
        }
        handle.dump(options).await.expect("it is not refused")
    });
    let within = |id| {
        let mut all = dumped.groups.iter().flat_map(|group| &group.tasks);
        let found = all.find(|it| it.task.id == id).expect("it is dumped");
        found.within.clone()
    };
    let [a, b] = tasks.map(|task| within(task.id()));
    assert_eq!(a.as_deref(), Some("request{uri=/a}:query"));
    assert_eq!(b.as_deref(), Some("request{uri=/b}:query"));
    assert_eq!(within(other.id()), None);
    let text = dumped.to_string();
    assert!(text.contains("; within request{uri=/a}:query"), "{text}");
}

#[test]
fn long_values_are_cut_and_lines_are_joined() {
    in_task(layered(), || {
        let long = "\u{e4}".repeat(1000);
        let _entered = info_span!("upload", long, size = 7).entered();
        let text = here();
        assert!(text.len() <= 128, "{} bytes", text.len());
        assert!(text.starts_with("upload{long=\u{e4}\u{e4}") && text.ends_with('}'));
    });
    in_task(layered(), || {
        let _entered = info_span!("query", sql = "select\n1\u{1b}[31m").entered();
        assert_eq!(here(), "query{sql=select 1 [31m}");
    });
}

/// A value that would take forever to format is not formatted to its end.
#[test]
fn a_value_is_formatted_as_far_as_it_is_kept() {
    struct Endless;

    impl std::fmt::Display for Endless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            loop {
                f.write_str("on and ")?;
            }
        }
    }

    in_task(layered(), || {
        let _entered = info_span!("tale", words = %Endless).entered();
        assert!(here().starts_with("tale{words=on and on and "));
    });
}

/// A value's own code may enter spans and record into them while its text is made.
#[test]
fn a_value_may_itself_use_spans() {
    struct Traced(Span);

    impl std::fmt::Display for Traced {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let _entered = self.0.enter();
            f.write_str(&here())
        }
    }

    in_task(layered(), || {
        let span = info_span!("outer", inside = Empty);
        span.record("inside", tracing::field::display(Traced(span.clone())));
        let _entered = span.enter();
        assert!(here().starts_with("outer{inside="), "{}", here());
    });
}

#[test]
fn spans_that_a_filter_refuses_and_those_of_tasks_are_left_out() {
    let layer = evenkeel_tracing::layer().with_filter(filter::LevelFilter::INFO);
    in_task(registry().with(layer), || {
        let _outer = info_span!("outer").entered();
        let _fine = span!(Level::DEBUG, "fine").entered();
        let _task = info_span!(target: "tokio::task", "runtime.spawn", kind = "task").entered();
        let _inner = info_span!("inner").entered();
        assert_eq!(here(), "outer:inner");
    });
}

/// Of threads that poll no tasks nothing is kept: nobody would look at it.
#[test]
fn threads_of_others_are_within_nothing() {
    let seen = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            tracing::subscriber::with_default(layered(), || {
                let _entered = info_span!("elsewhere").entered();
                seen.store(within::here().is_some(), Ordering::Relaxed);
            });
        });
    });
    assert!(!seen.into_inner());
}
