//! Talks to `txlog`, a server that keeps a log of records, each durable before it is acknowledged.
//!
//! ```no_run
//! use txlog_client::{Client, ReadFrom};
//!
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("127.0.0.1:7010").await?;
//! let sequence = client.append("an entry").await?; // now it would survive a crash
//!
//! let mut follower = client.follow(ReadFrom::Sequence(sequence));
//! let record = follower.next().await?;
//! assert_eq!(record.payload, "an entry");
//! # Ok(()) }
//! ```
//!
//! - [`Client`]: one connection, shared by any number of tasks, whose appends are pending together.
//! - [`Session`]: appends and reads that outlive connections, each append with a known outcome.
//! - [`Connect`]: which log to connect to, and by what right.
//! - [`Tls`]: whom to trust, and as whom to come, if the server speaks TLS.
//! - [`Follower`]: records in order, and then new ones.
//! - [`Consumer`]: a reader whose place the server keeps.
//! - [`Cursor`]: where a follower is, as text, from which another one resumes.
//! - [`frame`]: the protocol, without any I/O.
//! - [`wire`]: frames over a stream.

mod client;
mod connect;
mod cursor;
mod error;
mod follow;
pub mod frame;
mod session;
mod tls;
pub mod wire;

pub use client::{Batch, Client, Health, ServerInfo, Stored, Submitted, SubmittedBatch};
pub use connect::Connect;
pub use cursor::{Cursor, CursorError, Identity};
pub use error::ClientError;
pub use follow::{Follower, ReadFrom};
pub use frame::{LogBounds, LogInfo, Record, Trim};
pub use session::{
    AppendError, Appending, Consumer, ConsumerOptions, LogChange, Session, SessionFollower,
    SessionOptions,
};
pub use tls::{Tls, TlsFiles};
