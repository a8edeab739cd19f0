//! Where a section listens.

use std::path::Path;

use super::Remarks;
use super::global::{self, Global};
use super::values;
use super::words::Line;

/// One address.
#[derive(Clone, Debug)]
pub(super) struct Bind {
    /// The address, as it is written here.
    pub address: String,
    /// TLS with clients.
    pub tls: Option<Tls>,
    /// A header of the PROXY protocol comes first.
    pub accept_proxy: bool,
    /// Connections of this address.
    pub maxconn: Option<usize>,
    /// Whether HTTP/2 alone is spoken, or not at all.
    pub h2: Option<bool>,
}

impl Bind {
    /// What is said of HTTP/2, if it is not spoken with those alone who want it.
    pub(super) fn h2(&self) -> Option<&'static str> {
        let is_offered = |tls: &Tls| tls.alpn.iter().any(|name| name == "h2");
        match (self.h2, &self.tls) {
            (Some(true), _) => Some("{ only = true }"),
            (Some(false), _) => Some("{ enabled = false }"),
            (None, Some(tls)) if !is_offered(tls) => Some("{ enabled = false }"),
            _ => None,
        }
    }
}

/// TLS with clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    /// Files with certificates and keys.
    pub certificates: Vec<String>,
    /// The authorities of clients, who have to come with a certificate.
    pub client_ca: Option<String>,
    /// The authorities, whether clients have to come with a certificate or not.
    authorities: Option<String>,
    /// Whether they have to.
    verifies: bool,
    /// The oldest version.
    pub min_version: Option<String>,
    /// What may be spoken.
    pub alpn: Vec<String>,
    /// Whether clients may keep their sessions.
    pub tickets: bool,
}

/// Words that stand alone and change nothing of what is served, or that are followed by a value.
const NOT_NEEDED: [(&str, bool); 22] = [
    ("tfo", false),
    ("defer-accept", false),
    ("v4v6", false),
    ("backlog", true),
    ("process", true),
    ("thread", true),
    ("shards", true),
    ("nice", true),
    ("id", true),
    ("name", true),
    ("mode", true),
    ("user", true),
    ("group", true),
    ("uid", true),
    ("gid", true),
    ("level", true),
    ("tcp-ut", true),
    ("ciphers", true),
    ("ciphersuites", true),
    ("curves", true),
    ("ecdhe", true),
    ("prefer-client-ciphers", false),
];

/// The addresses of a `bind`.
pub(super) fn read(line: &Line, global: &Global, remarks: &mut Remarks) -> Vec<Bind> {
    let (number, words) = (line.number, &line.words);
    let Some(text) = words.get(1) else {
        remarks.error(number, "bind needs an address");
        return Vec::new();
    };
    let Some(addresses) = remarks.good(number, values::addresses(text)) else {
        return Vec::new();
    };
    let mut bind = Bind {
        address: String::new(),
        tls: None,
        accept_proxy: false,
        maxconn: None,
        h2: None,
    };
    let mut tls = Tls {
        tickets: !global.refuses_tickets,
        min_version: global.bind_min_version.clone(),
        ..Tls::default()
    };
    let mut is_tls = false;
    let mut words = words[2..].iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "ssl" => is_tls = true,
            "accept-proxy" => bind.accept_proxy = true,
            "proto" => match words.next().map(String::as_str) {
                Some("h2") => bind.h2 = Some(true),
                Some("h1") => bind.h2 = Some(false),
                _ => remarks.error(number, "proto is h1 or h2"),
            },
            "maxconn" => {
                let max = remarks.good(number, values::number("maxconn", words.next()));
                bind.maxconn = max.filter(|&max: &usize| max > 0);
            }
            other => {
                if !tls.take(number, other, &mut words, global, remarks) {
                    unknown(number, other, &mut words, remarks);
                }
            }
        }
    }
    if is_tls && tls.certificates.is_empty() {
        remarks.error(number, "TLS needs a certificate: name one by crt");
    } else if is_tls {
        if tls.verifies && tls.authorities.is_none() {
            remarks.error(number, "verify required needs a ca-file");
        }
        tls.client_ca = tls.authorities.take().filter(|_| tls.verifies);
        bind.tls = Some(tls);
    }
    let of_address = |address: String| Bind {
        address,
        ..bind.clone()
    };
    addresses.into_iter().map(of_address).collect()
}

fn unknown<'a>(
    line: usize,
    word: &str,
    words: &mut impl Iterator<Item = &'a String>,
    remarks: &mut Remarks,
) {
    match NOT_NEEDED.iter().find(|(name, _)| *name == word) {
        Some((name, has_value)) => {
            if *has_value {
                words.next();
            }
            remarks.note(
                line,
                format!("{name} of bind is left out: the proxy or the system chooses"),
            );
        }
        None => remarks.error(line, format!("{word} of bind has no counterpart here")),
    }
}

impl Tls {
    /// Takes a word about TLS and its value.
    fn take<'a>(
        &mut self,
        line: usize,
        word: &str,
        words: &mut impl Iterator<Item = &'a String>,
        global: &Global,
        remarks: &mut Remarks,
    ) -> bool {
        match word {
            "crt" => match words.next() {
                Some(file) => self.certificate(line, &global.certificate(file), remarks),
                None => remarks.error(line, "crt needs a file"),
            },
            "ca-file" => self.authorities = words.next().map(|file| global.authority(file)),
            "verify" => match words.next().map(String::as_str) {
                Some("required") => self.verifies = true,
                Some("none") => self.verifies = false,
                _ => remarks.error(
                    line,
                    "clients' certificates are asked for and needed, or not",
                ),
            },
            "alpn" => {
                let names = words.next().map_or("", String::as_str).split(',');
                self.alpn = names.map(str::to_owned).collect();
            }
            "no-tls-tickets" => self.tickets = false,
            "ssl-min-ver" => {
                let version = words.next().map_or("", String::as_str);
                self.min_version = Some(global::version_shown(line, version, remarks));
            }
            "no-sslv3" | "no-tlsv10" | "no-tlsv11" => {
                remarks.note(line, format!("{word}: TLS here begins with 1.2"));
            }
            "no-tlsv12" | "force-tlsv13" => self.min_version = Some("1.3".to_owned()),
            _ => return false,
        }
        true
    }

    /// A file, or all files of a directory, as HAProxy reads them.
    fn certificate(&mut self, line: usize, path: &str, remarks: &mut Remarks) {
        if !Path::new(path).is_dir() {
            self.certificates.push(path.to_owned());
            return;
        }
        let listed = std::fs::read_dir(path).map(|entries| {
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let is_certificate = |path: &std::path::PathBuf| {
                let skipped = ["key", "ocsp", "sctl", "issuer", "dh"];
                let extension = path.extension().and_then(|extension| extension.to_str());
                path.is_file() && !extension.is_some_and(|end| skipped.contains(&end))
            };
            let mut paths: Vec<_> = paths.filter(is_certificate).collect();
            paths.sort();
            paths
        });
        match listed {
            Ok(paths) if !paths.is_empty() => {
                let said = "the files of this directory are written down one by one, as they are \
                            now";
                remarks.note(line, said);
                let shown = paths.iter().map(|path| path.display().to_string());
                self.certificates.extend(shown);
            }
            Ok(_) => remarks.error(line, format!("there is no certificate in {path}")),
            Err(error) => remarks.error(line, format!("cannot read {path}: {error}")),
        }
    }
}
