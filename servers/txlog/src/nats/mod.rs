//! A NATS JetStream as the store, for users who need more than one machine.
//!
//! It stands on NATS's own client, `async-nats`, which needs a Tokio runtime beside this one.
// The files: `config` is what the user gives, `login` who logs in and whom it trusts;
// `connection` sends requests and receives answers; `stream` asks JetStream about the stream,
// `fit` checks its settings, `stamp` reads its times; `history` knows which records there are
// and whether they still are the same, and `epoch` keeps that in the stream; `appends` keeps
// records until they are acknowledged, and `publisher` sends them; `repeats` finds those that
// come again, and `window` says for how long NATS knows them; `reads` reads, and `ahead` decides
// how many messages to request; `room` is the memory for all that, `once` lets one task work for
// many; `streams` are many of them; `inner` puts these together, and `store` implements the
// store on it.

mod ahead;
mod appends;
mod config;
mod connection;
mod epoch;
mod error;
mod fit;
mod history;
mod inner;
mod login;
mod once;
mod publisher;
mod reads;
mod repeats;
mod room;
mod stamp;
mod store;
mod stream;
mod streams;
mod window;

pub use config::{NatsConfig, NatsLogin};
pub use room::NatsRoom;
pub use store::{NatsPending, NatsPendingBatch, NatsStore};
pub use streams::NatsStreams;
