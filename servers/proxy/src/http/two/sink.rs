//! Where a body goes: by either protocol, as fast as it is taken there.

use std::future::{pending, poll_fn};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use ::http::{HeaderMap, HeaderName};
use bytes::{Buf, Bytes};
use h2::SendStream;
use tokio::io::AsyncWriteExt;

use super::super::chunks;
use super::super::patience::Patience;
use super::body::{PIECE_BYTES, broken, reset};
use super::held::Line;
use crate::counters::Counter;
use crate::socket::Socket;
use crate::stream::Stream;

/// Where a body goes.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    to: To<'a>,
    patience: Patience,
    /// Where it is said whether it waits for its peer.
    waits: Option<&'a AtomicBool>,
}

#[derive(Debug)]
enum To<'a> {
    One {
        stream: &'a Stream,
        /// What is written before the next piece: first the head.
        out: Vec<u8>,
        is_chunked: bool,
        counter: &'a Counter,
    },
    Two {
        stream: &'a mut SendStream<Bytes>,
        line: &'a Line,
    },
}

impl<'a> Sink<'a> {
    /// By HTTP/1.1, behind a head that waits to be written with the first bytes.
    pub(super) fn one(
        stream: &'a Stream,
        head: Vec<u8>,
        is_chunked: bool,
        patience: Patience,
        counter: &'a Counter,
    ) -> Self {
        let to = To::One {
            stream,
            out: head,
            is_chunked,
            counter,
        };
        Self::new(to, patience)
    }

    /// By HTTP/2.
    pub(super) fn two(
        stream: &'a mut SendStream<Bytes>,
        line: &'a Line,
        patience: Patience,
    ) -> Self {
        Self::new(To::Two { stream, line }, patience)
    }

    fn new(to: To<'a>, patience: Patience) -> Self {
        Self {
            to,
            patience,
            waits: None,
        }
    }

    /// Says there whether it waits for its peer, for as long as its patience lasts.
    pub(super) fn telling(self, waits: &'a AtomicBool) -> Self {
        Self {
            waits: Some(waits),
            ..self
        }
    }

    /// Writes the head, if nothing follows it.
    pub(super) async fn head(&mut self) -> io::Result<()> {
        match &self.to {
            To::One { .. } => self.write(Bytes::new(), b"").await,
            To::Two { .. } => Ok(()),
        }
    }

    /// Sends it, and then the end if this is the last.
    pub(super) async fn send(&mut self, bytes: Bytes, is_last: bool) -> io::Result<()> {
        match &mut self.to {
            To::One {
                out, is_chunked, ..
            } => {
                let is_chunk = *is_chunked && !bytes.is_empty();
                if is_chunk {
                    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                }
                let behind: &[u8] = match (is_chunk, is_last && *is_chunked) {
                    (true, true) => b"\r\n0\r\n\r\n",
                    (true, false) => b"\r\n",
                    (false, true) => b"0\r\n\r\n",
                    (false, false) => b"",
                };
                self.write(bytes, behind).await
            }
            To::Two { stream, line } => {
                let (patience, waits) = (&mut self.patience, self.waits);
                give(stream, line, (patience, waits), bytes, is_last).await
            }
        }
    }

    /// Sends the end. Trailers without which the body has its meaning are dropped where there can
    /// be none.
    pub(super) async fn end(&mut self, mut trailers: HeaderMap) -> io::Result<()> {
        // Of HTTP/1.1 they were refused.
        let forbidden: Vec<HeaderName> = trailers
            .keys()
            .filter(|name| chunks::is_forbidden(name.as_str()))
            .cloned()
            .collect();
        for name in forbidden {
            trailers.remove(name);
        }
        match &mut self.to {
            To::One {
                out, is_chunked, ..
            } => {
                if *is_chunked {
                    out.extend_from_slice(b"0\r\n");
                    for (name, value) in &trailers {
                        out.extend_from_slice(name.as_str().as_bytes());
                        out.extend_from_slice(b": ");
                        out.extend_from_slice(value.as_bytes());
                        out.extend_from_slice(b"\r\n");
                    }
                    out.extend_from_slice(b"\r\n");
                }
                self.write(Bytes::new(), b"").await
            }
            To::Two { stream, .. } if trailers.is_empty() => {
                stream.send_data(Bytes::new(), true).map_err(broken)
            }
            To::Two { stream, .. } => stream.send_trailers(trailers).map_err(broken),
        }
    }

