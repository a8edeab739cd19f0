//! The first part of `checks`: short HTTP connections, `ab -c 60 -n 100000`.

use std::net::SocketAddr;

use super::Part;
use super::ab;
use super::throughput::{Throughput, at_server, variants};
use crate::error::Result;
use crate::peers::ServerSpec;
use crate::process;
use crate::trial::lab::Lab;

const CONCURRENCY: u32 = 60;
const REQUESTS: u64 = 100_000;
const REQUESTS_IN_BRIEF: u64 = 10_000;

pub(super) fn run(lab: &Lab) -> Result<Part> {
    let with_ab = process::answers("ab", "-V");
    let requests = if lab.is_brief() {
        REQUESTS_IN_BRIEF
    } else {
        REQUESTS
    };
    let load = |target: SocketAddr| {
        let flags = format!("--concurrency {CONCURRENCY} --requests {requests}");
        match with_ab {
            true => ab::run(lab, target, CONCURRENCY, requests),
            false => lab.load(format_args!("http {target} {flags}")).result(),
        }
    };
    let throughput = Throughput::measure(lab, "http", variants(&lab.lineup.present), |variant| {
        let spec = ServerSpec::of(&["http"]);
        at_server(lab, variant, spec, |server| load(server.address("http")?))
    });
    let missing = "`ab` is not installed (lab/setup.sh installs it): its built-in equivalent ran";
    let notes: Vec<String> = (!with_ab).then(|| missing.to_owned()).into_iter().collect();
    notes.iter().for_each(|note| lab.progress(note));
    let command = match with_ab {
        true => format!("ab -c {CONCURRENCY} -n {requests}"),
        false => format!("load http --concurrency {CONCURRENCY} --requests {requests}"),
    };
    Ok(Part {
        how: format!("HTTP: `{command}` at a server that answers 200 with a short body."),
        tables: throughput.tables("Short HTTP connections"),
        plots: Vec::new(),
        notes,
        raw: throughput.raw(),
    })
}
