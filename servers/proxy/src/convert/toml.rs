//! The result: tables with their keys, and comments where something is missing.

use std::collections::BTreeSet;

use super::logs::Log;
use super::sections::{Kind, Part, Sections};
use super::{Remarks, listener, pool, values};
use crate::config::overlap;
use crate::socket::Address;

/// What is taken by an address.
const ADDRESS: &str = "the address";

/// A table with its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    head: String,
    lines: Vec<String>,
}

impl Table {
    /// `[PATH]`.
    pub(super) fn new(path: &str) -> Self {
        Self {
            head: format!("[{path}]"),
            lines: Vec::new(),
        }
    }

    /// `[[PATH]]`.
    pub(super) fn list(path: &str) -> Self {
        Self {
            head: format!("[[{path}]]"),
            lines: Vec::new(),
        }
    }

    /// A key with a value as it is written.
    pub(super) fn key(&mut self, key: &str, value: &str) {
        self.lines.push(format!("{key} = {value}"));
    }

    /// A line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn write(&self, out: &mut String) {
        out.push_str(&self.head);
        out.push('\n');
        for line in &self.lines {
            out.push_str(line);
            out.push('\n');
        }
    }
}

/// A text in quotes.
pub(super) fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A part of a key, in quotes if it has to be.
pub(super) fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_bare) {
        name.to_owned()
    } else {
        text(name)
    }
}

/// The whole configuration.
pub(super) fn written(file: &str, sections: &Sections, remarks: &mut Remarks) -> String {
    let mut out = String::new();
    let whose = file.rsplit('/').next().unwrap_or(file);
    let whose: String = whose.chars().filter(|c| !c.is_control()).collect();
    out.push_str(&format!(
        "# Converted from {whose}. Hosts are compared without port and case. Limits that HAProxy\n\
         # does not have are as the documentation of `evenkeel-proxy` says, such as queue.max.\n"
    ));
    let bodies = bodies(sections, remarks);
    let first = sections
        .parts
        .first()
        .map_or(usize::MAX, |part| part.lines.start);
    comments(remarks, 0..first, &mut out);
    process(sections, remarks, &mut out);
    for (part, tables) in bodies {
        out.push_str(&format!(
            "\n# {} {}, line {}\n",
            kind(part),
            shown(part),
            part.lines.start
        ));
        comments(remarks, part.lines.clone(), &mut out);
        for (index, table) in tables.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            table.write(&mut out);
        }
    }
    out
}

/// The tables of each section.
fn bodies<'a>(sections: &'a Sections, remarks: &mut Remarks) -> Vec<(&'a Part, Vec<Table>)> {
    let mut bodies = Vec::new();
    let mut taken = BTreeSet::new();
    for part in &sections.parts {
        if part.is_disabled {
            remarks.note(
                part.lines.start,
                format!("{} is switched off, and left out", part.name),
            );
            continue;
        }
        if !is_alone(part, &mut taken, remarks) {
            bodies.push((part, Vec::new()));
            continue;
        }
        let mut tables = Vec::new();
        if part.is_front() {
            if part.binds.is_empty() {
                let said = format!("{} has no address, so nothing of it is served", part.name);
                remarks.error(part.lines.start, said);
            }
            tables.extend(listener::written(part, sections, remarks));
        }
        if part.kind != Kind::Frontend && !part.servers.is_empty() {
            tables.extend(pool::written(part, sections, remarks));
        }
        bodies.push((part, tables));
    }
    if !bodies
        .iter()
        .any(|(part, tables)| part.is_front() && !tables.is_empty())
    {
        let line = sections.parts.first().map_or(1, |part| part.lines.start);
        remarks.error(
            line,
            "nothing of this file listens anywhere, so there is nothing to serve",
        );
    }
    bodies
}

