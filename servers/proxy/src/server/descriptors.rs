//! Enough descriptors for all connections, so that operators and checks get theirs however many
//! clients there are.

use evenkeel::runtime::Handle;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

use crate::config::Config;

/// For the admin socket, the page, and files that are open for a moment.
const OTHERS: usize = 64 + evenkeel_admin::CONNECTIONS_MAX;

/// The runtime has at most 512 pipes. They may use an eighth of the limit, and are missing without
/// harm, so that a small limit is not a reason to refuse to begin.
const PIPE_DESCRIPTORS_MAX: usize = 1_024;

/// A connection of a client, and one to a server.
const OF_CONNECTION: usize = 2;

/// Raises the limit of the system as far as it is allowed, and takes fewer connections if that is
/// not enough.
///
/// # Errors
///
/// There is not even one for a connection.
pub(super) fn secured(connections_max: usize, config: &Config) -> Result<usize, String> {
    let mut others = open_ones() + OTHERS;
    let workers = Handle::current().stats().workers.len();
    for listener in config.listeners.values().map(toml::Spanned::get_ref) {
        // One for each worker, and a connection that waits for its place.
        let sockets = if listener.per_worker { workers } else { 1 };
        others += 2 * sockets;
    }
    for pool in config.pools.values().map(toml::Spanned::get_ref) {
        // Connections that wait, and a check.
        let each = pool.idle_connections_max.saturating_add(1);
        others = others.saturating_add(pool.servers.len().saturating_mul(each));
    }
    // Pipes, by which the kernel moves bytes: two descriptors each.
    others = others.saturating_add(PIPE_DESCRIPTORS_MAX);
    let needed = connections_max
        .saturating_mul(OF_CONNECTION)
        .saturating_add(others);
    let limit = raised(needed as u64);
    if limit >= needed {
        return Ok(connections_max);
    }
    let others = others - PIPE_DESCRIPTORS_MAX + PIPE_DESCRIPTORS_MAX.min(limit / 8);
    let possible = limit.saturating_sub(others) / OF_CONNECTION;
    if possible == 0 {
        return Err(format!(
            "the system allows {limit} open files, and the proxy needs {needed}: allow more, as by \
             `ulimit -n`, or lower process.connections_max and idle_connections_max of the pools"
        ));
    }
    warn!(
        limit,
        connections_max = possible,
        "the system allows {limit} open files, so only {possible} connections are \
         taken; allow {needed}, as by `ulimit -n`"
    );
    Ok(possible)
}

/// The limit, as high as it can be.
fn raised(needed: u64) -> usize {
    // A system that does not say its limit has none that is known.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return usize::MAX;
    };
    let wanted = needed.min(hard);
    let is_raised = wanted > soft && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok();
    usize::try_from(if is_raised { wanted } else { soft }).unwrap_or(usize::MAX)
}

/// How many are open now, where the system says it.
fn open_ones() -> usize {
    /// As many as a runtime has that does nothing.
    const USUAL: usize = 32;
    let listed = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"));
    listed.map_or(USUAL, Iterator::count)
}
