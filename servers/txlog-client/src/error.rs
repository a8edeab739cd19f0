//! Why a request of the client failed.

use std::io;
use std::sync::Arc;

use crate::cursor::Identity;
use crate::frame::Code;

/// Why a request failed. Cheap to clone, since a broken connection fails many requests.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no connection to the server.
    #[error("cannot connect to {address}: {source}; {}", advice(source))]
    Connect {
        /// The server's address.
        address: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The connection broke or was closed. A pending append may be durable or not.
    #[error(
        "the connection to the server ended: {reason}; connect again: an append that was not \
         answered is in the log or not"
    )]
    Disconnected {
        /// Why, if it is known.
        reason: Arc<str>,
    },
    /// The server refused this request; the connection continues.
    #[error("{text}")]
    Refused {
        /// Why.
        code: Code,
        /// What the server says.
        text: Arc<str>,
    },
    /// The log took no record, or it is unknown whether it has, which may pass by itself: its
    /// records are kept by another server, which is away or does not answer.
    #[error("{text}")]
    LogAway {
        /// [`Code::LogFailed`] or [`Code::LogFailedBefore`].
        code: Code,
        /// What the server says.
        text: Arc<str>,
    },
    /// The server refused a read from beyond the end of its log.
    #[error("{text}")]
    OutOfRange {
        /// The number of the oldest record.
        first: u64,
        /// The number of the next record.
        next: u64,
        /// What the server says.
        text: Arc<str>,
    },
    /// The server has another log than that of the cursor, or a later epoch of it, in which the
    /// cursor means nothing.
    #[error("{text}")]
    OtherLog {
        /// [`Code::OtherLog`] or [`Code::NewEpoch`].
        code: Code,
        /// The server's log.
        found: Identity,
        /// What the server says.
        text: Arc<str>,
    },
    /// The server speaks an older version of the protocol, in which this cannot be asked.
    #[error(
        "the server speaks version {version} of the protocol, which has no {what}; start a newer \
         `txlog serve` there"
    )]
    OldServer {
        /// The server's version.
        version: u16,
        /// What was asked for.
        what: &'static str,
    },
    /// The server closed the connection because of what this client did.
    #[error("the server closed the connection: {text}")]
    Fault {
        /// Why.
        code: Code,
        /// What the server says.
        text: Arc<str>,
    },
    /// The other side is not a txlog server.
    #[error(
        "{address} does not answer as a txlog server does: {reason}; is that the port of \
             another service?"
    )]
    NotTxlog {
        /// Its address.
        address: String,
        /// What it did.
        reason: String,
    },
    /// TLS could not be agreed on.
    #[error("no TLS with {address}: {what}")]
    Tls {
        /// The server's address.
        address: String,
        /// Why, and what to do.
        what: Arc<str>,
    },
    /// What was given to connect with cannot be used, and nothing was sent.
    #[error("{what}")]
    Unusable {
        /// What, and why.
        what: Arc<str>,
    },
    /// The record is larger than the server takes, and was not sent.
    #[error(
        "a record of {bytes} bytes; the server takes {bytes_max} at most: \
             send less, or start it with a larger --record-bytes-max"
    )]
    RecordTooLarge {
        /// Its size.
        bytes: usize,
        /// The server's limit.
        bytes_max: usize,
    },
    /// It is longer than the server takes, or the protocol has room for, and was not sent.
    #[error("a {what} of {bytes} bytes; it may have {bytes_max} at most")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The session was closed before this was sent.
    #[error("the session is closed")]
    Closed,
    /// This program gave it up.
    #[error("this program has given it up")]
    GivenUp,
}

/// What to check if there is no connection.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::InvalidInput => "give host and port, as in 127.0.0.1:7010",
        io::ErrorKind::ConnectionRefused => "does `txlog serve` run there?",
        _ => "is that the server's address, and does the network lead there?",
    }
}

impl ClientError {
    /// Whether it says that the log has failed, and will not take records again by itself.
    pub fn is_of_failed_log(&self) -> bool {
        let is_away = matches!(self, ClientError::LogAway { .. });
        !is_away && self.code().is_some_and(Code::is_of_failed_log)
    }

    /// The server's reason, if it gave one.
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Refused { code, .. }
            | ClientError::LogAway { code, .. }
            | ClientError::OtherLog { code, .. }
            | ClientError::Fault { code, .. } => Some(*code),
            ClientError::OutOfRange { .. } => Some(Code::OutOfRange),
            _ => None,
        }
    }
}
