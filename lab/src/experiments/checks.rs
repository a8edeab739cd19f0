//! `checks`: what checking for I/O costs and brings, in three parts: short HTTP connections, by the
//! Apache benchmark where it is installed; a keep-alive proxy, in front of a database where one is
//! installed; and the case that the published experiment never ran: much computing, little I/O.
//!
//! - [`throughput`]: servers compared by requests per second, and by what each cost

mod throughput;

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use self::throughput::{At, Throughput, checks_table, variants};
use super::database::{self, Script};
use super::tools::{UNTOLD, field, unreadable};
use crate::error::Result;
use crate::load::{HttpSummary, LatencySummary};
use crate::peers::ServerSpec;
use crate::process;
use crate::report::Experiment;
use crate::serve::HogPoll;
use crate::trial::Lab;
use crate::trial::grid::{Beside, Grid, Probe};

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let parts = [web(lab), relay(lab)?, starved(lab)];
    let mut experiment = Experiment::default();
    for (part, name) in parts.into_iter().zip(["http", "proxy", "hogs"]) {
        experiment.how += &(part.how + "\n\n");
        experiment.tables.extend(part.tables);
        experiment.plots.extend(part.plots);
        experiment.notes.extend(part.notes);
        experiment.raw[name] = part.raw;
    }
    experiment.how += &lab.conditions();
    Ok(experiment)
}

const CONCURRENCY: u32 = 60;
const REQUESTS: u64 = 100_000;
const REQUESTS_IN_BRIEF: u64 = 10_000;

/// `ab -c 60 -n 100000`.
fn web(lab: &Lab) -> Experiment {
    let with_ab = process::answers("ab", "-V");
    let requests = [REQUESTS, REQUESTS_IN_BRIEF][usize::from(lab.is_brief())];
    let own = format!("http --concurrency {CONCURRENCY} --requests {requests}");
    let load = |target: SocketAddr| match with_ab {
        true => ab(lab, target, requests),
        false => lab.load(format_args!("{own} {target}")).result(),
    };
    let (servers, spec) = (variants(&lab.lineup.present), ServerSpec::of(&["http"]));
    let throughput = Throughput::of_load(lab, servers, ("http", &spec), load);
    let missing = "`ab` is not installed (lab/setup.sh installs it): its built-in equivalent ran";
    let notes: Vec<String> = (!with_ab).then(|| missing.to_owned()).into_iter().collect();
    notes.iter().for_each(|note| lab.progress(note));
    let command = match with_ab {
        true => format!("ab -c {CONCURRENCY} -n {requests}"),
        false => format!("load {own}"),
    };
    Experiment {
        how: format!("HTTP: `{command}` at a server that answers 200 with a short body."),
        tables: throughput.tables("Short HTTP connections"),
        notes,
        raw: throughput.json(),
        ..Experiment::default()
    }
}

const CONNECTIONS: u32 = 20;

fn relay(lab: &Lab) -> Result<Experiment> {
    let missing = database::missing();
    let missing = missing.map(|line| format!("{line}: a request/response pair is used"));
    let mut notes: Vec<String> = missing.into_iter().collect();
    let database = notes.is_empty().then(|| database::start(lab)).transpose();
    let database = database.unwrap_or_else(|error| {
        notes.push(format!("{error}: a request/response pair is used"));
        None
    });
    notes.iter().for_each(|note| lab.progress(note));
    let (backend, service) = match database {
        Some(database) => (database, "database"),
        None => (lab.helper(&["respond"])?, "respond"),
    };
    let words = match service {
        "database" => "a private MariaDB under `sysbench oltp_point_select`",
        _ => "requests of 64 bytes and answers of 256, in a closed loop,",
    };
    let target = backend.address(service)?;
    let length = lab.measured(Duration::from_secs(1));
    let load = |target: SocketAddr| -> Result<HttpSummary> {
        if service == "database" {
            return database::load(lab, Script::PointSelect, target, CONNECTIONS, length);
        }
        let load = format!("request {target} --connections {CONNECTIONS}");
        lab.load(load).lasts(length).result()
    };
    let mut servers = variants(&lab.lineup.present);
    servers.push(("direct, no proxy", At::Target(target)));
    let spec = ServerSpec::of(&[]).to("proxy", target);
    let throughput = Throughput::of_load(lab, servers, ("proxy", &spec), load);
    Ok(Experiment {
        how: format!("Proxy: {words} over {CONNECTIONS} connections."),
        tables: throughput.tables("Keep-alive TCP proxy"),
        notes,
        raw: throughput.json(),
        ..Experiment::default()
    })
}

