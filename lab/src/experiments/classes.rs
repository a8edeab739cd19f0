//! `classes`: a relay between bulk, short connections and an admin page, beside HAProxy.

mod haproxy;

use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

use self::haproxy::{Haproxy, Tuning};
use crate::error::Result;
use crate::load::{EchoSummary, MixSummary};
use crate::peers::{Peer, ServerSpec};
use crate::process::{Server, Usage};
use crate::report::{Cell, Experiment, Lists, Plot, Table};
use crate::trial::echoes;
use crate::trial::figures::{self, bars};
use crate::trial::lab::Lab;
use crate::trial::samples::{Column, Describe, Samples, column};
use crate::trial::verdict::Reach::{AtLeast, AtMost};
use crate::trial::verdict::{self, Rule, TIMES, Verdict, ratio};

/// Who relays, and how it is set.
#[derive(Debug, Clone, PartialEq)]
enum Who {
    /// One of the lab's own relays: shares (`None`: all in one class) and a bound between checks.
    Lab {
        peer: Peer,
        shares: Option<&'static str>,
        check: Check,
    },
    Haproxy(Vec<Tuning>),
}

/// How evenkeel checks I/O, where it is not left to the runtime: the time between two checks, which
/// bounds how much is run in between, and the events that one takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Check {
    bound_us: Option<u64>,
    events: Option<usize>,
}

/// What passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    /// Large objects, empty ones, admin calls.
    Mix,
    /// Large objects and admin calls.
    BulkAndAdmin,
    /// Large objects alone.
    Bulk,
    /// Admin calls alone: what they take where nothing is in their way but the machine.
    Admin,
}

impl Traffic {
    /// Clients that fetch large objects, and those that fetch empty ones.
    fn clients(self) -> (u32, u32) {
        match self {
            Traffic::Mix => (LARGE, EMPTY),
            Traffic::Bulk | Traffic::BulkAndAdmin => (LARGE, 0),
            Traffic::Admin => (0, 0),
        }
    }

    /// What it adds to the name of a relay.
    fn suffix(self) -> &'static str {
        match self {
            Traffic::Mix => "",
            Traffic::Bulk => ": bulk alone",
            Traffic::BulkAndAdmin => ": bulk and admin",
            Traffic::Admin => ": admin alone",
        }
    }
}

/// A relay under one kind of traffic.
struct Row {
    name: String,
    who: Who,
    traffic: Traffic,
}

/// What one measurement found.
struct Found {
    mix: MixSummary,
    admin: Option<EchoSummary>,
    /// Processor time of the relay over wall time.
    cores: f64,
}

/// Clients at once: two thirds fetch large objects, one third empty ones.
const LARGE: u32 = 200;
const EMPTY: u32 = 100;
const ADMIN_HZ: u32 = 200;
/// Urgent, normal and bulk, as HAProxy's first three classes had it.
const SHARES: &str = "urgent=16,normal=33,bulk=50";
/// Two others: what HAProxy had next, and one that gives bulk nearly all.
const OTHER_SHARES: [&str; 2] = ["urgent=33,normal=50,bulk=17", "urgent=4,normal=16,bulk=80"];
const CHECK_BOUNDS_US: [u64; 3] = [50, 500, 5_000];
/// Events in one check.
const CHECK_EVENTS: [usize; 2] = [8, 2_048];
const HAPROXY_TUNINGS: [Tuning; 2] = [("tune.runqueue-depth", 20), ("tune.maxpollevents", 20)];

