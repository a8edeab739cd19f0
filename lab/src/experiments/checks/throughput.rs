//! Servers compared by throughput: requests per second, what each request costs, and which I/O
//! checks it took.

use serde_json::json;

use crate::error::Result;
use crate::load::HttpSummary;
use crate::peers::{Peer, ServerSpec};
use crate::process::Server;
use crate::report::{Cell, Table};
use crate::serve::RuntimeStats;
use crate::trial::client;
use crate::trial::figures::{cell, median};
use crate::trial::lab::Lab;

/// A server with a setting.
pub(crate) struct Variant {
    pub(crate) name: String,
    /// `None`: no server under test between load and target.
    pub(crate) peer: Option<Peer>,
    io_check_us: Option<u64>,
}

/// One measurement.
struct Sample {
    variant: usize,
    round: u32,
    found: Result<Found, String>,
}

/// What it found.
pub(crate) struct Found {
    load: HttpSummary,
    /// What the server process used meanwhile.
    cpu_us: f64,
    switches: u64,
    stats: Option<RuntimeStats>,
}

/// All measurements of one comparison.
pub(crate) struct Throughput {
    variants: Vec<Variant>,
    samples: Vec<Sample>,
}

/// The bound that stands for "hardly ever checks while busy".
const LAZY_CHECK_US: u64 = 10_000;

/// Evenkeel with its default bound and with a lazy one, then the others as they are.
pub(crate) fn variants(peers: &[Peer]) -> Vec<Variant> {
    let mut variants = Vec::new();
    for &peer in peers {
        let plain = Variant {
            name: peer.name().to_owned(),
            peer: Some(peer),
            io_check_us: None,
        };
        variants.push(plain);
        if peer == Peer::Evenkeel {
            variants.push(Variant {
                name: format!("evenkeel, I/O check bound {} ms", LAZY_CHECK_US / 1_000),
                peer: Some(peer),
                io_check_us: Some(LAZY_CHECK_US),
            });
        }
    }
    variants
}

/// The load straight at its target.
pub(crate) fn direct() -> Variant {
    Variant {
        name: "direct, no proxy".to_owned(),
        peer: None,
        io_check_us: None,
    }
}

impl Throughput {
    /// Measures every variant in every round; one that fails is reported, and stops no other.
    pub(crate) fn measure(
        lab: &Lab,
        what: &str,
        variants: Vec<Variant>,
        one: impl Fn(&Variant) -> Result<Found>,
    ) -> Self {
        let mut samples = Vec::new();
        for round in 0..lab.rounds() {
            for (index, variant) in variants.iter().enumerate() {
                let found = one(variant).map_err(|error| error.to_string());
                let words = match &found {
                    Ok(found) => format!("{:.0} requests/s", found.load.per_second),
                    Err(error) => error.clone(),
                };
                lab.progress(&format!("checks: {what}, {}: {words}", variant.name));
                samples.push(Sample {
                    variant: index,
                    round,
                    found,
                });
            }
        }
        Throughput { variants, samples }
    }

    /// What was reached and what it cost.
    pub(crate) fn table(&self, title: &str) -> Table {
        let columns = [
            "server",
            "requests/s",
            "spread of rounds",
            "p99",
            "CPU per request",
            "context switches per request",
            "failed",
        ];
        Table {
            title: title.to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows: (0..self.variants.len())
                .map(|index| self.row(index))
                .collect(),
        }
    }

    /// The checks by origin of every variant that counts them; `None` when none does.
    pub(crate) fn checks_table(&self, title: &str) -> Option<Table> {
        let counted = self
            .samples
            .iter()
            .filter(|sample| sample.round == 0)
            .filter_map(|sample| {
                let found = sample.found.as_ref().ok()?;
                let name = self.variants[sample.variant].name.as_str();
                Some((name, found.stats.as_ref()?, Some(found.load.requests)))
            });
        checks_table(title, counted)
    }

    pub(crate) fn raw(&self) -> serde_json::Value {
        let sample = |sample: &Sample| {
            let found = sample.found.as_ref().ok();
            json!({
                "server": self.variants[sample.variant].name,
                "round": sample.round,
                "load": found.map(|found| &found.load),
                "cpu_us": found.map(|found| found.cpu_us),
                "context_switches": found.map(|found| found.switches),
                "stats": found.and_then(|found| found.stats.as_ref()),
                "error": sample.found.as_ref().err(),
            })
        };
        self.samples.iter().map(sample).collect()
    }

