//! How servers are checked.

use super::Remarks;
use super::values;
use super::words::Line;

/// What a check asks and expects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Check {
    /// By a request.
    pub is_http: bool,
    /// Its method; HAProxy's default is `OPTIONS`.
    pub method: Option<String>,
    /// Its path.
    pub path: Option<String>,
    /// The host that is asked for.
    pub host: Option<String>,
    /// The statuses of a server that is up.
    pub expect: Vec<u16>,
}

impl Check {
    /// `option httpchk`, with what it asks for.
    pub(super) fn http(
        &mut self,
        line: usize,
        words: &[String],
        is_on: bool,
        remarks: &mut Remarks,
    ) {
        self.is_http = is_on;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (method, path, rest) = match words[..] {
            [] => return,
            [path] => (None, path, &[][..]),
            [method, path, ref rest @ ..] => (Some(method), path, rest),
        };
        self.method = method.map(str::to_owned);
        self.path(line, path, remarks);
        // The version may bring headers with it, in an old form.
        let tail = rest.join(" ");
        let mut lines = tail.split("\r\n");
        lines.next();
        for header in lines.filter(|header| !header.is_empty()) {
            let (name, value) = header.split_once(':').unwrap_or((header, ""));
            self.header(line, name.trim(), value.trim(), remarks);
        }
    }

    /// `option tcp-check`.
    pub(super) fn tcp(&mut self) {
        self.is_http = false;
    }

    /// `http-check`.
    pub(super) fn rule(&mut self, line: &Line, remarks: &mut Remarks) {
        let number = line.number;
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        match words[1..] {
            ["send", ref rest @ ..] => self.send(number, rest, remarks),
            ["expect", "status", list] => self.status(number, list, remarks),
            ["expect", "rstatus", pattern] => self.pattern(number, pattern, false, remarks),
            ["expect", "!", "rstatus", pattern] => self.pattern(number, pattern, true, remarks),
            ["disable-on-404"] => {
                let said = "a server that answers a check with 404 is down here, not draining";
                remarks.error(number, said);
            }
            _ => remarks.error(
                number,
                "checks send one request and expect statuses: write `http-check expect status \
                 LIST`, or leave it out",
            ),
        }
    }

    fn send(&mut self, line: usize, words: &[&str], remarks: &mut Remarks) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match (*word, words.next()) {
                ("meth", Some(method)) => self.method = Some((*method).to_owned()),
                ("uri", Some(path)) => self.path(line, path, remarks),
                ("ver", Some(_)) => {}
                ("hdr", Some(name)) => match words.next() {
                    Some(value) => self.header(line, name, value, remarks),
                    None => remarks.error(line, "hdr needs a name and a value"),
                },
                (other, _) => {
                    remarks.error(line, format!("a check cannot send {other} here"));
                }
            }
        }
    }

    fn path(&mut self, line: usize, path: &str, remarks: &mut Remarks) {
        let is_plain = path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if path.starts_with('/') && is_plain {
            self.path = Some(path.to_owned());
        } else {
            remarks.error(
                line,
                format!("a check asks for a path from its / on, not for {path}"),
            );
        }
    }

    fn header(&mut self, line: usize, name: &str, value: &str, remarks: &mut Remarks) {
        let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
        match name.to_ascii_lowercase().as_str() {
            "host" if is_plain => self.host = Some(value.to_owned()),
            "connection" => {}
            "user-agent" => remarks.note(line, "checks say that they are evenkeel-proxy's"),
            _ => remarks.error(line, format!("a check has no header {name}: {value} here")),
        }
    }

    /// Those statuses in which a pattern is found, or is not.
    fn pattern(&mut self, line: usize, pattern: &str, is_not: bool, remarks: &mut Remarks) {
        let made = crate::config::Pattern::<false>::try_from(pattern.to_owned());
        let Some(pattern) = remarks.good(line, made) else {
            return;
        };
        let fits = |status: &u16| pattern.is_in(status.to_string().as_bytes()) != is_not;
        self.expect = (200..600).filter(fits).collect();
        if self.expect.is_empty() {
            let said = "no status of 200 to 599 fits, so that no server would be up";
            remarks.error(line, said);
        }
    }

    fn status(&mut self, line: usize, list: &str, remarks: &mut Remarks) {
        let mut statuses = Vec::new();
        for part in list.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let both = (from.parse::<u16>(), to.parse::<u16>());
            match both {
                (Ok(from @ 200..=599), Ok(to @ 200..=599)) if from <= to => {
                    statuses.extend(from..=to);
                }
                _ => {
                    let said = format!("a check expects statuses of 200 to 599, not {part}");
                    return remarks.error(line, said);
                }
            }
        }
        self.expect = statuses;
    }

    /// As it is written here, with what servers say of it.
    pub(super) fn written(&self, times: &Times) -> Vec<String> {
        let mut keys = vec![format!(
            "kind = \"{}\"",
            if self.is_http { "http" } else { "tcp" }
        )];
        if self.is_http {
            let method = self.method.as_deref().unwrap_or("OPTIONS");
            if method != "GET" {
                keys.push(format!("method = {}", super::toml::text(method)));
            }
            let texts = [("path", &self.path), ("host", &self.host)];
            for (key, value) in texts {
                if let Some(value) = value {
                    keys.push(format!("{key} = {}", super::toml::text(value)));
                }
            }
            if !self.expect.is_empty() {
                keys.push(format!("expect = {:?}", self.expect));
            }
        }
        let shown = |time: std::time::Duration| format!("\"{}\"", values::time_shown(time));
        keys.extend(
            times
                .interval
                .map(|time| format!("interval = {}", shown(time))),
        );
        keys.extend(
            times
                .timeout
                .map(|time| format!("timeout = {}", shown(time))),
        );
        keys.extend(times.rise.map(|rise| format!("rise = {rise}")));
        keys.extend(times.fall.map(|fall| format!("fall = {fall}")));
        keys
    }
}

/// How often a server is checked, and how often in a row it has to be so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// The time between two checks.
    pub interval: Option<std::time::Duration>,
    /// For the whole check.
    pub timeout: Option<std::time::Duration>,
    /// Good ones, after which it is up.
    pub rise: Option<u32>,
    /// Bad ones, after which it is down.
    pub fall: Option<u32>,
}
