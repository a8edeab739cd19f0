//! Passing open sockets to another process: to a new version of a server, which goes on where the
//! old one stops, without a connection being refused.
//!
//! The old process [`send`]s its listeners, each under a name, over a Unix socket (`SCM_RIGHTS`).
//! The new one [`receive`]s them. From then on both processes hold the same socket, with the same
//! queue of connections that nobody has accepted yet; whoever accepts first gets one. The old
//! process drops its listeners when the new one has said that it serves, and finishes what it has.
//!
//! Exactly the bytes of the handover are read, so the two can say other things to each other over
//! the same stream, before and after.
//!
//! # Whom to trust
//!
//! Whoever can connect to the Unix socket gets, or gives, the listeners. Make it in a directory
//! that only the server's user may enter, and look at
//! [`peer_cred`](crate::net::UnixStream::peer_cred). What came is checked: how much, its names,
//! and, when it is turned into a socket, its kind.
//!
//! # Limits
//!
//! At most [`DESCRIPTORS_MAX`] descriptors, with names of at most [`NAME_MAX`] bytes. There is no
//! time limit: use [`timeout`](crate::time::timeout).
//!
//! # Examples
//!
//! ```
//! # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
//! use std::os::fd::AsFd;
//! use std::time::Duration;
//!
//! use evenkeel::net::{TcpListener, TcpStream, UnixStream, handover};
//! use evenkeel::time::timeout;
//!
//! // In a real server, the two ends are in two processes.
//! let (old, new) = UnixStream::pair()?;
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//! handover::send(&old, &[("http", listener.as_fd())]).await?;
//! drop(listener);
//!
//! let passed = timeout(Duration::from_secs(5), handover::receive(&new)).await??;
//! for passed in passed {
//!     assert_eq!(passed.name(), "http");
//!     let listener = passed.into_tcp_listener()?;
//!     assert_eq!(listener.local_addr()?, address);
//!     TcpStream::connect(address).await?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod error;
mod passed;
mod receive;
mod send;
mod wire;

pub use self::error::HandoverError;
pub use self::passed::Passed;
pub use self::receive::receive;
pub use self::send::send;
pub use self::wire::{DESCRIPTORS_MAX, NAME_MAX};
