//! How a handover looks on the wire.
//!
//! It is a sequence of messages. The descriptors of a message come with its first byte.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | `EKh1` |
//! | 4 | how many descriptors come with this message, at most 32 |
//! | 5 | 1 if another message follows, else 0 |
//! | 6..8 | the length of the names, little-endian |
//! | 8.. | for each descriptor a byte with the length of its name, and the name, in UTF-8 |

use std::os::fd::{BorrowedFd, OwnedFd};

use super::error::{HandoverError, Problem};

/// The most descriptors of one handover.
pub const DESCRIPTORS_MAX: usize = 1_024;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// The most descriptors of one message. Linux allows 253.
pub(super) const PART_MAX: usize = 32;

pub(super) const HEAD_LEN: usize = 8;

const MAGIC: [u8; 4] = *b"EKh1";

/// The first bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) count: usize,
    pub(super) goes_on: bool,
    pub(super) names_len: usize,
}

impl Head {
    pub(super) fn parse(bytes: [u8; HEAD_LEN]) -> Result<Self, HandoverError> {
        let [m0, m1, m2, m3, count, goes_on, low, high] = bytes;
        let head = Self {
            count: usize::from(count),
            goes_on: goes_on == 1,
            names_len: usize::from(u16::from_le_bytes([low, high])),
        };
        let is_known = [m0, m1, m2, m3] == MAGIC && goes_on <= 1;
        // A message without descriptors that others follow would make an endless sequence.
        let is_possible = head.count <= PART_MAX
            && head.names_len <= head.count * (1 + NAME_MAX)
            && (head.count > 0 || !head.goes_on);
        if is_known && is_possible {
            Ok(head)
        } else {
            Err(Problem::NotAHandover.into())
        }
    }
}

/// The bytes of one message.
pub(super) fn message(part: &[(&str, BorrowedFd<'_>)], goes_on: bool) -> Vec<u8> {
    let mut names = Vec::new();
    for (name, _) in part {
        debug_assert!((1..=NAME_MAX).contains(&name.len()), "it was checked");
        names.push(name.len() as u8);
        names.extend_from_slice(name.as_bytes());
    }
    let mut bytes = Vec::with_capacity(HEAD_LEN + names.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[part.len() as u8, u8::from(goes_on)]);
    bytes.extend_from_slice(&(names.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&names);
    bytes
}

/// The names of a message's descriptors.
pub(super) fn names(head: Head, mut bytes: &[u8]) -> Result<Vec<String>, HandoverError> {
    let mut names = Vec::with_capacity(head.count);
    while let Some((&len, rest)) = bytes.split_first() {
        let split = rest.split_at_checked(usize::from(len));
        let (name, rest) = split.ok_or(Problem::NotAHandover)?;
        let name = std::str::from_utf8(name).map_err(|_| Problem::NotAHandover)?;
        names.push(name.to_owned());
        bytes = rest;
    }
    if names.len() != head.count || names.iter().any(String::is_empty) {
        return Err(Problem::NotAHandover.into());
    }
    Ok(names)
}

/// Refuses names that one end would not accept from the other.
pub(super) fn check<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), HandoverError> {
    let mut names: Vec<_> = names.collect();
    if names.len() > DESCRIPTORS_MAX {
        return Err(Problem::TooMany(names.len()).into());
    }
    names.sort_unstable();
    for pair in names.windows(2) {
        if pair[0] == pair[1] {
            return Err(Problem::Twice(pair[0].to_owned()).into());
        }
    }
    let is_bad = |name: &&&str| !(1..=NAME_MAX).contains(&name.len());
    match names.iter().find(is_bad) {
        Some(name) => Err(Problem::Name((*name).to_owned()).into()),
        None => Ok(()),
    }
}

/// Descriptors that have come, closed if the handover fails.
pub(super) type Came = Vec<OwnedFd>;

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            given in prop::collection::vec("[a-z\u{e4}]{1,100}", 1..PART_MAX),
            goes_on in any::<bool>(),
        ) {
            let stdin = std::io::stdin();
            let part: Vec<_> = given.iter().map(|name| (name.as_str(), stdin.as_fd())).collect();
            let bytes = message(&part, goes_on);
            let head = Head::parse(bytes[..HEAD_LEN].try_into().unwrap()).unwrap();
            prop_assert_eq!((head.count, head.goes_on), (given.len(), goes_on));
            prop_assert_eq!(head.names_len, bytes.len() - HEAD_LEN);
            prop_assert_eq!(names(head, &bytes[HEAD_LEN..]).unwrap(), given);
        }

        /// Whatever comes is an error or within the limits, and never a panic.
        #[test]
        fn anything_may_come(
            head in any::<[u8; 4]>(),
            rest in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut bytes = [0; HEAD_LEN];
            bytes[..4].copy_from_slice(b"EKh1");
            bytes[4..].copy_from_slice(&head);
            if let Ok(head) = Head::parse(bytes) {
                prop_assert!(head.count <= PART_MAX);
                prop_assert!(head.names_len <= PART_MAX * (1 + NAME_MAX));
                if let Ok(names) = names(head, &rest) {
                    prop_assert_eq!(names.len(), head.count);
                }
            }
        }
    }

    #[test]
    fn a_sequence_has_an_end() {
        let bytes = |count, goes_on| [b'E', b'K', b'h', b'1', count, goes_on, 0, 0];
        assert!(Head::parse(bytes(0, 0)).is_ok());
        assert!(Head::parse(bytes(1, 1)).is_ok());
        assert!(Head::parse(bytes(0, 1)).is_err());
        assert!(Head::parse(bytes(1, 2)).is_err());
        assert!(Head::parse(bytes(PART_MAX as u8 + 1, 0)).is_err());
    }

    #[test]
    fn names_are_checked() {
        let long = "x".repeat(NAME_MAX + 1);
        assert!(check(["a", "b"].into_iter()).is_ok());
        assert!(check(["a", "b", "a"].into_iter()).is_err());
        assert!(check([""].into_iter()).is_err());
        assert!(check([&*long].into_iter()).is_err());
        let many: Vec<_> = (0..=DESCRIPTORS_MAX).map(|i| i.to_string()).collect();
        assert!(check(many.iter().map(String::as_str)).is_err());
        assert!(check(many[1..].iter().map(String::as_str)).is_ok());
    }
}
