//! Where requests are logged.

use super::Remarks;
use super::values::At;
use super::words::Line;

/// Where lines go, as it is written here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// The key `to`.
    pub to: String,
    /// The key `facility`, if lines go to syslog.
    pub facility: Option<String>,
}

/// Severities of syslog, the gravest first. A line of a request has the last but one.
const LEVELS: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];

/// Where servers of syslog listen.
const SYSLOG_PORT: u16 = 514;

/// What a `log` says; nothing, if no line of a request goes there.
pub(super) fn log(line: &Line, remarks: &mut Remarks) -> Option<At<Log>> {
    let number = line.number;
    let Some(target) = line.words.get(1) else {
        remarks.error(number, "log needs a target");
        return None;
    };
    let to = remarks.good(number, to(target))?;
    let mut words = Vec::new();
    let mut rest = line.words[2..].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "len" => drop(rest.next()),
            "format" => {
                let format = rest.next().map_or("", String::as_str);
                if to.starts_with("syslog:") && format != "rfc3164" && format != "local" {
                    remarks.note(number, "lines are sent in the form of RFC 3164");
                }
            }
            "sample" | "profile" => {
                let said = format!("{word} of a log has no counterpart: all lines are written");
                remarks.error(number, said);
                rest.next();
            }
            word => words.push(word),
        }
    }
    let level = words.get(1).copied().unwrap_or("debug");
    match LEVELS.iter().position(|known| *known == level) {
        None => remarks.error(number, format!("{level} is no level of a log")),
        Some(place) if place < LEVELS.len() - 2 => {
            let said = format!("it takes no lines of requests, as it begins at {level}: left out");
            remarks.note(number, said);
            return None;
        }
        Some(_) => {}
    }
    let facility = words.first().map(|&name| name.to_owned());
    let facility = facility.filter(|_| to.starts_with("syslog:"));
    if let Some(name) = &facility {
        let known = crate::access_log::Facility::try_from(name.clone());
        remarks.good(number, known)?;
    }
    Some(At::new(number, Log { to, facility }))
}

/// A target as it is written here.
fn to(word: &str) -> Result<String, String> {
    let plain = ["udp@", "udp4@", "udp6@", "ipv4@", "ipv6@"]
        .iter()
        .find_map(|family| word.strip_prefix(family))
        .unwrap_or(word);
    let path = word.strip_prefix("unix@").unwrap_or(word);
    if word == "stdout" || word == "fd@1" {
        return Ok("stdout".to_owned());
    }
    if path.starts_with('/') {
        return Ok(format!("syslog:{path}"));
    }
    let is_other = plain.contains('@') || matches!(word, "stderr" | "global");
    let address = match plain.rsplit_once(':') {
        _ if plain.parse::<std::net::Ipv6Addr>().is_ok() => format!("[{plain}]:{SYSLOG_PORT}"),
        Some((_, "")) => format!("{plain}{SYSLOG_PORT}"),
        Some((host, port)) if host.contains(':') && !host.starts_with('[') => {
            format!("[{host}]:{port}")
        }
        Some(_) if !plain.ends_with(']') => plain.to_owned(),
        _ => format!("{plain}:{SYSLOG_PORT}"),
    };
    let target = format!("syslog:udp:{address}");
    let is_good = crate::access_log::Target::try_from(target.clone()).is_ok();
    match is_good && !is_other {
        true => Ok(target),
        false => Err(format!(
            "logs go to stdout, to a Unix socket, or to a server of syslog over UDP, and not to \
             {word:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Option<Log>, Remarks) {
        let mut remarks = Remarks::default();
        let words = text.split(' ').map(str::to_owned).collect();
        let found = log(&Line { number: 1, words }, &mut remarks);
        (found.map(|at| at.value), remarks)
    }

    #[test]
    fn targets_of_all_forms_are_found() {
        let udp = "syslog:udp:";
        for (text, to, facility) in [
            ("stdout format raw daemon", "stdout".to_owned(), None),
            ("/dev/log local0", "syslog:/dev/log".into(), Some("local0")),
            (
                "127.0.0.1 local2",
                format!("{udp}127.0.0.1:514"),
                Some("local2"),
            ),
            (
                "10.0.0.1:1514 len 4096 local0 debug err",
                format!("{udp}10.0.0.1:1514"),
                Some("local0"),
            ),
            (
                "logs.example:514 daemon info",
                format!("{udp}logs.example:514"),
                Some("daemon"),
            ),
            ("::1 local0", format!("{udp}[::1]:514"), Some("local0")),
            (
                "ipv6@fd00::1:99 user",
                format!("{udp}[fd00::1:99]:514"),
                Some("user"),
            ),
        ] {
            let (found, remarks) = of(&format!("log {text}"));
            assert!(remarks.found.is_empty(), "{text}: {remarks:?}");
            let facility = facility.map(str::to_owned);
            assert_eq!(found, Some(Log { to, facility }), "{text}");
        }
    }

    #[test]
    fn what_takes_no_requests_is_noted_and_others_are_errors() {
        for (text, is_error) in [
            ("log /dev/log local1 notice", false),
            ("log 10.0.0.1 local0 err", false),
            ("log stderr local0", true),
            ("log ring@one local0", true),
            ("log tcp@10.0.0.1:514 local0", true),
            ("log 10.0.0.1 local9", true),
            ("log", true),
        ] {
            let (found, remarks) = of(text);
            assert_eq!(found, None, "{text}");
            let [(_, is_said, _)] = &remarks.found[..] else {
                panic!("{text}: {remarks:?}");
            };
            assert_eq!(*is_said, is_error, "{text}");
        }
    }
}
