//! Blocking work: functions that would hold up a worker, on threads of their own.
//!
//! Work is done in *lanes*: bounded queues with a bounded number of threads, so that work that
//! hangs in one lane holds up no other. [`spawn_blocking`](crate::spawn_blocking) has a lane,
//! [`fs`](crate::fs) has some for each device, and a [`Lane`] is your own.
//! [`Stats::lanes`](crate::stats::Stats::lanes) has the figures of all.

pub(crate) mod buffers;
pub(crate) mod core;
pub(crate) mod directories;
mod error;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod misses;
mod order;
#[cfg(target_os = "linux")]
pub(crate) mod ring;
pub(crate) mod turns;
pub(crate) mod work;

pub(crate) use work::{new_work, spawn, spawn_dump};
pub use {
    error::LaneError,
    lane::{Lane, LaneBuildError, LaneBuilder},
};
