//! What a task that waited for a descriptor was told, and its way to take that back.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use super::AsyncFd;
use crate::io::interest::{Interest, Ready};
use crate::io::readiness::{Readiness, Seen};

/// A report of readiness: what was reported, and when. Only so much can be cleared, and only if no
/// event has come since.
#[derive(Debug)]
pub(super) struct Reported {
    seen: Seen,
    /// The part that was asked for, less what has been cleared.
    ready: Ready,
}

impl Reported {
    pub(super) fn new(seen: Seen, interest: Interest) -> Self {
        let ready = seen.ready().for_interest(interest);
        Self { seen, ready }
    }

    pub(super) fn ready(&self) -> Ready {
        self.ready
    }

    pub(super) fn clear(&mut self, readiness: &Readiness, ready: Ready) {
        let cleared = Ready::from_bits(self.ready.bits() & ready.bits());
        if !cleared.is_empty() {
            readiness.clear_flags(self.seen, cleared);
            self.ready = self.ready.without(cleared);
        }
    }
}

/// What stays when the user clears readiness: a closed side stays closed.
const LASTING: [Ready; 2] = [Ready::READ_CLOSED, Ready::WRITE_CLOSED];

fn passing(ready: Ready) -> Ready {
    LASTING.into_iter().fold(ready, Ready::without)
}

/// `try_io` of a guard was told `WouldBlock`: wait again.
#[derive(Debug)]
pub struct TryIoError(());

impl fmt::Display for TryIoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the descriptor was not ready after all; wait for it again")
    }
}

impl Error for TryIoError {}

/// Defines a guard. `$this` is its reference to the [`AsyncFd`], `$lends` the one that it lends to
/// an attempt.
macro_rules! guard {
    ($(#[$doc:meta])* $guard:ident, $this:ty, $lends:ty) => {
        $(#[$doc])*
        ///
        /// Dropping it changes nothing: the descriptor is still taken to be ready, until an attempt
        /// finds otherwise.
        #[must_use = "readiness stays as it is until an attempt inside `try_io` would block"]
        pub struct $guard<'a, T: AsRawFd> {
            fd: $this,
            reported: Reported,
        }

        impl<'a, T: AsRawFd> $guard<'a, T> {
            pub(super) fn new(fd: $this, reported: Reported) -> Self {
                Self { fd, reported }
            }

            /// What the descriptor is ready for, of what was waited for.
            pub fn ready(&self) -> Ready {
                self.reported.ready()
            }

            /// Makes an attempt, and clears the readiness that was reported if that returns
            /// `WouldBlock`. An event that came meanwhile is not lost.
            ///
            /// The attempt has to return `WouldBlock` if the descriptor was not ready after all,
            /// and only then, because the next wait relies on it.
            ///
            /// # Errors
            ///
            /// `TryIoError` if the attempt returned `WouldBlock`. Other results are passed on.
            pub fn try_io<R>(
                &mut self,
                attempt: impl FnOnce($lends) -> io::Result<R>,
            ) -> Result<io::Result<R>, TryIoError> {
                match attempt(&mut self.fd) {
                    // It also shows that no side is closed and no error waits, whatever was
                    // reported.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let all = self.reported.ready();
                        self.fd.clear(&mut self.reported, all);
                        Err(TryIoError(()))
                    }
                    result => Ok(result),
                }
            }

            /// Clears the readiness that was reported, unless an event has come since. Closed sides
            /// stay closed.
            ///
            /// Only for an attempt outside of [`try_io`](Self::try_io) that found that it would
            /// block, or moved less than it could have. Otherwise the next wait may last for ever,
            /// as the kernel reports only changes.
            pub fn clear_ready(&mut self) {
                self.clear_ready_matching(self.ready());
            }

            /// As [`clear_ready`](Self::clear_ready), for a part of the readiness.
            pub fn clear_ready_matching(&mut self, ready: Ready) {
                self.fd.clear(&mut self.reported, passing(ready));
            }

            /// Changes nothing, and says so: the descriptor may be ready for more.
            pub fn retain_ready(&mut self) {}

            /// The value that the [`AsyncFd`] was made of.
            pub fn get_inner(&self) -> &T {
                self.fd.get_ref()
            }
        }

        impl<T: AsRawFd + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($guard))
                    .field("fd", &self.fd)
                    .field("ready", &self.ready())
                    .finish()
            }
        }
    };
}

guard! {
    /// A descriptor that was reported as ready.
    AsyncFdReadyGuard, &'a AsyncFd<T>, &'a AsyncFd<T>
}

guard! {
    /// A descriptor that was reported as ready, and is borrowed mutably.
    AsyncFdReadyMutGuard, &'a mut AsyncFd<T>, &mut AsyncFd<T>
}

impl<'a, T: AsRawFd> AsyncFdReadyGuard<'a, T> {
    /// The descriptor.
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.fd
    }
}

impl<T: AsRawFd> AsyncFdReadyMutGuard<'_, T> {
    /// The descriptor.
    pub fn get_ref(&self) -> &AsyncFd<T> {
        self.fd
    }

    /// The descriptor.
    pub fn get_mut(&mut self) -> &mut AsyncFd<T> {
        self.fd
    }

    /// The value that the [`AsyncFd`] was made of.
    pub fn get_inner_mut(&mut self) -> &mut T {
        self.fd.get_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::readiness::WakeList;

    #[test]
    fn what_came_after_the_report_is_not_cleared() {
        let readiness = Readiness::new(Ready::EMPTY);
        readiness.set(Ready::READABLE, &mut WakeList::new());
        let mut reported = Reported::new(readiness.look(), Interest::READABLE);
        readiness.set(Ready::READABLE, &mut WakeList::new());
        reported.clear(&readiness, Ready::READABLE);
        assert_eq!(readiness.look().ready(), Ready::READABLE);

        let mut reported = Reported::new(readiness.look(), Interest::READABLE);
        reported.clear(&readiness, Ready::READABLE);
        assert_eq!(readiness.look().ready(), Ready::EMPTY);
        assert_eq!(reported.ready(), Ready::EMPTY);
    }

    #[test]
    fn only_what_was_asked_for_is_cleared() {
        let readiness = Readiness::new(Ready::READABLE | Ready::WRITABLE);
        let mut reported = Reported::new(readiness.look(), Interest::READABLE);
        reported.clear(&readiness, Ready::READABLE | Ready::WRITABLE);
        assert_eq!(readiness.look().ready(), Ready::WRITABLE);
    }
}