/// Whether nothing else has its names and addresses.
fn is_alone(
    part: &Part,
    taken: &mut BTreeSet<(&'static str, String)>,
    remarks: &mut Remarks,
) -> bool {
    let line = part.lines.start;
    let name = values::name(&part.name);
    if name.is_empty() {
        remarks.error(line, "this section has no name");
        return false;
    }
    if name != part.name {
        remarks.note(line, format!("{} is called {name} here", part.name));
    }
    let mut new = |what: &'static str, name: String| {
        let is_new = taken.insert((what, name.clone()));
        if !is_new {
            remarks.error(
                line,
                format!("{what} {name} is there already, so this is left out"),
            );
        }
        is_new
    };
    let mut is_alone = true;
    if part.kind != Kind::Frontend {
        is_alone &= new("the backend", name.clone());
    }
    if part.is_front() {
        for (index, bind) in part.binds.iter().enumerate() {
            is_alone &= new("the listener", listener::name(&name, index));
            if !bind.address.ends_with(":0") {
                is_alone &= new(ADDRESS, bind.address.clone());
            }
        }
        for bind in &part.binds {
            if let Some(other) = overlapping(&bind.address, taken) {
                let said = format!(
                    "{} and {other} overlap, one of which is a part of the other: give one of them \
                     another port",
                    bind.address
                );
                remarks.error(line, said);
                is_alone = false;
            }
        }
    }
    is_alone
}

/// Another address of which this one is a part, or which is a part of it.
fn overlapping<'a>(
    address: &str,
    taken: &'a BTreeSet<(&'static str, String)>,
) -> Option<&'a String> {
    // What is no address was said.
    let own: Address = address.parse().ok()?;
    let mut others = taken.iter().filter(|(what, _)| *what == ADDRESS);
    let is_it = |other: &str| other.parse().is_ok_and(|other| overlap(&own, &other));
    let found = others.find(|(_, other)| other != address && is_it(other));
    found.map(|(_, other)| other)
}

fn kind(part: &Part) -> &'static str {
    match part.kind {
        Kind::Frontend => "frontend",
        Kind::Backend => "backend",
        Kind::Listen => "listen",
    }
}

fn shown(part: &Part) -> String {
    values::name(&part.name)
}

/// What is missing of these lines.
fn comments(remarks: &Remarks, lines: std::ops::Range<usize>, out: &mut String) {
    let mut found: Vec<_> = remarks
        .found
        .iter()
        .filter(|(line, is_error, _)| *is_error && lines.contains(line))
        .collect();
    found.sort();
    for (line, _, message) in found {
        let message: String = message.chars().filter(|c| !c.is_control()).collect();
        out.push_str(&format!("# NOT CONVERTED: line {line}: {message}\n"));
    }
}

/// The name of a log by where it goes, among those of frontends.
pub(super) fn log_name(sections: &Sections, target: &Log) -> Option<String> {
    let index = logs(sections).iter().position(|known| *known == target)?;
    Some(format!("log{}", index + 1))
}

/// Where frontends log.
fn logs(sections: &Sections) -> Vec<&Log> {
    let mut all: Vec<&Log> = Vec::new();
    for part in &sections.parts {
        let is_logged = part.is_front() && !part.is_disabled;
        if let Some(log) = part.settings.log.as_ref().filter(|_| is_logged)
            && !all.contains(&&log.value)
        {
            all.push(&log.value);
        }
    }
    all
}

fn process(sections: &Sections, remarks: &mut Remarks, out: &mut String) {
    let global = &sections.global;
    let mut table = Table::new("process");
    if let Some(threads) = &global.threads {
        table.key("workers", &threads.value.to_string());
    }
    if let Some(max) = &global.maxconn {
        table.key("connections_max", &max.value.to_string());
    }
    if let Some(drain) = &global.drain {
        table.key("drain", &text(&values::time_shown(drain.value)));
    }
    if let Some(socket) = &global.socket {
        if socket.value.starts_with('/') {
            table.key("admin_socket", &text(&socket.value));
        } else {
            remarks.error(
                socket.line,
                "the path of the operators' socket begins with a /",
            );
        }
    }
    if !table.is_empty() {
        out.push('\n');
        table.write(out);
    }
    for (index, target) in logs(sections).iter().enumerate() {
        let mut table = Table::new(&format!("log.log{}", index + 1));
        table.key("to", &text(&target.to));
        if let Some(facility) = target.facility.as_ref().filter(|name| *name != "local0") {
            table.key("facility", &text(facility));
        }
        out.push('\n');
        table.write(out);
    }
}
