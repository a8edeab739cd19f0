//! Where the stream is, how to log in there, and the settings of a stream that has to be created.

use std::path::PathBuf;
use std::time::Duration;

use super::room::{NatsRoom, PENDING_KIB};
use crate::log::Retention;

/// Where the stream is, and what it has to keep.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    /// The server's host and port, without a user or a password.
    pub address: String,
    /// Who logs in there.
    pub login: NatsLogin,
    /// Whether the connection has to be encrypted. It is as well if the server demands it.
    pub tls: bool,
    /// A file with the certificates, as PEM, of those who may have signed the server's. Without
    /// one, the system's are trusted.
    pub ca: Option<PathBuf>,
    /// The stream's name: letters, digits, `-` and `_`.
    pub stream: String,
    /// The largest record, in bytes. The server's own limit, minus the headers of a record, also
    /// holds.
    pub record_bytes_max: usize,
    /// How many records may be pending.
    pub appends_max: usize,
    /// How many bytes the pending records may have; a larger record is taken alone. Those of all
    /// stores with the same `room` also have to fit into that.
    pub pending_bytes_max: usize,
    /// The memory for pending records and for reads. Clones of a configuration share it.
    pub room: NatsRoom,
    /// How long a record may wait for its acknowledgement, across connections that break.
    pub answer_max: Duration,
    /// What the stream keeps. An existing stream has to have the same limits.
    pub retention: Retention,
    /// On how many servers of a cluster a stream is kept that is created here.
    pub replicas: u32,
}

/// Who logs in. Files are read again for each connection, so that a secret can be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NatsLogin {
    /// Nobody: the server asks for no login.
    #[default]
    None,
    /// A user, with the password in a file.
    User {
        /// The user's name.
        name: String,
        /// The file; a newline at its end is not part of the password.
        password: PathBuf,
    },
    /// The token in this file; a newline at its end is not part of it.
    Token(PathBuf),
    /// A file of credentials: a JWT and the seed of its key, as `nsc` writes them.
    Credentials(PathBuf),
}

impl NatsLogin {
    /// For a message.
    pub(super) fn description(&self) -> &'static str {
        match self {
            Self::None => "without a user or a token",
            Self::User { .. } => "with a user and a password",
            Self::Token(_) => "with a token",
            Self::Credentials(_) => "with a file of credentials",
        }
    }
}

impl NatsConfig {
    /// The bound on the stream's pending records, in KiB.
    pub(super) fn pending_kib(&self) -> usize {
        (self.pending_bytes_max >> 10).clamp(1, PENDING_KIB)
    }
}

impl Default for NatsConfig {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:4222".to_owned(),
            login: NatsLogin::None,
            tls: false,
            ca: None,
            stream: "txlog".to_owned(),
            record_bytes_max: 1 << 20,
            appends_max: 4_096,
            pending_bytes_max: PENDING_KIB << 10,
            room: NatsRoom::default(),
            answer_max: Duration::from_secs(30),
            retention: Retention::default(),
            replicas: 1,
        }
    }
}
