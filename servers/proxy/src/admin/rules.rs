//! `show rates`, `show compress` and `show logs`: what rules and logs have done.

use serde_json::{Value, json};

use super::metrics::{compressions, limits};
use super::table::Table;
use crate::config::Per;
use crate::server::Context;

/// Limits of rates, of listeners and routes.
pub(super) fn rates(context: &Context) -> Table {
    let mut table = Table::new(&[
        "route",
        "per",
        "requests",
        "period_ms",
        "burst",
        "clients",
        "clients_max",
        "exceeded",
        "crowded",
    ]);
    for (route, limit) in limits(context.site().fronts.values().map(|front| &**front)) {
        let config = limit.config();
        table.row(vec![
            json!(route),
            json!(match &config.per {
                Per::Client => "client".to_owned(),
                Per::All => "all".to_owned(),
                Per::Header(name) => format!("header:{name}"),
            }),
            json!(config.requests),
            ms(config.period),
            json!(config.burst()),
            json!(limit.clients()),
            json!(config.clients_max),
            json!(limit.refused.total()),
            json!(limit.crowded.total()),
        ]);
    }
    table
}

/// Compressions, of listeners and routes.
pub(super) fn compress(context: &Context) -> Table {
    let mut table = Table::new(&[
        "route",
        "now",
        "answers",
        "crowded",
        "bytes_in",
        "bytes_out",
    ]);
    for (route, compress) in compressions(&context.site()) {
        table.row(vec![
            json!(route),
            json!(compress.running()),
            json!(compress.answers.total()),
            json!(compress.crowded.total()),
            json!(compress.bytes_in.total()),
            json!(compress.bytes_out.total()),
        ]);
    }
    table
}

/// Logs of requests.
pub(super) fn logs(context: &Context) -> Table {
    let mut table = Table::new(&["log", "to", "waiting_bytes", "lines", "dropped"]);
    for (name, log) in &context.site().logs {
        table.row(vec![
            json!(name),
            json!(log.target().to_string()),
            json!(log.waiting_bytes()),
            json!(log.written()),
            json!(log.dropped()),
        ]);
    }
    table
}

fn ms(time: std::time::Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
