//! Bodies between HTTP/1.1 and HTTP/2, in all directions.
//!
//! ```text
//!  Source ── a piece at a time ──▶ pipe ──▶ Sink
//!    ▲ read, or the peer's window        │ written, or a part of the window
//!    └────────── released when it was taken ◀────────────────┘
//! ```
//!
//! There is one piece on its way, so that a receiver that is slow slows down its sender. Pieces are
//! not copied, but for the sizes of chunks around them.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use ::http::HeaderMap;
use bytes::Bytes;
use evenkeel::task::checkpoint;
use h2::Reason;

use super::super::chunks::BadChunk;
use super::super::exchange::Plan;
use super::held::All;
use super::sink::Sink;
use super::source::Source;
use crate::counters::Counter;
use crate::sessions;

/// How much is read at once of a body that comes by HTTP/1.1, and given to h2 at once.
pub(super) const PIECE_BYTES: usize = 16 * 1_024;

/// Why a body is not forwarded to its end.
#[derive(Debug)]
pub(super) enum Broken {
    /// By whoever sends it.
    From(io::Error),
    /// By whoever gets it.
    To,
    /// What is sent is no body.
    Bad(BadChunk),
    /// All bodies together take too much memory.
    Full,
}

/// A part of a body.
#[derive(Debug)]
pub(super) enum Piece {
    /// Some of it.
    Data(Bytes),
    /// The last of it.
    Last(Bytes),
    /// Its end.
    End(HeaderMap),
}

/// An error of h2 as one of the system, whose cause it is.
pub(super) fn broken(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or(io::ErrorKind::Other.into());
    }
    io::Error::other(error)
}

/// Waits for a reset of a stream, or the end of its connection.
pub(super) async fn reset(
    mut poll: impl FnMut(&mut std::task::Context<'_>) -> Poll<Result<Reason, h2::Error>>,
) -> io::Error {
    match poll_fn(|cx| poll(cx)).await {
        Ok(reason) => broken(reason.into()),
        Err(error) => broken(error),
    }
}

/// Where the bytes of a body are counted on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed<'a> {
    /// For the line of its request, or for who waits for it.
    pub noted: Option<&'a Counter>,
    /// Whether they go to the client, whose session has them, too.
    pub is_answer: bool,
}

impl<'a> Passed<'a> {
    pub(super) fn of(plan: &'a Plan, is_answer: bool) -> Self {
        let noted = plan.note.as_deref().map(|note| match is_answer {
            true => &note.bytes_out,
            false => &note.bytes_in,
        });
        Self { noted, is_answer }
    }

    pub(super) fn add(self, bytes: usize) {
        let bytes = bytes as u64;
        if let Some(noted) = self.noted {
            noted.add_alone(bytes);
        }
        match self.is_answer {
            true => sessions::sent(bytes),
            false => sessions::came(bytes),
        }
    }
}

/// Forwards a body to its end.
///
/// # Errors
///
/// [`Broken`].
pub(super) async fn pipe(
    source: &mut Source<'_>,
    sink: &mut Sink<'_>,
    all: &Arc<All>,
    passed: Passed<'_>,
) -> Result<(), Broken> {
    let mut has_begun = false;
    loop {
        let piece = {
            let mut next = pin!(source.next());
            match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                Poll::Ready(piece) => piece?,
                Poll::Pending => {
                    if !has_begun {
                        // The head does not wait for the body.
                        sink.head().await.map_err(|_| Broken::To)?;
                    }
                    tokio::select! {
                        biased;
                        _ = sink.gone() => return Err(Broken::To),
                        piece = next => piece?,
                    }
                }
            }
        };
        has_begun = true;
        let is_end = !matches!(piece, Piece::Data(_));
        if let Piece::Data(bytes) | Piece::Last(bytes) = &piece {
            passed.add(bytes.len());
        }
        deliver(sink, piece, all, source.held()).await?;
        if is_end {
            return Ok(());
        }
        source.release();
        checkpoint().await;
    }
}

/// Sends a piece. While that waits, so much memory is held.
pub(super) async fn deliver(
    sink: &mut Sink<'_>,
    piece: Piece,
    all: &Arc<All>,
    held: usize,
) -> Result<(), Broken> {
    let mut sending = pin!(async {
        match piece {
            Piece::Data(bytes) => sink.send(bytes, false).await,
            Piece::Last(bytes) => sink.send(bytes, true).await,
            Piece::End(trailers) => sink.end(trailers).await,
        }
    });
    let sent = match poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await {
        Poll::Ready(sent) => sent,
        Poll::Pending => {
            // Whoever waits holds memory meanwhile.
            let _taken = all.take(held).ok_or(Broken::Full)?;
            sending.await
        }
    };
    sent.map_err(|_| Broken::To)
}
