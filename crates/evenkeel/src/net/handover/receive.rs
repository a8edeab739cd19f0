//! The process that takes descriptors over.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::error::{HandoverError, Problem};
use super::passed::Passed;
use super::wire::{Came, HEAD_LEN, Head, PART_MAX, check, names};
use crate::net::UnixStream;
use crate::net::source::Direction;

/// Receives the descriptors that the process at the other end [`send`](super::send())s.
///
/// They are closed on `exec`. Use [`Passed::into_tcp_listener`] and its like.
///
/// # Errors
///
/// What comes is no handover or more than its limits allow, this process may not open as many
/// descriptors, or the stream failed or ended before. Descriptors that have come are closed.
///
/// # Cancel safety
///
/// Not cancel safe: what has come is closed. Close the stream.
pub async fn receive(stream: &UnixStream) -> Result<Vec<Passed>, HandoverError> {
    let mut all: Vec<Passed> = Vec::new();
    loop {
        let mut came = Came::new();
        let mut head = [0; HEAD_LEN];
        read(stream, &mut head, &mut came).await?;
        let head = Head::parse(head)?;
        let mut bytes = vec![0; head.names_len];
        read(stream, &mut bytes, &mut came).await?;
        let names = names(head, &bytes)?;
        if came.len() != head.count {
            return Err(Problem::Missing(head.count, came.len()).into());
        }
        let passed = names.into_iter().zip(came);
        all.extend(passed.map(|(name, fd)| Passed::new(name, fd)));
        check(all.iter().map(Passed::name))?;
        if !head.goes_on {
            return Ok(all);
        }
    }
}

/// Fills `bytes`, and keeps the descriptors that come with them.
async fn read(
    stream: &UnixStream,
    mut bytes: &mut [u8],
    came: &mut Came,
) -> Result<(), HandoverError> {
    while !bytes.is_empty() {
        let call = |socket: &mio::net::UnixStream| call(socket, bytes, came);
        let count = stream.source().io(Direction::Read, call).await?;
        if count == 0 {
            return Err(Problem::Ended.into());
        }
        if came.len() > PART_MAX {
            return Err(Problem::NotAHandover.into());
        }
        bytes = &mut bytes[count..];
    }
    Ok(())
}

/// Receives bytes and, with them, at most the descriptors of one message. What there is no room for
/// the system closes, so that some are missing.
fn call(socket: &impl AsFd, bytes: &mut [u8], came: &mut Came) -> io::Result<usize> {
    // Other systems have no flag for it. There, a child that is started at this moment may get the
    // descriptors as well.
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PART_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(bytes)];
    let received = rustix::net::recvmsg(socket, &mut buffers, &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            came.extend(descriptors);
        }
    }
    #[cfg(not(target_os = "linux"))]
    for fd in came.iter() {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(received.bytes)
}
