//! Tasks: what is spawned, and the handles to it.
//!
//! - `state`, `cell`: a task's life and memory, with the contract of who may touch what.
//! - `join`, `join_set`, `error`: what the spawner holds, and why there may be no output.
//! - `registry`: the tasks that wait, for shutdown.
//! - `coop`: how a task gives way.

#[cfg(not(evenkeel_loom))]
pub(crate) mod cell;
#[cfg(not(evenkeel_loom))]
pub(crate) mod coop;
#[cfg(not(evenkeel_loom))]
pub(crate) mod error;
#[cfg(not(evenkeel_loom))]
pub(crate) mod join;
#[cfg(not(evenkeel_loom))]
mod join_set;
mod ready_list;
#[cfg(not(evenkeel_loom))]
pub(crate) mod registry;
pub(crate) mod state;

#[cfg(not(evenkeel_loom))]
pub use {
    coop::{checkpoint, yield_now},
    error::JoinError,
    join::{AbortHandle, JoinHandle},
    join_set::JoinSet,
};
