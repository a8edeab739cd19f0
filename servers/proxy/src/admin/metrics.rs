//! What the proxy adds to the metrics of the process.

use std::sync::Arc;

use evenkeel::runtime::Handle;
use evenkeel_admin::metrics::{Families, Family, Kind, Rows, Value, table_of};
use servers_common::histogram::Histogram;

use super::cpu::of_control;
use crate::compress::Compress;
use crate::config::Mode;
use crate::counters::{Counter, OfListener, OfServer, Statuses};
use crate::policy::Limiter;
use crate::pool::{Member, Pool, Server};
use crate::server::{Context, Front, Site};

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family {
        name,
        help,
        kind: Kind::Counter,
        unit: None,
        labels,
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family {
        name,
        help,
        kind: Kind::Gauge,
        unit: None,
        labels,
    }
}

const fn bytes(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family {
        name,
        help,
        kind: Kind::Counter,
        unit: Some("bytes"),
        labels,
    }
}

const LISTENER: &[&str] = &["listener"];
const ROUTE: &[&str] = &["route"];
const SERVER: &[&str] = &["pool", "server"];
const LOG: &[&str] = &["log"];

/// A family, and how its value is read.
type Of<T, V> = (Family, fn(&T) -> V);
type Counted<T> = (Family, fn(&T) -> &Counter);
type Timed<T> = (Family, fn(&T) -> &Histogram);

/// Families with a row for each listener.
const LISTENERS: [Counted<OfListener>; 7] = [
    (
        counter("proxy_connections", LISTENER, "Connections that were taken"),
        |of| &of.connections,
    ),
    (
        counter("proxy_refused", LISTENER, "Connections refused for a limit"),
        |of| &of.refused,
    ),
    (
        counter("proxy_requests", LISTENER, "Requests whose head was read"),
        |of| &of.requests,
    ),
    (
        counter(
            "proxy_bad_requests",
            LISTENER,
            "Requests refused for what they say",
        ),
        |of| &of.bad_requests,
    ),
    (
        counter(
            "proxy_answered",
            LISTENER,
            "Requests that rules answered: redirects, fixed answers, rates exceeded",
        ),
        |of| &of.answered,
    ),
    (
        bytes("proxy_received", LISTENER, "Bytes that clients sent"),
        |of| &of.bytes_in,
    ),
    (
        bytes("proxy_sent", LISTENER, "Bytes that clients were sent"),
        |of| &of.bytes_out,
    ),
];

/// Families with a row for each limit of a rate.
const LIMITS: [Of<Limiter, Value>; 3] = [
    (
        counter(
            "proxy_rate_exceeded",
            ROUTE,
            "Requests that exceeded a rate",
        ),
        |of| Value::Count(of.refused.total()),
    ),
    (
        counter(
            "proxy_rate_crowded",
            ROUTE,
            "Requests of clients for whom a table of rates had no place",
        ),
        |of| Value::Count(of.crowded.total()),
    ),
    (
        gauge("proxy_rate_clients", ROUTE, "Clients in a table of rates"),
        |of| Value::Level(of.clients() as f64),
    ),
];

/// Families with a row for each server.
const SERVERS: [Counted<OfServer>; 5] = [
    (
        counter(
            "proxy_server_chosen",
            SERVER,
            "Connections or requests that a server was chosen for",
        ),
        |of| &of.chosen,
    ),
    (
        counter(
            "proxy_server_connect_errors",
            SERVER,
            "Connections that failed",
        ),
        |of| &of.connect_errors,
    ),
    (
        counter("proxy_server_answer_errors", SERVER, "Answers that failed"),
        |of| &of.answer_errors,
    ),
    (
        counter(
            "proxy_server_retries",
            SERVER,
            "Attempts after which another one was made",
        ),
        |of| &of.retries,
    ),
    (
        counter(
            "proxy_server_ejections",
            SERVER,
            "How often a server was ejected",
        ),
        |of| &of.ejections,
    ),
];

/// The same, of its state.
const STATES: [Of<Member, f64>; 3] = [
    (
        gauge("proxy_server_usable", SERVER, "1: a server may have work"),
        |member| f64::from(u8::from(member.is_usable())),
    ),
    (
        gauge(
            "proxy_server_ejected",
            SERVER,
            "1: it is ejected, or being tried again",
        ),
        |member| f64::from(u8::from(member.record.is_ejected())),
    ),
    (
        gauge("proxy_server_active", SERVER, "Connections in use"),
        |member| member.active as f64,
    ),
];

/// Families with a row for each compression.
const COMPRESSIONS: [Counted<Compress>; 4] = [
    (
        counter("proxy_compressed", ROUTE, "Answers that were compressed"),
        |of| &of.answers,
    ),
    (
        counter(
            "proxy_compress_crowded",
            ROUTE,
            "Answers that were not, since there were answers_max already",
        ),
        |of| &of.crowded,
    ),
    (
        bytes("proxy_compress_in", ROUTE, "Bytes before compression"),
        |of| &of.bytes_in,
    ),
    (
        bytes("proxy_compress_out", ROUTE, "Bytes after compression"),
        |of| &of.bytes_out,
    ),
];

