//! The commands: what they are called, what they need, and what they answer.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tracing::{info, warn};

use super::table::{Table, shown};
use super::{ERROR, certificates, cpu, errors, listeners, report, rules, sess};
use crate::config::WEIGHT_MAX;
use crate::pool::{Admin, Pool};
use crate::server::{Context, ServerError};
use crate::upgrade::UpgradeError;

const HELP: &str = "\
show info [json]                     the process
show stat [json]                     listeners, pools and servers, as CSV with HAProxy's names
show servers state [POOL] [json]     what checks and operators say of servers
show cpu [json]                      processor time by class, and who has which
show sess [ID] [FILTER...] [json]    who is connected: by client ADDRESS, listener NAME, pool NAME,
                                     server POOL/SERVER, state NAME, older SECONDS; the oldest 100,
                                     `all` 10000, or limit NUMBER
show rates [json]                    limits of rates: how many clients, how often exceeded
show compress [json]                 what was compressed
show logs [json]                     what was written, what waits, and what was left out
show ssl cert [json]                 the certificates in use, and when they end
show errors [LISTENER] [json]        the last requests that were refused for what they say
shutdown session ID
shutdown sessions server POOL/SERVER
disable frontend LISTENER            connections to come are refused, and those there are go on
enable frontend LISTENER
set maxconn frontend LISTENER N      until a restart
set maxconn server POOL/SERVER N     until a reload that changes the server
clear counters [all]                 those of listeners and servers
set server POOL/SERVER state ready|drain|maint
set server POOL/SERVER health up|down
set server POOL/SERVER weight N|N%   a percentage is of the configured weight
set weight POOL/SERVER N|N%          the same
get weight POOL/SERVER
enable server POOL/SERVER            the same as state ready
disable server POOL/SERVER           the same as state maint
reload                               reads the configuration again, as SIGHUP does
prompt                               stay connected, and ask for the next line
quit
upgrade                              starts the program anew, which takes over, as SIGUSR2 does
help
";

/// Runs a command. The answer ends with a line break, unless it is empty, which says that it was
/// done.
pub(super) async fn run(context: &Arc<Context>, command: &str) -> String {
    let mut words: Vec<&str> = command.split_ascii_whitespace().collect();
    let as_json = words.last() == Some(&"json");
    if as_json {
        words.pop();
    }
    let result = match words.as_slice() {
        ["reload"] => match reload(context).await {
            Ok(()) => Ok(String::new()),
            Err(error) => Err(format!("{error}\nnothing was changed")),
        },
        ["upgrade"] => match upgrade(context).await {
            Ok(id) if as_json => Ok(format!("{}\n", json!({ "Pid": id }))),
            Ok(id) => Ok(format!("process {id} has taken over\n")),
            Err(error) => Err(format!("{error}\nthis process goes on as before")),
        },
        words => answer(context, words, as_json),
    };
    tell(&words, &result);
    match result {
        Ok(text) if text.is_empty() && as_json => "{}\n".to_owned(),
        Ok(text) => text,
        Err(why) if as_json => format!("{}\n", json!({ "error": why })),
        Err(why) => format!("{ERROR}{why}\n"),
    }
}

/// What listens and starts processes belongs to the runtime that serves.
async fn reload(context: &Arc<Context>) -> Result<(), ServerError> {
    let of = Arc::clone(context);
    let reload = async move { of.reload().await };
    context.runtimes.in_serving(reload).await
}

async fn upgrade(context: &Arc<Context>) -> Result<u32, UpgradeError> {
    let of = Arc::clone(context);
    let upgrade = async move { of.upgrade().await };
    context.runtimes.in_serving(upgrade).await
}

/// Says on standard error what an operator has changed, for whoever asks why things are so.
fn tell(words: &[&str], result: &Result<String, String>) {
    const CHANGE: [&str; 7] = [
        "clear", "disable", "enable", "reload", "set", "shutdown", "upgrade",
    ];
    if words.first().is_none_or(|first| !CHANGE.contains(first)) {
        return;
    }
    // Whoever may use the socket may also write what ends a line.
    let command = words.join(" ").escape_debug().to_string();
    match result {
        Ok(_) => info!(command, "done for an operator: {command}"),
        Err(why) => warn!(command, why, "not done for an operator: {command}: {why}"),
    }
}

