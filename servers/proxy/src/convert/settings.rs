//! What sections say and may inherit from `defaults`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Remarks;
use super::check::Check;
use super::global::Global;
use super::logs::{self, Log};
use super::options::{self, Meaning};
use super::rules;
use super::server::Server;
use super::values::{self, At};
use super::words::Line;
use crate::config::is_type;

/// What a section says and inherits.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Whether HTTP is spoken; else bytes are passed on.
    pub is_http: bool,
    /// Times, by their names.
    pub times: BTreeMap<String, At<Duration>>,
    /// How a server is chosen: what stands in the configuration, and what is hashed.
    pub balance: Option<At<Balance>>,
    /// Connections of a frontend.
    pub maxconn: Option<At<usize>>,
    /// Attempts after the first one.
    pub retries: Option<At<u32>>,
    /// Options that mean something here, with whether they are on.
    pub options: BTreeMap<Meaning, At<bool>>,
    /// How servers are checked.
    pub check: Check,
    /// What servers have that do not say otherwise.
    pub default_server: Server,
    /// Where requests are logged.
    pub log: Option<At<Log>>,
    /// Whether the section has said so itself.
    pub has_log: bool,
    /// The header in which a request has its id.
    pub id_header: Option<At<String>>,
    /// The keys for clients that come back to their server.
    pub cookie: Option<At<String>>,
    /// Whether answers are compressed, and of which types.
    pub compresses: bool,
    pub compressed_types: Vec<String>,
    /// Where requests go that no rule takes.
    pub default_backend: Option<At<String>>,
}

/// How a server is chosen, as it is written here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Balance {
    /// The key `balance`.
    pub how: &'static str,
    /// The key `hash_on`.
    pub hash_on: Option<String>,
}

/// Times that mean something here.
const TIMES: [&str; 9] = [
    "client",
    "server",
    "connect",
    "queue",
    "check",
    "tunnel",
    "http-request",
    "http-keep-alive",
    "client-hs",
];

/// What becomes of the form of lines.
const FORMATS: &str = "lines have the format `combined`, or `json` with all that is known of a \
                       request, which you choose in [log]";

/// What changes nothing of what is served, with the reason.
const NOT_NEEDED: [(&str, &str); 13] = [
    ("log-format", FORMATS),
    ("log-format-sd", FORMATS),
    ("error-log-format", FORMATS),
    (
        "unique-id-format",
        "ids are 32 hexadecimal digits at random",
    ),
    ("description", "it is for people alone"),
    ("id", "names are enough here"),
    ("guid", "names are enough here"),
    ("fullconn", "limits of servers do not depend on load here"),
    (
        "backlog",
        "as many wait to be accepted as the system allows",
    ),
    ("bind-process", "there is one process"),
    (
        "log-tag",
        "lines to syslog say that they are evenkeel-proxy's",
    ),
    (
        "load-server-state-from-file",
        "a reload keeps the states of servers",
    ),
    (
        "max-keep-alive-queue",
        "kept connections are taken as they are free",
    ),
];

