//! What the descriptor of a pipe's end has to be.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};

use crate::io::interest::{Interest, Ready};
use crate::net::source::{Direction, Source};
use crate::runtime::Handle;

/// The source of a pipe's end, which waits for one direction only.
pub(super) fn source(fd: OwnedFd, direction: Direction) -> io::Result<Source<OwnedFd>> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let ready = Ready::of_direction(direction);
    let interest = Interest::from(direction);
    Ok(Source::with_interest(runtime, fd, ready, interest))
}

pub(super) fn set_nonblocking(fd: &impl AsFd, is_nonblocking: bool) -> io::Result<()> {
    let before = fcntl_getfl(fd)?;
    let mut after = before;
    after.set(OFlags::NONBLOCK, is_nonblocking);
    if after != before {
        fcntl_setfl(fd, after)?;
    }
    Ok(())
}

/// Refuses what is not a pipe, or not open for this direction.
pub(super) fn check(fd: &impl AsFd, direction: Direction) -> io::Result<()> {
    check_pipe(fd)?;
    let mode = fcntl_getfl(fd)? & OFlags::RWMODE;
    let (wanted, message) = match direction {
        Direction::Read => (OFlags::RDONLY, "the pipe is not open for reading"),
        Direction::Write => (OFlags::WRONLY, "the pipe is not open for writing"),
    };
    if mode != wanted && mode != OFlags::RDWR {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

pub(super) fn check_pipe(fd: &impl AsFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(fd)?.st_mode) != FileType::Fifo {
        let message = "the descriptor is not a pipe; sockets have types of their own, and \
                       `AsyncFd` takes others";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}
