//! TCP: listeners, streams and their halves, and sockets that are not yet either.
//!
//! The names that most programs need are re-exported by [`net`](crate::net).

mod listener;
mod socket;
mod split;
mod stream;

pub use self::listener::TcpListener;
pub use self::socket::TcpSocket;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use self::stream::TcpStream;
