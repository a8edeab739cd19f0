//! `classes`: a relay between bulk, short connections and an admin page, beside HAProxy.
//!
//! - [`relays`]: who relays, under which traffic, and one measurement of it

mod relays;

use serde_json::json;

use self::relays::{By, Found, Row, Traffic};
use crate::error::Result;
use crate::report::{Experiment, Plot, Table};
use crate::trial::figures::number;
use crate::trial::{AtLeast, AtMost, Column, Figured, Lab, Rule, Samples, TIMES};
use crate::trial::{by_rules, column, echoes, ratio};

/// What is to be reached: the admin page's p99 over HAProxy's, and bulk that is kept.
const ADMIN_P99_OVER_HAPROXY: f64 = 0.2;
const BULK_KEPT_PERCENT: f64 = 95.0;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let lab = lab.apart();
    let missing = relays::missing();
    if let Some(line) = &missing {
        lab.progress(line);
    }
    let takes_part = |by| match by {
        By::Own(peer, _) => lab.lineup.present.contains(&peer),
        By::Haproxy(_) => missing.is_none(),
    };
    let rows = relays::rows(takes_part, lab.is_brief());
    let origin = lab.helper(&["origin", "--nice", lab.load_nice()])?;
    let target = origin.address("origin")?;
    let name = |row: Row| format!("classes: {}", row.name());
    let one = |row| relays::measure(&lab, row, target);
    let all = All::measure(&lab, lab.rounds(), rows, name, &MIXED[..4], one);
    let case = |row: Row| json!({ "relay": row.name() });
    let experiment = Experiment {
        how: lab.conditions(),
        tables: vec![all.mixed(), all.bulk()],
        plots: vec![all.curves(), all.bulk_bars()],
        notes: missing.into_iter().collect(),
        raw: all.raw(case, |found| json!(found)),
        ..Experiment::default()
    };
    let rows = all.keys().map(|row| (row.relay_name(), row));
    Ok(experiment.judged("relay", by_rules(&all, rows, &VERDICTS)))
}

const BULK: Column<Found> = column("bulk", "MB/s", 0, |found| found.mix.bytes_per_s / 1e6);
#[rustfmt::skip]
const ADMIN_P99: Column<Found> =
    column("admin p99", "us", 0, |found| found.admin(|admin| admin.latency.p99_us));
#[rustfmt::skip]
const LATE: Column<Found> =
    column("calls late, p99", "us", 0, |found| found.admin(|admin| admin.late_p99_us));
#[rustfmt::skip]
const MIXED: [Column<Found>; 9] = [
    column("short", "/s", 0, |found| found.mix.empty_per_s),
    BULK,
    column("admin p50", "us", 0, |found| found.admin(|admin| admin.latency.p50_us)),
    ADMIN_P99,
    column("longest", "us", 0, |found| found.admin(|admin| admin.latency.max_us)),
    LATE,
    column("no answer", "", 0, |found| found.admin(|admin| admin.unanswered as f64)),
    column("failed", "", 0, |found| found.mix.failed as f64),
    column("CPU", "%", 0, |found| 100.0 * found.cpu_cores),
];

