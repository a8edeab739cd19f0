//! Where a body comes from: by either protocol, a piece at a time.

use std::io;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use tokio::io::AsyncReadExt;

use super::super::chunks::{BadChunk, Decoder, Recode};
use super::super::framing::Framing;
use super::super::head::{BadHead, HEADERS_MAX};
use super::super::patience::Patience;
use super::body::{Broken, PIECE_BYTES, Piece, broken};
use crate::counters::Counter;
use crate::stream::Stream;

/// Where a body comes from.
#[derive(Debug)]
pub(super) struct Source<'a> {
    from: From<'a>,
    patience: Patience,
    /// Nothing was taken of it.
    pub(super) is_whole: bool,
}

#[derive(Debug)]
enum From<'a> {
    One {
        stream: &'a Stream,
        buffer: &'a mut BytesMut,
        left: Left,
        counter: &'a Counter,
    },
    Two {
        body: RecvStream,
        /// Taken and not released.
        taken: usize,
        /// What h2 may hold of it.
        window: usize,
    },
    None,
}

#[derive(Debug)]
enum Left {
    Bytes(u64),
    Chunks(Box<Decoder>),
    /// The end has been read.
    Ended(HeaderMap),
    /// To the end of the connection.
    All,
}

impl<'a> Source<'a> {
    /// By HTTP/1.1, from what was read on. What follows the body stays in the buffer.
    pub(super) fn one(
        stream: &'a Stream,
        buffer: &'a mut BytesMut,
        framing: Framing,
        trailer_bytes_max: usize,
        patience: Patience,
        counter: &'a Counter,
    ) -> Self {
        let left = match framing {
            Framing::None => Left::Bytes(0),
            Framing::Length(length) => Left::Bytes(length),
            Framing::Chunked => {
                Left::Chunks(Box::new(Decoder::new(Recode::Apart, trailer_bytes_max)))
            }
            Framing::Close => Left::All,
        };
        let from = From::One {
            stream,
            buffer,
            left,
            counter,
        };
        Self {
            from,
            patience,
            is_whole: true,
        }
    }

    /// One without bytes.
    pub(super) fn none(patience: Patience) -> Self {
        Self {
            from: From::None,
            patience,
            is_whole: true,
        }
    }

    /// By HTTP/2, of which so much may come before it is asked for.
    pub(super) fn two(body: RecvStream, window: usize, patience: Patience) -> Self {
        let from = From::Two {
            body,
            taken: 0,
            window,
        };
        Self {
            from,
            patience,
            is_whole: true,
        }
    }

    /// What follows is of another protocol, and goes on to the end of the connection.
    pub(super) fn opens(&mut self, patience: Patience) {
        if let From::One { left, .. } = &mut self.from {
            *left = Left::All;
        }
        self.patience = patience;
    }

    /// The next piece. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Piece, Broken> {
        let piece = match &mut self.from {
            From::One {
                stream,
                buffer,
                left,
                counter,
            } => one(stream, buffer, left, counter, &mut self.patience).await?,
            From::Two { body, taken, .. } => {
                let piece = self.patience.wait(two(body)).await.map_err(Broken::From)?;
                if let Piece::Data(bytes) | Piece::Last(bytes) = &piece {
                    *taken += bytes.len();
                }
                piece
            }
            From::None => Piece::Last(Bytes::new()),
        };
        self.is_whole = false;
        if let Piece::Data(bytes) | Piece::Last(bytes) = &piece {
            self.patience.moved(bytes.len() as u64);
        }
        Ok(piece)
    }

    /// What was taken has gone; as much more may come.
    pub(super) fn release(&mut self) {
        if let From::Two { body, taken, .. } = &mut self.from {
            // An error is one of the stream, and comes with the next piece.
            let _ = body.flow_control().release_capacity(*taken);
            *taken = 0;
        }
    }

    /// What may be held of it while nothing is taken.
    pub(super) fn held(&self) -> usize {
        match &self.from {
            From::One { .. } | From::None => PIECE_BYTES,
            From::Two { window, .. } => *window,
        }
    }
}

async fn one(
    stream: &Stream,
    buffer: &mut BytesMut,
    left: &mut Left,
    counter: &Counter,
    patience: &mut Patience,
) -> Result<Piece, Broken> {
    loop {
        match left {
            Left::Ended(trailers) => return Ok(Piece::End(std::mem::take(trailers))),
            Left::Bytes(0) => return Ok(Piece::Last(Bytes::new())),
            Left::Bytes(length) if !buffer.is_empty() => {
                let taken = usize::try_from(*length).map_or(buffer.len(), |l| l.min(buffer.len()));
                *length -= taken as u64;
                let bytes = buffer.split_to(taken).freeze();
                return Ok(match *length {
                    0 => Piece::Last(bytes),
                    _ => Piece::Data(bytes),
                });
            }
            Left::All if !buffer.is_empty() => return Ok(Piece::Data(buffer.split().freeze())),
            Left::Chunks(decoder) if !buffer.is_empty() => {
                let mut out = Vec::new();
                let is_done = decoder.decode(buffer, &mut out).map_err(Broken::Bad)?;
                if is_done {
                    *left = Left::Ended(trailers(decoder.kept()).map_err(Broken::Bad)?);
                }
                if !out.is_empty() {
                    return Ok(Piece::Data(out.into()));
                }
                if is_done {
                    continue;
                }
            }
            Left::Bytes(_) | Left::All | Left::Chunks(_) => {}
        }
        buffer.reserve(PIECE_BYTES);
        let mut reader = stream;
        let read = patience.wait(reader.read_buf(buffer)).await;
        let read = read.map_err(Broken::From)?;
        counter.add(read as u64);
        match left {
            _ if read > 0 => {}
            Left::All => *left = Left::Ended(HeaderMap::new()),
            _ => return Err(Broken::From(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

async fn two(body: &mut RecvStream) -> io::Result<Piece> {
    loop {
        match body.data().await {
            // It is not the last, and says nothing.
            Some(Ok(bytes)) if bytes.is_empty() && !body.is_end_stream() => {}
            Some(Ok(bytes)) if body.is_end_stream() => return Ok(Piece::Last(bytes)),
            Some(Ok(bytes)) => return Ok(Piece::Data(bytes)),
            Some(Err(error)) => return Err(broken(error)),
            None => {
                let trailers = body.trailers().await.map_err(broken)?;
                return Ok(Piece::End(trailers.unwrap_or_default()));
            }
        }
    }
}

/// Trailers of HTTP/1.1, which were checked, with the empty line at their end.
fn trailers(lines: &[u8]) -> Result<HeaderMap, BadChunk> {
    let wrong = || BadChunk::Trailers(BadHead::bad("they are no headers"));
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let Ok(httparse::Status::Complete((_, headers))) = httparse::parse_headers(lines, &mut headers)
    else {
        return Err(wrong());
    };
    let mut map = HeaderMap::with_capacity(headers.len());
    for header in headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| wrong())?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| wrong())?;
        map.append(name, value);
    }
    Ok(map)
}
