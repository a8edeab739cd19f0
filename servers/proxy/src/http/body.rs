//! Forwards a body, behind a head that waits to be written with its first bytes.
//!
//! Of a body whose length is known, the kernel moves what has not come with the head, if that is
//! much, and neither side is over TLS. Chunks have to be read, and a body that ends with its
//! connection may be a stream of events, for which each side has its own time.

use std::io;
use std::num::NonZeroU64;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use evenkeel::net::splice::{Meter, Step};
use evenkeel::time::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::chunks::{BadChunk, Decoder, Recode};
use super::framing::Framing;
use super::patience::Patience;
use crate::counters::Counter;
use crate::sessions;
use crate::socket::Socket;
use crate::stream::Stream;

/// How much is read at once of a body.
pub(super) const READ_BYTES: usize = 64 * 1_024;

/// What is at least this long is moved by the kernel: less costs more than to copy it.
const SPLICE_BYTES_MIN: u64 = 16 * 1_024;

/// Where a body goes.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) stream: &'a Stream,
    pub(super) patience: Patience,
    /// Count the bytes.
    pub(super) counters: [&'a Counter; 2],
    /// It is the client.
    pub(super) is_client: bool,
    /// Counts them for the log.
    pub(super) noted: Option<&'a Counter>,
}

/// Why a body is not forwarded to its end.
#[derive(Debug)]
pub(super) enum Broken {
    /// By whoever sends it.
    From(io::Error),
    /// By whoever gets it.
    To,
    /// What is sent is no body.
    Bad(BadChunk),
}

/// A body on its way.
#[derive(Debug)]
pub(super) struct Transfer<'a> {
    pub(super) from: &'a Stream,
    pub(super) patience: Patience,
    pub(super) to: Target<'a>,
    /// The kernel may move it.
    pub(super) splices: bool,
    /// What was read of the sender and is not forwarded yet; what follows the body stays here.
    pub(super) buffer: &'a mut BytesMut,
    /// What is written before: the head.
    pub(super) out: Vec<u8>,
}

