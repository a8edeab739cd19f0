//! One direction of a transfer.
//!
//! ```text
//!             1                2                         4
//! ── Moving ────▶ reads ──▶ holds bytes ──▶ writes ──▶ Moving
//!       │ 3 the end was read, or enough
//!       ▼
//!    Ending ── 5 flush, shut down ──▶ Ended
//! ```
//!
//! 1. It reads only when it holds nothing, into a buffer or a pipe.
//! 2. It writes before it reads again: no more is held than a buffer or a pipe has room for.
//! 3. All that was read is written by then.
//!
//! If the sender is known to have ended, and a read was short, another one looks for the end at
//! once. Then the end goes out with the last bytes: in one packet.
//!
//! Whether it reads into a pipe goes by how much reads bring. A read that fills the buffer shows
//! that there is more, and the next is one by pipe; a transfer by pipe that brings little is
//! followed by a copy. A wait changes nothing of that.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::buffer::{BUFFER_LEN, Buffer};
use super::error::{Failure, Step, Way};
use super::meter::Meter;
use crate::io::pipes::Lent;

/// After so many bytes in one direction, a task gives way to others: some 50 microseconds' worth.
/// Fewer would make a queue entry of its own of every few reads. One transfer by pipe may be as
/// long, and is completed, so it may come to twice as many.
pub const BYTES_PER_POLL: usize = 256 * 1024;

/// Less than this is copied, as two transfers by pipe cost more.
const WIDE: u64 = 16 * 1024;

/// The most that is asked for by pipe at once. How much comes is up to the pipe, whose places hold
/// up to a page fragment of 32 KiB each. A kernel that does not preempt itself keeps its processor
/// to the end of a transfer, and threads of the highest priority wait; with smaller ones a megabyte
/// takes more processor time (`docs/notebook/proxy-cost.md`).
const FILL: usize = BYTES_PER_POLL;

/// The two ends of a flow, and where its bytes are counted.
pub(super) struct Ends<'a, R, W, S> {
    pub(super) from: &'a mut R,
    pub(super) to: &'a mut W,
    pub(super) splicer: &'a S,
    pub(super) meter: &'a Meter,
    pub(super) way: Way,
    /// The end needs not be sent: both are closed right afterwards.
    pub(super) closes: bool,
}

/// How bytes move through a pipe, if they can.
pub(super) trait Splicer<R, W> {
    /// An empty pipe, if there is one.
    fn lend(&self, from: &R) -> Option<Lent>;

    /// Fills an empty pipe; 0 is the end of the stream, or that a pipe cannot take what comes next,
    /// if `doubts` asks for that.
    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        from: &R,
        pipe: &Lent,
        len: usize,
        doubts: bool,
    ) -> Poll<io::Result<usize>>;

    /// Writes what is in the pipe.
    fn poll_drain(&self, cx: &mut Context<'_>, to: &W, pipe: &Lent) -> Poll<io::Result<usize>>;

    /// Whether the sender is known to have ended, though its last bytes may be unread.
    fn has_closed(&self, from: &R) -> bool;

    /// Writes bytes which others follow at once, or the end of the stream.
    fn poll_put_more(
        &self,
        cx: &mut Context<'_>,
        to: &mut W,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>>;
}

#[derive(Debug)]
pub(super) struct Flow<'h> {
    /// What goes before all that is read.
    head: &'h [u8],
    held: Held,
    stage: Stage,
    /// How many bytes may still be read.
    left: u64,
    /// Whether the end of the stream is passed on.
    sends_end: bool,
    /// Whether the next read goes by pipe.
    is_wide: bool,
    /// Whether a transfer by pipe has brought something in this poll, so that it may well bring
    /// nothing now.
    has_filled: bool,
    /// Whether bytes were written since the last flush.
    wrote: bool,
    /// The end was read behind what is held.
    is_last: bool,
    /// What was found behind what is held.
    trouble: Option<io::Error>,
}

#[derive(Debug)]
enum Held {
    Nothing,
    Buffer(Buffer),
    Pipe(Lent),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Moving,
    Ending,
    Ended,
}

impl<'h> Flow<'h> {
    /// Moves all bytes, and passes on the end.
    pub(super) fn to_the_end() -> Self {
        Self {
            head: &[],
            held: Held::Nothing,
            stage: Stage::Moving,
            left: u64::MAX,
            sends_end: true,
            is_wide: false,
            has_filled: false,
            wrote: false,
            is_last: false,
            trouble: None,
        }
    }

