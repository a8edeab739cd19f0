//! The published test of a proxy before a database: transactions of `sysbench` straight to MariaDB,
//! and through each proxy.

use std::time::Duration;

use serde_json::{Value, json};

use super::servers::{self, Behind, By, PROXIES, Proxy};
use crate::error::Result;
use crate::experiments::database::{self, Script};
use crate::load::HttpSummary;
use crate::report::{Plot, Table, Verdict};
use crate::trial::{AtLeast, AtMost, Column, Figured, Lab, PERCENT, Samples, TIMES};
use crate::trial::{column, judge, or_else, ratio};

/// Connections of clients, each with a transaction under way.
const CONNECTIONS: u32 = 8;
/// What is to be reached: of HAProxy's transactions, and of its processor time for each.
const KEPT_PERCENT: f64 = 97.0;
const CPU_OVER_HAPROXY: f64 = 1.0;

/// Who is between clients and database; nobody, with `None`.
type Between = Option<&'static Proxy>;

/// What one measurement found.
struct Found {
    load: HttpSummary,
    cpu_us: f64,
}

const RATE: Column<Found> = column("transactions", "/s", 0, |found| found.load.per_second);
#[rustfmt::skip]
const CPU: Column<Found> = or_else("no proxy between",
    column("CPU of a transaction", "us", 1,
        |found| found.cpu_us / found.load.requests.max(1) as f64));
const COLUMNS: [Column<Found>; 4] = [
    RATE,
    CPU,
    column("p99", "us", 0, |found| found.load.latency.p99_us),
    column("failed", "", 0, |found| found.load.failed as f64),
];

/// All measurements.
pub(super) struct Transactions(Samples<Between, Found>);

/// Sets up a database and asks it through each proxy in turn. The error is a line for the notes.
pub(super) fn run(lab: &Lab) -> Result<Transactions, String> {
    if let Some(missing) = database::missing() {
        return Err(format!("{missing}: no transactions are measured"));
    }
    let database = database::start(lab);
    let database = database.map_err(|error| format!("no transactions are measured: {error}"))?;
    let target = database.address("database");
    let target = target.map_err(|error| error.to_string())?;
    let behind = Behind {
        http: target,
        bytes: target,
    };
    let length = lab.measured(Duration::from_secs(1));
    let load = |target| database::load(lab, Script::ReadOnly, target, CONNECTIONS, length);
    let one = |between: Between| {
        let Some(proxy) = between else {
            let load = load(target)?;
            return Ok(Found {
                load,
                cpu_us: f64::NAN,
            });
        };
        let running = servers::start(lab, proxy.by, 1, &behind)?;
        let before = running.cpu_us();
        let load = load(running.address("tcp")?)?;
        Ok(Found {
            load,
            cpu_us: running.cpu_us() - before,
        })
    };
    let proxies = PROXIES.iter().filter(|proxy| !proxy.is_for_bytes);
    let proxies = proxies.filter(|proxy| proxy.by.missing().is_none() && proxy.by.has_tcp());
    let keys: Vec<Between> = [None].into_iter().chain(proxies.map(Some)).collect();
    let name = |between: Between| format!("proxy: transactions, {}", words(between));
    let rounds = lab.rounds_asked.unwrap_or(5);
    let all = Samples::measure(lab, rounds, keys, name, &COLUMNS[..2], one);
    Ok(Transactions(all))
}

fn words(between: Between) -> &'static str {
    between.map_or("direct, no proxy", |proxy| proxy.name)
}

impl Transactions {
    pub(super) fn table(&self) -> Table {
        let rows = self.0.keys().map(|key| ([words(key).into()], key));
        let title = format!(
            "Transactions of `sysbench oltp_read_only` with MariaDB, {CONNECTIONS} connections"
        );
        self.0.table(&title, ["between"], rows, &COLUMNS)
    }

    pub(super) fn bars(&self) -> Plot {
        let keys = self.0.keys();
        let bars = keys.map(|key| ("transactions", words(key), key));
        let title = "Transactions with a database";
        self.0.bars(title, false, &RATE, bars)
    }

    /// A figure of ours over that of HAProxy.
    fn over_haproxy(&self, column: &Column<Found>) -> Figured {
        let of = |is_it: fn(By) -> bool| {
            let proxy = self.0.keys().flatten().find(|proxy| is_it(proxy.by));
            let proxy = proxy.ok_or("haproxy takes no part")?;
            self.0.figure(Some(proxy), column)
        };
        let is_haproxy = |by| matches!(by, By::Haproxy { .. });
        ratio(of(By::is_ours), of(is_haproxy))
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let name = "transactions";
        let kept = self.over_haproxy(&RATE).map(|kept| 100.0 * kept);
        let cpu = self.over_haproxy(&CPU);
        let [kept_of, cpu_of] = ["of HAProxy's", "CPU of each over HAProxy's"];
        vec![
            judge(name, kept_of, kept, AtLeast(KEPT_PERCENT), PERCENT),
            judge(name, cpu_of, cpu, AtMost(CPU_OVER_HAPROXY), TIMES),
        ]
    }

    pub(super) fn raw(&self) -> Value {
        let case = |between: Between| json!({ "between": words(between) });
        let found = |found: &Found| json!({ "load": found.load, "cpu_us": found.cpu_us });
        self.0.raw(case, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::samples::Sample;

    #[test]
    fn verdicts_set_ours_beside_haproxy() {
        let found = |per_second, cpu_us| Found {
            load: HttpSummary {
                requests: 100,
                per_second,
                ..HttpSummary::default()
            },
            cpu_us,
        };
        let sample = |(key, found): (Between, Found)| Sample {
            key,
            round: 0,
            found: Ok(found),
        };
        let all = [
            (None, found(1_200.0, f64::NAN)),
            (Some(&PROXIES[0]), found(980.0, 900.0)),
            (Some(&PROXIES[1]), found(1_000.0, 800.0)),
        ];
        let all = Transactions(Samples(all.into_iter().map(sample).collect()));
        let verdicts = all.verdicts();
        let words = |index: usize| {
            let verdict = &verdicts[index];
            format!("{:?} {}", verdict.found, verdict.outcome.word())
        };
        let (kept, cpu) = (words(0), words(1));
        assert!(kept.contains("98 %") && kept.contains("holds"), "{kept}");
        assert!(cpu.contains("1.12×") && cpu.contains("missed"), "{cpu}");
    }
}
