//! A log of records that are durable before they are acknowledged, as a server.
//!
//! - [`log`]: the log itself, in a directory.
//! - [`store`]: what the server asks of it, so that records may be kept elsewhere.
//! - [`nats`]: such an elsewhere, a JetStream of NATS.
//! - [`server`]: connections, in front of a store.
//! - [`bench`](mod@bench): how fast that is here.
//! - [`advice`]: what to do about what the system has refused.

pub mod advice;
pub mod bench;
pub mod log;
pub mod nats;
pub mod server;
pub mod store;
