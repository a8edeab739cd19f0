//! What concerns the process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Remarks;
use super::logs::{self, Log};
use super::values::{self, At};
use super::words::Line;

/// The section `global`.
#[derive(Debug, Default)]
pub(super) struct Global {
    /// Connections of all clients.
    pub maxconn: Option<At<usize>>,
    /// Threads that work.
    pub threads: Option<At<usize>>,
    /// How long connections may go on at the end.
    pub drain: Option<At<Duration>>,
    /// The operators' socket.
    pub socket: Option<At<String>>,
    /// The size of a buffer, in which a head has to have room.
    pub buffer: Option<At<usize>>,
    /// Where certificates and authorities are.
    pub crt_base: Option<PathBuf>,
    pub ca_base: Option<PathBuf>,
    /// The oldest version of TLS, of listeners and to servers.
    pub bind_min_version: Option<String>,
    pub server_min_version: Option<String>,
    /// Whether clients may not keep their sessions.
    pub refuses_tickets: bool,
    /// Where requests are logged.
    pub log: Option<At<Log>>,
    /// Whether servers are verified if nothing is said.
    pub verifies_nobody: bool,
}

/// What is left to that which starts the process, with the reason.
const NOT_NEEDED: [(&str, &str); 29] = [
    (
        "daemon",
        "what starts the proxy keeps it running, such as systemd",
    ),
    ("master-worker", "there is one process"),
    ("user", "what starts the proxy chooses the user"),
    ("group", "what starts the proxy chooses the group"),
    ("uid", "what starts the proxy chooses the user"),
    ("gid", "what starts the proxy chooses the group"),
    ("chroot", "what starts the proxy confines it"),
    ("pidfile", "what starts the proxy knows its process"),
    (
        "ulimit-n",
        "the proxy raises its limit of open files by itself",
    ),
    ("quiet", "nothing is said that it would silence"),
    ("zero-warning", "every warning is an error of `check`"),
    ("node", "the name is for statistics alone"),
    ("description", "a description is for people alone"),
    ("spread-checks", "checks are spread as they are"),
    ("cpu-map", "workers are not pinned"),
    ("nbproc", "there is one process"),
    ("nosplice", "bytes are moved by the kernel where it can"),
    ("noepoll", "there is one way to wait"),
    ("busy-polling", "the runtime decides when to spin"),
    ("max-spread-checks", "checks are spread over their interval"),
    (
        "ssl-dh-param-file",
        "TLS here has no parameters of Diffie and Hellman to choose",
    ),
    (
        "ssl-default-bind-ciphers",
        "TLS here has ciphers with forward secrecy alone",
    ),
    (
        "ssl-default-bind-ciphersuites",
        "TLS here has ciphers with forward secrecy alone",
    ),
    (
        "ssl-default-bind-curves",
        "TLS here has X25519, P-256 and P-384",
    ),
    (
        "ssl-default-server-ciphers",
        "TLS here has ciphers with forward secrecy alone",
    ),
    (
        "ssl-default-server-ciphersuites",
        "TLS here has ciphers with forward secrecy alone",
    ),
    ("insecure-fork-wanted", "no process is started"),
    (
        "strict-limits",
        "the limit of open files is checked when the proxy begins",
    ),
    ("expose-experimental-directives", "there are none"),
];

