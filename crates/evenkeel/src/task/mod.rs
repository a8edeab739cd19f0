//! Tasks, the handles to them, and giving way to other tasks.
//!
//! [`spawn`] starts a task and returns a [`JoinHandle`] for its output. An [`AbortHandle`] aborts
//! it, a [`JoinSet`] holds many tasks, and a [`Builder`] gives a task a name. [`change_class`] puts
//! the running task into another class, and a [`LocalKey`] names a value that belongs to a task.
//! [`yield_now`] and [`checkpoint`] let other tasks run.
// The memory of a task is in `sched::task`, giving way in `sched::coop`.

mod builder;
mod join_set;
mod local;
mod ready_list;
mod running;

pub use crate::runtime::{block_in_place, spawn, spawn_blocking, spawn_in};
pub use crate::sched::coop::{checkpoint, yield_now};
pub use crate::sched::task::{AbortHandle, Id, JoinError, JoinHandle};
pub use {
    builder::Builder,
    join_set::JoinSet,
    local::AccessError,
    local::LocalKey,
    running::{NotInTask, change_class, class, id, name, worker},
};

/// Futures of this module that have names.
pub mod futures {
    pub use super::local::TaskLocalFuture;
}
