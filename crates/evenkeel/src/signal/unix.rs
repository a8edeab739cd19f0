//! Signals as streams of deliveries.
//!
//! Each [`Signal`] has a pair of connected sockets of its own: the handler sends a byte into one,
//! and the runtime waits on the other. So listeners are independent, and any number of them, in any
//! number of runtimes, receive each delivery. A listener costs two descriptors, and one system call
//! per delivery in the handler.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll};

use crate::net::source::{Direction, Source};
use crate::sys::signal::Registration;

/// A signal, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(libc::c_int);

/// Defines one constructor per signal.
macro_rules! signals {
    ($($(#[$doc:meta])* $name:ident = $number:ident;)*) => {
        impl SignalKind {$(
            $(#[$doc])*
            pub const fn $name() -> Self {
                Self(libc::$number)
            }
        )*}
    };
}

signals! {
    /// `SIGALRM`: a timer set by `alarm` has run out. Ends the process by default.
    alarm = SIGALRM;
    /// `SIGCHLD`: a child process has ended or stopped. Ignored by default.
    child = SIGCHLD;
    /// `SIGHUP`: the terminal has gone; daemons reload. Ends the process by default.
    hangup = SIGHUP;
    /// `SIGINT`: Ctrl-C. Ends the process by default.
    interrupt = SIGINT;
    /// `SIGPIPE`: a write to a pipe that nobody reads. Ignored in Rust programs.
    pipe = SIGPIPE;
    /// `SIGQUIT`: Ctrl-\. Ends the process with a core dump by default.
    quit = SIGQUIT;
    /// `SIGTERM`: a polite request to end. Ends the process by default.
    terminate = SIGTERM;
    /// `SIGUSR1`: its meaning is up to the program. Ends the process by default.
    user_defined1 = SIGUSR1;
    /// `SIGUSR2`: its meaning is up to the program. Ends the process by default.
    user_defined2 = SIGUSR2;
    /// `SIGWINCH`: the terminal has a new size. Ignored by default.
    window_change = SIGWINCH;
}

impl SignalKind {
    /// The signal of this number.
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The signal's number.
    pub const fn as_raw_value(self) -> i32 {
        self.0
    }
}

/// Listens to the signal `kind` from now on.
///
/// The first listener of a signal replaces its default action for good: after the last one is
/// dropped the signal is ignored, and does not end the process again. Handlers that any
/// library has installed before are still called.
///
/// # Errors
///
/// The signal cannot be caught (`SIGKILL`, `SIGSTOP`) or must not be (`SIGSEGV`, `SIGFPE`,
/// `SIGILL`), no descriptor is left, or there is no current runtime.
///
/// # Examples
///
/// ```no_run
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::signal::unix::{SignalKind, signal};
///
/// let mut hangups = signal(SignalKind::hangup())?;
/// while hangups.recv().await.is_some() {
///     println!("reading the configuration again");
/// }
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let (woken, wake) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    let woken = Source::new(mio::net::UnixStream::from_std(woken))?;
    Ok(Signal {
        kind,
        _registration: Registration::new(kind.0, wake)?,
        woken,
    })
}

/// A listener for one signal, made by [`signal`](signal()).
pub struct Signal {
    kind: SignalKind,
    // Above `woken`, so that it is dropped first and no handler writes to a closed socket.
    _registration: Registration,
    woken: Source<mio::net::UnixStream>,
}

impl Signal {
    /// Waits for a delivery that this listener has not returned yet.
    ///
    /// All deliveries before the call are returned as one, since the system itself merges them as
    /// well. Returns `None` if the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call returns a delivery that this one did not.
    pub async fn recv(&mut self) -> Option<()> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Like [`recv`](Self::recv), for use in a `poll` function.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.woken
            .poll_io(cx, Direction::Read, take_all)
            .map(Result::ok)
    }

    /// The signal of this listener.
    pub fn kind(&self) -> SignalKind {
        self.kind
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Reads all pending bytes; `WouldBlock` if there are none.
fn take_all(mut woken: &mio::net::UnixStream) -> io::Result<()> {
    let mut taken = false;
    let mut buf = [0; 256];
    loop {
        match woken.read(&mut buf) {
            // The other end is ours, and open for as long as this one.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => taken = true,
            Err(error) if taken && error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