impl Global {
    pub(super) fn take(&mut self, line: &Line, remarks: &mut Remarks) {
        let (number, words) = (line.number, &line.words);
        let first = words.get(1);
        let whole = |what: &str| values::number::<usize>(what, first);
        match words[0].as_str() {
            "maxconn" => {
                let value = remarks.good(number, whole("maxconn"));
                self.maxconn = value.filter(|&value| value > 0).map(|v| At::new(number, v));
            }
            "nbthread" => {
                let value = remarks.good(number, whole("nbthread"));
                self.threads = value.map(|value| At::new(number, value.clamp(1, 1_024)));
            }
            "hard-stop-after" => {
                let text = first.map_or("", String::as_str);
                let value = remarks.good(number, values::time(text));
                self.drain = value.map(|value| At::new(number, value));
            }
            "tune.bufsize" => {
                let value = remarks.good(number, whole("tune.bufsize"));
                self.buffer = value.map(|value| At::new(number, value));
            }
            "crt-base" => self.crt_base = first.map(PathBuf::from),
            "ca-base" => self.ca_base = first.map(PathBuf::from),
            "ssl-server-verify" => {
                self.verifies_nobody = first.is_some_and(|word| word == "none");
            }
            "stats" => self.stats(line, remarks),
            "ssl-default-bind-options" => {
                self.bind_min_version = min_version(number, &words[1..], remarks);
                self.refuses_tickets = words.iter().any(|word| word == "no-tls-tickets");
            }
            "ssl-default-server-options" => {
                self.server_min_version = min_version(number, &words[1..], remarks);
            }
            "log" => {
                let target = logs::log(line, remarks);
                if self.log.is_some() && target.is_some() {
                    remarks.error(number, "a listener has one log: drop this one");
                } else {
                    self.log = target.or(self.log.take());
                }
            }
            "log-tag" | "log-send-hostname" => {
                remarks.note(number, "lines to syslog say that they are evenkeel-proxy's");
            }
            other if other.starts_with("tune.") => remarks.note(
                number,
                format!(
                    "{other} tunes HAProxy, and has no counterpart that changes what is served"
                ),
            ),
            other => match NOT_NEEDED.iter().find(|(name, _)| *name == other) {
                Some((name, why)) => remarks.note(number, format!("{name} is left out: {why}")),
                None => remarks.error(number, format!("global {other} has no counterpart here")),
            },
        }
    }

    fn stats(&mut self, line: &Line, remarks: &mut Remarks) {
        let (number, words) = (line.number, &line.words);
        match words.get(1).map(String::as_str) {
            Some("timeout") => remarks.note(number, "operators have ten seconds for each line"),
            Some("socket") => {
                let Some(address) = words.get(2) else {
                    return remarks.error(number, "stats socket needs an address");
                };
                match values::address(address, false) {
                    Ok(address) if address.starts_with("unix:") && self.socket.is_none() => {
                        let path = address["unix:".len()..].to_owned();
                        self.socket = Some(At::new(number, path));
                        if words.len() > 3 {
                            let said = "the socket is for the user of the process and root alone, \
                                        whatever mode, user, group and level say";
                            remarks.note(number, said);
                        }
                    }
                    _ => remarks.error(
                        number,
                        "there is one socket for operators, and it is a Unix socket: drop this one",
                    ),
                }
            }
            _ => remarks.error(number, "this form of stats has no counterpart here"),
        }
    }

    /// Where a file of certificates is.
    pub(super) fn certificate(&self, file: &str) -> String {
        based(self.crt_base.as_deref(), file)
    }

    /// Where a file of authorities is.
    pub(super) fn authority(&self, file: &str) -> String {
        based(self.ca_base.as_deref(), file)
    }
}

fn based(base: Option<&Path>, file: &str) -> String {
    match base {
        Some(base) => base.join(file).display().to_string(),
        None => file.to_owned(),
    }
}

/// The oldest version of TLS among options of TLS, as it is written here.
pub(super) fn min_version(line: usize, words: &[String], remarks: &mut Remarks) -> Option<String> {
    let mut found = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "ssl-min-ver" => match words.next().map(String::as_str) {
                Some(version) => found = Some(version_shown(line, version, remarks)),
                None => remarks.error(line, "ssl-min-ver needs a version"),
            },
            "no-sslv3" | "no-tlsv10" | "no-tlsv11" | "prefer-client-ciphers" => {
                remarks.note(line, format!("{word}: TLS here begins with 1.2"));
            }
            // Whoever calls this has seen it.
            "no-tls-tickets" => {}
            "no-tlsv12" => found = Some("1.3".to_owned()),
            "force-tlsv13" => found = Some("1.3".to_owned()),
            other => remarks.error(
                line,
                format!("the option {other} of TLS has no counterpart"),
            ),
        }
    }
    found
}

/// A version of TLS as it is written here: there are 1.2 and 1.3.
pub(super) fn version_shown(line: usize, version: &str, remarks: &mut Remarks) -> String {
    match version {
        "TLSv1.3" => "1.3".to_owned(),
        "TLSv1.2" => "1.2".to_owned(),
        other => {
            remarks.note(
                line,
                format!("TLS here begins with 1.2: {other} is raised to that"),
            );
            "1.2".to_owned()
        }
    }
}
