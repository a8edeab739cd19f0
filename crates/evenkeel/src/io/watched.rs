//! Which directions of a descriptor its readiness queue reports.
//!
//! Most sockets have room whenever somebody writes, and none of their tasks ever waits to write.
//! The kernel would report that room all the same, at once, to a worker that has nothing else to
//! do. So a descriptor whose task waits to read is registered for reading alone. Writing is added
//! when a task first waits for it, and both stay to the end: a second registration costs a system
//! call, and few descriptors ever need it. One whose task waits to write first, such as a stream
//! that is being connected, is registered for both: to add reading later would cost that call
//! almost always.
//!
//! # The protocol
//!
//! The source's lock, of its registration, is held by whoever changes this.
//!
//! ```text
//!  task                                        kernel
//!  1. covers what I wait for? then enlist      a. an event of a direction that is watched:
//!  2. lock the registration; covers it by         report it
//!     now? then unlock and enlist              b. a direction is added: if it is ready by
//!  3. have the kernel add it                      now, report that
//!  4. note it, unlock, enlist
//! ```
//!
//! Whoever finds a direction covered enlists after step 3, so the kernel reports what comes from
//! then on (a). What came before step 3 is reported by b. The rest is the protocol of
//! [`readiness`](super::readiness): the task looks again when it enlists.

use crate::io::interest::Interest;
use crate::sync::atomic::{AtomicU8, Ordering};

#[derive(Debug)]
pub(crate) struct Watched {
    /// The directions that somebody may wait for.
    allowed: Interest,
    /// The bits of those that are reported; none before the descriptor is registered.
    now: AtomicU8,
}

impl Watched {
    /// Of a descriptor that is not registered, and is not waited for in other directions.
    pub(crate) fn new(allowed: Interest) -> Self {
        Self {
            allowed,
            now: AtomicU8::new(0),
        }
    }

    pub(crate) fn allowed(&self) -> Interest {
        self.allowed
    }

    /// What is reported, once there is a registration.
    pub(crate) fn now(&self) -> Option<Interest> {
        // Acquire pairs with the Release in `note`.
        Interest::of_bits(self.now.load(Ordering::Acquire))
    }

    /// (1, 2) Whether all of this is reported that may be waited for.
    #[inline]
    pub(crate) fn covers(&self, interest: Interest) -> bool {
        let wanted = interest.both(self.allowed);
        self.now().is_some_and(|now| now.both(wanted) == wanted)
    }

    /// (3) What the kernel is to be asked for, so that `interest` is covered.
    pub(crate) fn to_cover(&self, interest: Interest) -> Interest {
        let is_first = self.now().is_none();
        let reads_alone = !interest.is_writable() && self.allowed.is_readable();
        match is_first && reads_alone {
            true => Interest::READABLE,
            false => self.allowed,
        }
    }

    /// (4) The kernel reports this from now on. To be called under the lock of the registration.
    pub(crate) fn note(&self, interest: Interest) {
        // Release pairs with the Acquire in `now`: who finds a registration also finds where.
        self.now.store(interest.bits(), Ordering::Release);
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
