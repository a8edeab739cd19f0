//! Connecting: which log, by what right, and the hello.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::net::{TcpStream, ToSocketAddrs};
use evenkeel::time::timeout;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::client::{Client, ServerInfo, fault};
use crate::error::ClientError;
use crate::frame::{
    Access, FrameError, NAME_BYTES_MAX, Request, Response, TEXT_BYTES_MAX, TOKEN_BYTES_MAX,
    VERSION, VERSION_MIN,
};
use crate::tls::{self, Tls};
use crate::wire::{FrameReader, WireError};

/// How long connecting and saying hello may take.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The first version of the protocol whose hello says which log, and by what right.
const ACCESS_VERSION: u16 = 3;

/// How to connect: to which log of a server, and by what right.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let connect = txlog_client::Connect::new()
///     .log("orders")
///     .token(std::env::var("TXLOG_TOKEN")?);
/// let client = connect.connect("127.0.0.1:7010").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Connect {
    access: Access,
    tls: Option<Tls>,
    insecure_no_tls: bool,
}

impl fmt::Debug for Connect {
    /// Without the token, which is not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("log", &self.access.log)
            .field("create", &self.access.create)
            .field("has_token", &!self.access.token.is_empty())
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl Connect {
    /// To the log without a name, without a token and in the clear.
    pub fn new() -> Self {
        Self::default()
    }

    /// To the log of this name; empty for the one without a name.
    pub fn log(mut self, name: impl Into<String>) -> Self {
        self.access.log = name.into();
        self
    }

    /// Whether the server is to create the log, if it has none of that name.
    pub fn create(mut self, create: bool) -> Self {
        self.access.create = create;
        self
    }

    /// By the right of this token, as `txlog token new` prints it.
    pub fn token(mut self, token: impl Into<Bytes>) -> Self {
        self.access.token = token.into();
        self
    }

    /// Encrypted, and only to a server that this trusts.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Whether a token may be sent to another machine although everybody on the way can read it.
    pub fn insecure_no_tls(mut self, may: bool) -> Self {
        self.insecure_no_tls = may;
        self
    }

    /// Connects and says hello.
    ///
    /// # Errors
    ///
    /// [`ClientError::Connect`], [`ClientError::Tls`], [`ClientError::NotTxlog`],
    /// [`ClientError::Unusable`] for a name or a token that is none or would be sent in the clear,
    /// or the server's refusal.
    pub async fn connect(
        &self,
        address: impl ToSocketAddrs + ToString,
    ) -> Result<Client, ClientError> {
        self.check()?;
        let name = address.to_string();
        match timeout(HELLO_TIMEOUT, self.hello(address, &name)).await {
            Ok(client) => client,
            Err(_) => Err(ClientError::NotTxlog {
                address: name,
                reason: format!("no answer within {HELLO_TIMEOUT:?}"),
            }),
        }
    }

    fn check(&self) -> Result<(), ClientError> {
        let Access { log, token, .. } = &self.access;
        let what = if log.len() > NAME_BYTES_MAX {
            format!("the name of a log has {NAME_BYTES_MAX} bytes at most")
        } else if token.len() > TOKEN_BYTES_MAX {
            format!("a token has {TOKEN_BYTES_MAX} bytes at most")
        } else {
            return Ok(());
        };
        Err(ClientError::Unusable { what: what.into() })
    }

    /// A hello that asks for nothing special is one that servers of all versions understand.
    fn hello_frame(&self) -> Request {
        let is_plain = self.access == Access::default();
        Request::Hello {
            min: if is_plain {
                VERSION_MIN
            } else {
                ACCESS_VERSION
            },
            max: VERSION,
            access: (!is_plain).then(|| self.access.clone()),
        }
    }

    async fn hello(&self, address: impl ToSocketAddrs, name: &str) -> Result<Client, ClientError> {
        let cannot = |source: io::Error| ClientError::Connect {
            address: name.to_owned(),
            source: Arc::new(source),
        };
        let stream = TcpStream::connect(address).await.map_err(cannot)?;
        stream.set_nodelay(true).map_err(cannot)?;
        let Some(tls) = &self.tls else {
            let is_near = |address: SocketAddr| address.ip().to_canonical().is_loopback();
            let far = !stream.peer_addr().is_ok_and(is_near);
            if far && !self.access.token.is_empty() && !self.insecure_no_tls {
                return Err(ClientError::Unusable {
                    what: IN_THE_CLEAR.into(),
                });
            }
            let (read, write) = stream.into_split();
            return self.greet(read, write, name).await;
        };
        let stream = tls.over(stream, name).await?;
        let (read, write) = tokio::io::split(stream);
        self.greet(read, write, name).await
    }

    async fn greet<R, W>(&self, read: R, mut write: W, name: &str) -> Result<Client, ClientError>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let mut buffer = BytesMut::new();
        self.hello_frame().encode(&mut buffer);
        let written = async {
            write.write_all(&buffer).await?;
            write.flush().await
        };
        let written = written.await;
        let mut frames = FrameReader::new(read, TEXT_BYTES_MAX + 16);
        // Even if the hello did not go out, the server may have said why.
        let info = match (welcome(&mut frames, name).await, written) {
            (Ok(info), _) => info,
            (Err(ClientError::NotTxlog { .. }), Err(error)) => {
                return Err(ClientError::Connect {
                    address: name.to_owned(),
                    source: Arc::new(error),
                });
            }
            (Err(error), _) => return Err(error),
        };
        Ok(Client::begin(frames, write, info))
    }
}

const IN_THE_CLEAR: &str = "a token is not sent to another machine in the clear, where everybody \
                            on the way could read it: give --tls-ca, or accept that by \
                            --insecure-no-tls";

async fn welcome<R: AsyncRead + Unpin>(
    frames: &mut FrameReader<R>,
    name: &str,
) -> Result<ServerInfo, ClientError> {
    let strange = |reason: String| ClientError::NotTxlog {
        address: name.to_owned(),
        reason,
    };
    let frame = frames.next().await.map_err(|error| match &error {
        WireError::Io(error) => {
            tls::failed(name, error).unwrap_or_else(|| strange(error.to_string()))
        }
        WireError::Frame(FrameError::Tls) => ClientError::Tls {
            address: name.to_owned(),
            what: "it speaks TLS, and this client did not: give the authority of its certificate \
                   by --tls-ca"
                .into(),
        },
        error => strange(error.to_string()),
    })?;
    let frame = frame.ok_or_else(|| strange("it closed the connection".to_owned()))?;
    match Response::decode(frame).map_err(|error| strange(error.to_string()))? {
        Response::Welcome {
            version,
            record_bytes_max,
            appends_max,
            first,
            next,
            of,
            batch_bytes_max,
        } if (VERSION_MIN..=VERSION).contains(&version) => Ok(ServerInfo {
            version,
            record_bytes_max: record_bytes_max as usize,
            appends_max: appends_max as usize,
            batch_bytes_max: batch_bytes_max.map(|bytes| bytes as usize),
            first,
            next,
            identity: of,
        }),
        Response::Fault { code, text } => Err(fault(code, text)),
        other => Err(strange(format!("it begins with {other:?}"))),
    }
}
