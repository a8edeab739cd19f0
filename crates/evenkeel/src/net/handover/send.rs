//! The process that gives away descriptors.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage};

use super::error::{HandoverError, Problem};
use super::wire::{PART_MAX, check, message};
use crate::net::UnixStream;
use crate::net::source::Direction;
use crate::net::stream::SEND_FLAGS;

/// Sends duplicates of descriptors, each under a name, to the process at the other end.
///
/// The descriptors themselves stay open here. When this returns, all are on their way; whether the
/// other process has received them, only it can say.
///
/// # Errors
///
/// There are too many descriptors, a name is empty, too long or there twice, or the stream failed.
///
/// # Cancel safety
///
/// Not cancel safe: a part may have been sent. Close the stream.
pub async fn send(
    stream: &UnixStream,
    descriptors: &[(&str, BorrowedFd<'_>)],
) -> Result<(), HandoverError> {
    check(descriptors.iter().map(|&(name, _)| name))?;
    let mut parts = descriptors.chunks(PART_MAX).peekable();
    loop {
        let part = parts.next().unwrap_or_default();
        let goes_on = parts.peek().is_some();
        send_part(stream, part, &message(part, goes_on)).await?;
        if !goes_on {
            return Ok(());
        }
    }
}

/// Sends a message; its descriptors go with the first byte.
async fn send_part(
    stream: &UnixStream,
    part: &[(&str, BorrowedFd<'_>)],
    bytes: &[u8],
) -> Result<(), HandoverError> {
    let descriptors: Vec<_> = part.iter().map(|&(_, fd)| fd).collect();
    let mut sent = 0;
    while sent < bytes.len() {
        let with = if sent == 0 { &descriptors[..] } else { &[] };
        let call = |socket: &mio::net::UnixStream| call(socket, &bytes[sent..], with);
        let count = stream.source().io(Direction::Write, call).await?;
        if count == 0 {
            return Err(Problem::Ended.into());
        }
        sent += count;
    }
    Ok(())
}

fn call(socket: &impl AsFd, bytes: &[u8], with: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PART_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        let has_room = control.push(SendAncillaryMessage::ScmRights(with));
        debug_assert!(has_room, "a part has at most {PART_MAX}");
    }
    let buffers = [IoSlice::new(bytes)];
    Ok(rustix::net::sendmsg(
        socket,
        &buffers,
        &mut control,
        SEND_FLAGS,
    )?)
}
