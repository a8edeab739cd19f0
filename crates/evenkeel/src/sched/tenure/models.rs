//! Models of taking a seat from a thread in a poll.

use super::*;
use crate::sync::Arc;
use crate::sync::models::check;
use crate::sync::thread;
use loom::cell::Cell;

/// What belongs to the seat's holder: loom reports it if two threads touch it at once.
struct Seat(Cell<u32>);

// SAFETY: the model is there to show that only the seat's holder touches the cell.
unsafe impl Sync for Seat {}
// SAFETY: as above.
unsafe impl Send for Seat {}

/// A thread polls twice and works in its seat in between; the monitor claims the seat in the first
/// poll, and whoever takes it over works there as well. Never do both.
#[test]
fn a_seat_has_one_holder() {
    check(|| {
        let tenure = Arc::new(Tenure::new(Fences::of_system()));
        let seat = Arc::new(Seat(Cell::new(0)));
        tenure.begin_poll(1);
        let thread = {
            let (tenure, seat) = (Arc::clone(&tenure), Arc::clone(&seat));
            thread::spawn(move || {
                for since in [2, 3] {
                    if !tenure.end_poll() {
                        return false;
                    }
                    seat.0.set(seat.0.get() + 1);
                    tenure.begin_poll(since);
                }
                tenure.end_poll()
            })
        };
        let since = tenure.polling_since();
        let claimed = tenure.claim(since);
        if claimed {
            seat.0.set(seat.0.get() + 1);
        }
        let kept = thread.join().unwrap();
        assert_ne!(claimed, kept, "exactly one of them has the seat");
    });
}

/// Two claims for the same poll, one after the other, as the monitor makes them, do not confuse
/// the thread.
#[test]
fn a_claim_that_was_withdrawn_leaves_the_seat() {
    check(|| {
        let tenure = Arc::new(Tenure::new(Fences::of_system()));
        tenure.begin_poll(1);
        let thread = {
            let tenure = Arc::clone(&tenure);
            thread::spawn(move || {
                let first = tenure.end_poll();
                if first {
                    tenure.begin_poll(2);
                }
                first && tenure.end_poll()
            })
        };
        let stale = tenure.claim(7);
        assert!(!stale, "no poll began at 7");
        let claimed = tenure.claim(1);
        let kept = thread.join().unwrap();
        assert_ne!(claimed, kept);
    });
}