impl Settings {
    /// Takes a line, if it is one that may be inherited.
    pub(super) fn take(&mut self, line: &Line, global: &Global, remarks: &mut Remarks) -> bool {
        let (number, words) = (line.number, &line.words);
        let first = words.get(1).map(String::as_str);
        match words[0].as_str() {
            "mode" => match first {
                Some("http") => self.is_http = true,
                Some("tcp") => self.is_http = false,
                other => {
                    let said = format!("there is no mode {}", other.unwrap_or("without a name"));
                    remarks.error(number, said);
                }
            },
            "timeout" => self.timeout(line, remarks),
            "balance" => self.balance = balance(line, remarks).or(self.balance.take()),
            "hash-type" => hash_type(line, remarks),
            "maxconn" => {
                let value = values::number("maxconn", words.get(1));
                let value = remarks.good(number, value);
                self.maxconn = value.filter(|&max| max > 0).map(|max| At::new(number, max));
            }
            "retries" => {
                let value = remarks.good(number, values::number("retries", words.get(1)));
                self.retries = value.map(|max| At::new(number, max));
            }
            "option" => self.option(number, &words[1..], true, remarks),
            "no" if first == Some("option") => self.option(number, &words[2..], false, remarks),
            "no" if first == Some("log") => self.log = None,
            "http-check" => self.check.rule(line, remarks),
            "default-server" => self.default_server.change(line, 1, global, remarks),
            "default_backend" => match first {
                Some(name) => self.default_backend = Some(At::new(number, name.to_owned())),
                None => remarks.error(number, "default_backend needs a name"),
            },
            "http-reuse" => self.reuse(number, first, remarks),
            "log" => {
                let log = match first {
                    Some("global") => global.log.clone(),
                    _ => logs::log(line, remarks).or(self.log.take()),
                };
                if self.has_log && log.is_some() {
                    remarks.error(number, "a section has one log here: drop the others");
                }
                (self.has_log, self.log) = (log.is_some(), log);
            }
            "unique-id-header" => {
                let name = first.map_or("", |name| name);
                let name = remarks.good(number, rules::editable(name));
                self.id_header = name.map(|name| At::new(number, name));
            }
            "cookie" => self.cookie = cookie(line, remarks).or(self.cookie.take()),
            "compression" => self.compression(line, remarks),
            other => match NOT_NEEDED.iter().find(|(name, _)| *name == other) {
                Some((name, why)) => remarks.note(number, format!("{name} is left out: {why}")),
                None => return false,
            },
        }
        true
    }

    /// Which connections to servers may be used again, and by whom.
    fn reuse(&mut self, line: usize, how: Option<&str>, remarks: &mut Remarks) {
        let keep = At::new(line, how == Some("never"));
        self.options.insert(Meaning::CloseServer, keep);
        match how {
            Some("always") => {}
            Some("never") => remarks.note(line, "each request has a connection to its server"),
            _ => remarks.note(
                line,
                "all clients share kept connections, as with `always`: a request that meets one \
                 that is closed is sent again if that does no harm",
            ),
        }
    }

    /// Whether an option is on, and the line that says so.
    pub(super) fn is_on(&self, meaning: Meaning) -> Option<usize> {
        let option = self.options.get(&meaning)?;
        option.value.then_some(option.line)
    }

    /// A time, by the first of these names that is set.
    pub(super) fn time(&self, names: &[&str]) -> Option<&At<Duration>> {
        names.iter().find_map(|name| self.times.get(*name))
    }

    fn timeout(&mut self, line: &Line, remarks: &mut Remarks) {
        let (number, words) = (line.number, &line.words);
        let (Some(name), Some(text)) = (words.get(1), words.get(2)) else {
            return remarks.error(number, "a timeout has a name and a time");
        };
        match name.as_str() {
            name if TIMES.contains(&name) => {
                if let Some(time) = remarks.good(number, values::time(text)) {
                    self.times.insert(name.to_owned(), At::new(number, time));
                }
            }
            "client-fin" | "server-fin" => remarks.note(
                number,
                format!("timeout {name} is left out: the time without a byte counts to the end"),
            ),
            "tarpit" => remarks.note(number, "timeout tarpit is left out: nobody is held back"),
            other => remarks.error(number, format!("timeout {other} has no counterpart here")),
        }
    }

    fn compression(&mut self, line: &Line, remarks: &mut Remarks) {
        let words: Vec<&str> = line.words[1..].iter().map(String::as_str).collect();
        match words[..] {
            ["algo", ref names @ ..] if names.contains(&"gzip") => self.compresses = true,
            ["type", ref types @ ..] if types.iter().all(|kind| is_type(kind)) => {
                self.compressed_types = types.iter().map(|&kind| kind.to_owned()).collect();
            }
            _ => remarks.error(
                line.number,
                "answers are compressed by `compression algo gzip`, and by `compression type` for \
                 some types",
            ),
        }
    }