/// What is to be reached: the admin page's p99 over HAProxy's, and bulk that is kept.
const ADMIN_P99_OVER_HAPROXY: f64 = 0.2;
const BULK_KEPT_PERCENT: f64 = 95.0;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let lab = lab.apart();
    let missing = haproxy::missing();
    if let Some(line) = &missing {
        lab.progress(line);
    }
    let rows = Choice {
        evenkeel: lab.lineup.present.contains(&Peer::Evenkeel),
        tokio: lab.lineup.present.contains(&Peer::Tokio),
        haproxy: missing.is_none(),
        brief: lab.is_brief(),
    }
    .rows();
    let origin = lab.helper(&["origin", "--nice", lab.load_nice()])?;
    let target = origin.address("origin")?;
    let name = |row: usize| format!("classes: {}", rows[row].name);
    let one = |row: usize| measure(&lab, &rows[row], target);
    let samples = Samples::measure(&lab, lab.rounds(), 0..rows.len(), name, one);
    let all = All { rows, samples };
    let verdicts = all.verdicts();
    Ok(Experiment {
        name: "classes".to_owned(),
        claim:
            "An admin call passes through a relay that is full of bulk as if there were none, and \
                the bulk loses next to nothing."
                .to_owned(),
        how: how(&lab),
        tables: vec![
            all.mixed(),
            all.bulk(),
            verdict::table("Verdicts on evenkeel", "relay", &verdicts),
        ],
        plots: vec![all.curves(), all.bars()],
        notes: notes(&lab, missing),
        verdicts: verdict::judged(&verdicts),
        raw: all.raw(),
    })
}

fn how(lab: &Lab) -> String {
    format!(
        "A TCP relay in front of an origin. {LARGE} clients fetch objects of 1 MB and {EMPTY} \
         fetch empty ones, all at once, in a closed loop, every object over a connection of its \
         own. Beside them {ADMIN_HZ} admin calls a second, each over a connection of its own, in \
         an open loop, ask the relay's process for a small page. With classes the admin page is \
         urgent, connections are normal, and one that has moved more than 64 KiB goes on as bulk; \
         without, all are normal. What the callers themselves were late is in the latency, and \
         said beside it. HAProxy stands in the same place, by TCP, with as many threads. Relay, \
         origin, clients and callers are processes apart. {}",
        lab.conditions()
    )
}

/// Which relays are measured.
struct Choice {
    evenkeel: bool,
    tokio: bool,
    haproxy: bool,
    /// Only what the verdicts need.
    brief: bool,
}

impl Choice {
    /// The relays that carry the whole mix.
    fn mixed(&self) -> Vec<(String, Who)> {
        let mut relays = Vec::new();
        if self.evenkeel {
            relays.push(own(Some(SHARES), Check::default()));
            relays.push(own(None, Check::default()));
        }
        if self.haproxy {
            relays.push(haproxy_with(&[]));
        }
        if self.evenkeel && !self.brief {
            relays.extend(OTHER_SHARES.map(|shares| own(Some(shares), Check::default())));
            let checked = |check| own(Some(SHARES), check);
            relays.extend(CHECK_BOUNDS_US.map(|us| {
                checked(Check {
                    bound_us: Some(us),
                    ..Check::default()
                })
            }));
            relays.extend(CHECK_EVENTS.map(|events| {
                checked(Check {
                    events: Some(events),
                    ..Check::default()
                })
            }));
        }
        if self.haproxy && !self.brief {
            relays.extend(HAPROXY_TUNINGS.map(|tuning| haproxy_with(&[tuning])));
        }
        relays.extend((self.tokio && !self.brief).then(tokio));
        relays
    }

    /// The relays that are also measured with a part of it.
    fn apart(&self) -> Vec<(String, Who)> {
        let mut relays = Vec::new();
        relays.extend(self.evenkeel.then(|| own(Some(SHARES), Check::default())));
        relays.extend(self.haproxy.then(|| haproxy_with(&[])));
        relays.extend((self.tokio && !self.brief).then(tokio));
        relays
    }

    fn rows(&self) -> Vec<Row> {
        let row = |(name, who): (String, Who), traffic: Traffic| Row {
            name: format!("{name}{}", traffic.suffix()),
            who,
            traffic,
        };
        let mixed = self.mixed().into_iter();
        let mut rows: Vec<Row> = mixed.map(|relay| row(relay, Traffic::Mix)).collect();
        for traffic in [Traffic::Bulk, Traffic::BulkAndAdmin, Traffic::Admin] {
            rows.extend(self.apart().into_iter().map(|relay| row(relay, traffic)));
        }
        rows
    }
}

