//! What can go wrong while bytes move, and where.

use std::fmt;
use std::io;

use super::meter::Moved;

/// A direction between two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the first stream to the second.
    Forth,
    /// From the second stream to the first.
    Back,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Reading from the stream that bytes come from.
    Read,
    /// Writing to the stream that bytes go to.
    Write,
    /// Passing on the end of the stream.
    End,
}

/// Bytes could not be moved any further.
///
/// The streams are left with an unknown number of bytes that were read and not written: close them.
#[derive(Debug)]
pub struct TransferError {
    way: Way,
    step: Step,
    moved: Moved,
    error: io::Error,
}

impl TransferError {
    pub(super) fn new(way: Way, (step, error): Failure, moved: Moved) -> Self {
        Self {
            way,
            step,
            moved,
            error,
        }
    }

    /// In which direction it failed.
    pub fn way(&self) -> Way {
        self.way
    }

    /// What failed.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Whether the first stream is the one that failed, and not the second.
    pub fn is_of_first(&self) -> bool {
        (self.way == Way::Forth) == (self.step == Step::Read)
    }

    /// How many bytes had been written when it failed.
    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// The error of the stream.
    pub fn io_error(&self) -> &io::Error {
        &self.error
    }
}

/// A step, and why it failed.
pub(super) type Failure = (Step, io::Error);

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = if self.is_of_first() {
            "the first stream"
        } else {
            "the second stream"
        };
        let step = match self.step {
            Step::Read => "reading from",
            Step::Write => "writing to",
            Step::End => "ending",
        };
        let Moved { forth, back } = self.moved;
        write!(
            f,
            "{step} {stream} failed after {forth} bytes forth and {back} back: {}; close both",
            self.error
        )
    }
}

impl std::error::Error for TransferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<TransferError> for io::Error {
    fn from(error: TransferError) -> Self {
        io::Error::new(error.error.kind(), error)
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_stream_that_failed_is_named() {
        let cases = [
            (Way::Forth, Step::Read, "reading from the first stream"),
            (Way::Forth, Step::Write, "writing to the second stream"),
            (Way::Back, Step::Read, "reading from the second stream"),
            (Way::Back, Step::End, "ending the first stream"),
        ];
        for (way, step, said) in cases {
            let failure = (step, io::ErrorKind::BrokenPipe.into());
            let error = TransferError::new(way, failure, Moved::default()).to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
