//! `evenkeel-lab split`: how a runtime splits processor time among classes that all want it.
//!
//! - [`args`]: the flags
//! - [`contest`]: tasks of every class that compute, and readings of who got how much
//! - [`windows`]: what those readings say of every second (pure)

mod args;
mod contest;
mod windows;

#[cfg(test)]
pub(crate) use args::Weights;
pub(crate) use args::{Polls, SplitArgs};
pub(crate) use contest::{Readings, run};
pub(crate) use windows::{Split, split};
