//! Sleeps, timeouts and intervals.
//!
//! - [`sleep()`] and [`sleep_until`] wait.
//! - [`timeout()`] and [`timeout_at`] give up on a future that takes too long.
//! - [`interval()`] and [`interval_at`] tick at a period.
//! - [`pause`], [`advance`] and [`resume`] let a test decide what time it is.
//! - [`Instant`] is a point in time of the monotonic clock they all use.
//!
//! # Guarantee
//!
//! Nothing here completes early. The resolution is one millisecond: a timer is due at the first
//! whole millisecond of the runtime's life that is not before its deadline. When its task then runs
//! is up to the scheduler. This holds at any uptime and for any deadline. A duration too long for
//! the clock to add counts as about a hundred years.
//!
//! # Behaviour today
//!
//! A timer belongs to the worker on which its task first waits for it. One that never waits, such
//! as the limit of a future that is ready at once, costs only a reading of the clock. Waiting and
//! cancelling each take constant time, whatever the number of timers.

mod instant;
mod interval;
mod pause;
mod sleep;
mod timeout;

pub use instant::Instant;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use pause::{advance, pause, resume};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};

pub use std::time::Duration;

/// The errors of this module, under Tokio's names.
pub mod error {
    pub use super::timeout::Elapsed;
}
