//! The scheduler: how a task gets from being woken to being polled.
//!
//! - `task`: what a task is in memory; `spawn`: how it comes to be; `coop`: how it gives way.
//! - `injection`: the way in from outside the workers.
//! - `run_queues`: a thread's queues, two for each class, on `ring`, which others steal from;
//!   `desk`: what else a thread has of its own.
//! - `shares`: the division of time among classes; `ledger`: where the workers' views of it meet.
//! - `tenure`: how a seat is taken from a thread that is stuck in a poll.
//! - `heavy_pool`: the threads for tasks that hog; `kinds`: what is learned of the kinds of tasks
//!   that do; `hog`: what one task is known for, and the reports.
//! - `idle`, `parker`: who sleeps, who searches, whom to wake, and how.
//! - `spin`: busy-waiting.
//! - `shared`: what threads share; a worker's seat. `context`: which runtime a thread is in.
//! - `config`: what a runtime was told to be; `extensions`: what higher floors keep with it.
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
#[cfg(not(evenkeel_loom))]
pub(crate) mod spawn;
pub(crate) mod spin;
pub(crate) mod task;
pub(crate) mod tenure;
#[cfg(not(evenkeel_loom))]
pub(crate) mod worker;

#[cfg(not(evenkeel_loom))]
pub use hog::HogReport;
pub use spin::{BusyWait, ParseBusyWaitError};
