//! The scheduler: how a task gets from being woken to being polled.
//!
//! - `ring`: a worker's bounded queue, which others steal from.
//! - `injection`: the way in from outside the workers.
//! - `run_queues`: a worker's queues, two for each class; `desk`: those of one thread.
//! - `shares`: the division of time among classes; `ledger`: where the workers' views of it meet.
//! - `tenure`: how a seat is taken from a thread that is stuck in a poll.
//! - `heavy_pool`: the threads for tasks that hog; `kinds`: what is learned of the kinds of tasks
//!   that do; `hog`: what one task is known for, and the reports.
//! - `idle`, `parker`: who sleeps, who searches, whom to wake, and how.
//! - `spin`: busy-waiting.
//! - `shared`: what threads share; a worker's seat.
//! - `worker`: the loop that brings them together.
//! - `monitor`: what becomes of it when a poll does not return.

#[cfg(not(evenkeel_loom))]
pub(crate) mod config;
#[cfg(not(evenkeel_loom))]
pub(crate) mod context;
#[cfg(not(evenkeel_loom))]
pub(crate) mod coop;
#[cfg(not(evenkeel_loom))]
pub(crate) mod desk;
#[cfg(not(evenkeel_loom))]
pub(crate) mod extensions;
#[cfg(not(evenkeel_loom))]
pub(crate) mod heavy_pool;
#[cfg(not(evenkeel_loom))]
pub(crate) mod hog;
pub(crate) mod idle;
pub(crate) mod injection;
pub(crate) mod kinds;
pub(crate) mod ledger;
#[cfg(not(evenkeel_loom))]
pub(crate) mod monitor;
pub(crate) mod parker;
pub(crate) mod ring;
pub(crate) mod run_queues;
#[cfg(not(evenkeel_loom))]
pub(crate) mod shared;
pub(crate) mod shares;
pub(crate) mod spin;
pub(crate) mod task;
pub(crate) mod tenure;
#[cfg(not(evenkeel_loom))]
pub(crate) mod worker;

#[cfg(not(evenkeel_loom))]
pub use hog::HogReport;
pub use spin::{BusyWait, ParseBusyWaitError};