fn own(shares: Option<&'static str>, check: Check) -> (String, Who) {
    let classes = shares.map_or_else(|| "one class".to_owned(), ratio_of);
    let bound = check
        .bound_us
        .map(|us| format!(", I/O check bound {us} us"));
    let events = check
        .events
        .map(|events| format!(", {events} events a check"));
    let set = [bound, events].into_iter().flatten().collect::<String>();
    let who = Who::Lab {
        peer: Peer::Evenkeel,
        shares,
        check,
    };
    (format!("evenkeel, {classes}{set}"), who)
}

fn tokio() -> (String, Who) {
    let who = Who::Lab {
        peer: Peer::Tokio,
        shares: None,
        check: Check::default(),
    };
    ("tokio".to_owned(), who)
}

fn haproxy_with(tuning: &[Tuning]) -> (String, Who) {
    let words: String = tuning
        .iter()
        .map(|(name, value)| format!(", {name} {value}"))
        .collect();
    (format!("haproxy{words}"), Who::Haproxy(tuning.to_vec()))
}

/// `urgent=16,normal=33,bulk=50` as `16:33:50`.
fn ratio_of(shares: &str) -> String {
    let numbers = shares
        .split(',')
        .filter_map(|share| Some(share.split_once('=')?.1));
    numbers.collect::<Vec<_>>().join(":")
}

/// A relay that runs.
enum Relay {
    Lab(Server),
    Haproxy(Haproxy),
}

impl Relay {
    fn start(lab: &Lab, who: &Who, target: SocketAddr) -> Result<Self> {
        let (peer, shares, check) = match who {
            Who::Haproxy(tuning) => return Haproxy::start(lab, target, tuning).map(Relay::Haproxy),
            Who::Lab {
                peer,
                shares,
                check,
            } => (*peer, shares, *check),
        };
        let mut spec = ServerSpec {
            relay_target: Some(target),
            io_check_us: check.bound_us,
            ..ServerSpec::of(&["admin"])
        };
        if let Some(shares) = shares {
            let classed = spec
                .own("--relay-class", "normal")
                .own("--bulk-class", "bulk");
            spec = classed
                .own("--admin-class", "urgent")
                .own("--shares", shares);
        }
        if let Some(events) = check.events {
            spec = spec.own("--io-check-events", events);
        }
        lab.serve(peer, &spec).map(Relay::Lab)
    }

    /// Where it relays, and where its admin page is.
    fn addresses(&self) -> Result<[SocketAddr; 2]> {
        match self {
            Relay::Lab(server) => Ok([server.address("relay")?, server.address("admin")?]),
            Relay::Haproxy(haproxy) => Ok([haproxy.relay, haproxy.admin]),
        }
    }

    fn usage(&self) -> Usage {
        match self {
            Relay::Lab(server) => server.usage(),
            Relay::Haproxy(haproxy) => haproxy.usage(),
        }
    }
}

fn measure(lab: &Lab, row: &Row, target: SocketAddr) -> Result<Found> {
    /// From the first connection until the load is steady.
    const RAMP: Duration = Duration::from_millis(400);
    let relay = Relay::start(lab, &row.who, target)?;
    let [relayed, admin] = relay.addresses()?;
    let length = lab.measured(Duration::from_millis(1_000));
    let (large, empty) = row.traffic.clients();
    let mix = lab.load("mix", relayed).flag("--say-ready").lasts(length);
    let mix = mix.set("--large", large).set("--empty", empty);
    let mix = mix
        .set("--warmup", RAMP.as_secs_f64())
        .set("--nice", lab.load_nice());
    let mix = mix.start()?.until_ready()?;
    std::thread::sleep(RAMP);
    let before = relay.usage();
    let admin = match row.traffic {
        Traffic::Bulk => {
            std::thread::sleep(length);
            None
        }
        Traffic::Mix | Traffic::BulkAndAdmin | Traffic::Admin => {
            let calls = lab.load("calls", admin).set("--rate", ADMIN_HZ);
            Some(
                calls
                    .set("--warmup", 0)
                    .set("--drain", 1)
                    .lasts(length)
                    .result()?,
            )
        }
    };
    let cores = relay.usage().cores_since(&before);
    Ok(Found {
        mix: mix.result()?,
        admin,
        cores,
    })
}

