//! `proxy`: the program evenkeel-proxy with HAProxy's first task classes, beside HAProxy and nginx.
//!
//! - [`servers`]: the proxies, how each is configured, started and asked
//! - [`mod@measure`]: which load goes through which proxy, and one measurement of it
//! - [`transactions`]: a database behind them

mod measure;
mod servers;
mod transactions;

use serde_json::json;

use self::measure::{Company, Found, Of, Row, SCENARIOS, measure};
use self::servers::{Behind, PROXIES};
use self::transactions::Transactions;
use crate::error::Result;
use crate::report::{Experiment, Plot, Table, Verdict};
use crate::trial::{AtLeast, AtMost, Column, Figured, Lab, Samples, TIMES};
use crate::trial::{column, judge, or_else, or_nan, ratio};

/// What is to be reached in the mix, over HAProxy as it comes: rates, and the operator's wait.
const RATE_OVER_HAPROXY: f64 = 1.1;
const ADMIN_P99_OVER_HAPROXY: f64 = 0.1;
/// Clients and servers are seldom on the machine of their proxy.
const IN_PIECES: &str = "In the mix, clients and servers pass a megabyte on 16 KiB at a time. A \
                         kernel that is built without preemption ends a call before anybody else \
                         has its processor, so the operator would wait for their copies.";
/// Processor time of a megabyte over that of HAProxy that splices.
const CPU_OVER_SPLICING: f64 = 0.85;
/// From this length on all is measured: with two threads, too, every setting, and the database.
const WHOLE_S: f64 = 1.0;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let company = Company::muster();
    company.missing.iter().for_each(|line| lab.progress(line));
    let mut notes = company.missing.clone();
    notes.extend(servers::told(lab)?);
    notes.push(IN_PIECES.to_owned());
    let origins = lab.helper(&["origins"])?;
    let behind = Behind {
        http: origins.address("http")?,
        bytes: origins.address("bytes")?,
    };
    let is_whole = lab
        .seconds
        .is_some_and(|length| length.as_secs_f64() >= WHOLE_S);
    let mut rows = company.rows(1);
    if is_whole {
        rows.extend(company.rows(2));
    }
    let all = All::of(lab, &behind, rows);
    let knobs = is_whole.then(|| All::of(lab, &behind, company.knobs()));
    let transactions = is_whole.then(|| transactions::run(lab)).transpose();
    let transactions = transactions.unwrap_or_else(|line| {
        lab.progress(&line);
        notes.push(line);
        None
    });
    Ok(reported(
        lab,
        &all,
        knobs.as_ref(),
        transactions.as_ref(),
        notes,
    ))
}

fn reported(
    lab: &Lab,
    all: &All,
    knobs: Option<&All>,
    transactions: Option<&Transactions>,
    notes: Vec<String>,
) -> Experiment {
    let tables = [1, 2].map(|threads| all.table(threads));
    let mut tables: Vec<Table> = tables.into_iter().flatten().collect();
    tables.extend(knobs.map(All::knobs));
    tables.extend(transactions.map(Transactions::table));
    let mut plots = vec![all.cpu_bars(), all.admin_bars()];
    plots.extend(transactions.map(Transactions::bars));
    let mut verdicts = all.verdicts();
    verdicts.extend(transactions.map(Transactions::verdicts).unwrap_or_default());
    let experiment = Experiment {
        how: lab.apart().conditions(),
        tables,
        plots,
        notes,
        raw: json!({
            "scenarios": all.raw(),
            "settings": knobs.map(All::raw),
            "transactions": transactions.map(Transactions::raw),
        }),
        ..Experiment::default()
    };
    experiment.judged("scenario", verdicts)
}

const ONE_SORT: &str = "none of this sort are in it";
const TWO_SORTS: &str = "of two sorts of operations";
#[rustfmt::skip]
const SMALL: Column<Found> = or_else(ONE_SORT,
    column("operations", "/s", 0, |found| some(found.small as f64 / found.seconds)));
#[rustfmt::skip]
const MEGABYTES: Column<Found> = or_else(ONE_SORT,
    column("megabytes", "/s", 0, |found| some(found.megabytes as f64 / found.seconds)));
#[rustfmt::skip]
const CPU: Column<Found> = or_else(TWO_SORTS,
    column("CPU of each", "us", 1, |found| match (found.small, found.megabytes) {
        (0, count) | (count, 0) => found.cpu_us / count as f64,
        _ => f64::NAN,
    }));
const ADMIN_P99: Column<Found> = column("admin p99", "us", 0, |found| found.admin.p99_us);
#[rustfmt::skip]
const COLUMNS: [Column<Found>; 7] = [
    SMALL,
    MEGABYTES,
    CPU,
    column("CPU", "%", 0, |found| found.cpu_us / 1e4 / found.seconds),
    column("admin p50", "us", 0, |found| found.admin.p50_us),
    ADMIN_P99,
    column("no answer", "", 0, |found| found.unanswered as f64),
];

/// A rate, if there is one.
fn some(rate: f64) -> f64 {
    or_nan((rate > 0.0).then_some(rate))
}

/// All measurements of some rows.
struct All(Samples<Row, Found>);

impl All {
    fn of(lab: &Lab, behind: &Behind, rows: Vec<Row>) -> Self {
        let name = |row: Row| {
            let threads = ["", ", two threads"][usize::from(row.threads > 1)];
            format!("proxy: {}, {}{threads}", row.scenario.name, row.proxy.name)
        };
        let apart = lab.apart();
        let one = |row: Row| match row.threads <= apart.workers {
            true => measure(&apart, row, behind),
            false => measure(lab, row, behind),
        };
        let told = &COLUMNS[..3];
        All(Samples::measure(lab, lab.rounds(), rows, name, told, one))
    }

