//! Where a reader is: in which log, in which epoch of it, and at which record.

use std::fmt;
use std::str::FromStr;

/// Which log a server has, and which epoch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The log's id.
    pub log: u64,
    /// Grows when durable records were lost or replaced; a reader's position in an earlier one
    /// means nothing.
    pub epoch: u64,
}

/// A reader's position, from which it can resume later, also by another connection.
///
/// As text it is the log in hexadecimal, the epoch and the number of the next record, as in
/// `1a2b3c4d-1-120`:
///
/// ```
/// use txlog_client::Cursor;
///
/// let cursor: Cursor = "1a2b3c4d-1-120".parse()?;
/// assert_eq!((cursor.log, cursor.epoch, cursor.sequence), (0x1a2b_3c4d, 1, 120));
/// assert_eq!(cursor.to_string(), "1a2b3c4d-1-120");
/// # Ok::<_, txlog_client::CursorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The log's id.
    pub log: u64,
    /// The log's epoch.
    pub epoch: u64,
    /// The number of the record to be read next; 0 for the oldest.
    pub sequence: u64,
}

/// A text that is no cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no cursor; one looks like 1a2b3c4d-1-120: log, epoch, number of a record")]
pub struct CursorError {
    /// The text.
    pub text: String,
}

impl Cursor {
    /// The log and the epoch.
    pub fn identity(self) -> Identity {
        let Self { log, epoch, .. } = self;
        Identity { log, epoch }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}-{}", self.log, self.epoch, self.sequence)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        parse(text).ok_or_else(|| CursorError {
            text: text.to_owned(),
        })
    }
}

fn parse(text: &str) -> Option<Cursor> {
    // Numbers are digits alone here, though `parse` takes a sign as well.
    if text.contains('+') {
        return None;
    }
    let mut parts = text.split('-');
    let cursor = Cursor {
        log: u64::from_str_radix(parts.next()?, 16).ok()?,
        epoch: parts.next()?.parse().ok()?,
        sequence: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(cursor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_is_the_same_after_it_was_text(
            (log, epoch, sequence) in any::<(u64, u64, u64)>(),
        ) {
            let cursor = Cursor { log, epoch, sequence };
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }

    #[test]
    fn other_texts_are_no_cursors() {
        for text in [
            "", "1", "1-2", "1-2-", "x-1-1", "1-2-3-4", "+1-2-3", "1--3", "1-2-3 ",
        ] {
            let error = text.parse::<Cursor>().unwrap_err();
            assert!(error.to_string().contains("1a2b3c4d-1-120"), "{error}");
        }
    }
}
