//! Tasks: what is spawned, the handles to it, and how it gives way to others.
//!
//! [`spawn`] starts a task and gives a [`JoinHandle`] for its output; an [`AbortHandle`] ends it
//! from afar; a [`JoinSet`] holds many; a [`Builder`] gives a task a name. [`yield_now`] and
//! [`checkpoint`] let others have a turn.
// The files: `state` and `cell` are a task's life and memory, with the contract of who may touch
// what; `kind` what alike tasks share; `join`, `join_set` (on `ready_list`) and `error` what the
// spawner holds; `registry` the tasks that wait, for shutdown; `coop` how a task gives way.

#[cfg(not(evenkeel_loom))]
mod builder;
pub(crate) mod cell;
#[cfg(not(evenkeel_loom))]
pub(crate) mod coop;
pub(crate) mod error;
pub(crate) mod join;
#[cfg(not(evenkeel_loom))]
mod join_set;
pub(crate) mod kind;
mod ready_list;
pub(crate) mod registry;
pub(crate) mod state;

#[cfg(not(evenkeel_loom))]
pub use crate::runtime::{spawn, spawn_blocking, spawn_in};
#[cfg(not(evenkeel_loom))]
pub use {
    builder::Builder,
    coop::{checkpoint, yield_now},
    error::JoinError,
    join::{AbortHandle, JoinHandle},
    join_set::JoinSet,
};
