//! Giving up the seat for a function that blocks, before the monitor finds the thread stuck.
//!
//! The thread says that it gives up its seat, and an heir is started, which claims the seat as any
//! heir does (`heavy`). If the function returns first, the thread takes that back, and the seat
//! stays where it is. If the heir claims the seat in that very moment, the rest of the poll runs
//! without one, as after any hand-off.
//!
//! The function may have to wait for tasks that it wakes, so these do not go to this thread's desk,
//! where an heir might miss them. Nor is a future cut short that it waits for: `block_on` would
//! only poll it again.

use crate::sched::monitor::Stuck;

use super::Worker;
use super::choose::WokenTo;
use super::slice::Suspended;

/// A function that blocks has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// For the heir that is to be started; `None` if the thread has no seat.
    pub(crate) stuck: Option<Stuck>,
    slice: Suspended,
}

impl Worker {
    /// Whether the running task is in a function that may block.
    pub(crate) fn is_in_place(&self) -> bool {
        self.woken_to.get() == WokenTo::Outside
    }

    /// The running task begins a function that may block. `None` if no task runs, or it is in such
    /// a function.
    pub(crate) fn begin_in_place(&self) -> Option<Begun> {
        if self.running.class().is_none() || self.is_in_place() {
            return None;
        }
        debug_assert_eq!(
            self.woken_to.get(),
            WokenTo::Slot,
            "no task runs in a check"
        );
        self.woken_to.set(WokenTo::Outside);
        let slice = self.slice.suspend();
        let tenure = self.desk.tenure();
        let stuck = (!self.lost.get() && !tenure.has_lost()).then(|| {
            let since = tenure.polling_since();
            self.desk.give_up(since);
            // As the monitor does, before any step that may wait for another thread.
            self.desk.demote();
            Stuck {
                worker: self.index,
                since,
                blocked: true,
                gives_up: true,
            }
        });
        Some(Begun { stuck, slice })
    }

    /// No heir can come: the seat stays with this thread, and its tasks go to other workers.
    #[cold]
    pub(crate) fn keep_in_place(&self, stuck: Stuck) {
        self.shared.heavy_pool.refuse();
        self.desk.keep(stuck.since, stuck.blocked);
        self.clear_desk();
    }

    /// The function is over.
    pub(crate) fn end_in_place(&self, begun: &Begun) {
        self.desk.give_up(0);
        self.slice.resume(begun.slice);
        self.woken_to.set(WokenTo::Slot);
    }
}
