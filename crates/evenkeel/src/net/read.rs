//! Reading into uninitialised memory: the one place of `net` with unsafe code.
//!
//! Zeroing a buffer that the kernel is about to overwrite costs as much as a small read. The calls
//! below hand the kernel the uninitialised part itself, through `rustix` and `socket2`, whose
//! functions promise to write only initialised bytes there, and afterwards tell the buffer how many
//! bytes were written.
#![allow(unsafe_code, reason = "the kernel writes to uninitialised buffers")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use bytes::BufMut;
use rustix::net::RecvFlags;
use socket2::{SockAddr, SockRef};
use tokio::io::ReadBuf;

/// Receives into the unfilled part of `buf` and returns the number of bytes received.
pub(super) fn recv(socket: &impl AsFd, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
    let received = fill(buf, |unfilled| Ok((call_recv(socket, unfilled)?, ())));
    received.map(|(len, ())| len)
}

/// Appends to a growing buffer and returns the number of bytes received.
pub(super) fn recv_buf(socket: &impl AsFd, buf: &mut impl BufMut) -> io::Result<usize> {
    fill_buf(buf, |room| Ok((call_recv(socket, room)?, ()))).map(|(len, ())| len)
}

pub(super) fn recv_buf_from(
    socket: &impl AsFd,
    buf: &mut impl BufMut,
) -> io::Result<(usize, SockAddr)> {
    fill_buf(buf, |room| SockRef::from(socket).recv_from(room))
}

/// Like [`recv`], and leaves the bytes in the socket's queue.
pub(super) fn peek(socket: &impl AsFd, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
    let received = fill(buf, |unfilled| {
        Ok((SockRef::from(socket).peek(unfilled)?, ()))
    });
    received.map(|(len, ())| len)
}

/// Fails with `WouldBlock` if there is nothing to read, and takes nothing.
pub(super) fn look_ahead(socket: &impl AsFd) -> io::Result<usize> {
    let (_, len) = rustix::net::recv(socket, &mut [0_u8], RecvFlags::PEEK)?;
    Ok(len)
}

pub(super) fn recv_from(socket: &impl AsFd, buf: &mut ReadBuf<'_>) -> io::Result<SockAddr> {
    fill(buf, |unfilled| SockRef::from(socket).recv_from(unfilled)).map(|(_, from)| from)
}

pub(super) fn peek_from(socket: &impl AsFd, buf: &mut ReadBuf<'_>) -> io::Result<SockAddr> {
    fill(buf, |unfilled| SockRef::from(socket).peek_from(unfilled)).map(|(_, from)| from)
}

/// As [`recv`], for a descriptor that is not a socket.
pub(super) fn read(fd: &impl AsFd, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
    fill(buf, |unfilled| Ok((call_read(fd, unfilled)?, ()))).map(|(len, ())| len)
}

/// As [`recv_buf`], for a descriptor that is not a socket.
pub(super) fn read_buf(fd: &impl AsFd, buf: &mut impl BufMut) -> io::Result<usize> {
    fill_buf(buf, |room| Ok((call_read(fd, room)?, ()))).map(|(len, ())| len)
}

fn call_read(fd: &impl AsFd, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (filled, _) = rustix::io::read(fd, room)?;
    Ok(filled.len())
}

/// `rustix` makes the system call itself. libc's function is a cancellation point of its thread,
/// which nobody uses here and which costs each call two atomic operations.
fn call_recv(socket: &impl AsFd, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (_, len) = rustix::net::recv(socket, room, RecvFlags::empty())?;
    Ok(len)
}

/// Reads from a stream into the buffer of the HTTP library.
#[cfg(feature = "hyper")]
pub(crate) fn poll_read_cursor<S: super::stream::Stream>(
    source: &crate::net::source::Source<S>,
    cx: &mut std::task::Context<'_>,
    mut cursor: hyper::rt::ReadBufCursor<'_>,
) -> std::task::Poll<io::Result<()>> {
    // SAFETY: `as_mut` asks that no initialised byte be made uninitialised: a `ReadBuf` does not
    // let that happen. `advance` asks that `len` bytes be initialised: `len` is the number of bytes
    // at the start of that memory that the `ReadBuf`, which began with none, calls filled.
    unsafe {
        let mut buf = ReadBuf::uninit(cursor.as_mut());
        let done = std::task::ready!(super::stream::poll_read(source, cx, &mut buf));
        let len = buf.filled().len();
        cursor.advance(len);
        std::task::Poll::Ready(done)
    }
}

/// Lets `receive`, a receiving function of `rustix` or `socket2`, append to `buf`.
fn fill_buf<T>(
    buf: &mut impl BufMut,
    receive: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, T)>,
) -> io::Result<(usize, T)> {
    // SAFETY: as in `fill`, nothing uninitialised is written to the slice, and `advance_mut` gets
    // the number of bytes that the kernel wrote at its start, which is no more than its length.
    unsafe {
        let unfilled = buf.chunk_mut().as_uninit_slice_mut();
        let room = unfilled.len();
        let (len, rest) = receive(unfilled)?;
        assert!(
            len <= room,
            "the kernel wrote {len} bytes to a buffer of {room}"
        );
        buf.advance_mut(len);
        Ok((len, rest))
    }
}

/// Lets `receive`, a receiving function of `rustix` or `socket2`, write to the unfilled part of
/// `buf`.
fn fill<T>(
    buf: &mut ReadBuf<'_>,
    receive: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<(usize, T)>,
) -> io::Result<(usize, T)> {
    // SAFETY: `unfilled_mut` asks that no initialised byte be made uninitialised: every `receive`
    // in this file is one call of `rustix` or `socket2` that does not write uninitialised bytes to
    // its buffer. `assume_init` asks that `len` bytes be initialised: the call returns the number
    // of bytes that the kernel wrote at the start of the slice. The assertion refuses a count
    // beyond the slice, such as a datagram's full length.
    unsafe {
        let unfilled = buf.unfilled_mut();
        let room = unfilled.len();
        let (len, rest) = receive(unfilled)?;
        assert!(
            len <= room,
            "the kernel wrote {len} bytes to a buffer of {room}"
        );
        buf.assume_init(len);
        buf.advance(len);
        Ok((len, rest))
    }
}
