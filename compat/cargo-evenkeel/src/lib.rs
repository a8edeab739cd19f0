//! How a Tokio project is built on Evenkeel.
//!
//! Cargo's `[patch]` puts another package in the place of `tokio`: a copy of the version that the
//! project is locked to, made from the source that cargo has fetched. A few rules change where its
//! multi-thread runtime spawns, waits for descriptors and sets timers; the rest is Tokio's own.

pub mod copy;
pub mod error;
mod known;
pub mod lock;
mod manifest;
pub mod project;
pub mod rules;
pub mod suite;
pub mod upstream;
