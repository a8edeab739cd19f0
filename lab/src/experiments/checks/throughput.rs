//! Servers compared by throughput: requests per second, what each request costs, and which I/O
//! checks it took.

use std::net::SocketAddr;

use serde_json::json;

use crate::error::Result;
use crate::load::HttpSummary;
use crate::peers::{Peer, ServerSpec};
use crate::process::Server;
use crate::report::{Cell, Table};
use crate::serve::RuntimeStats;
use crate::trial::figures::{median, number};
use crate::trial::{Column, Lab, Samples, client, column, or_else, over_rounds};

/// Whom load is put to, by name.
pub(super) type Variant = (&'static str, At);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum At {
    /// A server, with flags of its own.
    Server(Peer, &'static str),
    /// No server under test: the load straight at its target.
    Target(SocketAddr),
}

/// What one measurement found.
pub(super) struct Found {
    load: HttpSummary,
    /// What the server process used meanwhile, if there was one.
    served: Option<(f64, u64)>,
    stats: Option<RuntimeStats>,
}

const UNSERVED: &str = "no server between";
#[rustfmt::skip]
const COLUMNS: [Column<Found>; 6] = [
    column("requests/s", "/s", 0, |found| found.load.per_second),
    or_else("one round", over_rounds("spread of rounds", "%", 1,
        |found| spread(found.iter().map(|found| found.load.per_second)))),
    column("p99", "us", 0, |found| found.load.latency.p99_us),
    or_else(UNSERVED, column("CPU per request", "us", 1,
        |found| found.per_request(|(cpu_us, _)| cpu_us))),
    or_else(UNSERVED, column("context switches per request", "", 2,
        |found| found.per_request(|(_, switches)| switches as f64))),
    column("failed", "", 0, |found| found.load.failed as f64),
];

impl Found {
    fn per_request(&self, of: fn((f64, u64)) -> f64) -> f64 {
        let requests = self.load.requests.max(1) as f64;
        self.served.map_or(f64::NAN, |served| of(served) / requests)
    }
}

/// All measurements of one comparison.
pub(super) type Throughput = Samples<Variant, Found>;

/// Evenkeel with its default bound and with one that stands for "hardly ever checks while busy",
/// then the others as they are.
pub(super) fn variants(peers: &[Peer]) -> Vec<Variant> {
    let as_it_is = |peer: &Peer| (peer.name(), At::Server(*peer, ""));
    let mut variants: Vec<Variant> = peers.iter().map(as_it_is).collect();
    let lazy = At::Server(Peer::Evenkeel, "--io-check-us 10000");
    variants.insert(1, ("evenkeel, I/O check bound 10 ms", lazy));
    variants
}

impl Throughput {
    pub(super) fn of_load(
        lab: &Lab,
        variants: Vec<Variant>,
        (service, spec): (&'static str, &ServerSpec),
        load: impl Fn(SocketAddr) -> Result<HttpSummary>,
    ) -> Self {
        let name = |(name, _): Variant| format!("checks: {service}, {name}");
        let one = |(_, at): Variant| match at {
            At::Server(peer, own) => {
                let spec = spec.clone().own(own);
                at_server(lab, peer, spec, |server| load(server.address(service)?))
            }
            At::Target(target) => load(target).map(|load| Found {
                load,
                served: None,
                stats: None,
            }),
        };
        Samples::measure(lab, lab.rounds(), variants, name, &COLUMNS[..1], one)
    }

    /// What was reached and what it cost; and the checks by origin of whoever counts them.
    pub(super) fn tables(&self, title: &str) -> Vec<Table> {
        let rows = self.keys().map(|variant| ([variant.0.into()], variant));
        let mut tables = vec![self.table(title, ["server"], rows, &COLUMNS)];
        let counted = self.first().filter_map(|((name, _), found)| {
            Some((name, found.stats.as_ref()?, Some(found.load.requests)))
        });
        let title = format!("{title}: I/O checks (first round)");
        tables.extend(checks_table(&title, counted));
        tables
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let case = |(name, _): Variant| json!({ "server": name });
        self.raw(case, |found| {
            let (cpu_us, switches) = found.served.unwrap_or_default();
            json!({
                "load": found.load,
                "cpu_us": cpu_us,
                "context_switches": switches,
                "stats": found.stats,
            })
        })
    }
}

/// Runs `load` at a server of its own and takes the server's accounts before and after.
fn at_server(
    lab: &Lab,
    peer: Peer,
    mut spec: ServerSpec,
    load: impl FnOnce(&Server) -> Result<HttpSummary>,
) -> Result<Found> {
    spec.services.extend(peer.has_stats().then_some("api"));
    let server = lab.serve(peer, &spec)?;
    let stats = || client::accounts(&server, peer);
    let (usage_before, stats_before) = (server.process.usage(), stats());
    let load = load(&server)?;
    let (usage, stats) = (server.process.usage(), stats());
    let cpu_us = usage.cpu.saturating_sub(usage_before.cpu).as_secs_f64() * 1e6;
    let switched = usage.switches.saturating_sub(usage_before.switches);
    Ok(Found {
        load,
        served: Some((cpu_us, switched)),
        stats: stats.zip(stats_before).map(|(now, then)| now.since(&then)),
    })
}

/// I/O checks by origin and by whether they found anything, for whoever counts them.
pub(super) fn checks_table<'a>(
    title: &str,
    counted: impl Iterator<Item = (&'a str, &'a RuntimeStats, Option<u64>)>,
) -> Option<Table> {
    let counted = counted.filter(|(_, stats, _)| !stats.checks.is_empty());
    let counted: Vec<_> = counted.collect();
    let (_, first, _) = counted.first()?;
    let origins: Vec<&String> = first.checks.keys().collect();
    let row = |(name, stats, requests): &(&str, &RuntimeStats, Option<u64>)| {
        let by_origin = origins.iter().map(|&origin| {
            let checks = stats.checks.get(origin).copied().unwrap_or_default();
            Cell::Text(format!("{} ({})", checks.total, checks.empty))
        });
        let total: u64 = stats.checks.values().map(|checks| checks.total).sum();
        let empty: u64 = stats.checks.values().map(|checks| checks.empty).sum();
        let share = 100.0 * empty as f64 / total.max(1) as f64;
        let each = requests.map(|requests| total as f64 / requests.max(1) as f64);
        let each = each.ok_or_else(|| "an open loop".to_owned());
        let wait = match (stats.wait_us(0.5), stats.wait_us(0.99)) {
            (Some(p50), Some(p99)) => Cell::Text(format!("{p50:.1} / {p99:.1} us")),
            _ => Cell::Missing("not measured".to_owned()),
        };
        let further = [Cell::number(share, "%", 1), number(each, ("", 3)), wait];
        let named = [Cell::from(*name)].into_iter().chain(by_origin);
        named.chain(further).collect()
    };
    let by_origin = |origin: &&String| format!("{origin} (of which empty)");
    let by_origin = origins.iter().map(by_origin);
    let wait = "any task's wait, p50 / p99 at most";
    let further = ["empty", "checks per request", wait];
    let columns = ["server".to_owned()].into_iter().chain(by_origin);
    let columns = columns.chain(further.map(str::to_owned));
    Some(Table::new(title, columns, counted.iter().map(row)))
}

/// How far the rounds lie apart, in percent of their middle; nothing for a single round.
fn spread(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let middle = median(values.iter().copied())?;
    (values.len() > 1 && middle > 0.0).then(|| 100.0 * (highest - lowest) / middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::RuntimeStats;

    #[test]
    fn evenkeel_stands_beside_itself_with_another_bound() {
        let variants = variants(&[Peer::Evenkeel, Peer::Tokio]);
        let names = variants.iter().map(|(name, _)| *name);
        let expected = ["evenkeel", "evenkeel, I/O check bound 10 ms", "tokio"];
        assert!(names.eq(expected), "{variants:?}");
    }

    #[test]
    fn the_spread_needs_two_rounds() {
        assert_eq!(spread([100.0].into_iter()), None);
        assert_eq!(spread([90.0, 110.0].into_iter()), Some(20.0));
    }

    #[test]
    fn only_who_counts_checks_is_in_their_table() {
        let text = r#"{"runtime":"x","wall_us":1,"workers":[],
            "checks":{"due":{"total":30,"empty":10},"idle":{"total":10,"empty":0}},
            "waits":[[2.0,9],[16.0,1]]}"#;
        let counts: RuntimeStats = serde_json::from_str(text).expect("good accounts");
        let silent = RuntimeStats::default();
        let who = [("a", &silent, Some(1)), ("b", &counts, Some(20))];
        let table = checks_table("checks", who.into_iter()).expect("one of them counts");
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.columns[1], "due (of which empty)");
        assert!(matches!(&table.rows[0][1], Cell::Text(text) if text == "30 (10)"));
        assert!(matches!(table.rows[0][3], Cell::Number { value, .. } if value == 25.0));
        assert!(matches!(table.rows[0][4], Cell::Number { value, .. } if value == 2.0));
        assert!(matches!(&table.rows[0][5], Cell::Text(text) if text == "2.0 / 16.0 us"));
        assert!(checks_table("none", [("a", &silent, None)].into_iter()).is_none());
    }
}
