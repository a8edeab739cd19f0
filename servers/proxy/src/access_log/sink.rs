//! Where lines go. All of this blocks, and is done in a lane.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// How long a log that gets datagrams may take for a line.
const DATAGRAM_MAX: Duration = Duration::from_secs(1);

/// Who may read a log: the user writes, the group reads.
const MODE: u32 = 0o640;

/// The longest datagram over UDP: it stays below what most servers of syslog take.
const UDP_BYTES_MAX: usize = 8 * 1_024;

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
    /// A server of syslog, by datagrams over UDP: its host and port.
    Udp(String),
}

/// Of which kind lines are to the system's log, as syslog numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Facility(u8);

impl Default for Facility {
    fn default() -> Self {
        Self(16)
    }
}

impl TryFrom<String> for Facility {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        /// In the order of their numbers; those behind `ftp` have no common names.
        const NAMES: [&str; 12] = [
            "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
            "authpriv", "ftp",
        ];
        let named = NAMES.iter().position(|name| *name == text);
        let local = text
            .strip_prefix("local")
            .and_then(|rest| match rest.as_bytes() {
                [digit @ b'0'..=b'7'] => Some(16 + usize::from(digit - b'0')),
                _ => None,
            });
        let number = named.or(local).and_then(|number| u8::try_from(number).ok());
        number.map(Self).ok_or_else(|| {
            format!(
                "{text:?} is no facility of syslog: take one of {} and local0 to local7",
                NAMES.join(", ")
            )
        })
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let path = |path: &str| (!path.is_empty() && !path.contains('\0')).then(|| path.into());
        let target = match text.split_once(':') {
            None if text == "stdout" => Some(Self::Stdout),
            Some(("file", file)) => path(file).map(Self::File),
            Some(("syslog", place)) => match place.strip_prefix("udp:") {
                Some(server) => is_server(server).then(|| Self::Udp(server.to_owned())),
                None => path(place).map(Self::Syslog),
            },
            _ => None,
        };
        target.ok_or_else(|| {
            format!(
                "{text:?} is nowhere to log to: write \"stdout\", \"file:/PATH\", \
                 \"syslog:/dev/log\" or \"syslog:udp:HOST:PORT\""
            )
        })
    }
}

/// Whether it is a host and a port.
fn is_server(text: &str) -> bool {
    matches!(text.parse(), Ok(crate::socket::Address::Tcp(_))) && !text.ends_with(":0")
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Syslog(path) => write!(f, "syslog:{}", path.display()),
            Self::Udp(server) => write!(f, "syslog:udp:{server}"),
        }
    }
}

/// A target that is open.
#[derive(Debug)]
pub(super) enum Sink {
    Stdout,
    /// With whether it ends within a line, as when a disk was full.
    File(File, bool),
    Syslog(UnixDatagram, Facility),
    Udp(UdpSocket, Facility),
}

/// What could not be written, and how many bytes were.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub bytes: usize,
    pub error: io::Error,
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self { bytes: 0, error }
    }
}

impl Sink {
    pub(super) fn open(target: &Target, facility: Facility) -> io::Result<Self> {
        match target {
            Target::Stdout => Ok(Self::Stdout),
            Target::File(path) => {
                let mut options = OpenOptions::new();
                options.append(true).create(true).mode(MODE);
                let file = options.open(path)?;
                let is_torn = is_torn(path, &file);
                Ok(Self::File(file, is_torn))
            }
            Target::Syslog(path) => connected(path).map(|socket| Self::Syslog(socket, facility)),
            Target::Udp(server) => connected_to(server).map(|socket| Self::Udp(socket, facility)),
        }
    }

    /// Writes lines, each with its end.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), Unwritten> {
        match self {
            Self::Stdout => {
                let mut output = io::stdout().lock();
                output.write_all(lines)?;
                Ok(output.flush()?)
            }
            Self::File(file, is_torn) => {
                if *is_torn {
                    file.write_all(b"\n")?;
                    *is_torn = false;
                }
                append(file, lines)
            }
            Self::Syslog(socket, facility) => {
                each(lines, *facility, |datagram| socket.send(datagram))
            }
            Self::Udp(socket, facility) => each(lines, *facility, |datagram| {
                let datagram = &datagram[..datagram.len().min(UDP_BYTES_MAX)];
                match socket.send(datagram) {
                    // What is said of an earlier datagram, which nobody took. This one is sent.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        socket.send(datagram)
                    }
                    sent => sent,
                }
            }),
        }
    }
}

/// Writes all of it, or says how much of it was written.
fn append(to: &mut impl Write, lines: &[u8]) -> Result<(), Unwritten> {
    let mut bytes = 0;
    while bytes < lines.len() {
        match to.write(&lines[bytes..]) {
            Ok(0) => {
                let error = io::ErrorKind::WriteZero.into();
                return Err(Unwritten { bytes, error });
            }
            Ok(written) => bytes += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Unwritten { bytes, error }),
        }
    }
    Ok(())
}

