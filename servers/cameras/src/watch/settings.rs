//! What the operator may set about watching.

use serde::Deserialize;

use crate::config::Account;
use crate::tls::Files;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// See cameras, live and recorded.
    Watch,
    /// Take files away, and keep times from being deleted.
    Export,
    /// Add and remove cameras.
    Manage,
}

impl Permission {
    /// Its name in the configuration, and in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Export => "export",
            Self::Manage => "manage",
        }
    }
}

/// Who may do what.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// A name for people.
    pub name: String,
    /// SHA-256 of the secret, in hexadecimal digits, as `sha256sum` prints it.
    pub sha256: String,
    /// What it allows.
    pub permissions: Vec<Permission>,
    /// The cameras that it is for; all, if there are none.
    #[serde(default)]
    pub cameras: Vec<String>,
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to listen: an IP address and a port.
    pub listen: String,
    /// Where the certificate for TLS is; without it there is none.
    pub tls: Option<Files>,
    /// Tokens. Without any, only addresses of this machine can be listened on.
    #[serde(rename = "token")]
    pub tokens: Vec<Token>,
    /// Users, who stand elsewhere in the configuration.
    #[serde(skip)]
    pub accounts: Vec<Account>,
    /// Connections at once. More wait in the backlog.
    pub connections_max: usize,
    /// The same of one address, with its WebSockets.
    pub connections_per_client_max: usize,
    /// WebSockets at once.
    pub sockets_max: usize,
    /// Clips that are being read at once, for playing or keeping.
    pub clips_max: usize,
    /// Bytes of live parts of all cameras.
    pub live_bytes_max: usize,
    /// Live pictures by WebRTC; there are none, if it is not given.
    pub webrtc: Option<super::webrtc::Settings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8090".to_owned(),
            tls: None,
            tokens: Vec::new(),
            accounts: Vec::new(),
            connections_max: 1_000,
            connections_per_client_max: 500,
            sockets_max: 1_000,
            clips_max: 32,
            live_bytes_max: 256 << 20,
            webrtc: None,
        }
    }
}
