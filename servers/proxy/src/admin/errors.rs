//! `show errors`: the last requests that were refused for what they say.

use serde_json::json;

use super::table::Table;
use crate::server::Context;

/// What was noted, the newest last; of all listeners, or of one.
pub(super) fn show(context: &Context, only: Option<&str>, as_json: bool) -> String {
    let site = context.site();
    let mut rows = Vec::new();
    for front in site.fronts.values() {
        if only.is_some_and(|only| *only != *front.name) {
            continue;
        }
        for bad in front.counters.refusals.all() {
            rows.push((bad.at.elapsed(), front.name.clone(), bad));
        }
    }
    rows.sort_by_key(|(age, ..)| std::cmp::Reverse(*age));
    let mut table = Table::new(&[
        "age_s",
        "listener",
        "client",
        "status",
        "why",
        "begins_with",
    ]);
    for (age, listener, bad) in &rows {
        table.row(vec![
            json!(age.as_secs()),
            json!(&**listener),
            json!(
                bad.client
                    .map_or("unix".to_owned(), |client| client.to_string())
            ),
            json!(bad.status),
            json!(bad.why),
            json!(bad.begins_with),
        ]);
    }
    if as_json {
        return table.json();
    }
    if rows.is_empty() {
        return "no request was refused for what it says\n".to_owned();
    }
    let mut text = String::new();
    for (age, listener, bad) in &rows {
        let client = bad
            .client
            .map_or("unix".to_owned(), |client| client.to_string());
        text += &format!(
            "{} s ago, listener {listener}, client {client}: {} {}\n  {}\n",
            age.as_secs(),
            bad.status,
            bad.why,
            bad.begins_with
        );
    }
    text
}
