//! Tasks, the handles to them, and giving way to other tasks.
//!
//! [`spawn`] starts a task and returns a [`JoinHandle`] for its output. An [`AbortHandle`] aborts
//! it, a [`JoinSet`] holds many tasks, and a [`Builder`] gives a task a name. [`yield_now`] and
//! [`checkpoint`] let other tasks run.
// The memory of a task is in `sched::task`, giving way in `sched::coop`.

mod builder;
mod join_set;
mod ready_list;

pub use crate::runtime::{block_in_place, spawn, spawn_blocking, spawn_in};
pub use crate::sched::coop::{checkpoint, yield_now};
pub use crate::sched::task::{AbortHandle, JoinError, JoinHandle};
pub use {builder::Builder, join_set::JoinSet};