    fn row(&self, index: usize) -> Vec<Cell> {
        let of_variant = || {
            self.samples
                .iter()
                .filter(move |sample| sample.variant == index)
        };
        let found = || of_variant().filter_map(|sample| sample.found.as_ref().ok());
        let error = of_variant().find_map(|sample| sample.found.as_ref().err());
        let why = error.map_or("not measured", String::as_str);
        let requests = |found: &Found| found.load.requests.max(1) as f64;
        let served = |figure: fn(&Found) -> f64, unit, digits| match self.variants[index].peer {
            Some(_) => cell(found().map(|f| figure(f) / requests(f)), unit, digits, why),
            None => Cell::Missing("no server between".to_owned()),
        };
        vec![
            Cell::Text(self.variants[index].name.clone()),
            cell(found().map(|f| f.load.per_second), "/s", 0, why),
            cell(
                spread(found().map(|f| f.load.per_second)),
                "%",
                1,
                "one round",
            ),
            cell(found().map(|f| f.load.latency.p99_us), "us", 0, why),
            served(|f| f.cpu_us, "us", 1),
            served(|f| f.switches as f64, "", 2),
            cell(found().map(|f| f.load.failed as f64), "", 0, why),
        ]
    }
}

/// Runs `load` at a server of its own and takes the server's accounts before and after.
pub(crate) fn at_server(
    lab: &Lab,
    variant: &Variant,
    spec: ServerSpec,
    load: impl FnOnce(&Server) -> Result<HttpSummary>,
) -> Result<Found> {
    let peer = variant.peer.unwrap_or(Peer::OsThread);
    let mut spec = ServerSpec {
        io_check_us: variant.io_check_us,
        ..spec
    };
    if peer.has_stats() {
        spec.services.push("api");
    }
    let server = lab.serve(peer, &spec)?;
    let stats = || client::accounts(&server, peer);
    let (usage_before, stats_before) = (server.usage(), stats());
    let load = load(&server)?;
    let (usage, stats) = (server.usage(), stats());
    let switches = |usage: &crate::process::Usage| usage.switches_voluntary + usage.switches_forced;
    Ok(Found {
        load,
        cpu_us: usage.cpu.saturating_sub(usage_before.cpu).as_secs_f64() * 1e6,
        switches: switches(&usage).saturating_sub(switches(&usage_before)),
        stats: stats.zip(stats_before).map(|(now, then)| now.since(&then)),
    })
}

/// A load at no server under test.
pub(crate) fn without_server(load: HttpSummary) -> Found {
    Found {
        load,
        cpu_us: 0.0,
        switches: 0,
        stats: None,
    }
}

/// I/O checks by origin and by whether they found anything, for whoever counts them.
pub(crate) fn checks_table<'a>(
    title: &str,
    counted: impl Iterator<Item = (&'a str, &'a RuntimeStats, Option<u64>)>,
) -> Option<Table> {
    let counted: Vec<_> = counted
        .filter(|(_, stats, _)| !stats.checks.is_empty())
        .collect();
    let (_, first, _) = counted.first()?;
    let origins: Vec<&String> = first.checks.keys().collect();
    let mut columns = vec!["server".to_owned()];
    columns.extend(
        origins
            .iter()
            .map(|origin| format!("{origin} (of which empty)")),
    );
    let last = [
        "empty",
        "checks per request",
        "any task's wait, p50 / p99 at most",
    ];
    columns.extend(last.map(str::to_owned));
    let row = |(name, stats, requests): &(&str, &RuntimeStats, Option<u64>)| {
        let mut row = vec![Cell::Text((*name).to_owned())];
        for origin in &origins {
            let checks = stats.checks.get(*origin).copied().unwrap_or_default();
            row.push(Cell::Text(format!("{} ({})", checks.total, checks.empty)));
        }
        let total: u64 = stats.checks.values().map(|checks| checks.total).sum();
        let empty: u64 = stats.checks.values().map(|checks| checks.empty).sum();
        let share = 100.0 * empty as f64 / total.max(1) as f64;
        row.push(Cell::Number {
            value: share,
            unit: "%",
            digits: 1,
        });
        row.push(match requests {
            Some(requests) => {
                let value = total as f64 / (*requests).max(1) as f64;
                Cell::Number {
                    value,
                    unit: "",
                    digits: 3,
                }
            }
            None => Cell::Missing("an open loop".to_owned()),
        });
        row.push(match (stats.wait_us(0.5), stats.wait_us(0.99)) {
            (Some(p50), Some(p99)) => Cell::Text(format!("{p50:.1} / {p99:.1} us")),
            _ => Cell::Missing("not measured".to_owned()),
        });
        row
    };
    Some(Table {
        title: title.to_owned(),
        columns,
        rows: counted.iter().map(row).collect(),
    })
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
        let names: Vec<_> = variants
            .iter()
            .map(|variant| variant.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["evenkeel", "evenkeel, I/O check bound 10 ms", "tokio"]
        );
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
