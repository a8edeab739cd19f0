//! What a supervisor is told, by the protocol of systemd: a datagram to the socket that
//! NOTIFY_SOCKET names. Without one, nothing is said.
//!
//! The watchdog is fed by a task of the server's runtime, so it bites when that no longer runs
//! tasks. It does not go by whether appends are acknowledged: a disk that hangs does not hang less
//! when the server starts again and has to read it first, and meanwhile nobody could read. A log
//! that has failed for good, which a start repairs, is what `--exit-on-failure` is for.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::time::sleep;

/// The variable with the socket's path, or its name in the abstract namespace after an `@`.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The variable with the time of the watchdog, in microseconds.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";

/// The variable with the process that is to feed it; if it is set, others are not.
const WATCHDOG_PID_VARIABLE: &str = "WATCHDOG_PID";

/// Whoever started this process and wants to know of it, if there is somebody.
#[derive(Debug)]
pub(super) struct Supervisor(Option<UnixDatagram>);

impl Supervisor {
    pub(super) fn of_environment() -> Self {
        let connected = std::env::var(SOCKET_VARIABLE)
            .ok()
            .map(|name| connected(&name));
        Self(match connected {
            Some(Ok(socket)) => Some(socket),
            Some(Err(error)) => {
                eprintln!("txlog: cannot tell the supervisor at {SOCKET_VARIABLE}: {error}");
                None
            }
            None => None,
        })
    }

    /// Clients are served from now on; or the files that were to be read again have been.
    pub(super) fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={status}"));
    }

    /// Files are read again.
    pub(super) fn reloading(&self) {
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
    }

    pub(super) fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=closing");
    }

    /// Feeds the watchdog, if there is one, for as long as the runtime runs tasks.
    pub(super) fn feed(&self) {
        let Some((socket, pause)) = self.0.as_ref().zip(pause()) else {
            return;
        };
        if let Ok(socket) = socket.try_clone() {
            let own = Self(Some(socket));
            drop(evenkeel::spawn_in(Class::URGENT, async move {
                loop {
                    own.say("WATCHDOG=1");
                    sleep(pause).await;
                }
            }));
        }
    }

    fn say(&self, what: &str) {
        if let Some(socket) = &self.0 {
            // It does not wait: a supervisor that takes nothing cannot be told.
            let _ = socket.send(what.as_bytes());
        }
    }
}

fn connected(name: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::SocketAddr;
        socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?;
        return Ok(socket);
    }
    socket.connect(name)?;
    Ok(socket)
}

/// The pause between two meals: half of the time that is allowed.
fn pause() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_other = |pid: u64| pid != u64::from(std::process::id());
    if number(WATCHDOG_PID_VARIABLE).is_some_and(is_other) {
        return None;
    }
    let us = number(WATCHDOG_VARIABLE).filter(|us| *us > 0)?;
    Some(Duration::from_micros(us / 2))
}

fn monotonic_us() -> u128 {
    use nix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| Duration::from(now).as_micros())
}
