//! Lines of a log, with the class and the task in which they were written.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::{Class, ClassConfig, task, time};
use serde_json::Value;
use tracing::{info, info_span};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::{self, SubscriberBuilder};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// What was written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().expect("no panic"));
        String::from_utf8(bytes).expect("it is text")
    }
}

fn runtime() -> Runtime {
    let mut builder = Builder::new();
    builder.workers(1).class("gold", ClassConfig::new());
    builder.build().expect("it starts")
}

/// Writes a line in a task, and says which it was.
fn log_in_task(
    runtime: &Runtime,
    subscriber: impl tracing::Subscriber + Send + Sync + 'static,
    builder: task::Builder,
) -> String {
    let log = async {
        tracing::subscriber::with_default(subscriber, || {
            let _entered = info_span!("request", uri = "/").entered();
            info!(bytes = 7, "done");
        });
        task::id().expect("this is a task").to_string()
    };
    let task = builder.spawn_on(log, runtime.handle());
    let ended = runtime.block_on(time::timeout(LIMIT, task));
    ended.expect("in time").expect("it does not panic")
}

fn text(lines: &Lines) -> impl tracing::Subscriber + Send + Sync + use<> {
    let format = fmt::format().without_time().with_target(false);
    let format = evenkeel_tracing::with_class(format);
    let writer = lines.clone();
    SubscriberBuilder::default()
        .event_format(format)
        .with_writer(writer)
        .finish()
}

fn json(lines: &Lines) -> impl tracing::Subscriber + Send + Sync + use<> {
    let format = evenkeel_tracing::with_class(fmt::format().json()).json();
    let writer = lines.clone();
    SubscriberBuilder::default()
        .json()
        .event_format(format)
        .with_writer(writer)
        .finish()
}

#[test]
fn a_line_begins_with_class_name_and_task() {
    let (runtime, lines) = (runtime(), Lines::default());
    let named = task::Builder::new().name("index").class(Class::BULK);
    let id = log_in_task(&runtime, text(&lines), named);
    let rest = "INFO request{uri=\"/\"}: done bytes=7\n";
    assert_eq!(lines.take(), format!("[bulk index {id}]  {rest}"));
    let gold = runtime.handle().class("gold").expect("it was made");
    let id = log_in_task(&runtime, text(&lines), task::Builder::new().class(gold));
    assert_eq!(lines.take(), format!("[gold {id}]  {rest}"));
}

#[test]
fn outside_tasks_a_line_is_as_it_was() {
    let (runtime, lines) = (runtime(), Lines::default());
    let log = || tracing::subscriber::with_default(text(&lines), || info!("done"));
    log();
    assert_eq!(lines.take(), " INFO done\n");
    runtime.block_on(async { log() });
    assert_eq!(lines.take(), " INFO done\n");
    let subscriber = text(&lines);
    let log = || tracing::subscriber::with_default(subscriber, || info!("done"));
    let work = runtime.handle().spawn_blocking(log);
    runtime.block_on(work).expect("it does not panic");
    assert_eq!(
        lines.take(),
        "[normal]  INFO done\n",
        "blocking work has a class"
    );
}

#[test]
fn an_object_of_json_has_members_for_class_name_and_task() {
    let (runtime, lines) = (runtime(), Lines::default());
    let name = "a \"name\" with \\ and \n";
    let id = log_in_task(&runtime, json(&lines), task::Builder::new().name(name));
    let line = lines.take();
    assert_eq!(line.lines().count(), 1, "{line}");
    let value: Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(value["task.class"], "normal");
    assert_eq!(value["task.name"], name);
    assert_eq!(value["task.id"], id);
    assert_eq!(value["fields"]["message"], "done");
    assert_eq!(value["span"]["uri"], "/");
    log_in_task(&runtime, json(&lines), task::Builder::new());
    let value: Value = serde_json::from_str(&lines.take()).expect("it is JSON");
    assert_eq!(value.get("task.name"), None, "it has no name");
    tracing::subscriber::with_default(json(&lines), || info!("done"));
    let value: Value = serde_json::from_str(&lines.take()).expect("it is JSON");
    assert_eq!(value.get("task.class"), None, "this is no task");
}
