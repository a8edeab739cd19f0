//! A NATS JetStream as the store, for users who need more than one machine.
//!
//! It implements the necessary parts of NATS's protocol on the runtime's own sockets: connecting,
//! publishing with headers, and one subscription for all answers.
// The files: `protocol` is the text protocol (pure), `connection` sends requests and receives
// answers, `store` implements the store on it, `ahead` decides how many messages to request.

mod ahead;
mod connection;
pub mod protocol;
mod store;

pub use store::{NatsConfig, NatsPending, NatsStore};
