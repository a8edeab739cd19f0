//! The protocol that cameras speak (RFC 2326), without I/O.
//!
//! - [`wire`]: messages, and packets between them, from a stream of bytes.
//! - [`auth`]: who may: basic and digest, for both sides.
//! - [`sdp`]: what streams there are, and how they are encoded.
//! - [`transport`]: how packets get from one side to the other.
//! - [`client`]: asks a camera for its streams.
//! - [`server`]: answers viewers, and cameras that publish by themselves.

pub mod auth;
pub mod client;
pub mod sdp;
pub mod server;
pub mod transport;
pub mod wire;

pub use client::{Client, ClientError, Step};
pub use wire::{Frame, Wire, WireError};

/// What this program calls itself.
pub const AGENT: &str = concat!("evenkeel-cameras/", env!("CARGO_PKG_VERSION"));
