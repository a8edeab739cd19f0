//! What tokio-console's subscriber looks at: the spans of tasks and the events of their wakers.
#![cfg(feature = "console")]

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::{pending, poll_fn};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::{Class, task, time};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// What the subscriber was told, by the numbers of the spans.
#[derive(Default)]
struct Told {
    spans: Vec<Fields>,
    /// How often each span was entered, left and dropped.
    entered: HashMap<u64, usize>,
    left: HashMap<u64, usize>,
    closed: Vec<u64>,
    /// The operations on wakers, and the spans they name.
    wakers: Vec<(String, u64)>,
}

/// The fields of a span or an event, as text.
#[derive(Clone, Default)]
struct Fields(HashMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

/// A subscriber that sees what console-subscriber does: spans and events by their names and
/// targets, and nothing else.
#[derive(Clone, Default)]
struct Console(Arc<Mutex<Told>>);

impl Console {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().expect("no panic in the subscriber")
    }

    /// The number and the fields of the span of the task with this name.
    fn task(&self, name: &str) -> (u64, HashMap<String, String>) {
        let told = self.told();
        let is_it = |(_, fields): &(_, &Fields)| fields.0["task.name"] == name;
        let mut spans = told.spans.iter().enumerate().filter(is_it);
        let (index, fields) = spans.next().expect("the task has a span");
        assert!(spans.next().is_none(), "each task has one span");
        (index as u64 + 1, fields.0.clone())
    }

    fn wakers(&self, span: u64) -> Vec<String> {
        let told = self.told();
        let own = told.wakers.iter().filter(|&&(_, of)| of == span);
        own.map(|(op, _)| op.clone()).collect()
    }
}

impl Subscriber for Console {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tokio::task")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        assert_eq!(attributes.metadata().name(), "runtime.spawn");
        assert!(attributes.is_root(), "a task goes on without its spawner");
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut told = self.told();
        told.spans.push(fields);
        Id::from_u64(told.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        assert_eq!(event.metadata().target(), "tokio::task::waker");
        let mut fields = Fields::default();
        event.record(&mut fields);
        let span = fields.0["task.id"].parse().expect("it is a number");
        self.told().wakers.push((fields.0["op"].clone(), span));
    }

    fn enter(&self, span: &Id) {
        *self.told().entered.entry(span.into_u64()).or_default() += 1;
    }

    fn exit(&self, span: &Id) {
        *self.told().left.entry(span.into_u64()).or_default() += 1;
    }

    fn try_close(&self, span: Id) -> bool {
        self.told().closed.push(span.into_u64());
        true
    }
}

/// The subscriber of all threads of the process, as one of the test's thread would not see the
/// workers. So each test looks at tasks with names that no other has.
fn console() -> &'static Console {
    static CONSOLE: LazyLock<Console> = LazyLock::new(|| {
        let console = Console::default();
        tracing::subscriber::set_global_default(console.clone()).expect("it is the only one");
        console
    });
    &CONSOLE
}

fn runtime() -> Runtime {
    Builder::new().workers(1).build().expect("it starts")
}

fn wait_for<T>(runtime: &Runtime, task: task::JoinHandle<T>) -> T {
    let ended = runtime.block_on(time::timeout(LIMIT, task));
    ended.expect("in time").expect("it ends well")
}

#[test]
fn a_task_has_a_span_which_each_poll_enters() {
    let console = console();
    let runtime = runtime();
    let twice = async {
        task::yield_now().await;
        task::yield_now().await;
    };
    let builder = task::Builder::new().name("polls").class(Class::BULK);
    let task = builder.spawn_on(twice, runtime.handle());
    let line = task.spawned_at().line();
    wait_for(&runtime, task);
    let (span, fields) = console.task("polls");
    assert_eq!(fields["kind"], "task");
    assert_eq!(fields["task.class"], "bulk");
    assert_eq!(fields["loc.file"], file!());
    assert_eq!(fields["loc.line"], line.to_string());
    assert!(fields.contains_key("loc.col"));
    for number in ["task.id", "size.bytes"] {
        assert!(
            fields[number].parse::<u64>().is_ok(),
            "{number} is a number"
        );
    }
    let told = console.told();
    // Three polls; and the drop of the future, which may run code of its own.
    assert_eq!(told.entered[&span], 4);
    assert_eq!(told.left[&span], 4);
    assert_eq!(told.closed.iter().filter(|&&of| of == span).count(), 1);
}

#[test]
fn each_use_of_a_waker_is_told() {
    let console = console();
    let runtime = runtime();
    let (send, kept) = mpsc::channel::<Waker>();
    let mut polls = 0;
    let waits = poll_fn(move |cx| {
        polls += 1;
        match polls {
            1 => send.send(cx.waker().clone()).expect("the test waits"),
            2 => cx.waker().wake_by_ref(),
            _ => return Poll::Ready(()),
        }
        Poll::Pending
    });
    let task = task::Builder::new()
        .name("wakers")
        .spawn_on(waits, runtime.handle());
    let waker = kept.recv_timeout(LIMIT).expect("it is polled");
    let (span, _) = console.task("wakers");
    assert_eq!(console.wakers(span), ["waker.clone"]);
    let other = waker.clone();
    assert!(other.will_wake(&waker), "clones wake the same task");
    drop(other);
    waker.wake();
    wait_for(&runtime, task);
    assert_eq!(
        console.wakers(span),
        [
            "waker.clone",
            "waker.clone",
            "waker.drop",
            "waker.wake",
            "waker.wake_by_ref"
        ]
    );
}

/// The future holds its waker, which refers to the task: that must not keep the task for good.
#[test]
fn a_task_that_never_ends_is_gone_with_its_runtime() {
    let console = console();
    let runtime = runtime();
    let kept = Arc::new(());
    let inside = Arc::clone(&kept);
    let (polled, is_polled) = mpsc::channel();
    let task = task::Builder::new().name("pending").spawn_on(
        async move {
            polled.send(()).expect("the test waits");
            pending::<()>().await;
            drop(inside);
        },
        runtime.handle(),
    );
    is_polled.recv_timeout(LIMIT).expect("it is polled");
    drop(task);
    runtime.shutdown(LIMIT).expect("all threads end");
    let (span, _) = console.task("pending");
    assert_eq!(Arc::strong_count(&kept), 1, "the future was dropped");
    assert!(console.told().closed.contains(&span));
}

#[test]
fn blocking_work_has_a_span_of_its_kind() {
    let console = console();
    let runtime = runtime();
    let work = runtime.handle().spawn_blocking(blocks);
    assert_eq!(wait_for(&runtime, work), 7);
    let told = console.told();
    let is_it = |fields: &&Fields| fields.0.get("fn").is_some_and(|of| of.ends_with("blocks"));
    let fields = told.spans.iter().find(is_it).expect("it has a span");
    assert_eq!(fields.0["kind"], "blocking");
    assert_eq!(fields.0["loc.file"], file!());
}

fn blocks() -> u32 {
    7
}

/// Reports, and the judgement of kinds, go by the future that the user has written.
#[test]
fn a_hog_is_named_by_its_own_future() {
    let _ = console();
    let (report, reported) = mpsc::channel();
    let runtime = Builder::new()
        .workers(1)
        .on_hog(move |hog| drop(report.send(hog.future.to_owned())))
        .build()
        .expect("it starts");
    wait_for(&runtime, runtime.spawn(hogs()));
    let name = reported.recv_timeout(LIMIT).expect("it is reported");
    assert_eq!(name, "console::hogs::{{closure}}");
}

async fn hogs() {
    std::thread::sleep(Duration::from_millis(50));
}
