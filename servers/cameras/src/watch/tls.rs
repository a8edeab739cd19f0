//! TLS for browsers and programs: certificates from files, and connections that shake hands when
//! they are first read from or written to, so that a client that does not holds up no other.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use evenkeel::net::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{Accept, TlsAcceptor, TlsStream, client};

/// No certificate and no key is longer.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// So much of a request is read at a time.
const READ_BYTES: usize = 4 << 10;

/// Where the certificate is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The chain, in PEM, beginning with the server's own certificate.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {why}")]
pub struct TlsError {
    /// The file.
    file: String,
    /// What is wrong with it.
    why: String,
}

/// A certificate, which may be changed while it is in use.
#[derive(Clone, Debug)]
pub struct Certificate(Arc<Mutex<Arc<ServerConfig>>>);

impl Certificate {
    /// Reads it. This blocks.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: which file is wrong, and how.
    pub fn read(files: &Files) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Mutex::new(config(files)?))))
    }

    /// Is another one, for connections to come.
    pub fn become_like(&self, other: &Self) {
        let other = other.config();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = other;
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config(files: &Files) -> Result<Arc<ServerConfig>, TlsError> {
    let text = read(&files.certificate)?;
    let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let chain = chain.unwrap_or_default();
    if chain.is_empty() {
        return Err(wrong(
            &files.certificate,
            "there is no certificate in it, in PEM",
        ));
    }
    let text = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&text);
    let key = key.map_err(|_| wrong(&files.key, "there is no private key in it, in PEM"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.certificate, error))?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.key, error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(path, error))?;
    let mut file = io::Read::take(file, FILE_BYTES_MAX);
    io::Read::read_to_end(&mut file, &mut bytes).map_err(|error| wrong(path, error))?;
    Ok(bytes)
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> TlsError {
    TlsError {
        file: path.display().to_string(),
        why: why.to_string(),
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub struct Stream(State);

enum State {
    Plain(TcpStream),
    Shaking(Box<Accept<TcpStream>>),
    Secured(Box<TlsStream<TcpStream>>),
    /// The handshake has failed.
    Broken,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Shaking(_) => "Shaking",
            Self::Secured(_) => "Secured",
            Self::Broken => "Broken",
        })
    }
}

impl Stream {
    /// The server's side of a connection.
    pub fn new(socket: TcpStream, certificate: Option<&Certificate>) -> Self {
        Self(match certificate {
            None => State::Plain(socket),
            Some(certificate) => {
                let accept = TlsAcceptor::from(certificate.config()).accept(socket);
                State::Shaking(Box::new(accept))
            }
        })
    }

    /// The client's side of one, after the handshake.
    pub fn connected(stream: client::TlsStream<TcpStream>) -> Self {
        Self(State::Secured(Box::new(stream.into())))
    }

    /// What is read and written, when hands have been shaken.
    fn ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Both>>> {
        if let State::Shaking(accept) = &mut self.0 {
            self.0 = match ready!(Pin::new(&mut **accept).poll(cx)) {
                Ok(stream) => State::Secured(Box::new(stream.into())),
                Err(error) => {
                    self.0 = State::Broken;
                    return Poll::Ready(Err(error));
                }
            };
        }
        Poll::Ready(match &mut self.0 {
            State::Plain(socket) => Ok(Pin::new(socket)),
            State::Secured(stream) => Ok(Pin::new(&mut **stream)),
            State::Shaking(_) | State::Broken => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if let State::Plain(socket) = &mut self.0 {
            return Read::poll_read(Pin::new(socket), cx, buf);
        }
        let stream = ready!(self.ready(cx))?;
        // Requests are short: a copy of them is cheap.
        let mut bytes = [0; READ_BYTES];
        let room = buf.remaining().min(READ_BYTES);
        let mut part = ReadBuf::new(&mut bytes[..room]);
        ready!(AsyncRead::poll_read(stream, cx, &mut part))?;
        buf.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_write(stream, cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_flush(stream, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_shutdown(stream, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_write_vectored(stream, cx, bufs)
    }
}
