//! The second part of `checks`: a keep-alive TCP proxy, in front of a database where one is
//! installed.

use std::net::SocketAddr;
use std::time::Duration;

use super::Part;
use super::database::{self, Database};
use super::throughput::{Throughput, at_server, direct, variants, without_server};
use crate::error::{Error, Result};
use crate::load::HttpSummary;
use crate::peers::ServerSpec;
use crate::process::Server;
use crate::trial::lab::Lab;

const CONNECTIONS: u32 = 20;

/// What stands behind the proxy.
enum Backend {
    Database(Database),
    Pair(Server),
}

pub(super) fn run(lab: &Lab) -> Result<Part> {
    let mut notes: Vec<String> = database::missing().into_iter().collect();
    let backend = match notes.is_empty().then(|| Database::start(lab)) {
        Some(Ok(database)) => Backend::Database(database),
        Some(Err(error)) => {
            notes.push(format!("{error}: a request/response pair is used"));
            Backend::pair(lab)?
        }
        None => Backend::pair(lab)?,
    };
    notes.iter().for_each(|note| lab.progress(note));
    let target = backend.address()?;
    let mut servers = variants(&lab.lineup.present);
    servers.push(direct());
    let throughput = Throughput::measure(lab, "proxy", servers, |variant| {
        if variant.peer.is_none() {
            return Ok(without_server(backend.load(lab, target)?));
        }
        let spec = ServerSpec {
            proxy_target: Some(target),
            ..ServerSpec::default()
        };
        at_server(lab, variant, spec, |server| {
            backend.load(lab, server.address("proxy")?)
        })
    });
    let mut tables = vec![throughput.table("Keep-alive TCP proxy")];
    tables.extend(throughput.checks_table("Keep-alive TCP proxy: I/O checks (first round)"));
    Ok(Part {
        how: format!("Proxy: {} over {CONNECTIONS} connections.", backend.words()),
        tables,
        plots: Vec::new(),
        notes,
        raw: throughput.raw(),
    })
}

impl Backend {
    fn pair(lab: &Lab) -> Result<Self> {
        lab.helper(&["respond"]).map(Backend::Pair)
    }

    fn address(&self) -> Result<SocketAddr, Error> {
        match self {
            Backend::Database(database) => Ok(database.address),
            Backend::Pair(responder) => responder.address("respond"),
        }
    }

    fn load(&self, lab: &Lab, target: SocketAddr) -> Result<HttpSummary> {
        let length = lab.measured(Duration::from_secs(1));
        match self {
            Backend::Database(database) => database.select(lab, target, CONNECTIONS, length),
            Backend::Pair(_) => {
                let load = format!("request {target} --connections {CONNECTIONS}");
                lab.load(load).lasts(length).result()
            }
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Backend::Database(_) => "a private MariaDB under `sysbench oltp_point_select`",
            Backend::Pair(_) => "requests of 64 bytes and answers of 256, in a closed loop,",
        }
    }
}
