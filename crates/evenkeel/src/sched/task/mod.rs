//! What a task is in memory: its states (`state`), its parts and who may touch them (`cell`), what
//! alike tasks have in common (`kind`), what the spawner holds (`join`, `id`, `error`), the list
//! of waiting tasks for shutdown (`registry`), and what tokio-console sees of them (`console`).

pub(crate) mod cell;
#[cfg(all(feature = "console", not(evenkeel_loom)))]
pub(crate) mod console;
pub(crate) mod error;
mod id;
pub(crate) mod join;
pub(crate) mod kind;
pub(crate) mod registry;
pub(crate) mod state;

pub use error::JoinError;
pub use id::Id;
pub use join::{AbortHandle, JoinHandle};
