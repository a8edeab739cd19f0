//! Readiness: what descriptors are ready for, and how tasks hear of it.

pub(crate) mod delivery;
#[cfg(not(evenkeel_loom))]
pub(crate) mod driver;
pub(crate) mod interest;
pub(crate) mod pace;
pub(crate) mod pressure;
pub(crate) mod readiness;
pub(crate) mod slots;

pub use interest::{Interest, Ready};
