//! Models of taking a seat from a thread in a poll: each runs once for every interleaving.

use super::*;
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::models::{model, model_with_twins, role, roles};

/// A seat with something that belongs to its holder: loom reports it if two threads touch it with
/// nothing between them.
struct Seat {
    tenure: Tenure,
    belongings: UnsafeCell<u32>,
}

// SAFETY: the models are there to show that only the seat's holder touches the cell.
unsafe impl Sync for Seat {}
// SAFETY: a number may change threads.
unsafe impl Send for Seat {}

impl Seat {
    /// A seat whose thread is at a poll that began at 1.
    fn new() -> Arc<Self> {
        let seat = Self {
            tenure: Tenure::new(Fences::of_system()),
            belongings: UnsafeCell::new(0),
        };
        seat.tenure.begin_poll(1);
        Arc::new(seat)
    }

    fn use_belongings(&self) {
        // SAFETY: as above.
        self.belongings.with_mut(|number| unsafe { *number += 1 });
    }

    /// The thread comes back from its poll, works in its seat, and polls again. Returns whether it
    /// still has the seat.
    fn poll_on(&self, polls: u64) -> bool {
        for since in 2..2 + polls {
            if !self.tenure.end_poll() {
                return false;
            }
            self.use_belongings();
            self.tenure.begin_poll(since);
        }
        self.tenure.end_poll()
    }

    /// An heir wants the seat because of the poll that began at `since`, and works there if it
    /// gets it.
    fn inherit(&self, since: u64) -> bool {
        let claimed = self.tenure.claim(since).is_some();
        if claimed {
            self.use_belongings();
        }
        claimed
    }
}

/// A thread polls on while an heir claims its seat: one of them has it, and never do both use what
/// belongs to it.
#[test]
fn a_seat_has_one_holder() {
    model(|| {
        let seat = Seat::new();
        let heir = Arc::clone(&seat);
        roles(
            [role(move || seat.poll_on(1)), role(move || heir.inherit(1))],
            |[kept, claimed]| assert_ne!(kept, claimed),
        )
    });
}

/// Two heirs want the same seat, as happens when the first is slow to start.
#[test]
fn a_seat_has_one_heir() {
    model_with_twins(|| {
        let seat = Seat::new();
        let (first, second) = (Arc::clone(&seat), Arc::clone(&seat));
        roles(
            [
                role(move || first.inherit(1)),
                role(move || second.inherit(1)),
                role(move || seat.poll_on(0)),
            ],
            |held| {
                let holders = held.iter().filter(|&&held| held).count();
                assert_eq!(holders, 1, "{held:?}");
            },
        )
    });
}

/// A claim for a poll that is over takes nothing, whatever the thread does meanwhile.
#[test]
fn a_claim_that_comes_late_takes_nothing() {
    model(|| {
        let seat = Seat::new();
        assert!(seat.tenure.end_poll());
        seat.tenure.begin_poll(2);
        let heir = Arc::clone(&seat);
        roles(
            [role(move || seat.poll_on(1)), role(move || heir.inherit(1))],
            |[kept, claimed]| assert!(kept && !claimed),
        )
    });
}
