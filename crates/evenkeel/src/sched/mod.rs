//! The scheduler: how a task gets from being woken to being polled.
//!
//! - `task`: what a task is in memory; `spawn`: how it is made; `coop`: how it yields.
//! - `injection`: the queue for tasks that are woken outside the workers.
//! - `run_queues`: a thread's own queues, two for each class; `bounded_queue`: the part of one that
//!   others steal from; `desk`: what else a thread has of its own; `within`: the spans that it has
//!   entered.
//! - `shares`: the division of time among classes; `ledger`: where the workers' views of it meet.
//! - `worker`: the loop. `idle`, `parker`, `spin`: who searches, sleeps and busy-waits, and whom to
//!   wake.
//! - `monitor`: the thread that looks for stuck workers; `tenure`: how a stuck thread loses its
//!   seat.
//! - `heavy_pool`: the threads that run hogs; `hog`: what is known of one task's polls, and the
//!   reports; `short`: the names of futures in them; `kinds`: what is known of alike tasks;
//!   `stacks`: when their stacks are taken.
//! - `dumps`: how tasks are asked where they wait.
//! - `shared`: what a runtime's threads share, and a worker's seat; `context`: which runtime a
//!   thread is in; `config`: how a runtime is configured; `live`: what of it changes
//!   while it works; `extensions`: what higher floors keep
//!   with it.

pub(crate) mod bounded_queue;
#[cfg(not(evenkeel_loom))]
pub(crate) mod config;
#[cfg(not(evenkeel_loom))]
pub(crate) mod context;
#[cfg(not(evenkeel_loom))]
pub(crate) mod coop;
#[cfg(not(evenkeel_loom))]
pub(crate) mod desk;
#[cfg(not(evenkeel_loom))]
pub(crate) mod dumps;
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
pub(crate) mod live;
#[cfg(not(evenkeel_loom))]
pub(crate) mod monitor;
#[cfg(not(evenkeel_loom))]
pub(crate) mod observed;
mod parker;
#[cfg(not(evenkeel_loom))]
pub(crate) mod placement;
#[cfg(not(evenkeel_loom))]
pub(crate) mod presence;
pub(crate) mod run_queues;
#[cfg(not(evenkeel_loom))]
pub(crate) mod shared;
pub(crate) mod shares;
#[cfg(not(evenkeel_loom))]
pub(crate) mod short;
#[cfg(not(evenkeel_loom))]
pub(crate) mod spawn;
pub(crate) mod spin;
#[cfg(not(evenkeel_loom))]
pub(crate) mod stacks;
pub(crate) mod task;
pub(crate) mod tenure;
#[cfg(not(evenkeel_loom))]
pub mod within;
#[cfg(not(evenkeel_loom))]
pub(crate) mod worker;

#[cfg(not(evenkeel_loom))]
pub use hog::HogReport;
pub use spin::{BusyWait, ParseBusyWaitError};
