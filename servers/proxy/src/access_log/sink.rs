//! Where lines go. All of this blocks, and is done in a lane.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// How long the system's log may take for a line.
const DATAGRAM_MAX: Duration = Duration::from_secs(1);

/// Who may read a log: the user writes, the group reads.
const MODE: u32 = 0o640;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Target {
    /// Standard output.
    Stdout,
    /// The end of a file, which is made if it is not there.
    File(PathBuf),
    /// A socket for datagrams, as the system's log has it.
    Syslog(PathBuf),
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let path = |path: &str| (!path.is_empty() && !path.contains('\0')).then(|| path.into());
        let target = match text.split_once(':') {
            None if text == "stdout" => Some(Self::Stdout),
            Some(("file", file)) => path(file).map(Self::File),
            Some(("syslog", socket)) => path(socket).map(Self::Syslog),
            _ => None,
        };
        target.ok_or_else(|| {
            format!(
                "{text:?} is nowhere to log to: write \"stdout\", \"file:/PATH\" or \
                 \"syslog:/dev/log\""
            )
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Syslog(path) => write!(f, "syslog:{}", path.display()),
        }
    }
}

/// A target that is open.
#[derive(Debug)]
pub(super) enum Sink {
    Stdout,
    File(File),
    Syslog(UnixDatagram),
}

impl Sink {
    pub(super) fn open(target: &Target) -> io::Result<Self> {
        match target {
            Target::Stdout => Ok(Self::Stdout),
            Target::File(path) => {
                let mut options = OpenOptions::new();
                options.append(true).create(true).mode(MODE);
                options.open(path).map(Self::File)
            }
            Target::Syslog(path) => connected(path).map(Self::Syslog),
        }
    }

    /// Writes lines, each with its end.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut output = io::stdout().lock();
                output.write_all(lines)?;
                output.flush()
            }
            Self::File(file) => file.write_all(lines),
            Self::Syslog(socket) => {
                let lines = lines.split(|&byte| byte == b'\n');
                for line in lines.filter(|line| !line.is_empty()) {
                    socket.send(&datagram(line))?;
                }
                Ok(())
            }
        }
    }
}

fn connected(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(DATAGRAM_MAX))?;
    Ok(socket)
}

/// As programs of the same machine write to the system's log (RFC 3164): for facility `local0`, of
/// severity `info`.
fn datagram(line: &[u8]) -> Vec<u8> {
    const PRIORITY: u8 = 16 * 8 + 6;
    let now = jiff::Timestamp::now();
    let time = now.strftime("%b %e %H:%M:%S");
    let mut text = format!(
        "<{PRIORITY}>{time} evenkeel-proxy[{}]: ",
        std::process::id()
    )
    .into_bytes();
    text.extend_from_slice(line);
    text
}