    /// Moves so many bytes behind these, or fewer if the stream ends before, and leaves the other
    /// one open.
    pub(super) fn of(head: &'h [u8], len: u64) -> Self {
        Self {
            head,
            left: len,
            sends_end: false,
            is_wide: len >= WIDE,
            ..Self::to_the_end()
        }
    }

    /// Moves what can be moved now. Once it has ended, does nothing.
    pub(super) fn poll<R, W, S>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, R, W, S>,
    ) -> Poll<Result<(), Failure>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
        S: Splicer<R, W>,
    {
        self.has_filled = false;
        let polled = self.poll_within(cx, ends, BYTES_PER_POLL);
        self.let_go();
        polled
    }

    fn poll_within<R, W, S>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, R, W, S>,
        mut budget: usize,
    ) -> Poll<Result<(), Failure>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
        S: Splicer<R, W>,
    {
        loop {
            ready!(self.poll_write(cx, ends))?;
            if (self.left == 0 || self.is_last) && self.stage == Stage::Moving {
                self.stage = Stage::Ending;
            }
            match self.stage {
                Stage::Moving => {}
                Stage::Ending => {
                    ready!(self.poll_head(cx, ends))?;
                    ready!(self.poll_end(cx, ends))?;
                    self.stage = Stage::Ended;
                    return Poll::Ready(Ok(()));
                }
                Stage::Ended => return Poll::Ready(Ok(())),
            }
            if budget == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.poll_read(cx, ends) {
                Poll::Ready(Ok(0)) => self.stage = Stage::Ending,
                Poll::Ready(Ok(count)) => {
                    budget = budget.saturating_sub(count);
                    self.left -= count as u64;
                }
                Poll::Ready(Err(error)) if self.head.is_empty() => {
                    return Poll::Ready(Err((Step::Read, error)));
                }
                Poll::Ready(Err(error)) => {
                    self.trouble = Some(error);
                    ready!(self.poll_head(cx, ends))?;
                }
                Poll::Pending => {
                    ready!(self.poll_head(cx, ends))?;
                    // What a stream has gathered is to go out before the wait.
                    ready!(self.poll_flush(cx, ends.to))?;
                    return Poll::Pending;
                }
            }
        }
    }

    /// (1) Reads some bytes, at most `left`. 0 is the end of the stream.
    fn poll_read<R, W, S>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, R, W, S>,
    ) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin,
        S: Splicer<R, W>,
    {
        if let Some(error) = self.trouble.take() {
            return Poll::Ready(Err(error));
        }
        if self.is_wide && self.has_pipe(ends) {
            let Held::Pipe(pipe) = &mut self.held else {
                unreachable!("`has_pipe` has seen to it")
            };
            let len = usize::try_from(self.left).map_or(FILL, |left| left.min(FILL));
            // At TCP's urgent data it says that nothing is there, or that the stream has ended. So
            // if it brings nothing although an event came, and at the end, a read decides.
            let doubts = !self.has_filled;
            let filled = ends.splicer.poll_fill(cx, ends.from, pipe, len, doubts);
            let count = ready!(filled)?;
            self.is_wide = count as u64 >= WIDE;
            if count > 0 {
                pipe.note_filled(count);
                self.has_filled = true;
                return Poll::Ready(Ok(count));
            }
        }
        if !matches!(self.held, Held::Buffer(_)) {
            self.held = Held::Buffer(Buffer::take());
        }
        let Held::Buffer(buffer) = &mut self.held else {
            unreachable!("it was put there")
        };
        let len = usize::try_from(self.left).map_or(BUFFER_LEN, |left| left.min(BUFFER_LEN));
        let mut room = ReadBuf::new(buffer.room(len));
        ready!(Pin::new(&mut *ends.from).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        buffer.note_filled(count);
        self.is_wide = count == BUFFER_LEN;
        if count == 0 || count == len || !self.sends_end || !ends.splicer.has_closed(ends.from) {
            return Poll::Ready(Ok(count));
        }
        // The end is there, or more before it.
        let mut room = ReadBuf::new(buffer.room_behind());
        let read = Pin::new(&mut *ends.from).poll_read(cx, &mut room);
        let more = room.filled().len();
        buffer.note_filled_behind(more);
        match read {
            Poll::Ready(Ok(())) => self.is_last = more == 0,
            // Not before what came before it.
            Poll::Ready(Err(error)) => self.trouble = Some(error),
            Poll::Pending => {}
        }
        Poll::Ready(Ok(count + more))
    }

    /// Makes sure that an empty pipe is held. Returns false if there is none.
    fn has_pipe<R, W, S: Splicer<R, W>>(&mut self, ends: &Ends<'_, R, W, S>) -> bool {
        if matches!(self.held, Held::Pipe(_)) {
            return true;
        }
        let Some(pipe) = ends.splicer.lend(ends.from) else {
            return false;
        };
        self.let_go();
        self.held = Held::Pipe(pipe);
        true
    }

    /// Writes what goes before all that is read: in one packet with the first of that, if it is
    /// there.
    fn poll_head<R, W, S>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, R, W, S>,
    ) -> Poll<Result<(), Failure>>
    where
        W: AsyncWrite + Unpin,
        S: Splicer<R, W>,
    {
        while !self.head.is_empty() {
            let written = match self.holds() {
                true => ends.splicer.poll_put_more(cx, ends.to, self.head),
                false => Pin::new(&mut *ends.to).poll_write(cx, self.head),
            };
            match ready!(written).and_then(some_bytes) {
                Ok(count) => {
                    self.head = self.head.get(count..).unwrap_or_default();
                    ends.meter.add(ends.way, count);
                }
                Err(error) => return Poll::Ready(Err((Step::Write, error))),
            }
            self.wrote = true;
        }
        Poll::Ready(Ok(()))
    }

    /// (2) Writes all that is held, behind the head.
    fn poll_write<R, W, S>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, R, W, S>,
    ) -> Poll<Result<(), Failure>>
    where
        W: AsyncWrite + Unpin,
        S: Splicer<R, W>,
    {
        if self.holds() {
            ready!(self.poll_head(cx, ends))?;
        }
        loop {
            let written = match &mut self.held {
                Held::Buffer(buffer) if !buffer.is_empty() => {
                    // If both sockets are to be closed, that may come later.
                    let written = match self.is_last && !ends.closes {
                        true => ends.splicer.poll_put_more(cx, ends.to, buffer.filled()),
                        false => Pin::new(&mut *ends.to).poll_write(cx, buffer.filled()),
                    };
                    let written = ready!(written).and_then(some_bytes);
                    written.inspect(|&count| buffer.note_drained(count))
                }
                Held::Pipe(pipe) if pipe.len() > 0 => {
                    let written = ends.splicer.poll_drain(cx, ends.to, pipe);
                    let written = ready!(written).and_then(some_bytes);
                    written.inspect(|&count| pipe.note_drained(count))
                }
                _ => return Poll::Ready(Ok(())),
            };
            match written {
                Ok(count) => ends.meter.add(ends.way, count),
                Err(error) => return Poll::Ready(Err((Step::Write, error))),
            }
            self.wrote = true;
        }
    }

    fn poll_flush<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
    ) -> Poll<Result<(), Failure>> {
        if self.wrote {
            let flushed = ready!(Pin::new(to).poll_flush(cx));
            flushed.map_err(|error| (Step::Write, error))?;
            self.wrote = false;
        }
        Poll::Ready(Ok(()))
    }

    /// (5) Passes on the end, or makes sure that all bytes are on their way.
    fn poll_end<R, W: AsyncWrite + Unpin, S>(
        &mut self,
        cx: &mut Context<'_>,
        ends: &mut Ends<'_, R, W, S>,
    ) -> Poll<Result<(), Failure>> {
        if self.sends_end && !ends.closes {
            let ended = ready!(Pin::new(&mut *ends.to).poll_shutdown(cx));
            Poll::Ready(ended.map_err(|error| (Step::End, error)))
        } else {
            self.poll_flush(cx, ends.to)
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Whether bytes are held.
    fn holds(&self) -> bool {
        match &self.held {
            Held::Nothing => false,
            Held::Buffer(buffer) => !buffer.is_empty(),
            Held::Pipe(pipe) => pipe.len() > 0,
        }
    }

    /// Gives back a buffer or pipe that is empty.
    fn let_go(&mut self) {
        if !self.holds()
            && let Held::Buffer(buffer) = std::mem::replace(&mut self.held, Held::Nothing)
        {
            buffer.give_back();
        }
    }
}

/// A write of nothing would be repeated for ever.
fn some_bytes(count: usize) -> io::Result<usize> {
    if count == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(count)
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