fn answer(context: &Arc<Context>, words: &[&str], as_json: bool) -> Result<String, String> {
    let table = |table: Table, text: fn(&Table) -> String| {
        if as_json { table.json() } else { text(&table) }
    };
    let csv = |table: &Table| table.separated(",");
    match words {
        ["show", "info"] => Ok(info(context, as_json)),
        ["show", "stat"] => Ok(table(report::stat(context), csv)),
        ["show", "cpu"] if as_json => Ok(cpu::table(context).json()),
        ["show", "cpu"] => Ok(cpu::table(context).aligned() + &cpu::workers(context)),
        ["show", "servers", "state", pool @ ..] if pool.len() < 2 => {
            let pool = pool.first().copied();
            if let Some(name) = pool {
                pool_of(context, name)?;
            }
            let format_1 = |table: &Table| format!("1\n{}", table.separated(" "));
            Ok(table(report::servers_state(context, pool), format_1))
        }
        ["set", "server", name, "state", state] => {
            let admin = match *state {
                "ready" => Admin::Ready,
                "drain" => Admin::Drain,
                "maint" => Admin::Maintenance,
                other => return Err(format!("{other:?} is none of ready, drain and maint")),
            };
            set_admin(context, name, admin)
        }
        ["enable", "server", name] => set_admin(context, name, Admin::Ready),
        ["disable", "server", name] => set_admin(context, name, Admin::Maintenance),
        ["set", "server", name, "health", health] => {
            let (pool, index) = server(context, name)?;
            let up = match *health {
                "up" => true,
                "down" => false,
                other => return Err(format!("{other:?} is neither up nor down")),
            };
            let _ = pool.set_up(index, up);
            Ok(String::new())
        }
        ["set", "server", name, "weight", weight] | ["set", "weight", name, weight] => {
            set_weight(context, name, weight)
        }
        ["get", "weight", name] => {
            let (pool, index) = server(context, name)?;
            let configured = pool.servers()[index].config.weight;
            Ok(format!(
                "{} (initial {configured})\n",
                pool.members()[index].weight
            ))
        }
        ["show", "sess" | "session", filter @ ..] => sess::show(context, filter, as_json),
        ["show", "errors"] => Ok(errors::show(context, None, as_json)),
        ["show", "errors", name] => Ok(errors::show(context, Some(name), as_json)),
        ["shutdown", what @ ..] => sess::shut_down(context, what),
        ["disable", "frontend", name] => listeners::switch(context, name, false),
        ["enable", "frontend", name] => listeners::switch(context, name, true),
        ["set", "maxconn", what @ ..] => listeners::set_max(context, what),
        ["clear", "counters"] | ["clear", "counters", "all"] => Ok(listeners::clear(context)),
        ["help"] | [] => Ok(HELP.to_owned()),
        words => others(context, words, as_json),
    }
}

/// The commands that show a table of what rules, logs and certificates are.
fn others(context: &Context, words: &[&str], as_json: bool) -> Result<String, String> {
    let table = match words {
        ["show", "rates"] => rules::rates(context),
        ["show", "compress"] => rules::compress(context),
        ["show", "logs"] => rules::logs(context),
        ["show", "ssl", "cert"] => certificates::show(context),
        _ => {
            return Err(format!(
                "there is no command {:?}; `help` lists them",
                words.join(" ")
            ));
        }
    };
    Ok(match as_json {
        true => table.json(),
        false => table.aligned(),
    })
}

fn info(context: &Context, as_json: bool) -> String {
    let rows = report::info(context);
    if as_json {
        let object: Map<String, Value> = rows
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        return format!("{}\n", Value::Object(object));
    }
    let line = |(name, value): &(&str, Value)| format!("{name}: {}\n", shown(value));
    rows.iter().map(line).collect()
}

fn set_admin(context: &Context, name: &str, admin: Admin) -> Result<String, String> {
    let (pool, index) = server(context, name)?;
    pool.set_admin(index, admin);
    Ok(String::new())
}

fn set_weight(context: &Context, name: &str, text: &str) -> Result<String, String> {
    let (pool, index) = server(context, name)?;
    let configured = u64::from(pool.servers()[index].config.weight);
    let weight = match text.strip_suffix('%') {
        Some(percent) => percent
            .parse()
            .ok()
            .map(|percent: u16| configured * u64::from(percent) / 100),
        None => text.parse().ok(),
    };
    match weight.and_then(|weight| u32::try_from(weight).ok()) {
        Some(weight) if weight <= WEIGHT_MAX => {
            pool.set_weight(index, weight);
            Ok(String::new())
        }
        _ => Err(format!(
            "{text:?} is no weight: give 0 to {WEIGHT_MAX}, or a percentage of {configured} that \
             is in that range"
        )),
    }
}

/// A server by `POOL/SERVER`.
pub(super) fn server(context: &Context, name: &str) -> Result<(Arc<Pool>, usize), String> {
    let Some((of, server)) = name.split_once('/') else {
        return Err(format!("{name:?} names no server: write POOL/SERVER"));
    };
    let pool = pool_of(context, of)?;
    match pool.server(server) {
        Some((index, _)) => Ok((pool, index)),
        None => {
            let servers = pool
                .servers()
                .iter()
                .map(|server| server.config.name.as_str());
            let names: Vec<&str> = servers.collect();
            let there = names.join(", ");
            Err(format!(
                "pool {of} has no server {server:?}; it has {there}"
            ))
        }
    }
}

fn pool_of(context: &Context, name: &str) -> Result<Arc<Pool>, String> {
    let site = context.site();
    match site.pools.get(name) {
        Some(watched) => Ok(Arc::clone(&watched.pool)),
        None => {
            let names: Vec<&str> = site.pools.keys().map(String::as_str).collect();
            Err(format!(
                "there is no pool {name:?}; there are {}",
                names.join(", ")
            ))
        }
    }
}