/// A figure under some traffic.
type Under = (&'static str, Traffic, Column<Found>);

/// Bulk and admin calls, alone and in company.
const IN_COMPANY: [Under; 6] = [
    ("bulk alone", Traffic::Bulk, BULK),
    ("bulk with admin", Traffic::BulkAndAdmin, BULK),
    ("bulk in mix", Traffic::Mix, BULK),
    ("admin p99 alone", Traffic::Admin, ADMIN_P99),
    ("admin p99 with bulk", Traffic::BulkAndAdmin, ADMIN_P99),
    ("admin p99 in mix", Traffic::Mix, ADMIN_P99),
];

const BARS: [(&str, Traffic); 3] = [
    ("alone", Traffic::Bulk),
    ("beside admin calls", Traffic::BulkAndAdmin),
    ("beside admin calls and short connections", Traffic::Mix),
];

/// All measurements.
type All = Samples<Row, Found>;

impl All {
    fn with(&self, traffic: Traffic) -> impl Iterator<Item = Row> {
        self.keys().filter(move |row| row.traffic == traffic)
    }

    fn mixed(&self) -> Table {
        let title = "At once: short connections, bulk, admin calls (and how late the callers made \
                     them); CPU of the relay";
        let row = |row: Row| ([row.name().into()], row);
        self.table(title, ["relay"], self.with(Traffic::Mix).map(row), &MIXED)
    }

    fn bulk(&self) -> Table {
        let row = |row: Row| {
            let cells = IN_COMPANY.map(|(_, traffic, column)| {
                number(self.figure(row.under(traffic), &column), column.unit)
            });
            [vec![row.relay_name().into()], cells.into()].concat()
        };
        let title = "Bulk and admin calls, alone and in company";
        let names = IN_COMPANY.map(|(name, ..)| name);
        let names = ["relay"].into_iter().chain(names);
        Table::new(title, names, self.with(Traffic::Bulk).map(row))
    }

    /// A relay's admin p99 over that of HAProxy as it is. Not said if the callers themselves were
    /// later than what is to be reached: such a figure would be of the machine.
    fn over_haproxy(&self, row: Row) -> Figured {
        let mut mixed = self.with(Traffic::Mix);
        let haproxy = mixed.find(|row| row.relay.by == By::Haproxy(""));
        let haproxy = haproxy.ok_or("haproxy takes no part")?;
        let haproxy = self.figure(haproxy, &ADMIN_P99)?;
        let late = self.figure(row, &LATE).unwrap_or(0.0);
        if late > ADMIN_P99_OVER_HAPROXY * haproxy {
            return Err(format!(
                "the callers themselves were {late:.0} us late, more than is to be reached: run \
                 this on a quieter machine, or for longer"
            ));
        }
        ratio(self.figure(row, &ADMIN_P99), Ok(haproxy))
    }

    /// The bulk that a relay keeps under other traffic, in percent of what it has alone.
    fn kept(&self, row: Row, traffic: Traffic) -> Figured {
        let bulk = |traffic| self.figure(row.under(traffic), &BULK);
        ratio(bulk(traffic), bulk(Traffic::Bulk)).map(|kept| 100.0 * kept)
    }

    /// Whether a row is of an evenkeel with classes in the mix.
    fn is_judged(&self, row: Row) -> bool {
        row.traffic == Traffic::Mix && row.relay.by.has_classes()
    }

    fn has_bulk_alone(&self, row: Row) -> bool {
        let mut alone = self.found(row.under(Traffic::Bulk));
        self.is_judged(row) && alone.next().is_some()
    }

    /// The admin page's latency, a curve for each relay.
    fn curves(&self) -> Plot {
        let first = self.with(Traffic::Mix).filter_map(|row| {
            let mut found = self.found(row);
            Some((row.name(), found.find_map(|found| found.admin.as_ref())?))
        });
        let title = "Admin calls in the mix: the slowest in so many (first round)".to_owned();
        echoes::curves(title, "call", first)
    }

    fn bulk_bars(&self) -> Plot {
        let bars = BARS.into_iter().flat_map(|(group, traffic)| {
            let rows = self.with(traffic);
            rows.map(move |row| (group, row.relay_name(), row))
        });
        self.bars("Bulk", false, &BULK, bars)
    }
}

/// Every evenkeel with classes against HAProxy as it is, and the bulk that it keeps.
#[rustfmt::skip]
const VERDICTS: [Rule<All, Row>; 3] = [
    ("admin p99 over HAProxy's", All::is_judged,
        All::over_haproxy, AtMost(ADMIN_P99_OVER_HAPROXY), TIMES),
    ("bulk kept beside admin calls", All::has_bulk_alone,
        |all, row| all.kept(row, Traffic::BulkAndAdmin), AtLeast(BULK_KEPT_PERCENT), ("%", 1)),
    ("bulk kept in the mix", All::has_bulk_alone,
        |all, row| all.kept(row, Traffic::Mix), AtLeast(BULK_KEPT_PERCENT), ("%", 1)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{EchoSummary, MixSummary};
    use crate::peers::Peer;
    use crate::report::Cell;
    use crate::trial::samples::Sample;

    fn found(bytes_per_s: f64, admin_p99_us: Option<f64>) -> Found {
        let admin = admin_p99_us.map(|p99_us| {
            let mut admin = EchoSummary::default();
            admin.latency.p99_us = p99_us;
            admin
        });
        Found {
            mix: MixSummary {
                bytes_per_s,
                ..MixSummary::default()
            },
            admin,
            cpu_cores: 1.0,
        }
    }

    #[test]
    fn verdicts_set_evenkeel_beside_haproxy_and_beside_itself() {
        let rows = relays::rows(|by| by != By::Own(Peer::Tokio, ""), true);
        let figures = |row: &Row| match (row.relay.by, row.traffic) {
            (By::Haproxy(_), Traffic::Mix) => found(900.0, Some(5_000.0)),
            (_, Traffic::Mix) => found(800.0, Some(1_250.0)),
            (_, Traffic::BulkAndAdmin) => found(970.0, Some(300.0)),
            (_, Traffic::Bulk) => found(1_000.0, None),
            (_, Traffic::Admin) => found(0.0, Some(200.0)),
        };
        let samples = rows.iter().map(|row| Sample {
            key: *row,
            round: 0,
            found: Ok(figures(row)),
        });
        let mut all = Samples(samples.collect());
        let judged = |all: &All| by_rules(all, all.keys().map(|row| ("", row)), &VERDICTS);
        let words: Vec<String> = judged(&all)
            .iter()
            .map(|verdict| format!("{:?} {}", verdict.found, verdict.outcome.word()))
            .collect();
        assert_eq!(words.len(), 3, "{words:?}");
        assert!(
            words[0].contains("0.25×") && words[0].contains("missed"),
            "{words:?}"
        );
        assert!(
            words[1].contains("97.0 %") && words[1].contains("holds"),
            "{words:?}"
        );
        assert!(
            words[2].contains("80.0 %") && words[2].contains("missed"),
            "{words:?}"
        );
        // Callers that were late themselves say nothing of who was called.
        for sample in &mut all.0 {
            if let Ok(Found {
                admin: Some(admin), ..
            }) = &mut sample.found
            {
                admin.late_p99_us = 1_001.0;
            }
        }
        let first = &judged(&all)[0];
        assert!(matches!(&first.found, Cell::Missing(why) if why.contains("1001 us late")));
        assert_eq!(first.outcome.word(), "not said");
    }
}
