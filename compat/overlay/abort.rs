//! The power to abort a task, whichever runtime has it.

use super::upstream_abort as upstream;
use super::{Id, RawTask};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// An owned permission to abort a spawned task, without awaiting its completion.
#[derive(Clone)]
pub struct AbortHandle(Inner);

#[derive(Clone)]
enum Inner {
    Evenkeel(evenkeel::task::AbortHandle, Id),
    Upstream(upstream::AbortHandle),
}

use Inner::{Evenkeel, Upstream};

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl AbortHandle {
    pub(super) fn new(raw: RawTask) -> Self {
        Self(Upstream(upstream::AbortHandle::new(raw)))
    }

    pub(super) fn of_evenkeel(abort: evenkeel::task::AbortHandle, id: Id) -> Self {
        Self(Evenkeel(abort, id))
    }

    /// Abort the task associated with the handle.
    pub fn abort(&self) {
        match &self.0 {
            Evenkeel(abort, _) => abort.abort(),
            Upstream(abort) => abort.abort(),
        }
    }

    /// Checks if the task associated with this `AbortHandle` has finished.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Evenkeel(abort, _) => abort.is_finished(),
            Upstream(abort) => abort.is_finished(),
        }
    }

    /// Returns a task ID that uniquely identifies this task relative to other tasks.
    pub fn id(&self) -> Id {
        match &self.0 {
            Evenkeel(_, id) => *id,
            Upstream(abort) => abort.id(),
        }
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("id", &self.id()).finish()
    }
}
