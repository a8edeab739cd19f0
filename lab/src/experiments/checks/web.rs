//! The first part of `checks`: short HTTP connections, `ab -c 60 -n 100000`, by the
//! Apache benchmark where it is installed.

use std::net::SocketAddr;
use std::process::Command;

use super::throughput::{Throughput, variants};
use super::{UNTOLD, field, unreadable};
use crate::error::Result;
use crate::load::{HttpSummary, LatencySummary};
use crate::peers::ServerSpec;
use crate::process;
use crate::report::Experiment;
use crate::trial::lab::Lab;

const CONCURRENCY: u32 = 60;
const REQUESTS: u64 = 100_000;
const REQUESTS_IN_BRIEF: u64 = 10_000;

pub(super) fn run(lab: &Lab) -> Result<Experiment> {
    let with_ab = process::answers("ab", "-V");
    let requests = if lab.is_brief() {
        REQUESTS_IN_BRIEF
    } else {
        REQUESTS
    };
    let load = |target: SocketAddr| {
        let flags = format!("--concurrency {CONCURRENCY} --requests {requests}");
        match with_ab {
            true => ab(lab, target, CONCURRENCY, requests),
            false => lab.load(format_args!("http {target} {flags}")).result(),
        }
    };
    let (servers, spec) = (variants(&lab.lineup.present), ServerSpec::of(&["http"]));
    let throughput = Throughput::measure(lab, servers, ("http", &spec), load);
    let missing = "`ab` is not installed (lab/setup.sh installs it): its built-in equivalent ran";
    let notes: Vec<String> = (!with_ab).then(|| missing.to_owned()).into_iter().collect();
    notes.iter().for_each(|note| lab.progress(note));
    let command = match with_ab {
        true => format!("ab -c {CONCURRENCY} -n {requests}"),
        false => format!("load http --concurrency {CONCURRENCY} --requests {requests}"),
    };
    Ok(Experiment {
        how: format!("HTTP: `{command}` at a server that answers 200 with a short body."),
        tables: throughput.tables("Short HTTP connections"),
        notes,
        raw: throughput.raw(),
        ..Experiment::default()
    })
}

/// `ab -c CONCURRENCY -n REQUESTS`, over short connections.
fn ab(lab: &Lab, target: SocketAddr, concurrency: u32, requests: u64) -> Result<HttpSummary> {
    let mut command = Command::new("ab");
    command.args(format!("-q -c {concurrency} -n {requests} http://{target}/").split(' '));
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
