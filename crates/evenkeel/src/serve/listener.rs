//! Where connections come from.

use std::io;

use ::hyper::rt;

/// Where connections come from: a socket, or one with TLS on top.
pub trait Listener: Send + 'static {
    /// A connection.
    type Io: rt::Read + rt::Write + Unpin + Send + 'static;
    /// The address of a peer, which requests carry as a [`Peer`](super::Peer).
    type Address: Clone + Send + Sync + 'static;

    /// Waits for a connection.
    ///
    /// The future is dropped and made again whenever something else happens, so it has to be cancel
    /// safe. A handshake belongs in tasks of its own, with a limit: it would hold up others here.
    ///
    /// # Errors
    ///
    /// Errors leave the listener as it was; the server waits a little and tries again.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, Self::Address)>> + Send;
}
