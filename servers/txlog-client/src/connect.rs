//! Connecting: which log, by what right, and the hello.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::net::{TcpStream, ToSocketAddrs};
use evenkeel::time::timeout;
use tokio::io::{AsyncRead, AsyncWriteExt};

use crate::client::{Client, ServerInfo, fault};
use crate::error::ClientError;
use crate::frame::{
    Access, NAME_BYTES_MAX, Request, Response, TEXT_BYTES_MAX, TOKEN_BYTES_MAX, VERSION,
    VERSION_MIN,
};
use crate::wire::FrameReader;

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
}

impl fmt::Debug for Connect {
    /// Without the token, which is not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("log", &self.access.log)
            .field("create", &self.access.create)
            .field("has_token", &!self.access.token.is_empty())
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

    /// Connects and says hello.
    ///
    /// # Errors
    ///
    /// [`ClientError::Connect`], [`ClientError::NotTxlog`], [`ClientError::Unusable`] for a name or
    /// a token that is none, or the server's refusal.
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
        let (read, mut write) = stream.into_split();
        let mut buffer = BytesMut::new();
        self.hello_frame().encode(&mut buffer);
        write.write_all(&buffer).await.map_err(cannot)?;
        let mut frames = FrameReader::new(read, TEXT_BYTES_MAX + 16);
        let info = welcome(&mut frames, name).await?;
        Ok(Client::begin(frames, write, info))
    }
}

async fn welcome<R: AsyncRead + Unpin>(
    frames: &mut FrameReader<R>,
    name: &str,
) -> Result<ServerInfo, ClientError> {
    let strange = |reason: String| ClientError::NotTxlog {
        address: name.to_owned(),
        reason,
    };
    let frame = frames.next().await.map_err(|e| strange(e.to_string()))?;
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
