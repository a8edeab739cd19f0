//! Why a request of the client's failed.

use std::io;
use std::sync::Arc;

use crate::frame::Code;

/// Why a request failed. Cheap to clone, since a connection that breaks fails many.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no connection to the server.
    #[error("cannot connect to {address}: {source}; does `txlog serve` run there?")]
    Connect {
        /// Where to.
        address: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The connection broke or was closed. An append that was under way is durable or not.
    #[error(
        "the connection to the server ended: {reason}; connect again and look what was written"
    )]
    Disconnected {
        /// Why, as far as it is known.
        reason: Arc<str>,
    },
    /// The server refused this request; others go on.
    #[error("{text}")]
    Refused {
        /// Why.
        code: Code,
        /// What the server says.
        text: Arc<str>,
    },
    /// The server closed the connection because of what this client did.
    #[error("the server closed the connection: {text}")]
    Fault {
        /// Why.
        code: Code,
        /// What the server says.
        text: Arc<str>,
    },
    /// The other side is no txlog server.
    #[error("{address} does not answer as a txlog server does: {reason}")]
    NotTxlog {
        /// Who.
        address: String,
        /// What it did.
        reason: String,
    },
    /// The record is larger than the server takes, and was not sent.
    #[error("a record of {bytes} bytes; the server takes {bytes_max} at most")]
    RecordTooLarge {
        /// Its size.
        bytes: usize,
        /// The server's limit.
        bytes_max: usize,
    },
}

impl ClientError {
    /// The server's reason, if it gave one.
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Refused { code, .. } | ClientError::Fault { code, .. } => Some(*code),
            _ => None,
        }
    }
}
