//! The scheduler: how a task gets from being woken to being polled.
//!
//! - `ring`: a worker's bounded queue, which others steal from.
//! - `inbox`: the way in from outside the workers.
//! - `lines`: a worker's queues, two for each class.
//! - `turn`: the choice among classes.
//! - `idle`, `parker`: who sleeps, who searches, whom to wake, and how.
//! - `spin`: busy-waiting.
//! - `shared`: what threads share; a worker's seat.
//! - `worker`: the loop that brings them together.
//! - `monitor`: what becomes of it when a poll does not return.

pub(crate) mod idle;
pub(crate) mod inbox;
#[cfg(not(evenkeel_loom))]
pub(crate) mod lines;
#[cfg(not(evenkeel_loom))]
pub(crate) mod monitor;
pub(crate) mod parker;
pub(crate) mod ring;
#[cfg(not(evenkeel_loom))]
pub(crate) mod shared;
pub(crate) mod spin;
pub(crate) mod turn;
#[cfg(not(evenkeel_loom))]
pub(crate) mod worker;

pub use spin::{BusyWait, ParseBusyWaitError};
