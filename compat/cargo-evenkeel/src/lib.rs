//! How a Tokio project is built on Evenkeel.
//!
//! Cargo's `[patch]` puts another package in the place of `tokio`: a copy of the version that the
//! project is locked to, made from the source that cargo has fetched. A few rules change where its
//! multi-thread runtime spawns, waits for descriptors and sets timers; the rest is Tokio's own.

// First, as what follows prints by its macros.
#[macro_use]
mod print;

pub mod call;
pub mod command;
pub mod config;
pub mod copy;
pub mod doctor;
pub mod error;
mod expected;
mod graph;
pub mod install;
mod known;
pub mod lock;
pub mod lockfile;
mod manifest;
mod meant;
pub mod mode;
pub mod patches;
pub mod permanent;
pub mod project;
mod receipt;
pub mod rules;
mod scratch;
pub mod suite;
mod toolchain;
pub mod upstream;
