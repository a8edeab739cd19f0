//! The common part of TCP and Unix streams.
//!
//! Readiness is edge-triggered, so a stream normally learns that its socket is empty from a call
//! that fails with `WouldBlock`. But a read that returns fewer bytes than it had room for has
//! emptied the socket already, and a write that took fewer bytes than it was given has filled it.
//! Telling that to the [`Source`] saves the call that would fail. So the transfers below pass the
//! length of a full transfer; a length of 0 says that nothing follows from a short one.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::Shutdown;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd};
use std::task::{Context, Poll};

use bytes::BufMut;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::ReadBuf;

use super::read;
use crate::io::delivery::Delivery;
use crate::net::source::{Direction, Source};
use crate::sys::watermark;

/// The most buffers that one call passes on: the kernel refuses more than `IOV_MAX` on Linux.
const BUFFERS_MAX: usize = 1024;

/// A write to a peer that has gone must fail with `EPIPE`. The signal that comes with it by default
/// would kill a process that does not ignore it. On Apple's systems it is a socket option instead,
/// which `mio` and `std` set.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::empty();

/// Of a write that more follows at once, or the end of the stream.
#[cfg(target_os = "linux")]
const MORE_FLAGS: SendFlags = SEND_FLAGS.union(SendFlags::MORE);
#[cfg(not(target_os = "linux"))]
const MORE_FLAGS: SendFlags = SEND_FLAGS;

/// A connected stream socket of `mio`.
pub(crate) trait Stream: AsFd + AsRawFd {
    /// Whether a short read shows that the socket is empty.
    const SHORT_READ_DRAINS: bool;
    /// Whether the kernel supports a watermark: a number of bytes to wait for.
    const HAS_WATERMARK: bool;

    fn read(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
}

impl Stream for mio::net::TcpStream {
    // A read also ends early at urgent data. A peer that sends some, and then waits for an answer
    // to later data, may wait until it sends again. It delays nobody but itself.
    const SHORT_READ_DRAINS: bool = true;
    const HAS_WATERMARK: bool = watermark::HAS_WATERMARK;

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
    // A read ends early at the border between two senders or passed descriptors. More may be
    // waiting behind it, for which no event will come.
    const SHORT_READ_DRAINS: bool = false;
    // Linux accepts the option, and still wakes at every byte.
    const HAS_WATERMARK: bool = false;

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

pub(crate) fn poll_read<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let room = buf.remaining();
    if room == 0 {
        return Poll::Ready(Ok(()));
    }
    let full = full_read::<S>(room);
    let received = source.poll_transfer(cx, Direction::Read, full, |io| read::recv(io, buf));
    received.map_ok(|count| {
        if count == 0 {
            source.note_read_end();
        }
    })
}

#[cfg(feature = "futures-io")]
pub(crate) fn poll_read_slice<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(buf);
    poll_read(source, cx, &mut buf).map_ok(|()| buf.filled().len())
}

pub(super) fn set_delivery<S: Stream>(source: &Source<S>, delivery: Delivery) -> io::Result<()> {
    delivery.check()?;
    source.set_delivery(delivery, S::HAS_WATERMARK);
    Ok(())
}

/// A stream of the runtime begins with the mode of delivery that its streams have.
pub(crate) fn begin_delivery<S: Stream>(source: &Source<S>) {
    let mode = source.runtime().delivery();
    if mode != Delivery::Immediate {
        source.set_delivery(mode, S::HAS_WATERMARK);
    }
}

/// The length of a read which, if it comes back shorter, has emptied the socket.
fn full_read<S: Stream>(room: usize) -> usize {
    if S::SHORT_READ_DRAINS { room } else { 0 }
}

#[cfg(feature = "futures-io")]
pub(crate) fn poll_read_vectored<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    bufs: &mut [IoSliceMut<'_>],
) -> Poll<io::Result<usize>> {
    let passed = passed_on(bufs);
    let bufs = &mut bufs[passed];
    let full = full_read::<S>(total(bufs));
    source.poll_transfer(cx, Direction::Read, full, |stream| {
        stream.read_vectored(bufs)
    })
}