impl Describe for Found {
    fn describe(&self) -> String {
        let (bulk, connections) = (self.mix.bytes_per_s / 1e6, self.mix.empty_per_s);
        let admin = self.admin.as_ref().map_or_else(String::new, |admin| {
            let (p50, p99) = (admin.latency.p50_us, admin.latency.p99_us);
            format!(", admin {p50:.0} / {p99:.0} us")
        });
        format!("{bulk:.0} MB/s, {connections:.0} connections/s{admin}")
    }
}

impl Found {
    /// A figure of the admin calls; not a number where there were none.
    fn admin(&self, figure: fn(&EchoSummary) -> f64) -> f64 {
        self.admin.as_ref().map_or(f64::NAN, figure)
    }
}

const MIXED: [Column<Found>; 9] = [
    column("short", "/s", 0, |found| found.mix.empty_per_s),
    BULK,
    column("admin p50", "us", 0, |found| {
        found.admin(|admin| admin.latency.p50_us)
    }),
    column("admin p99", "us", 0, admin_p99),
    column("longest", "us", 0, |found| {
        found.admin(|admin| admin.latency.max_us)
    }),
    column("calls late, p99", "us", 0, |found| {
        found.admin(|admin| admin.late_p99_us)
    }),
    column("no answer", "", 0, |found| {
        found.admin(|admin| admin.unanswered as f64)
    }),
    column("failed", "", 0, |found| found.mix.failed as f64),
    column("CPU", "%", 0, |found| 100.0 * found.cores),
];
const BULK: Column<Found> = column("bulk", "MB/s", 0, |found| found.mix.bytes_per_s / 1e6);

fn admin_p99(found: &Found) -> f64 {
    found.admin(|admin| admin.latency.p99_us)
}

/// All measurements.
struct All {
    rows: Vec<Row>,
    samples: Samples<usize, Found>,
}

impl All {
    fn with(&self, traffic: Traffic) -> impl Iterator<Item = (usize, &Row)> {
        let rows = self.rows.iter().enumerate();
        rows.filter(move |(_, row)| row.traffic == traffic)
    }

    /// The row of the same relay under other traffic.
    fn same(&self, who: &Who, traffic: Traffic) -> Option<usize> {
        let mut rows = self.with(traffic);
        rows.find(|(_, row)| row.who == *who)
            .map(|(index, _)| index)
    }

    fn mixed(&self) -> Table {
        let title = "At once: short connections, bulk, admin calls (and how late the callers made \
                     them); CPU of the relay";
        let rows = self
            .with(Traffic::Mix)
            .map(|(index, row)| (row.name.clone(), index));
        self.samples.table(title, "relay", rows, &MIXED)
    }

    fn bulk(&self) -> Table {
        let columns = [
            "relay",
            "bulk alone",
            "bulk with admin",
            "bulk in mix",
            "admin p99 alone",
            "admin p99 with bulk",
            "admin p99 in mix",
        ];
        let row = |(_, row): (usize, &Row)| {
            let name = row.name.trim_end_matches(Traffic::Bulk.suffix());
            let bulk = [Traffic::Bulk, Traffic::BulkAndAdmin, Traffic::Mix];
            let bulk = bulk.map(|traffic| {
                let found = self.under(&row.who, traffic, |found| found.mix.bytes_per_s / 1e6);
                figures::number(found, ("MB/s", 0))
            });
            let admin = [Traffic::Admin, Traffic::BulkAndAdmin, Traffic::Mix];
            let admin = admin.map(|traffic| {
                figures::number(self.under(&row.who, traffic, admin_p99), ("us", 0))
            });
            [Cell::from(name)]
                .into_iter()
                .chain(bulk)
                .chain(admin)
                .collect()
        };
        let title = "Bulk and admin calls, alone and in company";
        figures::table(title, columns, self.with(Traffic::Bulk).map(row).collect())
    }

