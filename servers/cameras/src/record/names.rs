//! Names of files, which say all that a list of recordings needs.
//!
//! ```text
//! VOLUME/CAMERA/2026-11-26/1764162300000-60000-10485760-0.mp4   start, length, bytes, gaps
//!                          1764162300000.idx                    its index
//!                          1764162360000.mp4                    one that is being written
//! VOLUME/CAMERA/protected/1764160000000-1764163600000-ID         times that are kept
//! VOLUME/CAMERA/uploading                                        what a copy to a store has begun
//! ```
//!
//! Start and length are in milliseconds, the start since 1970-01-01 UTC. The day is the one in
//! which the segment begins, in UTC.

use std::fmt;

/// The directory of protected times in a camera's directory.
pub const PROTECTED: &str = "protected";

/// In a camera's directory, the file that says which object is being put together in a store.
pub const UPLOAD: &str = "uploading";

/// A segment that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Closed {
    /// When it begins.
    pub start_ms: u64,
    /// From the beginning of its first sample to the end of its last one.
    pub length_ms: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// How many gaps its index has.
    pub gaps: u32,
}

impl Closed {
    /// When it ends.
    pub fn end_ms(&self) -> u64 {
        self.start_ms.saturating_add(self.length_ms)
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            start_ms,
            length_ms,
            bytes,
            gaps,
        } = self;
        write!(f, "{start_ms:013}-{length_ms}-{bytes}-{gaps}.mp4")
    }
}

/// What the name of a file in the directory of a day says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A complete segment.
    Closed(Closed),
    /// One that is being written, or was when the process ended.
    Open(u64),
    /// The index of the segment that begins then.
    Index(u64),
}

impl Name {
    /// `None` of somebody else's file, which is left alone.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(start) = name.strip_suffix(".idx") {
            return Some(Self::Index(number(start)?));
        }
        let rest = name.strip_suffix(".mp4")?;
        let mut parts = rest.split('-');
        let start_ms = number(parts.next()?)?;
        let Some(length) = parts.next() else {
            return Some(Self::Open(start_ms));
        };
        let closed = Closed {
            start_ms,
            length_ms: number(length)?,
            bytes: number(parts.next()?)?,
            gaps: u32::try_from(number(parts.next()?)?).ok()?,
        };
        parts.next().is_none().then_some(Self::Closed(closed))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(closed) => closed.fmt(f),
            Self::Open(start_ms) => write!(f, "{start_ms:013}.mp4"),
            Self::Index(start_ms) => write!(f, "{start_ms:013}.idx"),
        }
    }
}

/// Digits alone: no sign, which the standard library would take.
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// The directory of the day in which this time is, in UTC. Days sort as their names do.
pub fn day(ms: u64) -> String {
    let time = i64::try_from(ms).ok();
    let time = time.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let time = time.unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y-%m-%d").to_string()
}

/// When a day begins, by the name of its directory. `None` of other names.
pub fn day_start(name: &str) -> Option<u64> {
    let date: jiff::civil::Date = name.parse().ok()?;
    let start = jiff::tz::Offset::UTC
        .to_timestamp(date.at(0, 0, 0, 0))
        .ok()?;
    let ms = u64::try_from(start.as_millisecond()).ok()?;
    (day(ms) == name).then_some(ms)
}

/// Milliseconds of a day.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Whether this can be the name of a camera's directory, and of the camera in addresses.
pub fn is_camera(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= 64 && name.bytes().all(allowed) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (ms, name) in [
            (0, "1970-01-01"),
            (DAY_MS - 1, "1970-01-01"),
            (1_582_934_400_000, "2020-02-29"),
            (1_764_162_300_000, "2025-11-26"),
        ] {
            assert_eq!(day(ms), name);
            assert_eq!(day_start(name), Some(ms / DAY_MS * DAY_MS));
        }
        for name in ["", "protected", "2025-11-31", "2025-1-1", "lost+found"] {
            assert_eq!(day_start(name), None, "{name}");
        }
    }

    #[test]
    fn files_of_others_are_left_alone() {
        for name in [
            "",
            ".mp4",
            "a.mp4",
            "1-2.mp4",
            "1-2-3.mp4",
            "1-2-3-4-5.mp4",
            "+1.mp4",
            "-1.idx",
            "1.mp4.part",
            "1-2-3-99999999999.mp4",
            "99999999999999999999.mp4",
        ] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn names_come_back(start_ms: u64, length_ms: u64, bytes: u64, gaps: u32) {
            let closed = Closed { start_ms, length_ms, bytes, gaps };
            for name in [Name::Closed(closed), Name::Open(start_ms), Name::Index(start_ms)] {
                prop_assert_eq!(Name::parse(&name.to_string()), Some(name));
            }
        }

        #[test]
        fn nothing_panics(name: String) {
            let _ = Name::parse(&name);
            let _ = day_start(&name);
        }
    }
}
