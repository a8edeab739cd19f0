//! Surges: many tasks of one kind block, each on a worker, within a short time.
//!
//! A server's connections may all begin to block in the same moment, as when a database that they
//! ask synchronously becomes slow. Each of them is known as well behaved, so each would have to be
//! found stuck and cost a worker its seat, one after the other; and everything that waits behind
//! them would wait for the sum. A surge is noticed after a few. While it lasts, the kind's tasks
//! are *suspected*: each has its next poll in the heavy pool, where many block at the same time.
//! One short poll there refutes the suspicion, and a task is suspected once in a surge.

/// How many seats have to be lost, and in how many hand-off thresholds. A few hogs by accident are
/// no surge. Two workers that are stuck again and again lose so many in some five thresholds.
const SEATS: u32 = 4;
pub(in crate::sched) const WITHIN: u64 = 20;
/// How long a surge lasts, in spans of [`WITHIN`] thresholds. As no task is suspected twice, a long
/// one costs little, and a short one would have to be noticed again for tasks that come to block
/// later.
const LASTS: u64 = 50;

/// The surges of one kind. Times are in cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Surge {
    /// When the first of `seats` was lost.
    since: u64,
    seats: u32,
    /// The number of the last surge; 0 if there was none, and not for any surge.
    number: u8,
}

impl Surge {
    /// A task of the kind blocked on a worker, which has lost its seat. Returns the number of the
    /// surge that begins, if one does, and when it ends. `within` is the time for [`SEATS`].
    pub(super) fn lost_seat(&mut self, now: u64, within: u64) -> Option<(u8, u64)> {
        if self.seats == 0 || now.saturating_sub(self.since) >= within {
            (self.since, self.seats) = (now, 0);
        }
        self.seats += 1;
        if self.seats < SEATS {
            return None;
        }
        self.seats = 0;
        self.number = self.number % u8::MAX + 1;
        Some((
            self.number,
            now.saturating_add(within.saturating_mul(LASTS)),
        ))
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    const TIME: u64 = 100;

    /// The surges that begin when seats are lost at these times.
    fn begun(at: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let mut surge = Surge::default();
        let lost = at.into_iter();
        lost.filter_map(|now| Some(surge.lost_seat(now, TIME)?.0))
            .collect()
    }

    #[test]
    fn a_surge_is_some_seats_within_the_time() {
        assert_eq!(begun([1_000, 1_001, 1_002]), []);
        assert_eq!(begun([1_000, 1_033, 1_066, 1_099]), [1]);
        assert_eq!(begun([1_000, 1_033, 1_066, 1_100]), []);
        // However many there are, if they come slowly.
        assert_eq!(begun((1..100).map(|number| number * TIME / 3)), []);
    }

    #[test]
    fn each_surge_has_another_number_than_the_last_and_none_has_0() {
        let numbers = begun((0..4 * 600).map(|time| 1_000 + time));
        assert_eq!(numbers.len(), 600);
        assert!(!numbers.contains(&0));
        assert!(numbers.is_sorted_by(|before, number| before != number));
        assert_eq!(numbers[..3], [1, 2, 3]);
    }
}
