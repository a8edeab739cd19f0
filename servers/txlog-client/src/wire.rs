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
            if let Some(frame) = self.take_buffered()? {
                return Ok(Some(frame));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// Waits for some bytes; false if the stream ended before the next frame.
    ///
    /// # Errors
    ///
    /// As [`next`](FrameReader::next).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the part of a frame that has arrived is kept.
    pub async fn fill(&mut self) -> Result<bool, WireError> {
        let want = match self.buffered()? {
            Have::Frame => return Ok(true),
            Have::Less(want) => want,
        };
        // Memory is reserved for bytes that arrived, and not for what the length claims.
        self.buffer
            .reserve(want.clamp(1, CHUNK_BYTES).max(CHUNK_BYTES / 4));
        if self.stream.read_buf(&mut self.buffer).await? > 0 {
            return Ok(true);
        }
        if self.buffer.is_empty() {
            return Ok(false);
        }
        let what = "the other side closed within a frame";
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, what).into())
    }

    /// Takes a frame that has arrived completely.
    ///
    /// # Errors
    ///
    /// As [`next`](FrameReader::next).
    pub fn take_buffered(&mut self) -> Result<Option<Bytes>, WireError> {
        let Have::Frame = self.buffered()? else {
            return Ok(None);
        };
        let end = self.begun_bytes()?.unwrap_or_default();
        let frame = self.buffer.split_to(end).freeze();
        // What is left shares the memory of the frame, and would keep it for as long as the other
        // side is silent.
        if end > CHUNK_BYTES {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(Some(frame.slice(LENGTH_BYTES..)))
    }

    /// How many bytes the frame has that has begun to arrive, with its length, once that is known.
    ///
    /// # Errors
    ///
    /// As [`next`](FrameReader::next).
    pub fn begun_bytes(&self) -> Result<Option<usize>, WireError> {
        let Some(&first) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        Ok(Some(
            LENGTH_BYTES + frame::length(first, self.frame_bytes_max)?,
        ))
    }

    /// Reserves memory for all of the frame that has begun to arrive, and no more: otherwise memory
    /// grows with the bytes that have arrived, in steps of up to twice of them.
    ///
    /// # Errors
    ///
    /// As [`next`](FrameReader::next).
    pub fn reserve_begun(&mut self) -> Result<(), WireError> {
        let bytes = self.begun_bytes()?.unwrap_or_default();
        if bytes > self.buffer.capacity() {
            let mut whole = BytesMut::with_capacity(bytes);
            whole.extend_from_slice(&self.buffer);
            self.buffer = whole;
        }
        Ok(())
    }

    /// Gives back the memory of a frame that has begun to arrive. No more frames can be read then.
    pub fn give_up_begun(&mut self) {
        self.buffer = BytesMut::from(&self.buffer[..self.buffer.len().min(1)]);
    }

    /// How many bytes of the next frame have arrived.
    pub fn arrived_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn buffered(&self) -> Result<Have, WireError> {
        Ok(match self.begun_bytes()? {
            None => Have::Less(LENGTH_BYTES),
            Some(end) if self.buffer.len() < end => Have::Less(end - self.buffer.len()),
            Some(_) => Have::Frame,
        })
    }
}

/// The state of the buffer.
enum Have {
    /// A whole frame.
    Frame,
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

    #[test]
    fn a_large_frame_leaves_no_large_buffer_behind() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (mut far, near) = duplex(1 << 21);
            let mut frames = FrameReader::new(near, 1 << 20);
            let large: usize = 1 << 20;
            far.write_all(&(large as u32).to_le_bytes()).await.unwrap();
            assert!(frames.fill().await.unwrap());
            assert_eq!(frames.begun_bytes().unwrap(), Some(large + LENGTH_BYTES));
            frames.reserve_begun().unwrap();
            assert_eq!(frames.buffer.capacity(), large + LENGTH_BYTES);
            far.write_all(&vec![7; large]).await.unwrap();
            far.write_all(b"\x01\0").await.unwrap();
            let frame = frames.next().await.unwrap().unwrap();
            assert_eq!(frame.len(), large);
            assert!(frames.buffer.capacity() <= 2 * CHUNK_BYTES);
            drop(frame);
            far.write_all(b"\0\0d").await.unwrap();
            assert_eq!(frames.next().await.unwrap().unwrap(), "d");
            assert!(frames.buffer.capacity() <= 2 * CHUNK_BYTES);
        });
    }
}
