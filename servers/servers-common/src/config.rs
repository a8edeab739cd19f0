//! Reading a configuration in TOML, and what is wrong with one, and where.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;

/// Reads a file and checks it by `problems`, which may complete what it is given.
///
/// # Errors
///
/// [`ConfigError`]: it cannot be read, or what is wrong with it.
pub fn read<T: DeserializeOwned>(
    path: &Path,
    problems: impl FnOnce(&mut T) -> Vec<Found>,
) -> Result<T, ConfigError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read {
        file: shown.clone(),
        error,
    })?;
    parse(&shown, &text, problems)
}

/// Reads a text, whose name is for errors, and checks it in the same way.
///
/// # Errors
///
/// [`ConfigError`]: what is wrong with it, in the order of its lines.
pub fn parse<T: DeserializeOwned>(
    file: &str,
    text: &str,
    problems: impl FnOnce(&mut T) -> Vec<Found>,
) -> Result<T, ConfigError> {
    let wrong = |found: Vec<Found>| ConfigError::Wrong {
        problems: found
            .into_iter()
            .map(|found| Problem::new(file, text, found))
            .collect(),
    };
    let mut config: T = toml::from_str(text).map_err(|error| {
        let at = error.span().unwrap_or_default();
        wrong(vec![Found::new(at, error.message().to_owned())])
    })?;
    let mut found = problems(&mut config);
    found.sort_by_key(Found::start);
    if found.is_empty() {
        Ok(config)
    } else {
        Err(wrong(found))
    }
}

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
    fn new(file: &str, text: &str, found: Found) -> Self {
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
pub struct Found {
    at: Range<usize>,
    message: String,
}

impl Found {
    /// At this place of the text.
    pub fn new(at: Range<usize>, message: String) -> Self {
        Self { at, message }
    }

    /// Where it begins, for sorting.
    pub fn start(&self) -> usize {
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
