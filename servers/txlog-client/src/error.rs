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
    #[error("a {what} of {bytes} bytes; it may have {bytes_max} at most: make it shorter")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The session was closed before this was sent.
    #[error("the session is closed: open another one")]
    Closed,
    /// This program gave it up.
    #[error("this program has given it up: send it again, if it is still wanted")]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameError;

    /// How advice begins.
    const VERBS: [&str; 10] = [
        "compare", "connect", "give", "make", "open", "see", "send", "start", "use", "wait",
    ];

    /// Whether a clause says what to do, or the text asks what is to be looked at.
    fn gives_advice(text: &str) -> bool {
        let clauses = text.split([':', ';']).skip(1).map(str::trim_start);
        let is_advice = |clause: &str| {
            let verb = clause.split([' ', ',']).next();
            verb.is_some_and(|verb| VERBS.contains(&verb))
        };
        text.ends_with('?') || clauses.into_iter().any(is_advice)
    }

    #[test]
    fn advice_is_told_from_what_happened() {
        assert!(gives_advice("it is full; make room"));
        assert!(gives_advice("nobody answers: is it there?"));
        assert!(!gives_advice("give it up: it is full"));
        assert!(!gives_advice("a frame of 9 bytes; at most 8 are allowed"));
    }

    /// All errors that are no text of the server's, in the order of the enum.
    fn all_of_client() -> Vec<ClientError> {
        let (bytes, bytes_max, address) = (9, 8, "127.0.0.1:7010".to_owned());
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        vec![
            ClientError::Connect {
                address: address.clone(),
                source: Arc::new(refused),
            },
            ClientError::Disconnected {
                reason: "why".into(),
            },
            ClientError::OldServer {
                version: 1,
                what: "batches",
            },
            ClientError::NotTxlog {
                address,
                reason: "why".to_owned(),
            },
            ClientError::RecordTooLarge { bytes, bytes_max },
            ClientError::TooLong {
                what: "name",
                bytes,
                bytes_max,
            },
            ClientError::Closed,
            ClientError::GivenUp,
        ]
    }

    /// Where it stands in the list. A new error has to be put there, or among those that others
    /// say.
    fn place_in_client(error: &ClientError) -> Option<usize> {
        Some(match error {
            ClientError::Connect { .. } => 0,
            ClientError::Disconnected { .. } => 1,
            ClientError::OldServer { .. } => 2,
            ClientError::NotTxlog { .. } => 3,
            ClientError::RecordTooLarge { .. } => 4,
            ClientError::TooLong { .. } => 5,
            ClientError::Closed => 6,
            ClientError::GivenUp => 7,
            // The server says these,
            ClientError::Refused { .. }
            | ClientError::LogAway { .. }
            | ClientError::OutOfRange { .. }
            | ClientError::OtherLog { .. }
            | ClientError::Fault { .. }
            // and these are said where they happen.
            | ClientError::Tls { .. }
            | ClientError::Unusable { .. } => return None,
        })
    }

    /// All errors of frames, in the order of the enum.
    fn all_of_frames() -> Vec<FrameError> {
        let (kind, field, flags) = (9, "name", 1);
        let (bytes, bytes_max) = (9, 8);
        vec![
            FrameError::Short { kind, field },
            FrameError::Long { kind, bytes },
            FrameError::Empty,
            FrameError::Kind { kind },
            FrameError::Text { kind, field },
            FrameError::Flags { kind, flags },
            FrameError::Tls,
            FrameError::Magic,
            FrameError::TooLong { bytes, bytes_max },
        ]
    }

    fn place_in_frames(error: &FrameError) -> Option<usize> {
        Some(match error {
            FrameError::Short { .. } => 0,
            FrameError::Long { .. } => 1,
            FrameError::Empty => 2,
            FrameError::Kind { .. } => 3,
            FrameError::Text { .. } => 4,
            FrameError::Flags { .. } => 5,
            FrameError::Tls => 6,
            FrameError::Magic => 7,
            FrameError::TooLong { .. } => 8,
        })
    }

    #[test]
    fn each_error_says_what_to_do() {
        let (client, frames) = (all_of_client(), all_of_frames());
        let places = client.iter().map(place_in_client);
        assert!(places.eq((0..8).map(Some)), "all are there");
        assert!(
            frames.iter().map(place_in_frames).eq((0..9).map(Some)),
            "all are there"
        );
        let texts = client.iter().map(ClientError::to_string);
        for text in texts.chain(frames.iter().map(FrameError::to_string)) {
            assert!(gives_advice(&text), "{text}");
        }
    }
}