impl Transfer<'_> {
    /// Forwards all of it. The head is written at once, with what there is of the body.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) async fn run(
        mut self,
        framing: Framing,
        recode: Recode,
        trailer_bytes_max: usize,
    ) -> Result<(), Broken> {
        match framing {
            Framing::None => self.flush().await,
            Framing::Length(length) => self.length(length).await,
            Framing::Chunked => self.chunks(Decoder::new(recode, trailer_bytes_max)).await,
            Framing::Close => self.until_closed().await,
        }
    }

    async fn length(&mut self, length: u64) -> Result<(), Broken> {
        let mut left = length;
        let first = self.ready(left);
        self.out.extend_from_slice(&self.buffer[..first]);
        self.buffer.advance(first);
        left -= first as u64;
        if self.splices
            && left >= SPLICE_BYTES_MIN
            && let (Some(from), Some(to)) = (self.from.plain(), self.to.stream.plain())
        {
            return self.splice(from, to, left).await;
        }
        self.flush().await?;
        while left > 0 {
            if self.buffer.is_empty() {
                self.read(Some(left)).await?;
            }
            let ready = self.ready(left);
            self.to
                .send(&self.buffer[..ready])
                .await
                .map_err(|_| Broken::To)?;
            self.buffer.advance(ready);
            left -= ready as u64;
        }
        Ok(())
    }

    /// Has the kernel move what is left, none of which has come yet, behind what is to be written
    /// before.
    ///
    /// What is waited for does not show while it goes on, so it is looked at now and then: whether
    /// bytes have moved, and if too few have, which side does not take them or send them.
    async fn splice(&mut self, from: &Socket, to: &Socket, left: u64) -> Result<(), Broken> {
        let meter = Meter::new();
        let head = std::mem::take(&mut self.out);
        let whole = head.len() as u64 + left;
        let mut moving = pin!(from.splice((&head, to), left, &meter));
        let look = self.patience.look(&self.to.patience);
        let mut counted = Counted {
            meter: &meter,
            seen: 0,
            sums: self.to.sums(),
        };
        let mut taken = to.taken();
        let (mut silent, mut was_full) = (Duration::ZERO, false);
        loop {
            let result = timeout(look, &mut moving).await;
            let moved = counted.count();
            let seen = counted.seen;
            match result {
                Ok(Ok(_)) if seen == whole => return Ok(()),
                Ok(Ok(_)) => return Err(Broken::From(io::ErrorKind::UnexpectedEof.into())),
                Ok(Err(error)) if error.step() == Step::Read => {
                    return Err(Broken::From(error.into()));
                }
                Ok(Err(_)) => return Err(Broken::To),
                Err(_) => {}
            }
            let of_head = (head.len() as u64).saturating_sub(seen - moved).min(moved);
            let (is_full, taken) = (!to.is_writable(), taken());
            match is_full {
                true => self.to.patience.note(look),
                false => self.patience.note(look),
            }
            self.patience.moved(moved - of_head);
            self.to.patience.moved(moved);
            self.to.patience.taken(taken);
            // Of the side that is waited for.
            let moves = moved > 0 || is_full != was_full || (is_full && taken > 0);
            silent = if moves { Duration::ZERO } else { silent + look };
            was_full = is_full;
            if is_full && self.to.patience.is_over(silent) {
                return Err(Broken::To);
            }
            if !is_full && self.patience.is_over(silent) {
                return Err(Broken::From(io::ErrorKind::TimedOut.into()));
            }
        }
    }

    async fn chunks(&mut self, mut decoder: Decoder) -> Result<(), Broken> {
        loop {
            let is_complete = decoder
                .decode(self.buffer, &mut self.out)
                .map_err(Broken::Bad)?;
            self.flush().await?;
            if is_complete {
                return Ok(());
            }
            self.read(None).await?;
        }
    }

    async fn until_closed(&mut self) -> Result<(), Broken> {
        self.out.extend_from_slice(self.buffer);
        self.buffer.clear();
        self.flush().await?;
        loop {
            match self.read(None).await {
                Ok(()) => {}
                Err(Broken::From(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(());
                }
                Err(broken) => return Err(broken),
            }
            self.to.send(self.buffer).await.map_err(|_| Broken::To)?;
            self.buffer.clear();
        }
    }

    /// How many bytes of the buffer belong to a body that has so many left.
    fn ready(&self, left: u64) -> usize {
        usize::try_from(left).map_or(self.buffer.len(), |left| left.min(self.buffer.len()))
    }

    /// Writes what is to be written before.
    pub(super) async fn flush(&mut self) -> Result<(), Broken> {
        if !self.out.is_empty() {
            self.to.send(&self.out).await.map_err(|_| Broken::To)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Reads more, in no larger pieces than needed.
    pub(super) async fn read(&mut self, left: Option<u64>) -> Result<(), Broken> {
        let room = left
            .and_then(NonZeroU64::new)
            .and_then(|left| usize::try_from(left.get()).ok())
            .map_or(READ_BYTES, |left| left.min(READ_BYTES));
        self.buffer.reserve(room);
        let mut stream = self.from;
        let read = stream.read_buf(self.buffer);
        let read = self.patience.wait(read).await.map_err(Broken::From)?;
        if read == 0 {
            return Err(Broken::From(io::ErrorKind::UnexpectedEof.into()));
        }
        self.patience.moved(read as u64);
        Ok(())
    }
}

impl Target<'_> {
    /// Writes all of it, without a timer if the socket takes it at once.
    ///
    /// # Errors
    ///
    /// That of the connection, or `TimedOut`.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let taken = || self.stream.socket().taken();
        let mut written = self.stream.write_now(bytes)?;
        self.moved(written);
        loop {
            // Of TLS alone.
            while self.stream.holds_back() {
                let pushed = self.stream.push();
                let pushed = self.patience.wait_while(taken(), pushed).await?;
                self.patience.moved(pushed as u64);
            }
            if written == bytes.len() {
                return Ok(());
            }
            let mut stream = self.stream;
            let more = stream.write(&bytes[written..]);
            let more = self.patience.wait_while(taken(), more).await?;
            if more == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.moved(more);
            written += more;
        }
    }

    fn moved(&mut self, bytes: usize) {
        // What is held back has not moved yet.
        if !self.stream.holds_back() {
            self.patience.moved(bytes as u64);
        }
        self.count(bytes as u64);
    }

    fn count(&self, bytes: u64) {
        self.sums().add(bytes);
    }
}

impl<'a> Target<'a> {
    fn sums(&self) -> Sums<'a> {
        Sums {
            counters: self.counters,
            is_client: self.is_client,
            noted: self.noted,
        }
    }
}

/// Where the bytes that a target was sent are counted.
#[derive(Clone, Copy, Debug)]
struct Sums<'a> {
    counters: [&'a Counter; 2],
    is_client: bool,
    noted: Option<&'a Counter>,
}

impl Sums<'_> {
    fn add(&self, bytes: u64) {
        for counter in self.counters {
            counter.add(bytes);
        }
        if let Some(noted) = self.noted {
            noted.add_alone(bytes);
        }
        if self.is_client {
            sessions::sent(bytes);
        } else {
            sessions::came(bytes);
        }
    }
}

/// Counts what the kernel moves: now and then, and what is left when this is dropped.
#[derive(Debug)]
struct Counted<'a> {
    meter: &'a Meter,
    /// So much is counted.
    seen: u64,
    sums: Sums<'a>,
}

impl Counted<'_> {
    /// Counts what has moved since the last time. Returns how much that is.
    fn count(&mut self) -> u64 {
        let moved = self.meter.moved().forth - self.seen;
        self.seen += moved;
        self.sums.add(moved);
        moved
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count();
    }
}
