//! A socket with TLS over it.
//!
//! Reading and writing go through a shared reference, since a request's body and its answer pass at
//! the same time, in one task. The session is behind a lock for that, which nobody else takes.
//!
//! A session without traffic has no buffers of its own. While there is some:
//!
//! ```text
//!  socket ── READ_BYTES at a time ──▶ incoming ──▶ decrypted ──▶ whoever reads
//!  whoever writes ── WRITE_BYTES at a time ──▶ encrypted ── all in one call ──▶ socket
//! ```
//!
//! What the socket has no room for is held back, encrypted, and nothing more is taken until it has
//! gone. A stream that ends without TLS's own end, `close_notify`, may have been cut off by
//! anybody on the way: that is an error, and not its end.

use std::io::{self, BufRead, IoSlice, Write};
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use rustls::Connection;
use tokio::io::{AsyncReadExt, AsyncWrite, ReadBuf};

use crate::socket::Socket;

/// How much is read at once: two records of the largest kind, with what TLS adds to each.
const READ_BYTES: usize = 2 * (16 * 1_024 + 256);

/// How much is encrypted at once, and held back at most: four records.
const WRITE_BYTES: usize = 64 * 1_024;

/// The last message of a client of TLS 1.3, with the one that TLS 1.2 had before it, is shorter.
const FINISHED_BYTES_MAX: usize = 128;

/// The stream was cut off: it has ended without `close_notify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the TLS connection was cut off, without a close_notify: something may be missing")]
pub struct CutOff;

/// A socket with TLS over it.
#[derive(Debug)]
pub struct Session {
    socket: Socket,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tls: Connection,
    /// What was read of the socket and is not decrypted yet.
    incoming: BytesMut,
}

impl Session {
    /// One at its beginning, of which this was read.
    pub(super) fn new(socket: Socket, tls: Connection, incoming: BytesMut) -> Self {
        let state = Mutex::new(State { tls, incoming });
        Self { socket, state }
    }

