//! `show sess` and `shutdown session`: who is connected.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;

use super::table::Table;
use crate::server::Context;
use crate::sessions::Seen;

/// How many are shown if nothing is said, and at most: an answer has a limit.
const SHOWN: usize = 100;
const SHOWN_MAX: usize = 10_000;

/// Which connections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter<'a> {
    id: Option<u64>,
    client: Option<IpAddr>,
    listener: Option<&'a str>,
    pool: Option<&'a str>,
    server: Option<&'a str>,
    state: Option<&'a str>,
    older: Option<Duration>,
    max: Option<usize>,
}

impl<'a> Filter<'a> {
    fn read(words: &[&'a str]) -> Result<Self, String> {
        let mut filter = Self::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            if let Ok(id) = word.parse() {
                filter.id = Some(id);
                continue;
            }
            if word == "all" {
                filter.max = Some(SHOWN_MAX);
                continue;
            }
            let Some(&value) = words.next() else {
                return Err(format!("{word:?} needs a value; {KEYS}"));
            };
            let no = |what: &str| format!("{value:?} is no {what}");
            match word {
                "client" => filter.client = Some(value.parse().map_err(|_| no("address"))?),
                "listener" => filter.listener = Some(value),
                "pool" => filter.pool = Some(value),
                "server" => {
                    let (pool, server) = value
                        .split_once('/')
                        .ok_or_else(|| format!("{value:?} names no server: write POOL/SERVER"))?;
                    (filter.pool, filter.server) = (Some(pool), Some(server));
                }
                "state" => filter.state = Some(value),
                "older" => {
                    let seconds = value.strip_suffix('s').unwrap_or(value).parse();
                    let seconds = seconds.map_err(|_| no("number of seconds"))?;
                    filter.older = Some(Duration::from_secs(seconds));
                }
                "limit" => {
                    let max: usize = value.parse().map_err(|_| no("number"))?;
                    filter.max = Some(max.min(SHOWN_MAX));
                }
                other => return Err(format!("{other:?} is no filter; {KEYS}")),
            }
        }
        Ok(filter)
    }

    fn takes(&self, seen: &Seen) -> bool {
        let is_at = |at: &(String, String)| {
            self.pool.is_none_or(|name| at.0 == name) && self.server.is_none_or(|name| at.1 == name)
        };
        self.id.is_none_or(|id| id == seen.id)
            && self.client.is_none_or(|client| Some(client) == seen.client)
            && self.listener.is_none_or(|name| name == seen.listener)
            && (self.pool.is_none() && self.server.is_none() || seen.at.iter().any(is_at))
            && self.state.is_none_or(|name| name == seen.state.name())
            && self.older.is_none_or(|age| seen.age >= age)
    }
}

/// What may stand behind `show sess`.
const KEYS: &str = "there are a number, all, client ADDRESS, listener NAME, pool NAME, server \
                    POOL/SERVER, state NAME, older SECONDS and limit NUMBER";

/// The connections that fit, the oldest first.
pub(super) fn show(context: &Context, words: &[&str], as_json: bool) -> Result<String, String> {
    let filter = Filter::read(words)?;
    let mut found = context.sessions.all();
    found.retain(|seen| filter.takes(seen));
    found.sort_by_key(|seen| seen.id);
    let all = found.len();
    found.truncate(filter.max.unwrap_or(SHOWN));
    let classes = context.runtimes.serving.stats().classes;
    let mut table = Table::new(&[
        "id",
        "client",
        "listener",
        "state",
        "pool",
        "server",
        "class",
        "age_s",
        "requests",
        "bytes_in",
        "bytes_out",
    ]);
    for seen in &found {
        let class = classes.iter().find(|class| class.class == seen.class);
        table.row(vec![
            json!(seen.id),
            json!(
                seen.client
                    .map_or("unix".to_owned(), |client| client.to_string())
            ),
            json!(seen.listener),
            json!(seen.state.name()),
            json!(seen.at.first().map(|at| &at.0)),
            json!(seen.at.first().map(|at| &at.1)),
            json!(class.map(|class| &class.name)),
            json!(seen.age.as_secs()),
            json!(seen.requests),
            json!(seen.bytes_in),
            json!(seen.bytes_out),
        ]);
    }
    if as_json {
        return Ok(table.json());
    }
    let mut text = table.aligned();
    if all > found.len() {
        text += &format!(
            "{} more: see `show sess all`, or filter\n",
            all - found.len()
        );
    }
    Ok(text)
}

/// Ends a connection, or all that a server serves.
pub(super) fn shut_down(context: &Context, words: &[&str]) -> Result<String, String> {
    match words {
        ["session", id] => {
            let ended = id.parse().is_ok_and(|id| context.sessions.shut_down(id));
            if !ended {
                return Err(format!("there is no connection {id}; see `show sess`"));
            }
            Ok(String::new())
        }
        ["sessions", "server", name] => {
            let filter = Filter::read(&["server", name])?;
            let mut found = context.sessions.all();
            found.retain(|seen| filter.takes(seen));
            let ended = found
                .iter()
                .filter(|seen| context.sessions.shut_down(seen.id));
            Ok(format!("{} connections were ended\n", ended.count()))
        }
        _ => {
            Err("write `shutdown session ID`, or `shutdown sessions server POOL/SERVER`".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_or_say_what_there_is() {
        let read = Filter::read(&["server", "app/s0", "older", "5s", "limit", "99999999"]);
        let filter = Filter {
            pool: Some("app"),
            server: Some("s0"),
            older: Some(Duration::from_secs(5)),
            max: Some(SHOWN_MAX),
            ..Filter::default()
        };
        assert_eq!(read, Ok(filter));
        assert_eq!(Filter::read(&["7"]).unwrap().id, Some(7));
        for words in [
            &["server", "app"][..],
            &["client"],
            &["client", "x"],
            &["older", "-1"],
            &["limit", "x"],
            &["colour", "red"],
        ] {
            assert!(Filter::read(words).is_err(), "{words:?}");
        }
    }
}
