//! What the servers on Evenkeel share.
//!
//! - [`config`]: reading a configuration, and saying what is wrong with it, with its lines.
//! - [`values`]: how times and sizes are written in one.
//! - [`slots`]: who may have how many connections.
//! - [`counters`]: what was counted, for reports; [`histogram`]: how long something took.
//! - [`properties`]: what holds for all bytes that come from outside, and bytes made up for it.
//! - [`watch`]: whether files have changed since they were read.
//! - `testing`, by its feature: programs, certificates and alerts in the tests of servers.

pub mod config;
pub mod counters;
pub mod histogram;
pub mod properties;
pub mod slots;
#[cfg(feature = "testing")]
pub mod testing;
pub mod values;
pub mod watch;
