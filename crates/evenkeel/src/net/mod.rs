//! TCP, UDP and Unix sockets, and the lookup of names.
//!
//! Names and meanings are those of `tokio::net`, and the streams implement [`tokio::io::AsyncRead`]
//! and [`tokio::io::AsyncWrite`], so that code written against those traits runs here unchanged.
//!
//! # Who may wait
//!
//! An `async` method (`accept`, `readable`, `recv_from`, `peek`…) may wait in any number of tasks
//! at once on one socket, shared by reference or in an `Arc`. A `poll_` method, and with it the I/O
//! traits, keeps one waiter per direction: the waker of the latest call replaces the one before.
//!
//! # Cancel safety
//!
//! A future of this module that is dropped before it is ready has done nothing: no byte is read or
//! written, no connection is taken from the backlog. A dropped `connect` closes its socket.
//!
//! # Options that have no method
//!
//! Buffer sizes, keep-alive of an accepted stream, marks, TOS and the like are set on the
//! descriptor, through the `socket2` crate and without unsafe code:
//!
//! ```
//! # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
//! let socket = evenkeel::net::UdpSocket::bind("127.0.0.1:0").await?;
//! socket2::SockRef::from(&socket).set_recv_buffer_size(256 * 1024)?;
//! # Ok::<(), std::io::Error>(()) }).unwrap();
//! ```
//!
//! [`TcpSocket`] sets those that must be set before `bind`, `connect` or `listen`.
//!
//! # Closing, and duplicates
//!
//! A dropped socket is closed. Its readiness queue is told so only if the descriptor may have a
//! duplicate, which saves a system call for each connection. It may have one if it came from
//! elsewhere (`from_std`, `TryFrom`), or if somebody has called `as_fd` or `as_raw_fd`, as
//! `SockRef::from` in the example above does. A duplicate that was made otherwise, by a `fork`
//! without `exec`, does no harm: events of a descriptor that was closed reach nobody. But as long
//! as the duplicate is open, such events may wake a worker in vain.

// `source` is the base of all sockets, and `stream` of byte streams. `methods`, `halves`
// and `datagrams` define the methods that several types share. `read` reads into uninitialised
// memory, `accept` serves listeners, `addr` resolves names, and `waits` says what a task waits for.

mod accept;
mod addr;
mod datagrams;
mod halves;
pub(crate) mod methods;
pub(crate) mod read;
mod read_size;
pub(crate) mod source;
pub(crate) mod stream;
pub(crate) mod waits;

#[cfg(unix)]
pub mod handover;
pub mod splice;
pub mod tcp;
pub mod udp;
#[cfg(unix)]
pub mod unix;

pub use self::addr::{ToSocketAddrs, lookup_host};
pub use self::read_size::ReadSize;
pub use self::tcp::{TcpListener, TcpSocket, TcpStream};
pub use self::udp::{Datagram, RecvBatch, UdpSocket};
#[cfg(unix)]
pub use self::unix::{UnixDatagram, UnixListener, UnixStream};
pub use crate::io::delivery::{Delivery, DeliveryError};
