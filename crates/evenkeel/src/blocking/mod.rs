//! Blocking work: functions that would hold up a worker, on threads of their own.
//!
//! Work is done in *lanes*: bounded queues with bounded threads, so that what hangs in one holds
//! up no other. [`spawn_blocking`](crate::spawn_blocking) has a lane, [`fs`](crate::fs) has some
//! for each device, and a [`Lane`] is one of your own. [`Stats::lanes`](crate::stats::Stats::lanes)
//! has the accounts of all.

#[cfg(not(evenkeel_loom))]
pub(crate) mod buffers;
#[cfg(not(evenkeel_loom))]
pub(crate) mod core;
#[cfg(not(evenkeel_loom))]
pub(crate) mod directories;
#[cfg(not(evenkeel_loom))]
mod error;
#[cfg(not(evenkeel_loom))]
pub(crate) mod lane;
#[cfg(not(evenkeel_loom))]
pub(crate) mod lanes;
#[cfg(not(evenkeel_loom))]
pub(crate) mod misses;
#[cfg(not(evenkeel_loom))]
mod order;
#[cfg(all(target_os = "linux", not(evenkeel_loom)))]
pub(crate) mod ring;
pub(crate) mod turns;
#[cfg(not(evenkeel_loom))]
pub(crate) mod work;

#[cfg(not(evenkeel_loom))]
pub(crate) use work::{new_work, spawn};
#[cfg(not(evenkeel_loom))]
pub use {
    error::LaneError,
    lane::{Lane, LaneBuildError, LaneBuilder},
};
