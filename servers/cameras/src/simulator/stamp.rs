//! A mark in each grey picture that says which one it is, and when it was sent: so that whoever
//! gets it, or finds it in a file, knows what is missing and how old it is.
//!
//! It stands at the beginning of the picture's supplemental information, behind an identifier, as
//! hexadecimal digits, which are never taken for a start code.

use std::time::{SystemTime, UNIX_EPOCH};

/// The identifier of the supplemental information.
pub(super) const MARK: &[u8; 16] = b"evenkeel-camera!";

/// The digits behind it: 8 of the number, and 16 of the time.
pub const DIGITS: usize = 24;

/// What a picture says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its number in its connection, from 0 on.
    pub number: u32,
    /// When it was sent, in microseconds since 1970.
    pub sent_us: u64,
}

impl Stamp {
    /// For a picture that is sent now.
    pub(super) fn now(number: u32) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            number,
            sent_us: since.map_or(0, |since| since.as_micros() as u64),
        }
    }

    /// Its digits.
    pub(super) fn digits(self) -> String {
        format!("{:08x}{:016x}", self.number, self.sent_us)
    }

    fn read(digits: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(digits.get(..DIGITS)?).ok()?;
        Some(Self {
            number: u32::from_str_radix(text.get(..8)?, 16).ok()?,
            sent_us: u64::from_str_radix(text.get(8..)?, 16).ok()?,
        })
    }
}

/// The stamps in a file or a part of one, in their order, each with the place of its digits.
pub fn stamps(bytes: &[u8]) -> impl Iterator<Item = (usize, Stamp)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += find(bytes.get(at..)?)?;
            if let Some(stamp) = Stamp::read(&bytes[at..]) {
                return Some((at, stamp));
            }
        }
    })
}

/// Where the digits of the first stamp are, if there is room for them.
pub(super) fn place(payload: &[u8]) -> Option<usize> {
    find(payload).filter(|at| at + DIGITS <= payload.len())
}

/// What is behind the first mark.
fn find(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(begins) = bytes[from..].iter().position(|&byte| byte == MARK[0]) {
        from += begins;
        if bytes[from..].starts_with(MARK) {
            return Some(from + MARK.len());
        }
        from += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_wherever_they_stand_and_half_ones_are_not() {
        let stamp = |number| Stamp {
            number,
            sent_us: 1_700_000_000_000_000 + u64::from(number),
        };
        let mut bytes = b"\0\0\0\x01e evenkeel-camera".to_vec();
        for number in [0, 7, u32::MAX] {
            bytes.extend(MARK);
            bytes.extend(stamp(number).digits().as_bytes());
            bytes.extend(b"picture");
        }
        bytes.extend(MARK);
        bytes.extend(b"0000000000000000000000");
        let found: Vec<_> = stamps(&bytes).collect();
        let read: Vec<_> = found.iter().map(|(_, stamp)| *stamp).collect();
        assert_eq!(read, [stamp(0), stamp(7), stamp(u32::MAX)]);
        assert!(bytes[found[1].0..].starts_with(b"00000007"));
        assert_eq!(place(&bytes[bytes.len() - 38..]), None);
    }
}
