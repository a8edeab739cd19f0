//! The first part of `checks`: short HTTP connections, `ab -c 60 -n 100000`.

use std::net::SocketAddr;

use super::Part;
use super::ab;
use super::throughput::{Throughput, at_server, variants};
use crate::error::Result;
use crate::load::HttpSummary;
use crate::peers::ServerSpec;
use crate::trial::lab::Lab;

const CONCURRENCY: u32 = 60;
const REQUESTS: u64 = 100_000;
const REQUESTS_IN_BRIEF: u64 = 10_000;

pub(super) fn run(lab: &Lab) -> Result<Part> {
    let with_ab = ab::is_installed();
    let requests = if lab.is_brief() {
        REQUESTS_IN_BRIEF
    } else {
        REQUESTS
    };
    let load = |target: SocketAddr| match with_ab {
        true => ab::run(lab, target, CONCURRENCY, requests),
        false => built_in(lab, target, requests),
    };
    let throughput = Throughput::measure(lab, "http", variants(&lab.lineup.present), |variant| {
        let spec = ServerSpec::of(&["http"]);
        at_server(lab, variant, spec, |server| load(server.address("http")?))
    });
    let mut notes = Vec::new();
    if !with_ab {
        let advice =
            "`ab` is not installed (lab/setup.sh installs it): its built-in equivalent ran";
        notes.push(advice.to_owned());
        lab.progress(advice);
    }
    let mut tables = vec![throughput.table("Short HTTP connections")];
    tables.extend(throughput.checks_table("Short HTTP connections: I/O checks (first round)"));
    Ok(Part {
        how: format!(
            "HTTP: `{}` at a server that answers 200 with a short body.",
            if with_ab {
                format!("ab -c {CONCURRENCY} -n {requests}")
            } else {
                format!("load http --concurrency {CONCURRENCY} --requests {requests}")
            }
        ),
        tables,
        plots: Vec::new(),
        notes,
        raw: throughput.raw(),
    })
}

fn built_in(lab: &Lab, target: SocketAddr, requests: u64) -> Result<HttpSummary> {
    let flags = format!("--concurrency {CONCURRENCY} --requests {requests}");
    lab.load(format_args!("http {target} {flags}")).result()
}
