//! What a task waits for that waits for a descriptor.

use std::os::fd::RawFd;

use crate::io::interest::Interest;
use crate::sched::task::trace::{Noted, note};
use crate::sys::socket;

/// The running task returns pending, and waits for an open descriptor.
#[inline]
pub(crate) fn note_descriptor(fd: RawFd, interest: Interest) {
    note(|| {
        let [local, peer] = socket::names(fd);
        Noted::Descriptor {
            fd,
            local,
            peer,
            readable: interest.is_readable(),
            writable: interest.is_writable(),
        }
    });
}
