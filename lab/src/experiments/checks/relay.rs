//! The second part of `checks`: a keep-alive TCP proxy, in front of a database where one is
//! installed.

use std::net::SocketAddr;
use std::time::Duration;

use super::database;
use super::throughput::{Throughput, direct, variants};
use crate::error::Result;
use crate::load::HttpSummary;
use crate::peers::ServerSpec;
use crate::report::Experiment;
use crate::trial::lab::Lab;

const CONNECTIONS: u32 = 20;

pub(super) fn run(lab: &Lab) -> Result<Experiment> {
    let mut notes: Vec<String> = database::missing().into_iter().collect();
    let database = notes.is_empty().then(|| database::start(lab)).transpose();
    let database = database.unwrap_or_else(|error| {
        notes.push(format!("{error}: a request/response pair is used"));
        None
    });
    notes.iter().for_each(|note| lab.progress(note));
    let is_database = database.is_some();
    let (backend, service) = match database {
        Some(database) => (database, "database"),
        None => (lab.helper(&["respond"])?, "respond"),
    };
    let target = backend.address(service)?;
    let length = lab.measured(Duration::from_secs(1));
    let load = |target: SocketAddr| -> Result<HttpSummary> {
        if is_database {
            return database::select(lab, target, CONNECTIONS, length);
        }
        let load = format!("request {target} --connections {CONNECTIONS}");
        lab.load(load).lasts(length).result()
    };
    let mut servers = variants(&lab.lineup.present);
    servers.push(direct(target));
    let spec = ServerSpec::of(&[]).to("proxy", target);
    let throughput = Throughput::measure(lab, servers, ("proxy", &spec), load);
    let words = match is_database {
        true => "a private MariaDB under `sysbench oltp_point_select`",
        false => "requests of 64 bytes and answers of 256, in a closed loop,",
    };
    Ok(Experiment {
        how: format!("Proxy: {words} over {CONNECTIONS} connections."),
        tables: throughput.tables("Keep-alive TCP proxy"),
        notes,
        raw: throughput.raw(),
        ..Experiment::default()
    })
}
