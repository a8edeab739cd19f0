//! What can go wrong before the server is there.

use std::fmt;
use std::io;

/// Why the server could not be started.
#[non_exhaustive]
pub enum AdminError {
    /// The text is no address.
    Address(String),
    /// Others than this machine's users could connect, and there is no token.
    NeedsToken(String),
    /// The token is empty, or has characters that no header can carry.
    Token,
    /// A server listens on the Unix socket already.
    InUse(String),
    /// The system refused to listen.
    Listen(String, io::Error),
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(
                f,
                "{address:?} is no address to listen on; use one like 127.0.0.1:7070, [::1]:7070 \
                 or unix:/run/app/admin.sock"
            ),
            Self::NeedsToken(address) => write!(
                f,
                "others can connect to {address}, so a token is needed; set one, or listen on \
                 127.0.0.1 or a Unix socket"
            ),
            Self::Token => f.write_str("a token is made of 8 to 256 visible ASCII characters"),
            Self::InUse(path) => write!(
                f,
                "a server listens on {path} already; stop it, or use another path"
            ),
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

/// `main` shows its error by `Debug`, so the message is part of it.
impl fmt::Debug for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminError({self})")
    }
}

impl std::error::Error for AdminError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen(_, error) => Some(error),
            _ => None,
        }
    }
}
