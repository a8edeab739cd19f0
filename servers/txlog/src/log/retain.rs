//! Which records are kept, and which are removed. Pure.

use std::time::Duration;

/// In how many segments what is kept is divided, at least: so much more may be kept.
const SEGMENTS_MIN: u64 = 4;

/// The records that a log keeps. Whole segments are removed, the oldest first, and never the last
/// one; so a little more is kept than these limits say. That it is little, segments are no larger
/// than a quarter of what is kept; only an append of many records may make one larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes. 0, the default, for no limit.
    pub bytes_max: u64,
    /// The most records. 0, the default, for no limit.
    pub records_max: u64,
    /// The greatest age of a record. Zero, the default, for no limit.
    ///
    /// A segment that has a record of this age is followed by a new one, so records that are never
    /// followed by others go, too: at this age, and under a steady load at twice this age.
    pub age_max: Duration,
}

/// What may change while a log is open: which records it keeps, and when a segment is followed by a
/// new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// As [`LogConfig::segment_bytes`](super::LogConfig::segment_bytes).
    pub segment_bytes: u64,
    /// As [`LogConfig::retention`](super::LogConfig::retention).
    pub retention: Retention,
}

/// The facts about a segment that decide whether it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) first: u64,
    /// When its newest record was accepted, or later.
    pub(super) newest_ms: u64,
    pub(super) bytes: u64,
}

/// How many segments, from the oldest on, hold only records before this number; never the last one.
pub(super) fn segments_before(segments: &[Kept], before: u64) -> usize {
    let following = segments.iter().skip(1);
    following
        .take_while(|segment| segment.first <= before)
        .count()
}

impl Retention {
    /// How many segments, from the oldest on, need not be kept.
    pub(super) fn expired(&self, segments: &[Kept], next: u64, now_ms: u64) -> usize {
        let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let mut count = 0;
        for pair in segments.windows(2) {
            let (oldest, following) = (pair[0], pair[1]);
            let too_many_bytes = self.bytes_max > 0 && bytes > self.bytes_max;
            let kept_without = next.saturating_sub(following.first);
            let too_many = self.records_max > 0 && kept_without >= self.records_max;
            let too_old = self.is_too_old(oldest.newest_ms, now_ms);
            if !(too_many_bytes || too_many || too_old) {
                break;
            }
            bytes -= oldest.bytes;
            count += 1;
        }
        count
    }

    /// Whether a segment of so many records and bytes is to be followed by a new one, lest the log
    /// keeps much more than it has to.
    pub(super) fn is_large(&self, records: u64, bytes: u64) -> bool {
        let is_share = |part: u64, of: u64| of > 0 && part >= (of / SEGMENTS_MIN).max(1);
        is_share(records, self.records_max) || is_share(bytes, self.bytes_max)
    }

    /// Whether a record that was accepted at this time need not be kept because of its age. Then a
    /// segment that begins with it is to be followed by a new one.
    pub(super) fn is_too_old(&self, accepted_ms: u64, now_ms: u64) -> bool {
        let age_ms = now_ms.saturating_sub(accepted_ms);
        !self.age_max.is_zero() && u128::from(age_ms) > self.age_max.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five segments of 100 records and 1 000 bytes, filled one a second; they hold 450 records.
    fn five() -> Vec<Kept> {
        let segment = |number: u64| Kept {
            first: 1 + 100 * number,
            newest_ms: 1_000 * (number + 1),
            bytes: 1_000,
        };
        (0..5).map(segment).collect()
    }

    fn expired(retention: Retention) -> usize {
        retention.expired(&five(), 451, 5_000)
    }

    #[test]
    fn without_limits_all_is_kept() {
        assert_eq!(expired(Retention::default()), 0);
    }

    #[test]
    fn segments_go_by_their_bytes() {
        let of = |bytes_max| {
            expired(Retention {
                bytes_max,
                ..Retention::default()
            })
        };
        assert_eq!([of(5_000), of(4_999), of(2_000), of(1)], [0, 1, 3, 4]);
    }

    #[test]
    fn segments_go_by_their_records() {
        let of = |records_max| {
            expired(Retention {
                records_max,
                ..Retention::default()
            })
        };
        // Without the oldest segment 350 are left.
        assert_eq!([of(351), of(350), of(250), of(1)], [0, 1, 2, 4]);
    }

    #[test]
    fn a_segment_is_no_larger_than_a_quarter_of_what_is_kept() {
        let limits = |records_max, bytes_max| Retention {
            bytes_max,
            records_max,
            ..Retention::default()
        };
        assert!(!limits(0, 0).is_large(u64::MAX, u64::MAX));
        assert!(!limits(100, 4_000).is_large(24, 999));
        assert!(limits(100, 4_000).is_large(25, 999));
        assert!(limits(100, 4_000).is_large(24, 1_000));
        assert!(limits(3, 0).is_large(1, 0) && !limits(3, 0).is_large(0, 0));
    }

    #[test]
    fn segments_before_a_number_go_whole_and_the_last_one_stays() {
        let before = |number| segments_before(&five(), number);
        assert_eq!([before(1), before(100), before(101)], [0, 0, 1]);
        assert_eq!([before(401), before(451), before(u64::MAX)], [4, 4, 4]);
        assert_eq!(segments_before(&[], 7), 0);
    }

    #[test]
    fn segments_go_by_their_age() {
        let of = |ms| {
            expired(Retention {
                age_max: Duration::from_millis(ms),
                ..Retention::default()
            })
        };
        // The youngest record of the oldest segment may be 4 seconds old.
        assert_eq!([of(4_000), of(3_999), of(2_000), of(1)], [0, 1, 2, 4]);
    }
}