    /// What follows is of another protocol.
    pub(super) fn opens(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Has the peer see that nothing follows, which by HTTP/2 the last piece says.
    pub(super) async fn shut(&mut self) -> io::Result<()> {
        match &self.to {
            To::One { stream, .. } => {
                let mut stream = *stream;
                let taken = telling(self.waits, stream.socket().taken());
                self.patience.wait_while(taken, stream.shutdown()).await
            }
            To::Two { .. } => Ok(()),
        }
    }

    /// The connection, if it has no other stream.
    pub(super) fn socket(&self) -> Option<&'a Socket> {
        match self.to {
            To::One { stream, .. } => Some(stream.socket()),
            To::Two { .. } => None,
        }
    }

    /// Until the peer wants no more of it.
    pub(super) async fn gone(&mut self) -> io::Error {
        match &mut self.to {
            To::One { .. } => pending().await,
            To::Two { stream, .. } => reset(|cx| stream.poll_reset(cx)).await,
        }
    }

    async fn write(&mut self, bytes: Bytes, behind: &'static [u8]) -> io::Result<()> {
        let To::One {
            stream,
            out,
            counter,
            ..
        } = &mut self.to
        else {
            return Ok(());
        };
        let mut stream = *stream;
        let waits = self.waits;
        let taken = || telling(waits, stream.socket().taken());
        let before = Bytes::from(std::mem::take(out));
        let mut left = before.chain(bytes).chain(behind);
        while left.has_remaining() {
            let mut writer = stream;
            let written = writer.write_buf(&mut left);
            let written = self.patience.wait_while(taken(), written).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.patience.moved(written as u64);
            counter.add(written as u64);
        }
        self.patience.wait_while(taken(), stream.flush()).await
    }
}

/// Says from the first call on that somebody waits, until this is dropped.
fn telling<'w>(
    waits: Option<&'w AtomicBool>,
    mut taken: impl FnMut() -> u64 + 'w,
) -> impl FnMut() -> u64 + 'w {
    let mut waiting = None;
    move || {
        if let (Some(waits), None) = (waits, &waiting) {
            waiting = Some(Waiting::begin(waits));
        }
        taken()
    }
}

/// Somebody waits. All accesses are `Relaxed`: the flag guards nothing.
struct Waiting<'w>(&'w AtomicBool);

impl<'w> Waiting<'w> {
    fn begin(waits: &'w AtomicBool) -> Self {
        // Relaxed: see the type.
        waits.store(true, Ordering::Relaxed);
        Self(waits)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Relaxed: see the type.
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Gives to h2 as much at a time as the windows and the account of the connection allow.
async fn give(
    stream: &mut SendStream<Bytes>,
    line: &Line,
    (patience, waits): (&mut Patience, Option<&AtomicBool>),
    mut bytes: Bytes,
    is_last: bool,
) -> io::Result<()> {
    if bytes.is_empty() && is_last {
        return stream.send_data(bytes, true).map_err(broken);
    }
    while !bytes.is_empty() {
        let wanted = bytes.len().min(PIECE_BYTES);
        let room = async {
            line.room().await;
            stream.reserve_capacity(wanted);
            while stream.capacity() == 0 {
                match poll_fn(|cx| stream.poll_capacity(cx)).await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(broken(error)),
                    None => return Err(io::ErrorKind::BrokenPipe.into()),
                }
            }
            Ok(stream.capacity())
        };
        let room = patience
            .wait_while(telling(waits, line.taken()), room)
            .await?;
        let part = bytes.split_to(room.min(wanted));
        patience.moved(part.len() as u64);
        line.given(part.len());
        let ends = is_last && bytes.is_empty();
        stream.send_data(part, ends).map_err(broken)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_of_while_it_lasts() {
        let waits = AtomicBool::new(false);
        let is_told = || waits.load(Ordering::Relaxed);
        let mut taken = telling(Some(&waits), || 7);
        assert!(!is_told());
        assert_eq!((taken(), taken()), (7, 7));
        assert!(is_told());
        drop(taken);
        assert!(!is_told());
        assert_eq!(telling(None, || 7)(), 7);
    }
}
