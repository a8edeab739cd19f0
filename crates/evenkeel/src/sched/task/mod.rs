//! What a task is in memory: its life (`state`), its parts and who may touch them (`cell`), what
//! alike tasks share (`kind`), what the spawner holds (`join`, `error`), and the tasks that wait,
//! for shutdown (`registry`).

pub(crate) mod cell;
pub(crate) mod error;
pub(crate) mod join;
pub(crate) mod kind;
pub(crate) mod registry;
pub(crate) mod state;

pub use error::JoinError;
pub use join::{AbortHandle, JoinHandle};
