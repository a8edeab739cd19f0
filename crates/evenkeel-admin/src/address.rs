//! Where to listen.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use evenkeel::fs;
use evenkeel::net::{TcpListener, UnixListener, UnixStream};

use crate::error::AdminError;

/// Where a server listens; prints as it was given, with the port that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

pub(crate) enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, AdminError> {
        let wrong = || AdminError::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            let is_path = !path.is_empty() && !path.contains('\0');
            return is_path.then(|| Self::Unix(path.into())).ok_or_else(wrong);
        }
        text.parse().map(Self::Tcp).map_err(|_| wrong())
    }

    /// Whether only this machine can connect.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Listens. Returns the address with the port that the system chose, if it was to.
    pub(crate) async fn bind(self) -> Result<(Self, Bound), AdminError> {
        let name = self.to_string();
        let cannot = |error| AdminError::Listen(name.clone(), error);
        match self {
            Self::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(cannot)?;
                let address = listener.local_addr().map_err(cannot)?;
                Ok((Self::Tcp(address), Bound::Tcp(listener)))
            }
            Self::Unix(path) => {
                if answers(&path).await.map_err(cannot)? {
                    return Err(AdminError::InUse(name));
                }
                let listener = bind_unix(&path).await.map_err(cannot)?;
                Ok((Self::Unix(path), Bound::Unix(listener)))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Whether a server listens on a Unix socket. Fails if there is something else than a socket, which
/// is not ours to replace.
async fn answers(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            let message = "there is a file that is no socket";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Listens on a socket that its owner alone can open, in place of one that an earlier process left.
/// It gets its name last, when it has its permissions.
async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(name);
    match fs::remove_file(&beside).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&beside)?;
    let named = async {
        fs::set_permissions(&beside, Permissions::from_mode(0o600)).await?;
        fs::rename(&beside, path).await
    };
    match named.await {
        Ok(()) => Ok(listener),
        Err(error) => {
            // The first error says more than what becomes of the leftover.
            _ = fs::remove_file(&beside).await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for text in [
            "127.0.0.1:7070",
            "[::1]:80",
            "0.0.0.0:1",
            "unix:/run/app/admin.sock",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "7070",
            ":7070",
            "localhost:7070",
            "127.0.0.1",
            "unix:",
            "unix:a\0b",
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(matches!(error, AdminError::Address(_)), "{text}: {error}");
        }
    }

    #[test]
    fn only_loopback_and_unix_sockets_are_local() {
        let is_local = |text| Address::parse(text).unwrap().is_local();
        for text in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
            "unix:a",
        ] {
            assert!(is_local(text), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            assert!(!is_local(text), "{text}");
        }
    }
}
