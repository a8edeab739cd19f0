//! Readiness of descriptors, and the tasks that wait for it.

pub(crate) mod delivery;
#[cfg(not(evenkeel_loom))]
pub(crate) mod driver;
pub(crate) mod interest;
pub(crate) mod pace;
#[cfg(not(evenkeel_loom))]
pub(crate) mod pipes;
pub(crate) mod pressure;
pub(crate) mod readiness;
pub(crate) mod registrations;
pub(crate) mod slots;
#[cfg(not(evenkeel_loom))]
pub mod unix;
pub(crate) mod watched;

pub use interest::{Interest, Ready};
