//! The sections of a configuration, each with what it says and what it inherits.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::Remarks;
use super::bind::{self, Bind};
use super::condition::Conditions;
use super::global::Global;
use super::rules::Rule;
use super::server::{self, Server};
use super::settings::Settings;
use super::values::At;
use super::words::{self, Line};

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Sections {
    /// What concerns the process.
    pub global: Global,
    /// Frontends, backends and both in one, in their order.
    pub parts: Vec<Part>,
}

/// A `frontend`, a `backend` or a `listen`.
#[derive(Debug)]
pub(super) struct Part {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its lines.
    pub lines: Range<usize>,
    /// What it says and inherits.
    pub settings: Settings,
    /// Where it listens.
    pub binds: Vec<Bind>,
    /// Its servers.
    pub servers: Vec<Server>,
    /// The conditions that have names.
    pub conditions: Conditions,
    /// Which backend gets what, in order.
    pub uses: Vec<At<Vec<String>>>,
    /// Which connections are taken, in order.
    pub gates: Vec<At<Vec<String>>>,
    /// What is done with requests and answers, in order.
    pub rules: Vec<Rule>,
    /// It is switched off.
    pub is_disabled: bool,
}

/// What a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Where clients connect.
    Frontend,
    /// Where they are sent.
    Backend,
    /// Both.
    Listen,
}

/// Sections of which nothing can be had here.
const OTHERS: [&str; 14] = [
    "peers",
    "resolvers",
    "mailers",
    "userlist",
    "cache",
    "program",
    "ring",
    "http-errors",
    "fcgi-app",
    "log-forward",
    "traces",
    "crt-store",
    "acme",
    "log-profile",
];

/// Where a line belongs.
enum Within {
    Nothing,
    Global,
    Defaults(Option<String>),
    Part,
    Other,
}

struct Reader<'a> {
    sections: Sections,
    within: Within,
    /// The last `defaults`, and those with names.
    current: Settings,
    named: BTreeMap<String, Settings>,
    remarks: &'a mut Remarks,
}

impl Sections {
    /// A backend by its name.
    pub(super) fn backend(&self, name: &str) -> Option<&Part> {
        let is_it =
            |part: &&Part| part.kind != Kind::Frontend && part.name == name && !part.is_disabled;
        self.parts.iter().find(is_it)
    }

    /// Reads a text.
    pub(super) fn read(
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
        remarks: &mut Remarks,
    ) -> Self {
        let mut reader = Reader {
            sections: Self::default(),
            within: Within::Nothing,
            current: Settings::default(),
            named: BTreeMap::new(),
            remarks,
        };
        let mut set: HashMap<String, String> = HashMap::new();
        let mut last = 0;
        for (index, text) in text.lines().enumerate() {
            let number = index + 1;
            last = number;
            let known = |name: &str| set.get(name).cloned().or_else(|| variable(name));
            let words = words::split(text, &known);
            let Some(words) = reader.remarks.good(number, words) else {
                continue;
            };
            match words.first().map(String::as_str) {
                None => {}
                Some("setenv" | "presetenv") if words.len() == 3 => {
                    let keeps = words[0] == "presetenv" && known(&words[1]).is_some();
                    if !keeps {
                        set.insert(words[1].clone(), words[2].clone());
                    }
                }
                Some(_) => reader.line(&Line { number, words }),
            }
        }
        reader.close(last + 1);
        reader.sections
    }
}

