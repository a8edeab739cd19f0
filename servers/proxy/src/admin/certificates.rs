//! `show ssl cert`: the certificates in use, and when they end.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::table::Table;
use crate::server::Context;

/// The certificates of listeners, and those with which the proxy comes to servers.
pub(super) fn show(context: &Context) -> Table {
    let mut table = Table::new(&[
        "listener", "pool", "file", "from", "until", "left_s", "names",
    ]);
    let now = Timestamp::now();
    for (whose, in_use) in context.site().certificates() {
        let lifetime = in_use.own.lifetime;
        let time =
            |time: Option<Timestamp>| time.map_or(Value::Null, |time| json!(time.to_string()));
        let left = lifetime.map(|lifetime| lifetime.end.duration_since(now).as_secs());
        table.row(vec![
            json!(whose.listener.as_deref().unwrap_or("-")),
            json!(whose.pool.as_deref().unwrap_or("-")),
            json!(whose.file.display().to_string()),
            time(lifetime.map(|lifetime| lifetime.begin)),
            time(lifetime.map(|lifetime| lifetime.end)),
            json!(left),
            json!(in_use.own.names),
        ]);
    }
    table
}
