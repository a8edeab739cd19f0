//! A camera's recorder: a ring on disk, written in blocks beside the workers.

use std::io;

use super::{Cameras, Counts};
use crate::serve::platform::Platform;

/// Bytes of a block: what a camera of 1.4 Mbit/s sends in a second and a half.
const BLOCK_LEN: usize = 256 * 1024;
/// Recorders begin at so many different places of a block, so that cameras that begin together do
/// not write together ever after.
const PLACES: u64 = 16;
/// Bytes of a recording, after which it starts over: a run of any length costs a disk no more.
pub(crate) const RING_LEN: u64 = 4 * BLOCK_LEN as u64;

pub(super) struct Recorder<'a, P: Platform> {
    /// Where it is written; `None` if it is not, or has failed.
    file: Option<P::File>,
    block: Vec<u8>,
    at: u64,
    counts: &'a Counts,
}

impl<'a, P: Platform> Recorder<'a, P> {
    /// The recorder of the camera of that number.
    pub(super) async fn begin(cameras: &'a Cameras<P>, number: u64) -> Self {
        let mut recorder = Recorder {
            file: None,
            block: Vec::new(),
            at: number % PLACES * (BLOCK_LEN as u64 / PLACES),
            counts: &cameras.counts,
        };
        if let Some(directory) = &cameras.args.record {
            let created = P::create(directory.join(format!("camera-{number}"))).await;
            recorder.file = recorder.unless_failed(created);
            recorder.block.reserve_exact(BLOCK_LEN);
        }
        recorder
    }

    /// Keeps `bytes`, and writes what has become a block.
    pub(super) async fn keep(&mut self, mut bytes: &[u8]) {
        while self.file.is_some() && !bytes.is_empty() {
            let room = BLOCK_LEN - (self.at % BLOCK_LEN as u64) as usize - self.block.len();
            let len = bytes.len().min(room);
            self.block.extend_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            if len == room {
                self.flush().await;
            }
        }
    }

    /// Writes what there is.
    pub(super) async fn flush(&mut self) {
        let Some(file) = self.file.take() else {
            return;
        };
        let block = std::mem::take(&mut self.block);
        let len = block.len() as u64;
        let written = P::write_at(&file, block, self.at).await;
        if let Some(block) = self.unless_failed(written) {
            (self.file, self.block) = (Some(file), block);
            self.block.clear();
            self.at = (self.at + len) % RING_LEN;
            self.counts.recorded.add(len);
        }
    }

    fn unless_failed<T>(&self, result: io::Result<T>) -> Option<T> {
        result.map_err(|_| self.counts.unrecorded.add(1)).ok()
    }
}
