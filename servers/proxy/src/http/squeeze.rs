//! Forwards a body that is compressed on its way.
//!
//! What has come is passed on before more is waited for, so that a stream of events stays one. The
//! work is done in pieces, by tasks of the same class that compute, so that no worker waits for it.

use std::io;

use bytes::{Buf, BytesMut};

use super::body::{Broken, Transfer};
use super::chunks::{Decoder, Recode};
use super::framing::Framing;
use crate::compress::{Squeeze, push};

/// How much is gathered before it is written.
const OUT_BYTES: usize = 16 * 1_024;

impl Transfer<'_> {
    /// Forwards all of it in chunks, compressed. The head is written with the first of them.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) async fn squeeze(
        mut self,
        framing: Framing,
        mut squeeze: Box<Squeeze>,
        trailer_bytes_max: usize,
    ) -> Result<(), Broken> {
        let mut source = Source::new(framing, trailer_bytes_max);
        let (mut plain, mut coded) = (Vec::new(), Vec::new());
        loop {
            let mut is_whole = source.take(self.buffer, &mut plain)?;
            let pushed = push(squeeze, plain, coded).await;
            (squeeze, plain, coded) = pushed.map_err(Broken::From)?;
            plain.clear();
            if coded.len() >= OUT_BYTES {
                self.chunk(&mut coded);
                self.flush().await?;
            }
            if !is_whole {
                is_whole = match self.read_more(&mut squeeze, &mut coded).await {
                    Ok(()) => false,
                    Err(Broken::From(error)) if source.ends_by(&error) => true,
                    Err(broken) => {
                        // The client sees by its missing end that it is not whole.
                        self.chunk(&mut coded);
                        self.flush().await?;
                        return Err(broken);
                    }
                };
            }
            if is_whole {
                squeeze.encoder.finish(&mut coded).map_err(Broken::From)?;
                self.chunk(&mut coded);
                self.out.extend_from_slice(b"0\r\n\r\n");
                return self.flush().await;
            }
        }
    }

    /// Reads what is there. If that is nothing, all that was taken is passed on before it waits.
    async fn read_more(
        &mut self,
        squeeze: &mut Squeeze,
        coded: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        self.buffer.reserve(super::body::READ_BYTES);
        match self.from.read_now(self.buffer) {
            Ok(0) => Err(Broken::From(io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => {
                self.patience.moved(read as u64);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                squeeze.encoder.flush(coded).map_err(Broken::From)?;
                self.chunk(coded);
                self.flush().await?;
                self.read(None).await
            }
            Err(error) => Err(Broken::From(error)),
        }
    }

    /// Adds a chunk to what is written next.
    fn chunk(&mut self, coded: &mut Vec<u8>) {
        if !coded.is_empty() {
            let size = format!("{:x}\r\n", coded.len());
            self.out.extend_from_slice(size.as_bytes());
            self.out.append(coded);
            self.out.extend_from_slice(b"\r\n");
        }
    }
}

/// What a server sends, without its framing.
enum Source {
    Length(u64),
    Chunks(Decoder),
    Close,
}

impl Source {
    fn new(framing: Framing, trailer_bytes_max: usize) -> Self {
        match framing {
            Framing::None => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunks(Decoder::new(Recode::Plain, trailer_bytes_max)),
            Framing::Close => Self::Close,
        }
    }

    /// Takes what belongs to the body. Returns whether it is complete.
    fn take(&mut self, buffer: &mut BytesMut, plain: &mut Vec<u8>) -> Result<bool, Broken> {
        match self {
            Self::Length(left) => {
                let ready = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(buffer.len());
                plain.extend_from_slice(&buffer[..ready]);
                buffer.advance(ready);
                *left -= ready as u64;
                Ok(*left == 0)
            }
            Self::Chunks(decoder) => decoder.decode(buffer, plain).map_err(Broken::Bad),
            Self::Close => {
                plain.extend_from_slice(buffer);
                buffer.clear();
                Ok(false)
            }
        }
    }

    /// Whether an error is the end of it.
    fn ends_by(&self, error: &io::Error) -> bool {
        matches!(self, Self::Close) && error.kind() == io::ErrorKind::UnexpectedEof
    }
}
