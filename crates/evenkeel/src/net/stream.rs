//! What TCP and Unix streams have in common: how bytes move, and what a short move tells.
//!
//! Readiness is edge-triggered, so a stream normally learns that its socket is empty from a call
//! that fails with `WouldBlock`. A read that returns fewer bytes than it had room for has emptied
//! the socket already, and a write that took fewer bytes than it was given has filled it; reporting
//! that to the [`Source`] saves the call that would fail. Each transfer below therefore ends in
//! [`after_read`] or [`after_write`].

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::ReadBuf;

use super::read;
use crate::io::source::{Direction, Source};

/// Slices that one gathering write passes on: the kernel refuses more (`IOV_MAX` on Linux).
const SLICES_MAX: usize = 1024;

/// A write to a peer that has gone must fail with `EPIPE`; the signal that comes with it by
/// default would kill a process that does not ignore it. Apple's systems have an option of the
/// socket for this instead, which `mio` and `std` set.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: libc::c_int = 0;

/// A connected stream socket of `mio`.
pub(super) trait Stream: mio::event::Source + AsFd {
    /// Whether a short read shows that the socket is empty.
    const SHORT_READ_DRAINS: bool;

    fn read(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
}

impl Stream for mio::net::TcpStream {
    // A read also ends early at urgent data. A peer that sends such data while it awaits an answer
    // to what it sent after may wait until it sends again, and delays nobody but itself.
    const SHORT_READ_DRAINS: bool = true;

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buf)
    }

    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Read::read_vectored(&mut &*self, bufs)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        mio::net::TcpStream::shutdown(self, how)
    }
}

#[cfg(unix)]
impl Stream for mio::net::UnixStream {
    // A read ends early where the bytes of one sender, or of one passed descriptor, meet the next:
    // more may be waiting behind, for which no event will come any more.
    const SHORT_READ_DRAINS: bool = false;

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buf)
    }

    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Read::read_vectored(&mut &*self, bufs)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        mio::net::UnixStream::shutdown(self, how)
    }
}

pub(super) fn poll_read<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let room = buf.remaining();
    if room == 0 {
        return Poll::Ready(Ok(()));
    }
    let len = ready!(source.poll_io(cx, Direction::Read, |stream| read::recv(stream, buf)))?;
    after_read(source, len, room);
    Poll::Ready(Ok(()))
}

#[cfg(feature = "futures-io")]
pub(crate) fn poll_read_slice<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(buf);
    ready!(poll_read(source, cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

#[cfg(feature = "futures-io")]
pub(crate) fn poll_read_vectored<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    bufs: &mut [IoSliceMut<'_>],
) -> Poll<io::Result<usize>> {
    // No report of a short read: the standard library may have dropped slices beyond its limit.
    source.poll_io(cx, Direction::Read, |stream| stream.read_vectored(bufs))
}

pub(super) fn poll_write<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    buf: &[u8],
) -> Poll<io::Result<usize>> {
    let len = ready!(source.poll_io(cx, Direction::Write, |stream| send(stream, buf)))?;
    after_write(source, len, buf.len());
    Poll::Ready(Ok(len))
}

pub(super) fn poll_write_vectored<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    bufs: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let bufs = within_limit(bufs);
    let len = ready!(source.poll_io(cx, Direction::Write, |stream| send_vectored(stream, bufs)))?;
    after_write(source, len, total(bufs));
    Poll::Ready(Ok(len))
}

/// Sends the end of the stream behind what was written.
pub(super) fn shutdown_write<S: Stream>(source: &Source<S>) -> io::Result<()> {
    match source.get_ref().shutdown(Shutdown::Write) {
        // The peer has reset the connection: it will not miss the end of the stream.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        result => result,
    }
}

pub(super) fn try_read<S: Stream>(source: &Source<S>, buf: &mut [u8]) -> io::Result<usize> {
    let len = source.try_io(Direction::Read, |stream| stream.read(buf))?;
    after_read(source, len, buf.len());
    Ok(len)
}

pub(super) fn try_read_vectored<S: Stream>(
    source: &Source<S>,
    bufs: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    source.try_io(Direction::Read, |stream| stream.read_vectored(bufs))
}

pub(super) fn try_write<S: Stream>(source: &Source<S>, buf: &[u8]) -> io::Result<usize> {
    let len = source.try_io(Direction::Write, |stream| send(stream, buf))?;
    after_write(source, len, buf.len());
    Ok(len)
}

pub(super) fn try_write_vectored<S: Stream>(
    source: &Source<S>,
    bufs: &[IoSlice<'_>],
) -> io::Result<usize> {
    let bufs = within_limit(bufs);
    let len = source.try_io(Direction::Write, |stream| send_vectored(stream, bufs))?;
    after_write(source, len, total(bufs));
    Ok(len)
}

/// Hears of a read that returned `len` bytes although there was room for `room`.
fn after_read<S: Stream>(source: &Source<S>, len: usize, room: usize) {
    // The end of the stream (no bytes) stays readable for ever, so it does not count as drained.
    if S::SHORT_READ_DRAINS && 0 < len && len < room {
        source.drained(Direction::Read);
    }
}

/// Hears of a write that took `len` bytes of `given`.
fn after_write<S: Stream>(source: &Source<S>, len: usize, given: usize) {
    if 0 < len && len < given {
        source.drained(Direction::Write);
    }
}

fn send(stream: &impl AsFd, buf: &[u8]) -> io::Result<usize> {
    SockRef::from(stream).send_with_flags(buf, SEND_FLAGS)
}

fn send_vectored(stream: &impl AsFd, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    SockRef::from(stream).send_vectored_with_flags(bufs, SEND_FLAGS)
}

fn within_limit<'a, 'b>(bufs: &'a [IoSlice<'b>]) -> &'a [IoSlice<'b>] {
    &bufs[..bufs.len().min(SLICES_MAX)]
}

fn total(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter()
        .fold(0, |total, buf| total.saturating_add(buf.len()))
}
