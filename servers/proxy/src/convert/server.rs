//! Servers, and what they have by default.

use std::time::Duration;

use super::Remarks;
use super::check::Times;
use super::global::{self, Global};
use super::values;
use super::words::Line;

/// A server, or what servers have by default.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    /// The line.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Its address, as it is written here.
    pub address: String,
    /// Its part of the work.
    pub weight: Option<u32>,
    /// Connections to it.
    pub maxconn: Option<usize>,
    /// Who waits for it.
    pub maxqueue: Option<usize>,
    /// The version of the PROXY protocol that it wants.
    pub send_proxy: Option<&'static str>,
    /// It begins in maintenance.
    pub is_disabled: bool,
    /// It gets work when no other is up.
    pub is_backup: bool,
    /// Whether it is checked, and how.
    pub is_checked: bool,
    pub times: Times,
    /// How long it takes to get its whole share.
    pub slow_start: Option<Duration>,
    /// Connections that are kept.
    pub idle_max: Option<usize>,
    /// HTTP/2 is spoken with it.
    pub is_h2: bool,
    /// TLS to it.
    pub is_tls: bool,
    pub tls: Tls,
}

/// TLS to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Whether it has to show who it is; HAProxy's default is that it has.
    pub verifies_nobody: Option<bool>,
    /// Whose certificates.
    pub ca: Option<String>,
    /// The name in its certificate.
    pub server_name: Option<String>,
    /// The proxy's own certificate.
    pub certificate: Option<String>,
    /// The oldest version.
    pub min_version: Option<String>,
}

/// Words that change nothing of what is served, and whether a value follows.
const NOT_NEEDED: [(&str, bool); 21] = [
    ("id", true),
    ("tfo", false),
    ("init-addr", true),
    ("resolve-prefer", true),
    ("max-reuse", true),
    ("tcp-ut", true),
    ("ws", true),
    ("log-proto", true),
    ("on-marked-up", true),
    ("ciphers", true),
    ("ciphersuites", true),
    ("no-tls-tickets", false),
    ("no-ssl-reuse", false),
    ("ssl-reuse", false),
    ("enabled", false),
    ("stick", false),
    ("no-sslv3", false),
    ("no-tlsv10", false),
    ("no-tlsv11", false),
    ("minconn", true),
    ("pool-low-conn", true),
];

/// A server by its line.
pub(super) fn read(
    line: &Line,
    defaults: &Server,
    global: &Global,
    remarks: &mut Remarks,
) -> Option<Server> {
    let number = line.number;
    let (Some(name), Some(address)) = (line.words.get(1), line.words.get(2)) else {
        remarks.error(number, "a server has a name and an address");
        return None;
    };
    let address = remarks.good(number, values::address(address, true))?;
    let mut server = Server {
        line: number,
        name: values::name(name),
        address,
        ..defaults.clone()
    };
    if server.name != *name {
        remarks.note(number, format!("the server is called {} here", server.name));
    }
    server.change(line, 3, global, remarks);
    Some(server)
}

impl Server {
    /// Takes the words of a line from this one on.
    pub(super) fn change(
        &mut self,
        line: &Line,
        from: usize,
        global: &Global,
        remarks: &mut Remarks,
    ) {
        let number = line.number;
        let mut words = line.words.iter().skip(from);
        while let Some(word) = words.next() {
            let word = word.as_str();
            if word == "cookie" {
                // A name for the server alone, and there are others for it here.
                words.next();
                continue;
            }
            if word == "proto" || word == "alpn" {
                self.speaks(number, words.next().map_or("", String::as_str), remarks);
                continue;
            }
            let is_taken = self.takes_flag(word)
                || self.takes_number(number, word, &mut words, remarks)
                || self.takes_time(number, word, &mut words, remarks)
                || self.takes_tls(number, word, &mut words, global, remarks);
            if is_taken {
                continue;
            }
            match NOT_NEEDED.iter().find(|(name, _)| *name == word) {
                Some((name, has_value)) => {
                    if *has_value {
                        words.next();
                    }
                    remarks.note(number, format!("{name} of a server is left out"));
                }
                None if word == "resolvers" => {
                    words.next();
                    let said = "names are looked up by the system, and not by these resolvers";
                    remarks.note(number, said);
                }
                None => {
                    remarks.error(
                        number,
                        format!("{word} of a server has no counterpart here"),
                    );
                    if HAS_VALUE.contains(&word) {
                        words.next();
                    }
                }
            }
        }
    }

