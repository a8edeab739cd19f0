//! Where the records of a connection's producers have a gap.
//!
//! ```text
//!   1 ──▶ refused, as its store is away          1 ──▶ stored
//!   2 ──▶ refused, though its store is back      2 ──▶ stored, behind 1
//! ```
//!
//! A producer repeats a record that was refused like this, with all behind it and over another
//! connection, and they are to be in the log in their order. A log in a directory knows which
//! number of a producer is next. NATS does not: without this it would store what came behind a
//! record that is yet to be repeated.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use txlog_client::frame::Produced;

use super::append::Refusal;

/// Of how many producers gaps are known. A session has one at a time on its connection.
const PRODUCERS_MAX: usize = 16;

/// The first number that was refused of each producer, until it comes again. The oldest is
/// forgotten when there are too many. Clones are those of the same connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps(Arc<Mutex<VecDeque<Produced>>>);

impl Gaps {
    /// A record was refused, and is to be repeated.
    pub(crate) fn refused(&self, produced: Produced) {
        let mut gaps = self.lock();
        if let Some(gap) = gaps
            .iter_mut()
            .find(|gap| gap.producer == produced.producer)
        {
            gap.number = gap.number.min(produced.number);
            return;
        }
        if gaps.len() == PRODUCERS_MAX {
            gaps.pop_front();
        }
        gaps.push_back(produced);
    }

    /// Lets a record pass. When the one comes again that was refused, its gap is filled.
    ///
    /// # Errors
    ///
    /// [`Refusal::Gap`]: one before it was refused, and has not come again.
    pub(crate) fn pass(&self, produced: Produced) -> Result<(), Refusal> {
        let Produced { producer, number } = produced;
        let mut gaps = self.lock();
        let gap = gaps.iter().find(|gap| gap.producer == producer);
        match gap.map(|gap| gap.number) {
            Some(next) if number > next => return Err(Refusal::Gap { number, next }),
            Some(next) if number == next => gaps.retain(|gap| gap.producer != producer),
            // It comes again, from before the gap.
            Some(_) | None => {}
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Produced>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Gaps {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Gaps {}

impl Hash for Gaps {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn produced(producer: u128, number: u64) -> Produced {
        Produced { producer, number }
    }

    #[test]
    fn what_is_behind_a_refused_record_does_not_pass_before_that_has_come_again() {
        let gaps = Gaps::default();
        gaps.pass(produced(1, 4)).unwrap();
        gaps.refused(produced(1, 5));
        gaps.refused(produced(1, 6));
        let (number, next) = (6, 5);
        let refusal = Refusal::Gap { number, next };
        assert_eq!(gaps.pass(produced(1, 6)), Err(refusal));
        // Others have nothing to do with it, and what is before it does not fill it.
        gaps.pass(produced(2, 6)).unwrap();
        gaps.pass(produced(1, 4)).unwrap();
        assert_eq!(gaps.pass(produced(1, 6)), Err(refusal));
        gaps.pass(produced(1, 5)).unwrap();
        gaps.pass(produced(1, 6)).unwrap();
    }

    #[test]
    fn no_more_producers_are_known_than_may_be() {
        let gaps = Gaps::default();
        let last = PRODUCERS_MAX as u128 + 1;
        for producer in 1..=last {
            gaps.refused(produced(producer, 1));
        }
        assert_eq!(gaps.lock().len(), PRODUCERS_MAX);
        gaps.pass(produced(1, 2)).unwrap();
        gaps.pass(produced(last, 2)).unwrap_err();
    }
}
