//! What a task is in memory: its states (`state`), its parts and who may touch them (`cell`), what
//! alike tasks have in common (`kind`), where it comes from (`origin`) and belongs (`place`), what
//! its runner counts (`counts`), what the spawner holds (`join`, `id`, `error`), the list of
//! waiting tasks (`registry`), how one says where it waits (`trace`), and what tokio-console sees
//! of them (`console`).

pub(crate) mod cell;
#[cfg(all(feature = "console", not(evenkeel_loom)))]
pub(crate) mod console;
pub(crate) mod counts;
pub(crate) mod error;
mod id;
pub(crate) mod join;
pub(crate) mod kind;
pub(crate) mod link;
mod origin;
pub(crate) mod place;
pub(crate) mod registry;
pub(crate) mod state;
pub(crate) mod trace;

pub use error::JoinError;
pub use id::Id;
pub use join::{AbortHandle, JoinHandle};
