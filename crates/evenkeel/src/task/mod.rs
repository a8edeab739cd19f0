//! Tasks: what is spawned, the handles to it, and how it gives way to others.
//!
//! [`spawn`] starts a task and gives a [`JoinHandle`] for its output; an [`AbortHandle`] ends it
//! from afar; a [`JoinSet`] holds many; a [`Builder`] gives a task a name. [`yield_now`] and
//! [`checkpoint`] let others have a turn.
// What a task is in memory is `sched::task`, and how it gives way `sched::coop`.

#[cfg(not(evenkeel_loom))]
mod builder;
#[cfg(not(evenkeel_loom))]
mod join_set;
mod ready_list;

#[cfg(not(evenkeel_loom))]
pub use crate::runtime::{spawn, spawn_blocking, spawn_in};
#[cfg(not(evenkeel_loom))]
pub use crate::sched::coop::{checkpoint, yield_now};
pub use crate::sched::task::{AbortHandle, JoinError, JoinHandle};
#[cfg(not(evenkeel_loom))]
pub use {builder::Builder, join_set::JoinSet};
