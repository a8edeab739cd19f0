//! What is wrong with a configuration, and where.

use std::fmt;
use std::io;
use std::ops::Range;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        error: io::Error,
    },
    /// Something in it is wrong.
    #[error("{}", Listed(problems))]
    Wrong {
        /// Everything that is, in the order of its lines.
        problems: Vec<Problem>,
    },
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// The character in the line, from 1 on.
    pub column: usize,
    /// What is wrong, and what to do.
    pub message: String,
    /// The line itself.
    pub text: String,
}

impl Problem {
    pub(super) fn new(file: &str, text: &str, found: Found) -> Self {
        let at = found.at.start.min(text.len());
        // A span from elsewhere might begin within a character.
        let before = text.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = text[line_start..].lines().next().unwrap_or_default();
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: found.message,
            text: line.to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
            text,
        } = self;
        writeln!(f, "{file}:{line}:{column}: {}", message.trim_end())?;
        writeln!(f, "{line:>5} | {text}")?;
        write!(f, "      | {:>column$}", '^')
    }
}

/// A problem by its place in the text.
#[derive(Debug)]
pub(super) struct Found {
    at: Range<usize>,
    message: String,
}

impl Found {
    pub(super) fn new(at: Range<usize>, message: String) -> Self {
        Self { at, message }
    }

    pub(super) fn start(&self) -> usize {
        self.at.start
    }
}

struct Listed<'a>(&'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}
