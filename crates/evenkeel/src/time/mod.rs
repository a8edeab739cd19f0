//! Time.
pub(crate) mod timers;
mod wheel;