    /// A figure of the same relay under other traffic.
    fn under(&self, who: &Who, traffic: Traffic, figure: fn(&Found) -> f64) -> Result<f64, String> {
        let row = self.same(who, traffic).ok_or("not measured")?;
        self.samples.median(row, figure)
    }

    fn bytes_per_s(&self, who: &Who, traffic: Traffic) -> Result<f64, String> {
        self.under(who, traffic, |found| found.mix.bytes_per_s)
    }

    /// A relay's admin p99 over that of HAProxy as it is. Not said if the callers themselves were
    /// later than what is to be reached: such a figure would be of the machine.
    fn over_haproxy(&self, row: usize) -> Result<f64, String> {
        let haproxy = self.same(&Who::Haproxy(Vec::new()), Traffic::Mix);
        let haproxy = haproxy.ok_or("haproxy takes no part")?;
        let haproxy = self.samples.median(haproxy, admin_p99);
        let late = self
            .samples
            .median(row, |found| found.admin(|admin| admin.late_p99_us));
        let late = late.unwrap_or(0.0);
        match haproxy {
            Ok(haproxy) if late > ADMIN_P99_OVER_HAPROXY * haproxy => Err(format!(
                "the callers themselves were {late:.0} us late, more than is to be reached: run \
                 this on a quieter machine, or for longer"
            )),
            haproxy => ratio(self.samples.median(row, admin_p99), haproxy),
        }
    }

    /// The bulk that a relay keeps under other traffic, in percent of what it has alone.
    fn kept(&self, row: usize, traffic: Traffic) -> Result<f64, String> {
        let who = &self.rows[row].who;
        let kept = ratio(
            self.bytes_per_s(who, traffic),
            self.bytes_per_s(who, Traffic::Bulk),
        );
        kept.map(|kept| 100.0 * kept)
    }

    /// Whether a row is of an evenkeel with classes in the mix.
    fn is_judged(&self, row: usize) -> bool {
        let Row { who, traffic, .. } = &self.rows[row];
        *traffic == Traffic::Mix
            && matches!(
                who,
                Who::Lab {
                    shares: Some(_),
                    ..
                }
            )
    }

    fn has_bulk_alone(&self, row: usize) -> bool {
        let alone = || self.bytes_per_s(&self.rows[row].who, Traffic::Bulk);
        self.is_judged(row) && alone().is_ok()
    }

    fn verdicts(&self) -> Vec<Verdict> {
        verdict::by_rules(
            self,
            self.rows.iter().map(|row| row.name.as_str()),
            &VERDICTS,
        )
    }

    /// The admin page's latency, a curve for each relay.
    fn curves(&self) -> Plot {
        let first = self.with(Traffic::Mix).filter_map(|(index, row)| {
            let mut found = self
                .samples
                .found(index)
                .filter_map(|found| found.admin.as_ref());
            Some((row.name.clone(), found.next()?))
        });
        let title = "Admin calls in the mix: the slowest in so many (first round)".to_owned();
        echoes::curves(title, "call", first)
    }

    fn bars(&self) -> Plot {
        let groups = [
            ("alone", Traffic::Bulk),
            ("beside admin calls", Traffic::BulkAndAdmin),
            ("beside admin calls and short connections", Traffic::Mix),
        ];
        let groups: Lists<String> = groups
            .map(|(name, traffic)| {
                let bars = self.with(traffic).filter_map(|(index, row)| {
                    let relay = row.name.split(": bulk").next().unwrap_or_default();
                    Some((relay.to_owned(), self.samples.figure(index, &BULK).ok()?))
                });
                (name.to_owned(), bars.collect())
            })
            .into();
        bars("Bulk", "MB/s", false, groups)
    }

