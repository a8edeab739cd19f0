//! Bodies in chunks: read strictly, and written anew.
//!
//! ```text
//!            digits, extension, CR LF                bytes of the chunk
//!   Size ────────────────────────────▶ Data(n) ───────────────────────▶ DataEnd
//!    ▲ └── "0" CR LF ──▶ Trailers ── empty line ──▶ Done                  │
//!    └────────────────────────── CR LF ───────────────────────────────────┘
//! ```
//!
//! Extensions are dropped, since programs differ in where they end. Trailers are passed on, except
//! that those which say where a message ends, or whose it is, are refused.

use std::io::Write as _;

use bytes::{Buf, BytesMut};

use super::head::{BadHead, HEADERS_MAX, HeadEnd};

/// The longest line with a size.
const SIZE_LINE_MAX: usize = 256;

/// Digits of a size: more could overflow.
const DIGITS_MAX: usize = 15;

/// Trailers that change the meaning of a head which is read already.
const FORBIDDEN: [&str; 13] = [
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "upgrade",
    "authorization",
    "cookie",
    "x-forwarded-for",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
];

/// How the body is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recode {
    /// In chunks.
    Chunks,
    /// Without them, to those who know none; trailers are dropped.
    Plain,
    /// Without them, and trailers are kept to be passed on in another way.
    Apart,
}

/// Why something is no body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadChunk {
    /// The size of a chunk.
    #[error("the size of a chunk is malformed")]
    Size,
    /// What follows a chunk.
    #[error("a chunk is longer than its size")]
    End,
    /// The trailers.
    #[error("the trailers are malformed: {0}")]
    Trailers(BadHead),
    /// The trailers have a header that belongs into the head.
    #[error("the trailers have a header that belongs into the head")]
    Forbidden,
    /// The trailers are too long.
    #[error("the trailers are longer than a head may be")]
    TooLong,
}

/// Reads a body in chunks.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    recode: Recode,
    trailers: HeadEnd,
    trailer_bytes_max: usize,
    kept: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

impl Decoder {
    /// At the beginning of a body.
    pub fn new(recode: Recode, trailer_bytes_max: usize) -> Self {
        Self {
            state: State::Size,
            recode,
            trailers: HeadEnd::default(),
            trailer_bytes_max,
            kept: BytesMut::new(),
        }
    }

    /// The trailers that were kept apart, with the empty line at their end.
    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Takes what it can from the input, and adds what is to be passed on. Returns whether the
    /// body is complete; what follows it stays in the input.
    ///
    /// # Errors
    ///
    /// [`BadChunk`].
    pub fn decode(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<bool, BadChunk> {
        loop {
            let goes_on = match self.state {
                State::Size => self.size(input, out)?,
                State::Data(left) => self.data(left, input, out),
                State::DataEnd => self.data_end(input, out)?,
                State::Trailers => self.trailers(input, out)?,
                State::Done => return Ok(true),
            };
            if !goes_on {
                return Ok(false);
            }
        }
    }

    /// Each of these returns whether there was enough of the input for another step.
    fn size(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<bool, BadChunk> {
        let seen = &input[..input.len().min(SIZE_LINE_MAX)];
        let Some(end) = memchr::memchr(b'\n', seen) else {
            let is_wrong = seen.len() == SIZE_LINE_MAX;
            return if is_wrong {
                Err(BadChunk::Size)
            } else {
                Ok(false)
            };
        };
        let size = size(&seen[..end]).ok_or(BadChunk::Size)?;
        input.advance(end + 1);
        if size == 0 {
            self.state = State::Trailers;
            self.trailers = HeadEnd::default();
            return Ok(true);
        }
        if self.recode == Recode::Chunks {
            // Writing to memory does not fail.
            let _ = write!(out, "{size:x}\r\n");
        }
        self.state = State::Data(size);
        Ok(true)
    }

    fn data(&mut self, left: u64, input: &mut BytesMut, out: &mut Vec<u8>) -> bool {
        let taken = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        out.extend_from_slice(&input[..taken]);
        input.advance(taken);
        let left = left - taken as u64;
        self.state = if left == 0 {
            State::DataEnd
        } else {
            State::Data(left)
        };
        left == 0
    }

    fn data_end(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<bool, BadChunk> {
        let end = b"\r\n";
        let common = input.len().min(end.len());
        if input[..common] != end[..common] {
            return Err(BadChunk::End);
        }
        if common < end.len() {
            return Ok(false);
        }
        input.advance(end.len());
        if self.recode == Recode::Chunks {
            out.extend_from_slice(end);
        }
        self.state = State::Size;
        Ok(true)
    }

    fn trailers(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<bool, BadChunk> {
        let found = self.trailers.find(input).map_err(BadChunk::Trailers)?;
        let length = found.unwrap_or(input.len());
        if length > self.trailer_bytes_max {
            return Err(BadChunk::TooLong);
        }
        let Some(end) = found else { return Ok(false) };
        let trailers = input.split_to(end);
        check(&trailers)?;
        if self.recode == Recode::Chunks {
            out.extend_from_slice(b"0\r\n");
            out.extend_from_slice(&trailers);
        }
        if self.recode == Recode::Apart {
            self.kept = trailers;
        }
        self.state = State::Done;
        Ok(true)
    }
}

/// The size that a line says, which ends with CR.
fn size(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r")?;
    let digits = line
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let (digits, extension) = line.split_at(digits);
    let is_of_extension = |&byte: &u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    let is_extension = extension.first().is_none_or(|&byte| byte == b';');
    if !(1..=DIGITS_MAX).contains(&digits.len())
        || !is_extension
        || !extension.iter().all(is_of_extension)
    {
        return None;
    }
    let text = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(text, 16).ok()
}

/// Trailers have the syntax of headers.
fn check(trailers: &[u8]) -> Result<(), BadChunk> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    match httparse::parse_headers(trailers, &mut headers) {
        Ok(httparse::Status::Complete((_, headers))) => {
            if headers.iter().any(|header| is_forbidden(header.name)) {
                return Err(BadChunk::Forbidden);
            }
            Ok(())
        }
        _ => Err(BadChunk::Trailers(BadHead::bad("they are no headers"))),
    }
}

/// Whether a trailer of this name would change the meaning of a head.
pub(super) fn is_forbidden(name: &str) -> bool {
    // Programs behind may take `_` and `-` for the same.
    let as_read = |byte: u8| match byte {
        b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    let is = |forbidden: &&str| name.bytes().map(as_read).eq(forbidden.bytes());
    FORBIDDEN.iter().any(is)
}

#[cfg(test)]
mod tests;
