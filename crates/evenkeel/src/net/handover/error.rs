//! Why a handover failed.

use std::fmt;
use std::io;

use super::wire::{DESCRIPTORS_MAX, NAME_MAX};

/// Descriptors were not passed on.
///
/// What had come is closed. The stream is left somewhere within the handover: close it.
#[derive(Debug)]
pub struct HandoverError(Problem);

#[derive(Debug)]
pub(super) enum Problem {
    Io(io::Error),
    Ended,
    NotAHandover,
    /// Announced, and come.
    Missing(usize, usize),
    TooMany(usize),
    Twice(String),
    Name(String),
    /// The name, and what it was to be.
    Kind(String, &'static str),
}

impl HandoverError {
    /// The error of the system, if it is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0 {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the other process ended, or closed the stream, before the handover was complete.
    pub fn is_ended(&self) -> bool {
        matches!(self.0, Problem::Ended)
    }

    /// Whether a socket was asked to be what it is not; the others can still be used.
    pub fn is_wrong_kind(&self) -> bool {
        matches!(self.0, Problem::Kind(..))
    }
}

impl From<Problem> for HandoverError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<io::Error> for HandoverError {
    fn from(error: io::Error) -> Self {
        Self(Problem::Io(error))
    }
}

impl From<HandoverError> for io::Error {
    fn from(error: HandoverError) -> Self {
        let kind = match &error.0 {
            Problem::Io(error) => error.kind(),
            Problem::Ended => io::ErrorKind::UnexpectedEof,
            Problem::NotAHandover | Problem::Missing(..) => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Problem::Io(error) => write!(f, "descriptors could not be passed on: {error}"),
            Problem::Ended => f.write_str(
                "the other process closed the stream before all descriptors had come; start its \
                 side again",
            ),
            Problem::NotAHandover => f.write_str(
                "what came is no handover of descriptors; are both ends of one version, and does \
                 the other one send?",
            ),
            Problem::Missing(announced, came) => write!(
                f,
                "{announced} descriptors were announced and {came} came; the process may have too \
                 many open already: raise its limit of open files",
            ),
            Problem::TooMany(count) => write!(
                f,
                "{count} descriptors are more than the {DESCRIPTORS_MAX} of one handover",
            ),
            Problem::Twice(name) => write!(
                f,
                "two descriptors are named {name:?}; the receiver tells them apart by their names",
            ),
            Problem::Name(name) => write!(
                f,
                "{name:?} is no name for a descriptor: it has to have 1 to {NAME_MAX} bytes",
            ),
            Problem::Kind(name, wanted) => {
                write!(f, "the descriptor named {name:?} is not {wanted}")
            }
        }
    }
}

impl std::error::Error for HandoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.io_error().map(|error| error as _)
    }
}
