//! An async runtime for network services.

#[cfg(not(unix))]
compile_error!("evenkeel runs on Linux and macOS; other systems lack what its I/O stands on");

#[cfg(not(evenkeel_loom))]
mod blocking;
mod class;
#[cfg(not(evenkeel_loom))]
mod clock;
#[cfg(all(feature = "futures-io", not(evenkeel_loom)))]
mod futures_io;
#[cfg(all(feature = "hyper", not(evenkeel_loom)))]
pub mod hyper;
pub mod io;
#[cfg(not(evenkeel_loom))]
pub mod net;
#[cfg(not(evenkeel_loom))]
pub mod runtime;
mod sched;
#[cfg(not(evenkeel_loom))]
pub mod signal;
#[cfg(not(evenkeel_loom))]
pub mod stats;
mod sync;
#[cfg(not(evenkeel_loom))]
mod sys;
pub mod task;
pub mod time;

pub use class::Class;
#[cfg(all(feature = "macros", not(evenkeel_loom)))]
pub use evenkeel_macros::{main, test};
#[cfg(not(evenkeel_loom))]
pub use runtime::{spawn, spawn_blocking, spawn_in};
pub use sched::{BusyWait, ParseBusyWaitError};
