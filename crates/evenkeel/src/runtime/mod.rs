//! Making, using and ending a runtime.
//!
//! [`Builder`] makes a [`Runtime`], which owns the threads; a [`Handle`] refers to it from
//! anywhere. Code that runs inside a runtime needs none of them: [`spawn`](crate::spawn), sockets
//! and timers find it through their thread.

mod block_on;
mod builder;
pub mod defaults;
pub(crate) mod handle;
mod hog_report;
mod in_place;
mod live;
#[allow(
    clippy::module_inception,
    reason = "the file holds the type of that name"
)]
mod runtime;
pub(crate) mod setters;
pub(crate) mod settings;
mod shutdown;
mod spawn;
mod threads;
#[cfg(feature = "tokio-context")]
mod tokio_context;

pub use crate::sched::context::NoRuntime;
pub use crate::sched::within;
pub use builder::{BuildError, Builder};
pub use handle::Handle;
pub use in_place::block_in_place;
pub use live::ChangeError;
pub use runtime::Runtime;
pub use settings::SettingsError;
pub use shutdown::{ShutdownError, StuckThread};
pub use spawn::{spawn, spawn_blocking, spawn_in};