    fn raw(&self) -> serde_json::Value {
        self.samples.raw(|row, round, found| {
            json!({
                "relay": self.rows[row].name,
                "round": round,
                "mix": found.map(|found| &found.mix),
                "admin": found.and_then(|found| found.admin.as_ref()),
                "cpu_cores": found.map(|found| found.cores),
            })
        })
    }
}

/// Every evenkeel with classes against HAProxy as it is, and the bulk that it keeps.
#[rustfmt::skip]
const VERDICTS: [Rule<All>; 3] = [
    ("admin p99 over HAProxy's", All::is_judged,
        All::over_haproxy, AtMost(ADMIN_P99_OVER_HAPROXY), TIMES),
    ("bulk kept beside admin calls", All::has_bulk_alone,
        |all, row| all.kept(row, Traffic::BulkAndAdmin), AtLeast(BULK_KEPT_PERCENT), ("%", 1)),
    ("bulk kept in the mix", All::has_bulk_alone,
        |all, row| all.kept(row, Traffic::Mix), AtLeast(BULK_KEPT_PERCENT), ("%", 1)),
];

fn notes(lab: &Lab, missing: Option<String>) -> Vec<String> {
    let mut notes = lab.lineup.missing.clone();
    notes.extend(missing);
    notes.push(
        "Admin calls alone show what the machine itself does to a p99: where that is far from \
         nothing, so is every other."
            .to_owned(),
    );
    notes.push(
        "Bulk in the mix shares the processor with the short connections, which fill whatever they \
         are given: what it keeps there follows from the shares. Beside admin calls alone it \
         should keep nearly all."
            .to_owned(),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
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
            cores: 1.0,
        }
    }

    #[test]
    fn in_brief_only_what_the_verdicts_need_is_measured() {
        let rows = |evenkeel, tokio, haproxy, brief| {
            Choice {
                evenkeel,
                tokio,
                haproxy,
                brief,
            }
            .rows()
        };
        let names = |rows: Vec<Row>| rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
        let brief = names(rows(true, true, true, true));
        assert_eq!(brief.len(), 9);
        assert_eq!(brief[2], "haproxy");
        let full = names(rows(true, true, true, false));
        assert_eq!(full.len(), 22);
        assert!(full.contains(&"evenkeel, 33:50:17".to_owned()), "{full:?}");
        assert!(full.contains(&"haproxy, tune.maxpollevents 20".to_owned()));
        assert_eq!(names(rows(false, true, false, true)).len(), 0);
    }

    #[test]
    fn verdicts_set_evenkeel_beside_haproxy_and_beside_itself() {
        let rows = Choice {
            evenkeel: true,
            tokio: false,
            haproxy: true,
            brief: true,
        }
        .rows();
        let figures = rows.iter().map(|row| match (&row.who, row.traffic) {
            (Who::Haproxy(_), Traffic::Mix) => found(900.0, Some(5_000.0)),
            (_, Traffic::Mix) => found(800.0, Some(1_250.0)),
            (_, Traffic::BulkAndAdmin) => found(970.0, Some(300.0)),
            (_, Traffic::Bulk) => found(1_000.0, None),
            (_, Traffic::Admin) => found(0.0, Some(200.0)),
        });
        let samples = figures.enumerate().map(|(key, found)| Sample {
            key,
            round: 0,
            found: Ok(found),
        });
        let samples = Samples(samples.collect());
        let mut all = All { rows, samples };
        let table = verdict::table("", "relay", &all.verdicts());
        let words: Vec<String> = table
            .rows
            .iter()
            .map(|row| format!("{:?} {:?}", row[2], row[4]))
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
        for sample in &mut all.samples.0 {
            if let Ok(Found {
                admin: Some(admin), ..
            }) = &mut sample.found
            {
                admin.late_p99_us = 1_001.0;
            }
        }
        let first = &verdict::table("", "relay", &all.verdicts()).rows[0];
        assert!(matches!(&first[2], Cell::Missing(why) if why.contains("1001 us late")));
        assert!(matches!(&first[4], Cell::Text(words) if words == "not said"));
    }
}
