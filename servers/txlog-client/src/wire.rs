//! Frames over a stream.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::frame::{self, FrameError, LENGTH_BYTES};

/// How much is read at a time, if that much has arrived.
const CHUNK_BYTES: usize = 16 * 1024;

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The stream failed, or ended within a frame.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The frame is empty or too long.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads frames from a stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: R,
    buffer: BytesMut,
    frame_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Accepts frames of up to `frame_bytes_max` bytes.
    pub fn new(stream: R, frame_bytes_max: usize) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            frame_bytes_max,
        }
    }

    /// Returns the stream. The part of a next frame that has arrived is lost.
    pub fn into_inner(self) -> R {
        self.stream
    }

    /// Whether a next frame has begun to arrive.
    pub fn is_within_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Accepts frames of up to this many bytes from now on.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// The next frame without its length; `None` if the stream ended before it.
    ///
    /// # Errors
    ///
    /// [`WireError`]: the stream broke, or the frame is too long. No more frames can be read then.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the part of a frame that has arrived is kept.
    pub async fn next(&mut self) -> Result<Option<Bytes>, WireError> {
        loop {
            let want = match self.buffered()? {
                Have::Frame(frame) => return Ok(Some(frame)),
                Have::Less(want) => want,
            };
            // Memory is reserved for bytes that arrived, and not for what the length claims.
            self.buffer
                .reserve(want.clamp(1, CHUNK_BYTES).max(CHUNK_BYTES / 4));
            if self.stream.read_buf(&mut self.buffer).await? > 0 {
                continue;
            }
            if self.buffer.is_empty() {
                return Ok(None);
            }
            let what = "the other side closed within a frame";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what).into());
        }
    }

    /// Takes a frame that has arrived completely.
    ///
    /// # Errors
    ///
    /// As [`next`](FrameReader::next).
    pub fn take_buffered(&mut self) -> Result<Option<Bytes>, WireError> {
        match self.buffered()? {
            Have::Frame(frame) => Ok(Some(frame)),
            Have::Less(_) => Ok(None),
        }
    }

    fn buffered(&mut self) -> Result<Have, FrameError> {
        let Some(&first) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(Have::Less(LENGTH_BYTES));
        };
        let length = frame::length(first, self.frame_bytes_max)?;
        let end = LENGTH_BYTES + length;
        if self.buffer.len() < end {
            return Ok(Have::Less(end - self.buffer.len()));
        }
        let frame = self.buffer.split_to(end).freeze();
        Ok(Have::Frame(frame.slice(LENGTH_BYTES..)))
    }
}

/// The state of the buffer.
enum Have {
    Frame(Bytes),
    /// At least this many bytes are missing.
    Less(usize),
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// Polled once, then dropped.
    async fn given_up<F: Future>(future: F) -> bool {
        let mut future = pin!(future);
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[test]
    fn a_frame_is_whole_however_often_waiting_for_it_is_given_up() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (mut far, near) = duplex(1 << 16);
            let mut frames = FrameReader::new(near, 100);
            for byte in [3, 0, 0, 0, b'a', b'b'] {
                far.write_all(&[byte]).await.unwrap();
                assert!(given_up(frames.next()).await);
                assert!(frames.is_within_frame());
            }
            far.write_all(b"c\x01\0\0\0d\x02\0").await.unwrap();
            assert_eq!(frames.next().await.unwrap().unwrap(), "abc");
            assert_eq!(frames.take_buffered().unwrap().unwrap(), "d");
            assert_eq!(frames.take_buffered().unwrap(), None);
            drop(far);
            let error = frames.next().await.unwrap_err();
            assert!(matches!(error, WireError::Io(_)), "{error}");
        });
    }
}
