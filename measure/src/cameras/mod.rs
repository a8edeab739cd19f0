//! What stands around a server for cameras that is measured, ours or MediaMTX: a benchmark and the
//! lab have the same, so that their figures are of the same work. Each starts the servers itself,
//! by its own rules for processes.
//!
//! - [`configurations`]: what the servers are to do
//! - [`viewers`]: those who watch by RTSP
//! - [`api`]: what programs ask over HTTP

pub mod api;
pub mod configurations;
pub mod viewers;

use std::error::Error;
use std::time::Duration;

pub use api::{Api, Camera};
pub use configurations::{Wanted, of_mediamtx, of_mediamtx_with_webrtc, of_ours};

/// What viewers and programs cannot go on with.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Nothing takes longer.
pub const LIMIT: Duration = Duration::from_secs(60);