    fn option(&mut self, line: usize, words: &[String], is_on: bool, remarks: &mut Remarks) {
        let Some(name) = words.first() else {
            return remarks.error(line, "option needs a name");
        };
        match name.as_str() {
            "httpchk" => self.check.http(line, &words[1..], is_on, remarks),
            "tcp-check" => self.check.tcp(),
            "forwardfor" if words.len() > 1 && is_on => remarks.error(
                line,
                "option forwardfor is converted without except, header and if-none alone",
            ),
            name => match options::meaning(name) {
                Ok(Some(meaning)) => {
                    self.options.insert(meaning, At::new(line, is_on));
                }
                Ok(None) => {}
                Err(options::Unknown::NotNeeded(why)) => {
                    remarks.note(line, format!("option {name} is left out: {why}"));
                }
                Err(options::Unknown::Missing(why)) if is_on => {
                    remarks.error(line, format!("option {name}: {why}"));
                }
                // What is not there is off.
                Err(options::Unknown::Missing(_)) => {}
            },
        }
    }
}

/// A cookie by which clients come back, as it is written here.
fn cookie(line: &Line, remarks: &mut Remarks) -> Option<At<String>> {
    let mut words = line.words[1..].iter().map(String::as_str);
    let name = words.next().filter(|name| is_token(name))?;
    let (mut inserts, mut keys) = (false, format!("cookie = {}", super::toml::text(name)));
    for word in words {
        match word {
            "insert" => inserts = true,
            // As it is here.
            "indirect" | "httponly" => {}
            "nocache" => {
                let said = "nocache is left out: answers with the cookie are not marked private; \
                            have servers mark what a shared cache is not to keep";
                remarks.note(line.number, said);
            }
            "secure" => keys += ", secure = true",
            other => {
                let said = format!("{other} of a cookie has no counterpart: write insert alone");
                remarks.error(line.number, said);
            }
        }
    }
    if !inserts {
        remarks.error(
            line.number,
            "servers' own cookies are not read: write insert",
        );
        return None;
    }
    let said = "the values of the cookie are other ones: clients may come to other servers once";
    remarks.note(line.number, said);
    Some(At::new(line.number, format!("{{ {keys} }}")))
}

fn balance(line: &Line, remarks: &mut Remarks) -> Option<At<Balance>> {
    let words: Vec<&str> = line.words[1..].iter().map(String::as_str).collect();
    let hash = |on: &str| ("hash", Some(on.to_owned()));
    let (how, hash_on) = match words[..] {
        ["roundrobin" | "static-rr"] => ("round-robin", None),
        ["leastconn"] => ("least-connections", None),
        ["random" | "random(2)"] => {
            let said = "balance random is converted to the fewest connections, of which it is the \
                        approximation";
            remarks.note(line.number, said);
            ("least-connections", None)
        }
        ["source"] => hash("client"),
        ["uri"] | ["uri", "path-only"] => hash("path"),
        ["hdr", name] if is_token(name) => hash(&format!("header:{name}")),
        [one] => match one
            .strip_prefix("hdr(")
            .and_then(|rest| rest.strip_suffix(')'))
        {
            Some(name) if is_token(name) => hash(&format!("header:{name}")),
            _ => return missing(line, remarks),
        },
        _ => return missing(line, remarks),
    };
    Some(At::new(line.number, Balance { how, hash_on }))
}

fn missing(line: &Line, remarks: &mut Remarks) -> Option<At<Balance>> {
    let said = format!(
        "there is no {}: take roundrobin, leastconn, source, uri or hdr(NAME)",
        line.words.join(" ")
    );
    remarks.error(line.number, said);
    None
}

pub(super) fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}

fn hash_type(line: &Line, remarks: &mut Remarks) {
    match line.words.get(1).map(String::as_str) {
        Some("consistent") if line.words.len() == 2 => {}
        _ => remarks.note(
            line.number,
            "the hash is another one, and moves the keys of a server that leaves alone: clients \
             may come to other servers once",
        ),
    }
}