const PROBE: Probe = Probe {
    experiment: "checks",
    rate: 250,
    connections: 8,
    brief: Duration::from_millis(800),
    with_stalls: false,
    with_work: false,
};

fn starved(lab: &Lab) -> Experiment {
    let rows = [0, 4, 32].map(|per_core| {
        let hogs = per_core * lab.workers;
        Beside::hogs(format!("{hogs} hogs of 100 us"), hogs, HogPoll::Micros(100))
    });
    let grid = Grid::of_probe(lab, &PROBE, rows.into(), lab.lineup.present.clone());
    let mut tables = grid.tables();
    for table in &mut tables {
        table.title = format!("Hogs with little I/O: {}", table.title);
    }
    let counted = grid.stats().map(|(name, stats)| (name, stats, None));
    let title = "Hogs with little I/O: evenkeel's I/O checks";
    tables.extend(checks_table(title, counted));
    Experiment {
        how: format!(
            "Hogs: tasks that compute for 100 us and yield, up to 32 for each worker, beside an \
             echo of {} requests a second over {} connections, in an open loop. Readiness to run \
             is what its latency has above that of no hogs.",
            PROBE.rate, PROBE.connections
        ),
        tables,
        plots: vec![grid.p99_bars()],
        raw: grid.raw(|found| json!(found)),
        ..Experiment::default()
    }
}

/// Over short connections.
fn ab(lab: &Lab, target: SocketAddr, requests: u64) -> Result<HttpSummary> {
    let mut command = Command::new("ab");
    command.args(format!("-q -c {CONCURRENCY} -n {requests} http://{target}/").split(' '));
    let output = lab.tool("ab", &mut command)?.output()?;
    read(&output).ok_or_else(|| unreadable("ab"))
}

/// What `ab` prints, as far as the lab wants it. Its percentiles are whole milliseconds.
fn read(output: &str) -> Option<HttpSummary> {
    let field = |name: &str| field(output, name);
    let completed = field("Complete requests:")? as u64;
    // Lengths may differ, for the date in the head may; what counts is whether there was a good
    // answer.
    let failed = (field("Failed requests:")? + field("Non-2xx responses:").unwrap_or(0.0)) as u64;
    let us = |name: &str| field(name).map(|ms| ms * 1e3);
    Some(HttpSummary {
        requests: completed.saturating_sub(failed),
        failed,
        failure: None,
        seconds: field("Time taken for tests:")?,
        per_second: field("Requests per second:")?,
        latency: LatencySummary {
            p50_us: us("50%")?,
            p90_us: us("90%")?,
            p99_us: us("99%")?,
            max_us: us("100%")?,
            ..UNTOLD
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_ab_is_read() {
        let report = "\
Time taken for tests:   4.020 seconds
Complete requests:      100000
Failed requests:        2
Requests per second:    24875.62 [#/sec] (mean)
Percentage of the requests served within a certain time (ms)
  50%      2
  66%      3
  90%      4
  99%      7
 100%     21 (longest request)
";
        let summary = read(report).expect("every line is there");
        assert_eq!((summary.requests, summary.failed), (99_998, 2));
        assert_eq!((summary.seconds, summary.per_second), (4.02, 24_875.62));
        assert_eq!((summary.latency.p50_us, summary.latency.p99_us), (2e3, 7e3));
        assert_eq!(read("ab: no such host"), None);
    }
}