/// Whether a file ends within a line. A pipe or a terminal does not say so.
fn is_torn(path: &Path, file: &File) -> bool {
    let length = file.metadata().ok().filter(|metadata| metadata.is_file());
    let Some(last) = length.and_then(|metadata| metadata.len().checked_sub(1)) else {
        return false;
    };
    let mut end = [b'\n'];
    // What is appended to may not be for reading. Then it is taken as it is.
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut end, last));
    read.is_ok() && end != *b"\n"
}

/// Sends a datagram for each line, or says how many bytes of lines were sent.
fn each(
    lines: &[u8],
    facility: Facility,
    mut send: impl FnMut(&[u8]) -> io::Result<usize>,
) -> Result<(), Unwritten> {
    let mut bytes = 0;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let sent = send(&datagram(text, facility));
        sent.map_err(|error| Unwritten { bytes, error })?;
        bytes += line.len();
    }
    Ok(())
}

fn connected(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(DATAGRAM_MAX))?;
    Ok(socket)
}

fn connected_to(server: &str) -> io::Result<UdpSocket> {
    let mut addresses = server.to_socket_addrs()?;
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let address = addresses.next().ok_or_else(none)?;
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_write_timeout(Some(DATAGRAM_MAX))?;
    Ok(socket)
}

/// As programs write to a log by datagrams (RFC 3164), of severity `info`.
fn datagram(line: &[u8], facility: Facility) -> Vec<u8> {
    const INFO: u8 = 6;
    let priority = facility.0 * 8 + INFO;
    let now = jiff::Timestamp::now();
    let time = now.strftime("%b %e %H:%M:%S");
    let id = std::process::id();
    let mut text = format!("<{priority}>{time} evenkeel-proxy[{id}]: ").into_bytes();
    text.extend_from_slice(line);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_is_not_glued_to_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let target = Target::File(path.clone());
        for (there, then) in [("", "new\n"), ("old\n", "old\nnew\n"), ("ol", "ol\nnew\n")] {
            std::fs::write(&path, there).unwrap();
            let mut sink = Sink::open(&target, Facility::default()).unwrap();
            sink.write(b"new\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), then);
        }
    }

    #[test]
    fn what_was_written_before_a_disk_was_full_is_known() {
        let mut room = [0; 6];
        let unwritten = append(&mut &mut room[..], b"one\ntwo\n").unwrap_err();
        assert_eq!(unwritten.bytes, 6);
        assert_eq!(unwritten.error.kind(), io::ErrorKind::WriteZero);
        assert_eq!(&room, b"one\ntw");
    }

    #[test]
    fn datagrams_before_one_that_failed_are_known() {
        let mut sent = 0;
        let unwritten = each(b"one\ntwo\nthree\n", Facility::default(), |datagram| {
            sent += 1;
            match sent {
                3 => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(datagram.len()),
            }
        });
        assert_eq!(unwritten.unwrap_err().bytes, 8);
    }

    #[test]
    fn targets_are_read_and_shown() {
        for text in [
            "stdout",
            "file:/var/log/a",
            "syslog:/dev/log",
            "syslog:udp:10.0.0.1:514",
            "syslog:udp:[::1]:514",
            "syslog:udp:log.example:514",
        ] {
            let target = Target::try_from(text.to_owned()).unwrap();
            assert_eq!(target.to_string(), text);
        }
        for text in [
            "",
            "stderr",
            "file:",
            "syslog:",
            "syslog:udp:",
            "syslog:udp:10.0.0.1",
            "syslog:udp:10.0.0.1:0",
            "syslog:udp:unix:/dev/log",
        ] {
            let error = Target::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains("syslog:udp:HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn facilities_have_the_numbers_of_syslog() {
        let number = |name: &str| Facility::try_from(name.to_owned()).map(|facility| facility.0);
        for (name, known) in [("kern", 0), ("daemon", 3), ("ftp", 11), ("local7", 23)] {
            assert_eq!(number(name), Ok(known));
        }
        for name in ["", "local", "local8", "local00", "Kern"] {
            assert!(number(name).unwrap_err().contains("local7"));
        }
        assert_eq!(Ok(Facility::default().0), number("local0"));
    }

    #[test]
    fn lines_over_udp_are_datagrams_and_go_on_after_one_that_nobody_took() {
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = gone.local_addr().unwrap();
        let target = Target::try_from(format!("syslog:udp:{address}")).unwrap();
        let facility = Facility::try_from("local3".to_owned()).unwrap();
        let mut sink = Sink::open(&target, facility).unwrap();
        drop(gone);
        // The system says on the next call that nobody listened.
        sink.write(b"lost\n").unwrap();
        let server = UdpSocket::bind(address).unwrap();
        let limit = Duration::from_secs(10);
        server.set_read_timeout(Some(limit)).unwrap();
        sink.write(b"one\ntwo\n").unwrap();
        let mut buffer = [0; UDP_BYTES_MAX + 1];
        for line in ["one", "two"] {
            let length = server.recv(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..length]);
            assert!(text.starts_with("<158>"), "{text}");
            assert!(text.ends_with(&format!("]: {line}")), "{text}");
        }
        let long = [b"a".repeat(2 * UDP_BYTES_MAX), b"\n".to_vec()].concat();
        sink.write(&long).unwrap();
        assert_eq!(server.recv(&mut buffer).unwrap(), UDP_BYTES_MAX);
    }
}
