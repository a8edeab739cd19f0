//! The handler that runs when the process receives a signal.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use signal_hook_registry::{FORBIDDEN, SigId};

/// An action at each delivery of a signal, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    id: SigId,
}

impl Registration {
    /// Sends a byte through `wake`, which must be non-blocking, at each delivery of `signal`.
    ///
    /// # Errors
    ///
    /// The signal cannot be caught, must not be caught, or does not exist.
    pub(crate) fn new(signal: libc::c_int, wake: UnixStream) -> io::Result<Self> {
        if FORBIDDEN.contains(&signal) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("signal {signal} cannot be listened to: the system or the CPU acts on it"),
            ));
        }
        let action = move || send_byte(&wake);
        // SAFETY: the action runs inside a signal handler, so it may only do what is safe there:
        // `send_byte` makes one system call that POSIX lists as async-signal-safe, and neither
        // allocates, locks nor panics. The registry keeps `errno`, and the action itself, with the
        // descriptor it owns, alive until no handler runs any more.
        let id = unsafe { signal_hook_registry::register(signal, action) }?;
        Ok(Self { id })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        signal_hook_registry::unregister(self.id);
    }
}

/// Send without waiting and, if nobody reads any more, without another signal.
#[cfg(not(target_vendor = "apple"))]
const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const FLAGS: libc::c_int = libc::MSG_DONTWAIT;

fn send_byte(wake: &UnixStream) {
    let byte = 1u8;
    // SAFETY: the buffer is a live byte of the length given, and the descriptor is open as `wake`
    // owns it. The result does not matter: if the socket is full, its unread bytes report this
    // delivery too.
    unsafe {
        libc::send(wake.as_raw_fd(), (&raw const byte).cast(), 1, FLAGS);
    }
}

/// Whether the process would be killed by writing to a peer that has gone. Rust's start-up code
/// prevents that; a program in another language that links this one may not.
#[cfg(target_os = "linux")]
pub(crate) fn broken_pipe_kills() -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call changes nothing without a new action, and writes the present one to a live
    // structure of its type, for which zeros are valid as well.
    let action = unsafe {
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_DFL
}
