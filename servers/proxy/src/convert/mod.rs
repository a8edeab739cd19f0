//! The configuration of HAProxy as one of this proxy.
//!
//! What means the same here is written down; what cannot be said is a [`Remark`] with its line, and
//! nothing is left out without one. Settings that concern HAProxy's own process and change nothing
//! of what is served give a note, which is no error.
//!
//! ```text
//!  text ──▶ words ──▶ sections, with what they inherit ──▶ listeners and pools ──▶ TOML
//! ```
//!
//! - `words`: what a line says, with quotes and variables.
//! - `sections`: `global`, `defaults`, `frontend`, `backend`, `listen`.
//! - `settings`: what sections may inherit; `options`: those that are switched on and off.
//! - `bind`, `server`, `check`: addresses, servers, and how these are checked.
//! - `condition`: what rules ask of a request, by tests that become `atoms`; `routes`: a list of
//!   rules as routes in order.
//! - `gates`: which connections are taken.
//! - `logs`: where requests are logged.
//! - `listener`, `pool`: what becomes of sections; `values` reads their values, `toml` writes.

mod atoms;
mod bind;
mod check;
mod condition;
mod gates;
mod global;
mod listener;
mod logs;
mod options;
mod pool;
mod routes;
mod rules;
mod sections;
mod server;
mod settings;
mod toml;
mod values;
mod words;

use std::collections::BTreeSet;
use std::fmt;

use sections::Sections;

/// What a configuration has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The configuration for this proxy: all of it, if no remark is an error.
    pub toml: String,
    /// What is to be said of its lines, in their order.
    pub remarks: Vec<Remark>,
}

impl Converted {
    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        !self.remarks.iter().any(|remark| remark.is_error)
    }
}

/// What is to be said of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// Whether something of it is missing in the result.
    pub is_error: bool,
    /// What, and what to do.
    pub message: String,
    /// The line itself.
    pub text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, .. } = self;
        let what = if self.is_error { "error" } else { "note" };
        writeln!(f, "{file}:{line}: {what}: {}", self.message)?;
        write!(f, "{line:>5} | {}", self.text.trim())
    }
}

/// Actions by which requests and connections are refused.
const REFUSING: [&str; 5] = ["auth", "deny", "reject", "silent-drop", "tarpit"];

/// Where remarks are collected.
#[derive(Debug, Default)]
struct Remarks {
    /// The line, whether it is an error, and what is said.
    found: Vec<(usize, bool, String)>,
    /// Lines by which HAProxy refuses something.
    refusing: BTreeSet<usize>,
}

impl Remarks {
    fn of(text: &str) -> Self {
        let refuses = |line: &str| {
            let mut words = line.split_whitespace();
            let is_rule = words.next().is_some_and(|word| word.ends_with("-request"));
            is_rule && words.any(|word| REFUSING.contains(&word))
        };
        let lines = text.lines().enumerate();
        let refusing = lines.filter(|(_, line)| refuses(line));
        Self {
            found: Vec::new(),
            refusing: refusing.map(|(index, _)| index + 1).collect(),
        }
    }

    fn say(&mut self, line: usize, is_error: bool, message: impl Into<String>) {
        let mut message = message.into();
        if is_error && self.refusing.contains(&line) {
            message += " (what this line refuses is SERVED without it)";
        }
        let remark = (line, is_error, message);
        // Two listeners of one section would say the same.
        if !self.found.contains(&remark) {
            self.found.push(remark);
        }
    }

    /// Something of a line is missing.
    fn error(&mut self, line: usize, message: impl Into<String>) {
        self.say(line, true, message);
    }

    /// Nothing of it is missing that changes what is served.
    fn note(&mut self, line: usize, message: impl Into<String>) {
        self.say(line, false, message);
    }

    /// The value; nothing and an error, if there is none.
    fn good<T>(&mut self, line: usize, result: Result<T, String>) -> Option<T> {
        result.map_err(|why| self.error(line, why)).ok()
    }
}

/// The longest configuration that is read.
pub const BYTES_MAX: usize = 16 << 20;

/// Converts a text, whose name is for remarks; variables are those of this environment.
pub fn convert(file: &str, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Converted {
    let mut remarks = Remarks::of(text);
    let sections = Sections::read(text, variable, &mut remarks);
    let toml = toml::written(file, &sections, &mut remarks);
    let mut found = remarks.found;
    found.sort_by_key(|(line, is_error, _)| (*line, !is_error));
    let lines: Vec<&str> = text.lines().collect();
    let remark = |(line, is_error, message): (usize, bool, String)| Remark {
        file: file.to_owned(),
        line,
        is_error,
        message,
        text: lines
            .get(line.saturating_sub(1))
            .map_or_else(String::new, |line| (*line).to_owned()),
    };
    Converted {
        toml,
        remarks: found.into_iter().map(remark).collect(),
    }
}

#[cfg(test)]
mod tests;
