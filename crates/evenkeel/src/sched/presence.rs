//! Who can run beside the worker, as a clock that can be paused has to know (`clock::pausable`).
//! With an ordinary clock, all of this does nothing.

use crate::clock::Pausable;
use crate::sync::Arc;

use super::shared::Shared;

/// Blocking work that is queued or under way: the clock stands until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Option<(&'static Pausable, Arc<Shared>)>);

impl Busy {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(shared.clock.pausable().map(|pausable| {
            pausable.begin_work();
            (pausable, Arc::clone(shared))
        }))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((pausable, shared)) = self.0.take()
            && pausable.end_work()
        {
            shared.look_for_lull();
        }
    }
}

/// A thread in `block_on`.
pub(crate) struct Inside<'a> {
    shared: &'a Shared,
    pausable: Option<&'static Pausable>,
}

impl<'a> Inside<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        let pausable = shared.clock.pausable();
        pausable.into_iter().for_each(Pausable::enter);
        Self { shared, pausable }
    }

    /// The thread begins to wait. Whoever wakes it counts it as able to run
    /// ([`Pausable::begin_work`]) before it does so.
    pub(crate) fn waits(&self) {
        if self.pausable.is_some_and(Pausable::end_work) {
            self.shared.look_for_lull();
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.pausable.is_some_and(Pausable::leave) {
            self.shared.look_for_lull();
        }
    }
}
