//! Moving bytes from one stream to another: what a proxy does.
//!
//! - [`copy_bidirectional`] copies between any two streams, such as one with TLS and one without.
//! - [`splice_bidirectional`] moves between two sockets, on Linux without copying the bytes into
//!   the process: the kernel moves its pages through a pipe (`splice`). What fits into a buffer of
//!   32 KiB is copied all the same.
//! - [`splice`] moves up to a number of bytes in one direction, such as the body of a request, and
//!   [`splice_behind`] does so behind a head.
//!
//! # Fairness
//!
//! A task that moves bytes gives way to other tasks after [`BYTES_PER_POLL`] in one direction, and
//! whenever its slice is used up.
//!
//! # Half-close
//!
//! The end of one stream is passed on to the other once all bytes before it are, between sockets in
//! one packet with the last of them where it can, and the opposite direction goes on until it ends
//! as well. An error in one direction ends both.
//!
//! # Pipes
//!
//! A direction has a pipe only while bytes are in it: a connection without traffic has none. The
//! runtime opens at most 512, and no more than an eighth of the descriptors that the process may
//! have. Where there is none, because of that, or as the system allows no more (`EMFILE`, or the
//! limit `pipe-user-pages-soft`), bytes are copied;
//! [`Stats::splice`](crate::stats::Stats::splice) counts how often. A receiver that is slow keeps
//! a pipe, or a buffer of 32 KiB, in its direction.
//!
//! Writing from a pipe to a peer that has gone raises the signal `SIGPIPE`, which Rust programs
//! ignore. In a program that does not, when a pipe is opened, bytes are copied.
//!
//! # Cancel safety
//!
//! **Not cancel safe**: bytes that were read and not yet written are lost with the future. After a
//! future that was dropped, or that failed, the streams are good for nothing but to be closed. An
//! exception is a [`Meter`] that shows that nothing has moved.
//!
//! # Examples
//!
//! ```
//! # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
//! use evenkeel::net::{TcpListener, TcpStream, splice};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let origin = TcpListener::bind("127.0.0.1:0").await?;
//! let proxy = TcpListener::bind("127.0.0.1:0").await?;
//! let (to_origin, to_proxy) = (origin.local_addr()?, proxy.local_addr()?);
//!
//! evenkeel::spawn(async move {
//!     let (mut stream, _) = origin.accept().await?;
//!     let mut request = String::new();
//!     stream.read_to_string(&mut request).await?;
//!     stream.write_all(request.to_uppercase().as_bytes()).await
//! });
//! let relayed = evenkeel::spawn(async move {
//!     let (mut client, _) = proxy.accept().await?;
//!     let mut origin = TcpStream::connect(to_origin).await?;
//!     let moved = splice::splice_bidirectional(&mut client, &mut origin).await?;
//!     Ok::<_, std::io::Error>(moved)
//! });
//!
//! let mut client = TcpStream::connect(to_proxy).await?;
//! client.write_all(b"hello").await?;
//! client.shutdown().await?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "HELLO");
//! let moved = relayed.await??;
//! assert_eq!((moved.forth, moved.back), (5, 5));
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod buffer;
mod error;
mod flow;
mod meter;
mod relay;
mod socket;

pub use self::error::{Step, TransferError, Way};
pub use self::flow::BYTES_PER_POLL;
pub use self::meter::{Meter, Moved};
pub use self::relay::{
    copy_bidirectional, copy_bidirectional_metered, splice, splice_behind, splice_bidirectional,
    splice_bidirectional_closing, splice_bidirectional_metered, splice_metered,
};
pub use self::socket::Socket;
