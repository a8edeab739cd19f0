//! Logs in streams of NATS. Where there is no `nats-server`, the tests say so and pass.
#![cfg(feature = "nats")]

#[path = "../support/mod.rs"]
mod support;

mod conditions;
mod faults;
mod history;
mod login;
mod logs;
mod store;
mod streams;
