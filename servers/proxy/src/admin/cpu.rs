//! `show cpu`: where the processor time went, by class, since the proxy began.
//!
//! What a listener or a route costs is seen if it has a class of its own. Last come rows in
//! brackets for what workers did beside polls, so that all rows add up to the processor time of the
//! process but for threads that look up names and read files.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::runtime::Handle;
use evenkeel::stats::{ClassStats, Stats, WorkerStats};
use serde_json::{Value, json};

use super::table::Table;
use crate::server::{Context, Site};

const COLUMNS: [&str; 10] = [
    "class",
    "share",
    "run_ms",
    "run_percent",
    "polls",
    "hogs",
    "wait_p50_us",
    "wait_p99_us",
    "alive",
    "used_by",
];

/// Times of classes.
pub(super) fn table(context: &Context) -> Table {
    let users = users(&context.site());
    let stats = context.runtimes.serving.stats();
    let control = context.runtimes.control.as_ref().map(Handle::stats);
    let mut table = Table::new(&COLUMNS);
    let wall = sum(&stats, |worker| worker.wall).as_secs_f64();
    let percent = |time: Duration| {
        let part = time.as_secs_f64() / wall.max(f64::MIN_POSITIVE);
        json!((part * 10_000.0).round() / 100.0)
    };
    for class in &stats.classes {
        let used_by = users.get(&class.class).map(|users| users.join(" "));
        let name = (class.name.as_str(), Some(class.share));
        table.row(row(class, name, used_by.as_deref(), percent));
    }
    let classes = control.iter().flat_map(|control| &control.classes);
    for class in classes {
        if let Some((name, used_by)) = of_control(class.class) {
            let name = format!("({name})");
            table.row(row(class, (&name, None), Some(used_by), percent));
        }
    }
    for (name, time) in beside(&stats, control.as_ref()) {
        let mut row = vec![json!(name), Value::Null, exact_ms(time), percent(time)];
        row.resize(COLUMNS.len(), Value::Null);
        table.row(row);
    }
    table
}

/// What the classes of the control runtime are, whose worker works for nobody else: a word, and
/// who it is.
pub(super) fn of_control(class: Class) -> Option<(&'static str, &'static str)> {
    match class {
        Class::URGENT => Some(("operators", "(answers to operators)")),
        Class::NORMAL => Some(("checks", "(checks of servers, names)")),
        _ => None,
    }
}

fn row(
    class: &ClassStats,
    (name, share): (&str, Option<u32>),
    used_by: Option<&str>,
    percent: impl Fn(Duration) -> Value,
) -> Vec<Value> {
    let us = |quantile: f64| {
        let wait = class.waits.quantile(quantile).unwrap_or_default();
        json!(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX))
    };
    vec![
        json!(name),
        json!(share),
        exact_ms(class.run),
        percent(class.run),
        json!(class.polls),
        json!(class.hogs),
        us(0.5),
        us(0.99),
        json!(class.alive),
        json!(used_by),
    ]
}

/// What belongs to no class, in both runtimes.
fn beside(serving: &Stats, control: Option<&Stats>) -> [(&'static str, Duration); 4] {
    let sum = |of: fn(&WorkerStats) -> Duration| {
        let control = control.map(|control| sum(control, of));
        sum(serving, of) + control.unwrap_or_default()
    };
    let monitor = control.map(|control| control.heavy.monitor);
    [
        ("(I/O checks)", sum(|worker| worker.check)),
        ("(spinning)", sum(|worker| worker.spin)),
        ("(stealing)", sum(|worker| worker.steal)),
        (
            "(monitor)",
            serving.heavy.monitor + monitor.unwrap_or_default(),
        ),
    ]
}

fn sum(stats: &Stats, of: fn(&WorkerStats) -> Duration) -> Duration {
    stats.workers.iter().map(of).sum()
}

/// Many small accounts have to add up, so microseconds count.
fn exact_ms(time: Duration) -> Value {
    json!(time.as_micros() as f64 / 1_000.0)
}

/// The listeners and the routes of each class, by their names and numbers.
fn users(site: &Site) -> BTreeMap<Class, Vec<String>> {
    let mut users: BTreeMap<Class, Vec<String>> = BTreeMap::new();
    for front in site.fronts.values() {
        users
            .entry(front.class)
            .or_default()
            .push(front.name.to_string());
        if let Some(tls) = front.tls.as_ref().filter(|tls| tls.class != front.class) {
            let name = format!("{}/handshakes", front.name);
            users.entry(tls.class).or_default().push(name);
        }
        for (index, class) in front.router.classes().enumerate() {
            let name = format!("{}/route{}", front.name, index + 1);
            users.entry(class).or_default().push(name);
        }
    }
    users
        .entry(Class::URGENT)
        .or_default()
        .push("(page, reloads)".to_owned());
    users
}

/// What workers did beside polls, and how much of it, for people.
pub(super) fn workers(context: &Context) -> String {
    let stats = context.runtimes.serving.stats();
    let sum = |of: fn(&WorkerStats) -> Duration| ms(sum(&stats, of));
    format!(
        "workers {}: wall {} ms, check {} ms, spin {} ms, park {} ms, steal {} ms\n",
        stats.workers.len(),
        sum(|worker| worker.wall),
        sum(|worker| worker.check),
        sum(|worker| worker.spin),
        sum(|worker| worker.park),
        sum(|worker| worker.steal)
    )
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
