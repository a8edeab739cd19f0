//! Enough descriptors for all cameras, viewers and files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::{Config, Transport};
use crate::hub::TRACKS_MAX;
use crate::serve::PAIRS_MAX;

/// For the page, files that are written and read, and what the runtime itself has.
const OTHERS: usize = 512 + evenkeel_admin::CONNECTIONS_MAX;

/// Raises the limit of the system as far as is needed.
///
/// # Errors
///
/// It is not allowed, and by how much: otherwise a camera or a viewer would fail at any moment
/// later.
pub(crate) fn secure(config: &Config) -> Result<(), String> {
    let of_camera = |camera: &toml::Spanned<crate::config::Camera>| match camera.get_ref().transport
    {
        Transport::Tcp => 1,
        Transport::Udp => 1 + 2 * TRACKS_MAX,
    };
    let cameras: usize = config.cameras.values().map(of_camera).sum();
    // Each camera that is recorded has two files open.
    let files = 2 * config.cameras.len();
    let sessions = config
        .rtsp
        .as_ref()
        .map_or(0, |rtsp| rtsp.get_ref().sessions_max);
    // Of publishers of datagrams, each pair of ports has two.
    let udp = config.rtsp.as_ref().is_some_and(|it| it.get_ref().udp);
    let ports = if udp { 2 * PAIRS_MAX } else { 0 };
    let watching = config.watch.as_ref().map_or(0, |watch| {
        let watch = watch.get_ref();
        watch.connections_max + watch.sockets_max + watch.clips_max
    });
    let needed = (cameras + files + sessions + ports + watching + OTHERS) as u64;
    // A system that does not say its limit has none that is known.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Ok(());
    };
    if soft >= needed
        || setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard).is_ok() && needed <= hard
    {
        return Ok(());
    }
    Err(format!(
        "the system allows {} open files, and {needed} are needed: allow more, as by `ulimit -n`, \
         or lower rtsp.sessions_max, watch.connections_max and watch.sockets_max",
        soft.max(hard.min(needed))
    ))
}
