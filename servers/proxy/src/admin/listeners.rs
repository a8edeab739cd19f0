//! What operators say of listeners and limits, and the figures that they begin anew.

use std::sync::Arc;

use super::commands::server;
use crate::server::{Context, Front};

/// A listener by its name.
fn front(context: &Context, name: &str) -> Result<Arc<Front>, String> {
    let site = context.site();
    let found = site.fronts.values().find(|front| *front.name == *name);
    found.map(Arc::clone).ok_or_else(|| {
        let names: Vec<&str> = site.fronts.values().map(|front| &*front.name).collect();
        format!(
            "there is no listener {name:?}; there are {}",
            names.join(", ")
        )
    })
}

/// Switches a listener on or off.
pub(super) fn switch(context: &Context, name: &str, is_on: bool) -> Result<String, String> {
    front(context, name)?.slots.switch(is_on);
    Ok(String::new())
}

/// Sets a limit of connections, until the proxy ends or another one is set.
pub(super) fn set_max(context: &Context, words: &[&str]) -> Result<String, String> {
    let number = |text: &str| {
        let number = text.parse().ok().filter(|&number: &usize| number > 0);
        number.ok_or_else(|| format!("{text:?} is no limit: give a number from 1 on"))
    };
    match words {
        ["frontend", name, max] => front(context, name)?.slots.set_max(number(max)?),
        ["server", name, max] => {
            let max = number(max)?;
            let (pool, index) = server(context, name)?;
            pool.set_max(index, max);
        }
        _ => {
            return Err(
                "write `set maxconn frontend LISTENER N`, or `set maxconn server POOL/SERVER N`; \
                 that of the process needs a restart"
                    .to_owned(),
            );
        }
    }
    Ok(String::new())
}

/// Begins all counters of listeners and servers anew.
pub(super) fn clear(context: &Context) -> String {
    let site = context.site();
    for front in site.fronts.values() {
        front.counters.clear();
    }
    for watched in site.pools.values() {
        for server in watched.pool.servers() {
            server.counters.clear();
        }
    }
    String::new()
}