impl Reader<'_> {
    fn line(&mut self, line: &Line) {
        let (number, words) = (line.number, &line.words);
        let kind = match words[0].as_str() {
            "frontend" => Kind::Frontend,
            "backend" => Kind::Backend,
            "listen" => Kind::Listen,
            "global" => {
                self.close(number);
                self.within = Within::Global;
                return;
            }
            "defaults" => return self.defaults(line),
            other if OTHERS.contains(&other) => {
                self.close(number);
                self.within = Within::Other;
                let said =
                    format!("a section {other} has no counterpart here: all of it is left out");
                return self.remarks.error(number, said);
            }
            other if other.starts_with('.') => {
                let said = format!("{other} is not followed: write out what it would choose");
                return self.remarks.error(number, said);
            }
            _ => return self.inner(line),
        };
        self.part(kind, line);
    }

    /// A line that begins no section.
    fn inner(&mut self, line: &Line) {
        match &self.within {
            Within::Nothing => {
                let said = format!("{} stands before the first section", line.words[0]);
                self.remarks.error(line.number, said);
            }
            Within::Global => self.sections.global.take(line, self.remarks),
            Within::Defaults(_) => {
                if !self.current.take(line, &self.sections.global, self.remarks) {
                    let said = format!("{} has no counterpart here", line.words[0]);
                    self.remarks.error(line.number, said);
                }
            }
            Within::Part => {
                if let Some(part) = self.sections.parts.last_mut() {
                    part.take(line, &self.sections.global, self.remarks);
                }
            }
            Within::Other => {}
        }
    }

    fn defaults(&mut self, line: &Line) {
        self.close(line.number);
        let words = &line.words[1..];
        let (name, from) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => (None, None),
            ["from", from] => (None, Some(from)),
            [name] => (Some(name), None),
            [name, "from", from] => (Some(name), Some(from)),
            _ => {
                self.remarks
                    .error(line.number, "defaults have a name, and `from` another one");
                (None, None)
            }
        };
        // Those of another section are not inherited by themselves.
        self.current = match from {
            None => Settings::default(),
            Some(from) => self.inherited(line.number, from),
        };
        self.within = Within::Defaults(name.map(str::to_owned));
    }

    fn inherited(&mut self, line: usize, from: &str) -> Settings {
        match self.named.get(from) {
            Some(settings) => settings.clone(),
            None => {
                let said = format!("there are no defaults {from:?} above this line");
                self.remarks.error(line, said);
                Settings::default()
            }
        }
    }

    fn part(&mut self, kind: Kind, line: &Line) {
        self.close(line.number);
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        let (name, from, rest) = match words[1..] {
            [name, "from", from, ref rest @ ..] => (name, Some(from), rest),
            [name, ref rest @ ..] => (name, None, rest),
            [] => {
                self.remarks
                    .error(line.number, format!("a {} needs a name", words[0]));
                self.within = Within::Other;
                return;
            }
        };
        let settings = match from {
            Some(from) => self.inherited(line.number, from),
            None => self.current.clone(),
        };
        let settings = Settings {
            has_log: false,
            ..settings
        };
        let mut part = Part {
            kind,
            name: name.to_owned(),
            lines: line.number..line.number + 1,
            settings,
            binds: Vec::new(),
            servers: Vec::new(),
            conditions: Conditions::default(),
            uses: Vec::new(),
            gates: Vec::new(),
            rules: Vec::new(),
            is_disabled: false,
        };
        // An old form has the address on the first line.
        if let Some(addresses) = rest.first().filter(|_| kind != Kind::Backend) {
            let words = vec!["bind".to_owned(), (*addresses).to_owned()];
            let number = line.number;
            part.take(&Line { number, words }, &self.sections.global, self.remarks);
        }
        self.sections.parts.push(part);
        self.within = Within::Part;
    }

    /// The section ends before this line.
    fn close(&mut self, line: usize) {
        match std::mem::replace(&mut self.within, Within::Nothing) {
            Within::Defaults(Some(name)) => {
                self.named.insert(name, self.current.clone());
            }
            Within::Part => {
                if let Some(part) = self.sections.parts.last_mut() {
                    part.lines.end = line;
                }
            }
            _ => {}
        }
    }
}

impl Part {
    /// Whether clients connect to it.
    pub(super) fn is_front(&self) -> bool {
        self.kind != Kind::Backend
    }

    fn take(&mut self, line: &Line, global: &Global, remarks: &mut Remarks) {
        let (number, words) = (line.number, &line.words);
        match words[0].as_str() {
            "bind" if self.is_front() => self.binds.extend(bind::read(line, global, remarks)),
            "server" if self.kind != Kind::Frontend => {
                let defaults = &self.settings.default_server;
                self.servers
                    .extend(server::read(line, defaults, global, remarks));
            }
            // A server without a name, for those that have none.
            "dispatch" if self.kind != Kind::Frontend && self.servers.is_empty() => {
                let mut words = vec!["server".to_owned(), "dispatch".to_owned()];
                words.extend_from_slice(&line.words[1..]);
                let line = Line { number, words };
                self.servers
                    .extend(server::read(&line, &Server::default(), global, remarks));
            }
            "acl" => self.conditions.name(number, &words[1..], remarks),
            "use_backend" if self.is_front() => {
                self.uses.push(At::new(number, words[1..].to_vec()));
            }
            "tcp-request" if self.is_front() => {
                self.gates.push(At::new(number, words[1..].to_vec()));
            }
            "disabled" => self.is_disabled = true,
            "enabled" => self.is_disabled = false,
            "http-request"
            | "http-response"
            | "http-after-response"
            | "redirect"
            | "reqadd"
            | "rspadd"
            | "monitor-uri" => self.rules.push(Rule::new(line)),
            _ if self.settings.take(line, global, remarks) => {}
            "stats" => remarks.error(
                number,
                "the page with statistics has an address of its own: process.admin_page",
            ),
            other => {
                let said = format!("{other} has no counterpart here");
                remarks.error(number, said);
            }
        }
    }
}
