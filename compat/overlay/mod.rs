//! Evenkeel beneath Tokio's multi-thread runtime.

mod scheduler;
pub(crate) use scheduler::{block_in_place, is_own_task, thread_cap, Orphaned, Place, Scheduler};

mod report;
pub(crate) use report::{leave, leave_blocking, note_spawn_site, LeftToTokio};

mod settings;
pub(crate) use settings::{is_on, prepare, settings};

mod forced;
pub(crate) use forced::is_forced;
#[cfg(all(feature = "time", feature = "test-util"))]
pub(crate) use forced::check_pause;

#[cfg(any(feature = "net", feature = "process", feature = "signal"))]
mod source;
#[cfg(any(feature = "net", feature = "process", feature = "signal"))]
pub(crate) use source::Source;

#[cfg(feature = "time")]
mod timer;
#[cfg(feature = "time")]
pub(crate) use timer::Timer;
