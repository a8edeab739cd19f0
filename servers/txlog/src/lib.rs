//! A server for a log of records that are durable before they are acknowledged.
//!
//! - [`access`]: who may use a server, and for what.
//! - [`figures`]: what metrics are made of.
//! - [`log`]: the log itself, in a directory.
//! - [`store`]: the interface of the server to a log, so that records may be kept elsewhere.
//! - `nats`: another store, a NATS JetStream, with the feature of that name.
//! - [`named`]: where a server's logs with names are.
//! - [`server`]: connections, in front of a store.
//! - [`bench`](mod@bench): measures the log on this machine.
//! - [`advice`]: what to do about errors of the system.

pub mod access;
pub mod advice;
pub mod bench;
pub mod figures;
pub mod log;
pub mod named;
#[cfg(feature = "nats")]
pub mod nats;
pub mod server;
pub mod store;