const CONTROL: &[&str] = &["what"];

const CONTROL_RUN: Family = Family {
    unit: Some("seconds"),
    ..counter(
        "proxy_control_run",
        CONTROL,
        "Time that operators and checks took, on their worker",
    )
};

const CONTROL_OLDEST: Family = Family {
    unit: Some("seconds"),
    ..gauge(
        "proxy_control_oldest_ready",
        CONTROL,
        "For how long an operator or a check that is ready has waited, at the moment",
    )
};

const CERTIFICATES: Family = Family {
    unit: Some("seconds"),
    ..gauge(
        "proxy_certificate_expiry_timestamp",
        &["listener", "pool", "file"],
        "When a certificate ends, in seconds since 1970; of a pool it is the one with which the \
         proxy comes to servers",
    )
};
const ANSWERS: Family = counter(
    "proxy_answers",
    &["listener", "code"],
    "Heads of answers to clients, the proxy's own ones too",
);
const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family {
        name,
        help,
        kind: Kind::Histogram,
        unit: Some("seconds"),
        labels,
    }
}

const ANSWER_TIMES: Family = seconds(
    "proxy_answer_time",
    LISTENER,
    "How long requests took, from their head to the head of a server's answer",
);

/// Families with a row for each server.
const SERVER_TIMES: [Timed<OfServer>; 2] = [
    (
        seconds(
            "proxy_server_connect_time",
            SERVER,
            "How long connections took, with handshakes, without waiting in the queue",
        ),
        |of| &of.connects,
    ),
    (
        seconds(
            "proxy_server_answer_time",
            SERVER,
            "How long answers took, from the connection to their head",
        ),
        |of| &of.answers,
    ),
];

const SERVER_ANSWERS: Family = counter(
    "proxy_server_answers",
    &["pool", "server", "code"],
    "Heads of answers that a server sent",
);
const WAITING: Family = gauge("proxy_pool_waiting", &["pool"], "Who waits for a server");
const LINES: Family = counter("proxy_log_lines", LOG, "Lines that were written to a log");
const DROPPED: Family = counter("proxy_log_dropped", LOG, "Lines that a log has lost");

/// All of them as a table for people.
pub fn page() -> String {
    let listeners = LISTENERS.iter().map(|(family, _)| family);
    let limits = LIMITS.iter().map(|(family, _)| family);
    let compressions = COMPRESSIONS.iter().map(|(family, _)| family);
    let servers = SERVERS.iter().map(|(family, _)| family);
    let times = SERVER_TIMES.iter().map(|(family, _)| family);
    let states = STATES.iter().map(|(family, _)| family);
    let others = [
        &ANSWERS,
        &SERVER_ANSWERS,
        &ANSWER_TIMES,
        &CERTIFICATES,
        &WAITING,
        &LINES,
        &DROPPED,
        &CONTROL_RUN,
        &CONTROL_OLDEST,
    ];
    let of_servers = servers.chain(times).chain(states);
    let all = listeners.chain(limits).chain(of_servers);
    table_of(all.chain(compressions).chain(others))
}

/// Adds them all, each once.
pub(crate) fn add(context: &Context, families: &mut Families<'_>) {
    add_control(context.runtimes.control.as_ref(), families);
    let site = &*context.site();
    for (family, read) in &LISTENERS {
        families.add(family, |row| {
            for front in site.fronts.values() {
                row(&[&front.name], Value::Count(read(&front.counters).total()));
            }
        });
    }
    for (family, read) in &LIMITS {
        families.add(family, |row| {
            for (route, limit) in limits(site.fronts.values().map(|front| &**front)) {
                row(&[route], read(limit));
            }
        });
    }
    for (family, read) in &COMPRESSIONS {
        families.add(family, |row| {
            for (route, compress) in compressions(site) {
                row(&[route], Value::Count(read(compress).total()));
            }
        });
    }
    for (family, read) in &SERVERS {
        families.add(family, |row| {
            each_server(site, row, |server, _| {
                Value::Count(read(&server.counters).total())
            });
        });
    }
    for (family, read) in &STATES {
        families.add(family, |row| {
            each_server(site, row, |_, member| Value::Level(read(member)));
        });
    }
    add_answers(site, families);
    add_times(site, families);
    families.add(&CERTIFICATES, |row| {
        for (whose, in_use) in site.certificates() {
            if let Some(lifetime) = in_use.own.lifetime {
                let (listener, pool) = (whose.listener, whose.pool);
                let (listener, pool) = (listener.unwrap_or_default(), pool.unwrap_or_default());
                let labels = [&*listener, &pool, &whose.file.to_string_lossy()];
                row(&labels, Value::Level(lifetime.end.as_second() as f64));
            }
        }
    });
    families.add(&WAITING, |row| {
        for pool in pools(site) {
            row(&[&pool.name], Value::Level(pool.waiting() as f64));
        }
    });
    for (family, of_dropped) in [(&LINES, false), (&DROPPED, true)] {
        families.add(family, |row| {
            for (name, log) in &site.logs {
                let lines = if of_dropped {
                    log.dropped()
                } else {
                    log.written()
                };
                row(&[name], Value::Count(lines));
            }
        });
    }
}

