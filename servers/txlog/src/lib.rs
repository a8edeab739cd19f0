//! A log of records that are durable before they are acknowledged, as a server.
//!
//! - [`log`]: the log itself, in a directory.

pub mod log;