    fn speaks(&mut self, line: usize, what: &str, remarks: &mut Remarks) {
        match what {
            "h2" => self.is_h2 = true,
            "h1" | "http/1.1" => self.is_h2 = false,
            "h2,http/1.1" | "http/1.1,h2" => {
                self.is_h2 = false;
                remarks.note(line, "HTTP/1.1 is spoken with servers that speak both");
            }
            other => remarks.error(line, format!("{other} is not spoken with servers")),
        }
    }

    fn takes_flag(&mut self, word: &str) -> bool {
        match word {
            "check" => self.is_checked = true,
            "no-check" => self.is_checked = false,
            "disabled" => self.is_disabled = true,
            "backup" => self.is_backup = true,
            "no-backup" => self.is_backup = false,
            "ssl" => self.is_tls = true,
            "no-ssl" => self.is_tls = false,
            "send-proxy" => self.send_proxy = Some("v1"),
            "send-proxy-v2" => self.send_proxy = Some("v2"),
            "no-send-proxy" | "no-send-proxy-v2" => self.send_proxy = None,
            // Checks speak as other connections do.
            "check-ssl" if self.is_tls => {}
            "check-send-proxy" => {}
            _ => return false,
        }
        true
    }

    fn takes_number<'a>(
        &mut self,
        line: usize,
        word: &str,
        words: &mut impl Iterator<Item = &'a String>,
        remarks: &mut Remarks,
    ) -> bool {
        let mut number = || {
            let value = values::number::<u32>(word, words.next());
            remarks.good(line, value)
        };
        let size = |value: Option<u32>| value.map(|value| value as usize);
        match word {
            "weight" => match number() {
                Some(weight) if weight <= crate::config::WEIGHT_MAX => self.weight = Some(weight),
                Some(weight) => remarks.error(line, format!("weight {weight} is more than 256")),
                None => {}
            },
            // None is no limit.
            "maxconn" => self.maxconn = size(number()).filter(|&max| max > 0),
            "maxqueue" => self.maxqueue = size(number()).filter(|&max| max > 0),
            "pool-max-conn" => self.idle_max = size(number()),
            "rise" => self.times.rise = number(),
            "fall" => self.times.fall = number(),
            _ => return false,
        }
        true
    }

    fn takes_time<'a>(
        &mut self,
        line: usize,
        word: &str,
        words: &mut impl Iterator<Item = &'a String>,
        remarks: &mut Remarks,
    ) -> bool {
        if ![
            "inter",
            "fastinter",
            "downinter",
            "slowstart",
            "pool-purge-delay",
        ]
        .contains(&word)
        {
            return false;
        }
        let text = words.next().map_or("", String::as_str);
        // Of these a number alone is of milliseconds, too; `slowstart` included.
        let Some(time) = remarks.good(line, values::time(text)) else {
            return true;
        };
        match word {
            "inter" => self.times.interval = Some(time),
            "slowstart" => self.slow_start = Some(time),
            _ => remarks.note(
                line,
                format!("{word} is left out: there is one interval of checks"),
            ),
        }
        true
    }

    fn takes_tls<'a>(
        &mut self,
        line: usize,
        word: &str,
        words: &mut impl Iterator<Item = &'a String>,
        global: &Global,
        remarks: &mut Remarks,
    ) -> bool {
        let tls = &mut self.tls;
        match word {
            "verify" => {
                let how = words.next().map(String::as_str);
                tls.verifies_nobody = Some(how == Some("none"));
            }
            "ca-file" => {
                let file = words.next().map_or("", String::as_str);
                // That of the system is the default here.
                tls.ca = (!file.starts_with('@')).then(|| global.authority(file));
            }
            "crt" => tls.certificate = words.next().map(|file| global.certificate(file)),
            "verifyhost" => tls.server_name = words.next().cloned(),
            "sni" => {
                let text = words.next().map_or("", String::as_str);
                match text
                    .strip_prefix("str(")
                    .and_then(|rest| rest.strip_suffix(')'))
                {
                    Some(name) => tls.server_name = Some(name.to_owned()),
                    None => remarks.error(
                        line,
                        format!("servers are asked for one name, not for {text}: name it"),
                    ),
                }
            }
            "ssl-min-ver" => {
                let version = words.next().map_or("", String::as_str);
                tls.min_version = Some(global::version_shown(line, version, remarks));
            }
            _ => return false,
        }
        true
    }
}

/// Words that have no counterpart, and a value that is not a word of its own.
const HAS_VALUE: [&str; 21] = [
    "port",
    "addr",
    "check-alpn",
    "check-sni",
    "check-proto",
    "crl-file",
    "proxy-v2-options",
    "agent-inter",
    "agent-port",
    "agent-addr",
    "agent-send",
    "observe",
    "on-error",
    "on-marked-down",
    "error-limit",
    "track",
    "redir",
    "namespace",
    "source",
    "shard",
    "usesrc",
];