pub(crate) fn poll_write<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    buf: &[u8],
) -> Poll<io::Result<usize>> {
    source.poll_transfer(cx, Direction::Write, buf.len(), |stream| send(stream, buf))
}

/// As [`poll_write`], with bytes which others follow at once, or the end of the stream: until then
/// the system holds a packet back that is not full.
pub(super) fn poll_write_more<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    buf: &[u8],
) -> Poll<io::Result<usize>> {
    source.poll_transfer(cx, Direction::Write, buf.len(), |stream| {
        Ok(rustix::net::send(stream, buf, MORE_FLAGS)?)
    })
}

pub(crate) fn poll_write_vectored<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    bufs: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let bufs = &bufs[passed_on(bufs)];
    let full = total(bufs);
    source.poll_transfer(cx, Direction::Write, full, |stream| {
        send_vectored(stream, bufs)
    })
}

/// Sends the end of the stream behind what was written, unless that was done.
pub(crate) fn shutdown_write<S: Stream>(source: &Source<S>) -> io::Result<()> {
    if source.has_ended() {
        return Ok(());
    }
    match source.get_ref().shutdown(Shutdown::Write) {
        // The peer has reset the connection, and needs no end of the stream.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
        result => result?,
    }
    source.note_end();
    Ok(())
}

pub(super) fn try_read<S: Stream>(source: &Source<S>, buf: &mut [u8]) -> io::Result<usize> {
    let full = full_read::<S>(buf.len());
    source.try_transfer(Direction::Read, full, |stream| stream.read(buf))
}

pub(super) fn try_read_buf<S: Stream>(
    source: &Source<S>,
    buf: &mut impl BufMut,
) -> io::Result<usize> {
    let full = full_read::<S>(buf.chunk_mut().len());
    source.try_transfer(Direction::Read, full, |stream| read::recv_buf(stream, buf))
}

pub(super) fn try_read_vectored<S: Stream>(
    source: &Source<S>,
    bufs: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    let passed = passed_on(bufs);
    let bufs = &mut bufs[passed];
    let full = full_read::<S>(total(bufs));
    source.try_transfer(Direction::Read, full, |stream| stream.read_vectored(bufs))
}

pub(super) fn try_write<S: Stream>(source: &Source<S>, buf: &[u8]) -> io::Result<usize> {
    source.try_io(Direction::Write, |stream| send(stream, buf))
}

pub(super) fn try_write_vectored<S: Stream>(
    source: &Source<S>,
    bufs: &[IoSlice<'_>],
) -> io::Result<usize> {
    let bufs = &bufs[passed_on(bufs)];
    source.try_io(Direction::Write, |stream| send_vectored(stream, bufs))
}

/// A system call without libc; see `call_recv` in `read`.
fn send(stream: &impl AsFd, buf: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, buf, SEND_FLAGS)?)
}

fn send_vectored(stream: &impl AsFd, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut no_control = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(
        stream,
        bufs,
        &mut no_control,
        SEND_FLAGS,
    )?)
}

/// The buffers that one call passes on. The first is not empty: a call that moves nothing would be
/// taken for the end of the stream.
pub(super) fn passed_on(bufs: &[impl Deref<Target = [u8]>]) -> Range<usize> {
    let first = bufs.iter().position(|buf| !buf.is_empty()).unwrap_or(0);
    let passed = first..bufs.len().min(first + BUFFERS_MAX);
    debug_assert!(passed.start <= passed.end && passed.len() <= BUFFERS_MAX);
    passed
}

fn total(bufs: &[impl Deref<Target = [u8]>]) -> usize {
    bufs.iter()
        .fold(0, |total, buf| total.saturating_add(buf.len()))
}
