//! Enough descriptors for all connections, so that those who look after the server get one however
//! many clients there are.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use txlog::named::FILES_OF_NAMED_LOG;
use txlog::server::{LEAVING_MAX, ServerConfig};

/// For the page, the metrics and the health, as many as are served at a time.
const ADMIN: usize = evenkeel_admin::CONNECTIONS_MAX;

/// For files that the log without a name opens later, and others that are open for a moment, such
/// as those of lists of logs.
const FILES: usize = 64;

/// Raises the limit of the system as far as it is allowed, since a limit that is too low ends
/// connections, and a higher one costs nothing. Takes fewer connections if that is not enough.
///
/// # Errors
///
/// There is not even one for a connection.
pub(super) fn secured(config: ServerConfig, named_logs: bool) -> Result<ServerConfig, String> {
    let logs = if named_logs { config.open_logs_max } else { 0 };
    let few = open_ones() + ADMIN + FILES + LEAVING_MAX;
    let others = few + logs.saturating_mul(FILES_OF_NAMED_LOG);
    let needed = others
        .saturating_add(config.connections_max)
        .saturating_add(config.reserve_max);
    let limit = raised(needed as u64);
    if limit >= needed {
        return Ok(config);
    }
    let reserve_max = config.reserve_max.min(limit.saturating_sub(others) / 2);
    let connections_max = limit.saturating_sub(others + reserve_max);
    if connections_max == 0 {
        return Err(format!(
            "the system allows {limit} open files, and the server needs {needed}: allow more, as \
             by `ulimit -n`, or fewer --connections-max and --open-logs-max"
        ));
    }
    eprintln!(
        "txlog: the system allows {limit} open files, so only {connections_max} connections are \
         taken; allow {needed}, as by `ulimit -n`"
    );
    Ok(ServerConfig {
        connections_max,
        reserve_max,
        ..config
    })
}

/// The limit, as high as it can be.
fn raised(needed: u64) -> usize {
    // A system that does not say its limit has none that is known.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return usize::MAX;
    };
    // Where the hard limit is none, the system may refuse to make that the soft one.
    let wanted = [hard, needed.min(hard)].into_iter();
    let raised = wanted
        .filter(|&wanted| wanted > soft)
        .find(|&wanted| setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok());
    usize::try_from(raised.unwrap_or(soft)).unwrap_or(usize::MAX)
}

/// How many are open now, where the system says it.
fn open_ones() -> usize {
    /// As many as a runtime has that does nothing.
    const USUAL: usize = 32;
    let listed = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"));
    listed.map_or(USUAL, Iterator::count)
}
