//! Reading and writing a file in sequence.

use std::io;

use super::file::File;

/// The sequential side of a file.
#[derive(Debug, Default)]
pub(super) struct Stream {}

impl File {
    /// Waits for what was written in sequence.
    pub(super) async fn settle(&self) -> io::Result<()> {
        Ok(())
    }
}
