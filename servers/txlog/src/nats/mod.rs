//! A JetStream of a NATS server as the store, for those who outgrow one machine.
//!
//! The parts of NATS's protocol that this needs are spoken here, on the runtime's own sockets:
//! connecting, publishing with headers, and one subscription for all answers.
// The files: `protocol` is the text protocol (pure), `connection` a connection that asks and is
// answered, `store` what the server asks of it, `ahead` how much of that at a time.

mod ahead;
mod connection;
pub mod protocol;
mod store;

pub use store::{NatsConfig, NatsPending, NatsStore};