    /// The socket beneath.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The version that is spoken, such as `1.3`.
    pub fn version(&self) -> &'static str {
        match self.with(|tls| tls.protocol_version()) {
            Some(rustls::ProtocolVersion::TLSv1_2) => "1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "1.3",
            _ => "",
        }
    }

    /// The name that the client has asked for.
    pub fn server_name(&self) -> Option<String> {
        self.with(|tls| match tls {
            Connection::Server(server) => server.server_name().map(str::to_owned),
            Connection::Client(_) => None,
        })
    }

    /// The socket, without TLS.
    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }

    /// Whether both sides agreed to speak HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.with(|tls| tls.alpn_protocol() == Some(super::H2))
    }

    /// Looks at the connection.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Connection) -> T) -> T {
        look(&mut self.state().tls)
    }

    /// Waits until something has come that is not decrypted yet, and returns its first byte.
    pub(super) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<u8>> {
        let mut state = self.state();
        if state.incoming.is_empty() {
            match self.poll_incoming(cx, &mut state.incoming) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(cut_off())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    state.incoming = BytesMut::new();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(state.incoming[0]))
    }

    /// Whether what has come of a handshake is only to be compared: the last message of TLS 1.3, by
    /// a client without a certificate, which is short.
    pub(super) fn is_nearly_done(&self) -> bool {
        let state = self.state();
        let is_3 = state.tls.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3);
        let has_keys = state.tls.negotiated_key_exchange_group().is_some();
        is_3 && has_keys && state.incoming.len() <= FINISHED_BYTES_MAX
    }

    /// Takes all that has come of a handshake. What is to be sent then waits to be flushed.
    pub(super) fn process(&self) -> Result<(), rustls::Error> {
        let mut state = self.state();
        let State { tls, incoming } = &mut *state;
        while tls.is_handshaking() && !incoming.is_empty() {
            let read = tls.read_tls(&mut &incoming[..]);
            let read = read.map_err(|error| rustls::Error::General(error.to_string()))?;
            if read == 0 {
                return Err(rustls::Error::General("it was ended".to_owned()));
            }
            incoming.advance(read);
            tls.process_new_packets()?;
        }
        Ok(())
    }

    /// Reads as [`tokio::io::AsyncRead`].
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.read(
            |incoming| self.poll_incoming(cx, incoming),
            |bytes| {
                let count = bytes.len().min(buffer.remaining());
                buffer.put_slice(&bytes[..count]);
                count
            },
        );
        read.map_ok(|_| ())
    }

    /// Reads what is there.
    pub(crate) fn read_now(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        let mut room = buffer.capacity() - buffer.len();
        self.without_waiting(|bytes| {
            let count = bytes.len().min(room);
            buffer.extend_from_slice(&bytes[..count]);
            room -= count;
            count
        })
    }

    /// Whether neither bytes nor the end have come. What TLS has to say of itself is taken.
    pub(crate) fn is_silent(&self) -> bool {
        let read = self.without_waiting(|_| 0);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether something was read of the socket, and not of this.
    pub(crate) fn has_more(&self) -> bool {
        let mut state = self.state();
        // An empty chunk is the end, which was read of the socket, too.
        !state.incoming.is_empty() || state.tls.reader().fill_buf().is_ok()
    }

    /// Writes as [`tokio::io::AsyncWrite`].
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        ready!(self.poll_flush_of(cx, &mut state.tls))?;
        let taken = seal(&mut state.tls, bytes)?;
        // What has no room now is held back.
        if let Poll::Ready(flushed) = self.poll_flush_of(cx, &mut state.tls) {
            flushed?;
        }
        Poll::Ready(Ok(taken))
    }

    /// Writes what can be taken without waiting: 0, if something is held back.
    pub(crate) fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        self.flush_now(&mut state.tls)?;
        if state.tls.wants_write() {
            return Ok(0);
        }
        let taken = seal(&mut state.tls, bytes)?;
        self.flush_now(&mut state.tls)?;
        Ok(taken)
    }

    /// Whether something waits for room in the socket.
    pub(crate) fn holds_back(&self) -> bool {
        self.state().tls.wants_write()
    }

    /// Writes some of what is held back. Returns how many bytes the socket took.
    pub(crate) fn poll_push(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if !state.tls.wants_write() {
            return Poll::Ready(Ok(0));
        }
        self.poll_push_of(cx, &mut state.tls)
    }

    /// Writes all that is held back.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_of(cx, &mut self.state().tls)
    }

    /// Has the next flush say that nothing more comes.
    pub(crate) fn finish(&self) {
        self.state().tls.send_close_notify();
    }

    /// Says that nothing more comes, if there is room for it.
    pub(crate) fn finish_now(&self) {
        let mut state = self.state();
        state.tls.send_close_notify();
        // It ends in any case.
        let _ = self.flush_now(&mut state.tls);
    }

    /// Writes what the socket takes at once of what is held back.
    pub(super) fn push_now(&self) {
        // Whoever reads or writes next sees what is wrong.
        let _ = self.flush_now(&mut self.state().tls);
    }

    fn without_waiting(&self, take: impl FnMut(&[u8]) -> usize) -> io::Result<usize> {
        // Once, so that records without bytes cannot hold this up.
        let mut has_read = false;
        let read = self.read(
            |incoming| {
                if std::mem::replace(&mut has_read, true) || !self.socket.is_readable() {
                    return Poll::Pending;
                }
                incoming.reserve(READ_BYTES);
                match self.socket.read_now(incoming) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                    result => Poll::Ready(result),
                }
            },
            take,
        );
        match read {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Decrypts what there is, and reads more by `fill` only as long as nothing was taken. `take`
    /// is given bytes, and says how many it had room for. 0 is the end of the stream.
    fn read(
        &self,
        mut fill: impl FnMut(&mut BytesMut) -> Poll<io::Result<usize>>,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let State { tls, incoming } = &mut *state;
        let mut taken = 0;
        loop {
            let mut reader = tls.reader();
            match reader.fill_buf() {
                Ok([]) => return Poll::Ready(Ok(taken)),
                Ok(bytes) => {
                    let (there, count) = (bytes.len(), take(bytes));
                    reader.consume(count);
                    taken += count;
                    if count < there {
                        return Poll::Ready(Ok(taken));
                    }
                    // A chunk is a record, and many small ones come at once. All are taken before
                    // more is decrypted: of what is left, TLS holds so much and then breaks off.
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            if incoming.is_empty() {
                if taken > 0 {
                    return Poll::Ready(Ok(taken));
                }
                match fill(incoming) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(cut_off())),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        *incoming = BytesMut::new();
                        return Poll::Pending;
                    }
                }
            }
            let received = receive(tls, incoming);
            // An answer of TLS itself, or an alert. What has no room goes before the next write,
            // which also sees what is wrong.
            let _ = self.flush_now(tls);
            received?;
        }
    }

    fn poll_incoming(
        &self,
        cx: &mut Context<'_>,
        incoming: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        // Without memory while nothing comes.
        ready!(self.socket.poll_read_ready(cx))?;
        incoming.reserve(READ_BYTES);
        let mut socket = &self.socket;
        pin!(socket.read_buf(incoming)).poll(cx)
    }

    fn poll_flush_of(&self, cx: &mut Context<'_>, tls: &mut Connection) -> Poll<io::Result<()>> {
        while tls.wants_write() {
            ready!(self.poll_push_of(cx, tls))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_push_of(&self, cx: &mut Context<'_>, tls: &mut Connection) -> Poll<io::Result<usize>> {
        let mut out = Out(|buffers: &[IoSlice<'_>]| {
            match Pin::new(&mut &self.socket).poll_write_vectored(cx, buffers) {
                Poll::Ready(result) => result,
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        match tls.write_tls(&mut out) {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            result => Poll::Ready(result),
        }
    }

    /// Writes what the socket takes at once.
    fn flush_now(&self, tls: &mut Connection) -> io::Result<()> {
        while tls.wants_write() {
            let mut out = Out(|buffers: &[IoSlice<'_>]| self.socket.write_vectored_now(buffers));
            match tls.write_tls(&mut out) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // One that a panic left amid a record fails at the next.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Encrypts as much as may be held back.
fn seal(tls: &mut Connection, bytes: &[u8]) -> io::Result<usize> {
    tls.writer().write(&bytes[..bytes.len().min(WRITE_BYTES)])
}

/// Decrypts what has come, or a part of it.
fn receive(tls: &mut Connection, incoming: &mut BytesMut) -> io::Result<()> {
    match tls.read_tls(&mut &incoming[..])? {
        // Behind the end.
        0 => incoming.clear(),
        read => incoming.advance(read),
    }
    let processed = tls.process_new_packets();
    processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(())
}

/// Of a kind that nobody takes for the end of the stream.
fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, CutOff)
}

/// Where TLS writes its records.
struct Out<F>(F);

impl<F: FnMut(&[IoSlice<'_>]) -> io::Result<usize>> Write for Out<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (self.0)(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
