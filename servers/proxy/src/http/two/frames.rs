//! Which frames have come, and how many of those that cost the sender nothing.
//!
//! A client that takes back its requests as soon as it has sent them (CVE-2023-44487), or sends
//! SETTINGS, PING or PRIORITY without end, keeps the proxy busy for almost nothing. h2 answers
//! each. So they are counted on their way to it, by the headers of the frames alone.

use std::time::Duration;

/// Length, type, flags and stream.
const HEADER_BYTES: usize = 9;

/// What a client sends before its first frame.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Follows the frames in what comes, however it is cut.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes that belong to no header: of the preface, and then of a frame's payload.
    skip: usize,
    header: [u8; HEADER_BYTES],
    filled: usize,
}

/// What limits are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// A request is taken back.
    Reset,
    /// A frame that is of no request.
    Control,
}

impl Frames {
    /// From a client, whose preface comes first.
    pub(super) fn of_client() -> Self {
        Self {
            skip: PREFACE.len(),
            header: [0; HEADER_BYTES],
            filled: 0,
        }
    }

    /// Looks at what has come next.
    pub(super) fn follow(&mut self, mut bytes: &[u8], mut see: impl FnMut(Seen)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEADER_BYTES - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEADER_BYTES {
                let [first, second, third, kind, ..] = self.header;
                self.skip =
                    usize::from(first) << 16 | usize::from(second) << 8 | usize::from(third);
                self.filled = 0;
                match kind {
                    DATA | HEADERS | WINDOW_UPDATE | CONTINUATION => {}
                    RST_STREAM => see(Seen::Reset),
                    _ => see(Seen::Control),
                }
            }
        }
    }
}

/// Follows the first frame of a server, which are its SETTINGS, until that has come whole.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    length: [u8; 3],
    came: usize,
}

impl Greeting {
    /// Looks at what has come next. Returns whether it is whole.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let begun = self.came.min(self.length.len());
        for (place, byte) in self.length[begun..].iter_mut().zip(bytes) {
            *place = *byte;
        }
        self.came += bytes.len();
        let [first, second, third] = self.length.map(usize::from);
        self.came >= HEADER_BYTES + (first << 16 | second << 8 | third)
    }
}

/// How many there may be in a second; those of one second may come at once.
#[derive(Debug)]
pub(super) struct Rate {
    max: u64,
    /// In millionths of one.
    left: u64,
    at: Duration,
}

/// One of what is counted.
const ONE: u64 = 1_000_000;

impl Rate {
    pub(super) fn new(max: usize) -> Self {
        let max = max as u64;
        Self {
            max,
            left: max * ONE,
            at: Duration::ZERO,
        }
    }

    /// Counts one at this time, from the beginning on. Returns whether it is within the limit.
    #[must_use]
    pub(super) fn one(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.at).min(Duration::from_secs(1));
        self.at = now;
        let more = self.max * u64::try_from(passed.as_micros()).unwrap_or(ONE);
        self.left = (self.left + more).min(self.max * ONE);
        let is_within = self.left >= ONE;
        self.left = self.left.saturating_sub(ONE);
        is_within
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let [.., first, second, third] = (length as u32).to_be_bytes();
        let mut bytes = vec![first, second, third, kind, 0, 0, 0, 0, 1];
        // Looks like headers of the kinds that are counted.
        bytes.resize(HEADER_BYTES + length, RST_STREAM);
        bytes
    }

    proptest! {
        #[test]
        fn frames_are_told_apart_however_their_bytes_are_cut(
            kinds in proptest::collection::vec((0_u8..12, 0_usize..40), 0..20),
            cuts in proptest::collection::vec(1_usize..30, 1..40),
        ) {
            let mut bytes = PREFACE.to_vec();
            let mut expected = Vec::new();
            for &(kind, length) in &kinds {
                bytes.extend(frame(kind, length));
                match kind {
                    RST_STREAM => expected.push(Seen::Reset),
                    DATA | HEADERS | WINDOW_UPDATE | CONTINUATION => {}
                    _ => expected.push(Seen::Control),
                }
            }
            let (mut frames, mut seen) = (Frames::of_client(), Vec::new());
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                let (part, more) = rest.split_at((*cut).min(rest.len()));
                frames.follow(part, |one| seen.push(one));
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn a_greeting_is_whole_with_its_last_byte_however_it_is_cut() {
        let bytes = frame(4, 6 * 50);
        for cut in 1..bytes.len() {
            let (first, rest) = bytes.split_at(cut);
            let mut greeting = Greeting::default();
            assert!(!greeting.take(first), "{cut}");
            assert!(!greeting.take(&rest[..rest.len() - 1]), "{cut}");
            assert!(greeting.take(&rest[rest.len() - 1..]), "{cut}");
        }
        // Settings may be none.
        assert!(Greeting::default().take(&frame(4, 0)));
    }

    #[test]
    fn as_many_as_allowed_may_come_in_a_second_and_no_more() {
        let mut rate = Rate::new(3);
        let at = Duration::from_secs(7);
        assert!((0..3).all(|_| rate.one(at)));
        assert!(!rate.one(at));
        // A third of a second is worth one.
        assert!(rate.one(at + Duration::from_millis(334)));
        assert!(!rate.one(at + Duration::from_millis(335)));
        // Silence is not saved up.
        let later = at + Duration::from_secs(60);
        assert!((0..3).all(|_| rate.one(later)));
        assert!(!rate.one(later));
    }
}