    fn rows(&self, threads: usize) -> impl Iterator<Item = Row> {
        self.0.keys().filter(move |row| row.threads == threads)
    }

    /// A table of all that was measured with so many threads, if anything was.
    fn table(&self, threads: usize) -> Option<Table> {
        self.rows(threads).next()?;
        let row = |row: Row| ([row.scenario.name.into(), row.proxy.name.into()], row);
        let words = if threads == 1 {
            "one thread"
        } else {
            "two threads"
        };
        let title = format!("HAProxy's scenarios, {words}; calls of the operator beside them");
        let rows = self.rows(threads).map(row);
        let named = ["scenario", "proxy"];
        Some(self.0.table(&title, named, rows, &COLUMNS))
    }

    fn knobs(&self) -> Table {
        let row = |row: Row| ([row.proxy.name.into()], row);
        let title = "The mix, with one setting changed, and one thread";
        let columns = COLUMNS.into_iter();
        let columns: Vec<_> = columns.filter(|column| column.name != CPU.name).collect();
        let rows = self.0.keys().map(row);
        self.0.table(title, ["proxy"], rows, &columns)
    }

    fn cpu_bars(&self) -> Plot {
        let rows = self.rows(1).filter(|row| row.scenario.of != Of::Both);
        let bars = rows.map(|row| (row.scenario.name, row.proxy.name, row));
        let title = "Processor time of an operation, one thread";
        self.0.bars(title, true, &CPU, bars)
    }

    fn admin_bars(&self) -> Plot {
        let rows = self.rows(1);
        let bars = rows.map(|row| (row.scenario.name, row.proxy.name, row));
        let title = "How long the operator waits, 99th percentile";
        self.0.bars(title, true, &ADMIN_P99, bars)
    }

    /// A figure of ours over that of another proxy.
    fn over(&self, scenario: &str, other: &str, column: &Column<Found>) -> Figured {
        let of = |proxy: &str| {
            let is_it = |row: &Row| row.scenario.name == scenario && row.proxy.name == proxy;
            let row = self.rows(1).find(is_it);
            let row = row.ok_or_else(|| format!("{proxy} takes no part"))?;
            self.0.figure(row, column)
        };
        ratio(of(PROXIES[0].name), of(other))
    }

    /// Ours, with one thread, beside HAProxy as it comes and beside the one that splices.
    fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let (plain, splicing) = ("haproxy", "haproxy, splicing");
        let measured = |name: &str| self.rows(1).any(|row| row.scenario.name == name);
        for scenario in SCENARIOS.iter().filter(|of| measured(of.name)) {
            let name = scenario.name;
            let over = |other: &str, column: &Column<Found>| self.over(name, other, column);
            if let Some(most) = scenario.cpu_over_haproxy_max {
                let what = "CPU of each over HAProxy's";
                verdicts.push(judge(name, what, over(plain, &CPU), AtMost(most), TIMES));
            }
            if scenario.of == Of::Megabytes {
                let (what, reach) = ("CPU over HAProxy's, splicing", AtMost(CPU_OVER_SPLICING));
                verdicts.push(judge(name, what, over(splicing, &CPU), reach, TIMES));
            }
            if scenario.of == Of::Both {
                let (least, most) = (AtLeast(RATE_OVER_HAPROXY), AtMost(ADMIN_P99_OVER_HAPROXY));
                for (what, column, reach) in [
                    ("operations over HAProxy's", SMALL, least),
                    ("megabytes over HAProxy's", MEGABYTES, least),
                    ("admin p99 over HAProxy's", ADMIN_P99, most),
                ] {
                    verdicts.push(judge(name, what, over(plain, &column), reach, TIMES));
                }
            }
        }
        verdicts
    }

    fn raw(&self) -> serde_json::Value {
        let case = |row: Row| {
            json!({
                "scenario": row.scenario.name,
                "proxy": row.proxy.name,
                "threads": row.threads,
            })
        };
        self.0.raw(case, |found| json!({ "found": found }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::samples::Sample;

    #[test]
    fn verdicts_set_ours_beside_haproxy() {
        let [kept, .., mix] = &SCENARIOS;
        let found = |small, megabytes, cpu_us| Found {
            seconds: 1.0,
            small,
            megabytes,
            cpu_us,
            ..Found::default()
        };
        let all = [
            (kept, 0, found(1_000, 0, 16_000.0)),
            (kept, 1, found(1_000, 0, 21_000.0)),
            (mix, 0, found(120, 100, 1.0)),
            (mix, 1, found(100, 100, 1.0)),
        ];
        let sample = |(scenario, proxy, found): (_, usize, Found)| Sample {
            key: Row {
                scenario,
                proxy: &PROXIES[proxy],
                threads: 1,
            },
            round: 0,
            found: Ok(found),
        };
        let all = All(Samples(all.into_iter().map(sample).collect()));
        let verdicts = all.verdicts();
        assert_eq!(verdicts.len(), 4);
        for (verdict, found, outcome) in [
            (&verdicts[0], "0.76×", "holds"),
            (&verdicts[1], "1.20×", "holds"),
            (&verdicts[2], "1.00×", "missed"),
        ] {
            let words = format!("{:?} {}", verdict.found, verdict.outcome.word());
            assert!(words.contains(found) && words.contains(outcome), "{words}");
        }
        let missing = Err("nginx takes no part".to_owned());
        assert_eq!(all.over("mix", "nginx", &SMALL), missing);
    }

    #[test]
    fn the_page_says_from_when_on_all_is_measured() {
        let page = include_str!("proxy.md").replace('\n', " ");
        assert!(page.contains(&format!("`--seconds {WHOLE_S}` or more")));
    }
}
