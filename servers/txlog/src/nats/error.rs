//! Why a request to NATS failed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectError, ConnectErrorKind};
use txlog_client::frame::{Code, MAY_PASS};

use crate::advice;
use crate::store::StoreError;

/// The oldest server that has what the store needs: direct gets.
pub(super) const VERSION_MIN: (u32, u32) = (2, 9);

/// What happened, to what, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NatsError {
    #[error("{address:?} is no address of a NATS server: give host and port, as in {example}")]
    Address {
        address: String,
        example: &'static str,
    },
    #[error("a NATS store needs a Tokio runtime beside this one: set Builder::tokio_context")]
    NoTokio,
    #[error("cannot read {what} in {}: {reason}", path.display())]
    Secret {
        what: &'static str,
        path: PathBuf,
        reason: String,
    },
    #[error("cannot connect to NATS at {address}: {reason}; does nats-server run there?")]
    Unreachable { address: String, reason: String },
    #[error(
        "NATS at {address} refused the login ({login}): see the users of its configuration, and \
         give --nats-user, --nats-token-file or --nats-creds as it wants"
    )]
    Login {
        address: String,
        login: &'static str,
    },
    #[error(
        "no TLS with NATS at {address}: {reason}; give by --nats-ca who signed its certificate, \
         and as the host a name that stands in it"
    )]
    Tls { address: String, reason: String },
    #[error(
        "NATS at {address} has version {version}; {}.{} or newer is needed: install that, and \
         keep its store directory",
        VERSION_MIN.0,
        VERSION_MIN.1
    )]
    TooOld { address: String, version: String },
    #[error("the connection to NATS ended: {0}; it is made again with the next request")]
    Ended(String),
    #[error(
        "NATS refused it: {0}; this user needs to publish to $JS.API.> and txlog.>, and to \
         subscribe to _INBOX.>"
    )]
    Forbidden(String),
    #[error(
        "NATS did not answer within {} s: see whether its host is overloaded, or whether its \
         cluster has lost its majority (`nats server report jetstream`)",
        .0.as_secs_f64()
    )]
    NoAnswer(Duration),
    #[error(
        "NATS has no JetStream, or not for this account: start nats-server with -js, or set \
         `jetstream: enabled` in its configuration and in this account"
    )]
    NoJetStream,
    #[error(
        "NATS has no stream {stream}: it was deleted, and its records with it; restore it from a \
         backup, or start `txlog serve` again, which makes an empty one"
    )]
    NoStream { stream: String },
    #[error("the record is larger than NATS takes now: set its max_payload as it was")]
    TooLarge,
    #[error("the stream's last record is {last}, and another one was expected")]
    NotExpected { last: u64 },
    #[error("the stream has no such record, nor a later one")]
    NoMessage,
    #[error("NATS cannot make the stream {stream}: {reason}")]
    NotMade { stream: String, reason: String },
    #[error("the stream {stream} cannot keep what txlog promises:\n{faults}")]
    Unfit { stream: String, faults: String },
    #[error("NATS refused a request about the stream {stream}: {reason}")]
    Refused { stream: String, reason: String },
    #[error("NATS answered what makes no sense: {0}; see whether its version is supported")]
    Nonsense(String),
}

impl NatsError {
    /// A file with a secret could not be read.
    pub(super) fn of_secret(what: &'static str, path: &Path, error: &std::io::Error) -> Self {
        Self::Secret {
            what,
            path: path.to_owned(),
            reason: advice::of_files(error),
        }
    }

    /// No connection could be made.
    pub(super) fn of_connecting(address: &str, login: &'static str, error: &ConnectError) -> Self {
        let address = address.to_owned();
        let reason = reason(error);
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                Self::Login { address, login }
            }
            ConnectErrorKind::Tls => Self::Tls { address, reason },
            // Rustls reports its errors as those of the socket.
            ConnectErrorKind::Io if is_of_tls(error) => Self::Tls { address, reason },
            _ => Self::Unreachable { address, reason },
        }
    }
}

impl StoreError {
    /// An append failed, and that may pass by itself. The record is in the store or not; it is not
    /// if it was surely `not_sent`.
    pub(super) fn away(not_sent: bool, text: impl Into<String>) -> Self {
        let code = match not_sent {
            true => Code::LogFailedBefore,
            false => Code::LogFailed,
        };
        Self {
            numbers: Some(MAY_PASS),
            ..Self::new(code, text)
        }
    }
}

impl From<NatsError> for StoreError {
    fn from(error: NatsError) -> Self {
        StoreError::away(false, error.to_string())
    }
}

/// The innermost error, which says most.
fn reason(error: &ConnectError) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    match error.kind() {
        ConnectErrorKind::TimedOut => "it did not answer in time".to_owned(),
        _ => inner.to_string(),
    }
}

fn is_of_tls(error: &ConnectError) -> bool {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| {
        // Bytes that are no TLS, or a certificate that cannot be trusted.
        io.kind() == std::io::ErrorKind::InvalidData
    })
}
