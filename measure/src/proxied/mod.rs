//! What stands on both sides of a proxy that is measured: clients that repeat an operation, and
//! servers that cost next to nothing. A benchmark and the lab have the same ones, so that their
//! figures are of the same operations.
//!
//! - [`clients`]: what clients do, again and again
//! - [`origins`]: the servers behind the proxies

pub mod clients;
pub mod origins;

use std::error::Error;

/// What clients and servers cannot go on with.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
