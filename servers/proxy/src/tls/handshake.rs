//! The beginning of a connection over TLS, on both sides.
//!
//! A handshake costs more processor time than anything else that a stranger can ask for with a few
//! bytes. It waits between its steps ([`super::places`]), and gives way after each. The steps with
//! keys and signatures take some tenths of a millisecond: they are done by tasks that compute, for
//! which no worker waits.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use evenkeel::task::{self, checkpoint};
use rustls::{ClientConnection, HandshakeKind, ServerConfig, ServerConnection};
use tokio::io::AsyncReadExt;
use tokio::sync::OwnedSemaphorePermit;

use super::client_side::Connector;
use super::hello::{Hello, Said};
use super::of_server;
use super::places::{Place, Shed};
use super::session::Session;
use crate::socket::Socket;

/// Why there is no TLS with a client.
#[derive(Debug)]
pub enum Failure {
    /// There were too many handshakes.
    Shed(Shed),
    /// The client has gone before it said anything.
    Silent,
    /// The connection has broken.
    Broken(io::Error),
    /// The client speaks something else in the clear: it begins with a letter.
    Plain(Socket),
    /// There is no agreement, of which the client was told if it could be done at once.
    Tls(rustls::Error, Socket),
}

/// How much is read at once of a first message that is looked at.
const READ_BYTES: usize = 4 * 1_024;

/// Waits for the first message of a client: the name that it asks for, if it is an authority that
/// wants to see whether that is ours. What has come is in `begun`.
///
/// # Errors
///
/// [`Failure`].
pub async fn asked(
    mut socket: &Socket,
    begun: &mut BytesMut,
    place: &mut Place,
) -> Result<Option<String>, Failure> {
    let mut hello = Hello::default();
    loop {
        if let Said::Name(name) = hello.read(begun) {
            return Ok(name.filter(|_| hello.is_of_acme()));
        }
        begun.reserve(READ_BYTES);
        let read = place.client(socket.read_buf(begun)).await;
        match read.map_err(Failure::Shed)? {
            Ok(0) if begun.is_empty() => return Err(Failure::Silent),
            // The handshake sees the end, too.
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if begun.is_empty() && is_end(&error) => return Err(Failure::Silent),
            Err(error) => return Err(Failure::Broken(error)),
        }
    }
}

/// Shakes hands with a client, of whom this was read already.
///
/// # Errors
///
/// [`Failure`].
pub async fn accept(
    socket: Socket,
    begun: BytesMut,
    config: Arc<ServerConfig>,
    mut place: Place,
) -> Result<Session, Failure> {
    let connection = match ServerConnection::new(config) {
        Ok(connection) => connection,
        Err(error) => return Err(Failure::Tls(error, socket)),
    };
    let mut session = Session::new(socket, connection.into(), begun);
    let mut is_first = true;
    while session.with(|tls| tls.is_handshaking()) {
        let received = poll_fn(|cx| session.poll_receive(cx));
        match place.client(received).await.map_err(Failure::Shed)? {
            Ok(byte) if is_first && byte.is_ascii_alphabetic() => {
                return Err(Failure::Plain(session.into_socket()));
            }
            // Whatever it is, TLS says so.
            Ok(_) => {}
            Err(error) if is_first && is_end(&error) => return Err(Failure::Silent),
            Err(error) => return Err(Failure::Broken(error)),
        }
        let permit = place.permit().await;
        is_first = false;
        let processed = match session.is_nearly_done() {
            true => {
                let processed = session.process();
                drop(permit);
                processed
            }
            false => {
                let (back, processed) = apart(session, permit).await.map_err(Failure::Broken)?;
                session = back;
                processed
            }
        };
        if let Err(error) = processed {
            session.push_now();
            return Err(Failure::Tls(error, session.into_socket()));
        }
        checkpoint().await;
        let flushed = place.client(poll_fn(|cx| session.poll_flush(cx))).await;
        flushed.map_err(Failure::Shed)?.map_err(Failure::Broken)?;
    }
    Ok(session)
}

/// Takes what has come of a handshake in a task of its own, which has the permit: it goes on when
/// its client's time is up.
///
/// # Errors
///
/// The task has ended before: it has panicked, or the runtime ends.
async fn apart(
    session: Session,
    permit: Option<OwnedSemaphorePermit>,
) -> io::Result<(Session, Result<(), rustls::Error>)> {
    let task = task::Builder::new().name("handshake").computes(true);
    let task = task.spawn(async move {
        let processed = session.process();
        drop(permit);
        (session, processed)
    });
    task.await.map_err(io::Error::other)
}

fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

impl Connector {
    /// Shakes hands with a server.
    ///
    /// # Errors
    ///
    /// Why there is no TLS with it, and what to do.
    pub async fn connect(&self, socket: Socket) -> io::Result<Session> {
        self.shake(socket, &self.config).await
    }

    /// The same, for a check: with all of the handshake, so that a certificate that has expired
    /// meanwhile is seen.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn check(&self, socket: Socket) -> io::Result<Session> {
        self.shake(socket, &self.check).await
    }

    async fn shake(
        &self,
        socket: Socket,
        config: &Arc<rustls::ClientConfig>,
    ) -> io::Result<Session> {
        let connection = ClientConnection::new(Arc::clone(config), self.name.clone());
        let connection = connection.map_err(|error| failed(&error))?;
        let session = Session::new(socket, connection.into(), BytesMut::new());
        loop {
            poll_fn(|cx| session.poll_flush(cx)).await?;
            if !session.with(|tls| tls.is_handshaking()) {
                return Ok(session);
            }
            poll_fn(|cx| session.poll_receive(cx)).await?;
            if let Err(error) = session.process() {
                session.push_now();
                return Err(failed(&error));
            }
            checkpoint().await;
        }
    }
}

fn failed(error: &rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, of_server(error))
}

impl Session {
    /// Whether the handshake was shortened, as both knew each other.
    pub fn is_resumed(&self) -> bool {
        self.with(|tls| tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }
}