/// How long connections and answers took.
fn add_times(site: &Site, families: &mut Families<'_>) {
    families.add(&ANSWER_TIMES, |row| {
        for front in of_http(site) {
            row(&[&front.name], histogram(&front.counters.answers));
        }
    });
    for (family, read) in &SERVER_TIMES {
        families.add(family, |row| {
            each_server(site, row, |server, _| histogram(read(&server.counters)));
        });
    }
}

fn histogram(of: &Histogram) -> Value {
    let (sum, buckets) = of.read();
    Value::Histogram { sum, buckets }
}

/// Answers by the first digit of their status.
fn add_answers(site: &Site, families: &mut Families<'_>) {
    let each = |statuses: &Statuses| Statuses::CLASSES.into_iter().zip(statuses.totals());
    families.add(&ANSWERS, |row| {
        for front in of_http(site) {
            for (code, total) in each(&front.counters.statuses) {
                row(&[&front.name, code], Value::Count(total));
            }
        }
    });
    families.add(&SERVER_ANSWERS, |row| {
        for pool in pools(site) {
            for server in pool.servers() {
                for (code, total) in each(&server.counters.statuses) {
                    row(
                        &[&pool.name, &server.config.name, code],
                        Value::Count(total),
                    );
                }
            }
        }
    });
}

/// The listeners that take requests.
fn of_http(site: &Site) -> impl Iterator<Item = &Arc<Front>> {
    let all = site.fronts.values();
    all.filter(|front| front.config.mode == Mode::Http)
}

/// What the worker of control costs and how late it is, which the runtime's own metrics do not say:
/// those are of the runtime that serves.
fn add_control(control: Option<&Handle>, families: &mut Families<'_>) {
    let classes = control.map(|control| control.stats().classes);
    let classes = classes.unwrap_or_default();
    let rows = [(&CONTROL_RUN, true), (&CONTROL_OLDEST, false)];
    for (family, of_run) in rows {
        families.add(family, |row| {
            for class in &classes {
                let Some((what, _)) = of_control(class.class) else {
                    continue;
                };
                let value = match of_run {
                    true => Value::Seconds(class.run.as_secs_f64()),
                    false => Value::Level(class.oldest_ready.as_secs_f64()),
                };
                row(&[what], value);
            }
        });
    }
}

/// The limits of rates: those of listeners, by their names, and those of routes.
pub(super) fn limits<'a>(
    fronts: impl Iterator<Item = &'a Front>,
) -> impl Iterator<Item = (&'a str, &'a Limiter)> {
    fronts.flat_map(|front| {
        let own = front.router.limit().map(|limit| (&*front.name, &**limit));
        let routes = front.router.destinations().filter_map(|destination| {
            let limit = destination.rules.as_ref()?.own_limit()?;
            Some((&*destination.route, &**limit))
        });
        own.into_iter().chain(routes)
    })
}

/// Those of listeners, by their names, and those of routes.
pub(super) fn compressions(site: &Site) -> impl Iterator<Item = (&str, &Compress)> {
    site.fronts.values().flat_map(|front| {
        let shared = front.router.compress();
        let shared = shared.map(|shared| (&*front.name, &**shared));
        shared.into_iter().chain(front.router.own_compressions())
    })
}

fn pools(site: &Site) -> impl Iterator<Item = &Pool> {
    site.pools.values().map(|watched| &*watched.pool)
}

fn each_server(site: &Site, row: &mut Rows<'_>, read: impl Fn(&Server, &Member) -> Value) {
    for pool in pools(site) {
        for (server, member) in pool.servers().iter().zip(&pool.members()) {
            row(&[&pool.name, &server.config.name], read(server, member));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use servers_common::testing::alerts;

    use super::*;

    #[test]
    fn the_page_of_the_docs_is_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/METRICS.md");
        let file = std::fs::read_to_string(path).unwrap();
        let table = file.find("| name |").map_or("", |at| &file[at..]);
        assert_eq!(table, page(), "put the right side into {path}");
    }

    #[test]
    fn the_alerts_are_about_metrics_that_there_are_and_fire_as_their_tests_say() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
        alerts::hold(&deploy, &page(), "proxy_");
    }
}
