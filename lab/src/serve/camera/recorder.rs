//! A camera's recorder: a ring on disk, written in blocks beside the workers.

use std::io;
use std::path::PathBuf;

use crate::serve::platform::Platform;

/// Bytes of a block: what a camera of 1.4 Mbit/s sends in a second and a half.
const BLOCK_LEN: usize = 256 * 1024;
/// Recorders begin at so many different places of a block, so that cameras that begin together do
/// not write together ever after.
const PLACES: u64 = 16;
/// Bytes of a recording, after which it starts over: a run of any length costs a disk no more.
pub(crate) const RING_LEN: u64 = 4 * BLOCK_LEN as u64;

pub(super) struct Recorder<P: Platform> {
    file: P::File,
    block: Vec<u8>,
    at: u64,
}

impl<P: Platform> Recorder<P> {
    /// The recorder of the camera of that number.
    pub(super) async fn create(path: PathBuf, number: u64) -> io::Result<Self> {
        Ok(Recorder {
            file: P::create(path).await?,
            block: Vec::with_capacity(BLOCK_LEN),
            at: number % PLACES * (BLOCK_LEN as u64 / PLACES),
        })
    }

    /// Keeps `bytes`, and writes what has become a block. Says how much was written.
    pub(super) async fn keep(&mut self, mut bytes: &[u8]) -> io::Result<u64> {
        let mut written = 0;
        while !bytes.is_empty() {
            let room = BLOCK_LEN - (self.at % BLOCK_LEN as u64) as usize - self.block.len();
            let len = bytes.len().min(room);
            self.block.extend_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            if len == room {
                written += self.flush().await?;
            }
        }
        Ok(written)
    }

    /// Writes what there is.
    pub(super) async fn flush(&mut self) -> io::Result<u64> {
        let block = std::mem::take(&mut self.block);
        let len = block.len() as u64;
        self.block = P::write_at(&self.file, block, self.at).await?;
        self.block.clear();
        self.at = (self.at + len) % RING_LEN;
        Ok(len)
    }
}
