//! What rules ask of a request: conditions that have names, and those that stand in braces.
//!
//! A condition is kept as alternatives, each of which is a list of what has to be so and of what
//! must not be so. What a single test asks for is an [`Atom`], of which routes can say some.

use std::collections::HashMap;

use super::Remarks;
use super::settings::is_token;
use super::values;

/// What one test asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Atom {
    /// The host, or `*.` and the end of it.
    Host(String),
    /// The path.
    Path(PathIs),
    /// One of these methods.
    Methods(Vec<String>),
    /// A header with this value; `*` is any.
    Header(String, String),
    /// Whether the client speaks TLS, which is so for all or none of a listener.
    Tls(bool),
    /// The port that was connected to, which is so for all or none of a listener.
    Port(u16),
    /// In any case, or never.
    Always(bool),
}

/// What a path has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathIs {
    /// This one.
    Is(String),
    /// One that begins so.
    Begins(String),
    /// One that ends so.
    Ends(String),
    /// One that begins and ends so.
    Both(String, String),
}

/// Tests of which one has to be so, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    /// None of them may be so.
    pub is_not: bool,
    /// The tests.
    pub any_of: Vec<Atom>,
}

/// Alternatives, each of which is a list of all that has to be.
pub(super) type Alternatives = Vec<Vec<Literal>>;

/// So many alternatives may come of one condition.
const ALTERNATIVES_MAX: usize = 256;

/// The conditions of a section that have names; those that cannot be had here have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions(HashMap<String, Option<Vec<Atom>>>);

impl Conditions {
    /// `acl NAME TEST`; several of one name are alternatives.
    pub(super) fn name(&mut self, line: usize, words: &[String], remarks: &mut Remarks) {
        let Some((name, test)) = words.split_first() else {
            return remarks.error(line, "acl needs a name and a test");
        };
        let test: Vec<&str> = test.iter().map(String::as_str).collect();
        let atoms = remarks.good(line, atoms(&test));
        match (self.0.get_mut(name), atoms) {
            (Some(Some(known)), Some(atoms)) => known.extend(atoms),
            (Some(known), None) => *known = None,
            (Some(None), Some(_)) => {}
            (None, atoms) => {
                self.0.insert(name.clone(), atoms);
            }
        }
    }

    /// What stands behind `if` or `unless`; all requests, if there is neither.
    ///
    /// # Errors
    ///
    /// What of it cannot be had here.
    pub(super) fn read(&self, words: &[String]) -> Result<Alternatives, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => Ok(vec![Vec::new()]),
            ["if", ref rest @ ..] => self.alternatives(rest),
            ["unless", ref rest @ ..] => opposite(&self.alternatives(rest)?),
            [other, ..] => Err(format!("{other:?} is neither `if` nor `unless`")),
        }
    }

    fn alternatives(&self, words: &[&str]) -> Result<Alternatives, String> {
        let mut all = vec![Vec::new()];
        let mut rest = words;
        while let Some((&word, after)) = rest.split_first() {
            rest = after;
            if word == "||" || word == "or" {
                all.push(Vec::new());
                continue;
            }
            let mut is_not = false;
            let mut name = word;
            while let Some(plain) = name.strip_prefix('!') {
                (is_not, name) = (!is_not, plain);
            }
            // The exclamation mark may stand apart.
            if name.is_empty()
                && let Some((&next, after)) = rest.split_first()
            {
                (name, rest) = (next, after);
            }
            let any_of = if name == "{" {
                let end = rest.iter().position(|&word| word == "}");
                let end = end.ok_or("a { is not closed by }")?;
                let atoms = atoms(&rest[..end])?;
                rest = &rest[end + 1..];
                atoms
            } else {
                self.named(name)?
            };
            if let Some(last) = all.last_mut() {
                last.push(Literal { is_not, any_of });
            }
        }
        if all.iter().any(Vec::is_empty) {
            return Err("a condition is empty".to_owned());
        }
        Ok(all)
    }

    fn named(&self, name: &str) -> Result<Vec<Atom>, String> {
        match self.0.get(name) {
            Some(Some(atoms)) => return Ok(atoms.clone()),
            Some(None) => {
                return Err(format!("the condition {name} has no counterpart here"));
            }
            None => {}
        }
        let methods = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            Ok(vec![Atom::Methods(names)])
        };
        match name {
            "TRUE" | "HTTP" | "REQ_CONTENT" | "WAIT_END" => Ok(vec![Atom::Always(true)]),
            "FALSE" => Ok(vec![Atom::Always(false)]),
            "METH_GET" => methods(&["GET", "HEAD"]),
            "METH_CONNECT" => Ok(vec![Atom::Always(false)]),
            "HTTP_URL_SLASH" => Ok(vec![Atom::Path(PathIs::Begins("/".to_owned()))]),
            other => match other.strip_prefix("METH_") {
                Some(method) if is_token(method) => methods(&[method]),
                _ => Err(format!("there is no acl {other:?} in this section")),
            },
        }
    }
}

/// What is so if this is not so.
fn opposite(alternatives: &Alternatives) -> Result<Alternatives, String> {
    let mut all: Alternatives = vec![Vec::new()];
    for alternative in alternatives {
        let mut next = Vec::new();
        for before in &all {
            for literal in alternative {
                let mut with = before.clone();
                with.push(Literal {
                    is_not: !literal.is_not,
                    any_of: literal.any_of.clone(),
                });
                next.push(with);
                if next.len() > ALTERNATIVES_MAX {
                    return Err("the condition has too many alternatives".to_owned());
                }
            }
        }
        all = next;
    }
    Ok(all)
}

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Is,
    Begins,
    Ends,
    Domain,
    Found,
}

/// A test: what is looked at, how, and the values of which one has to fit.
fn atoms(words: &[&str]) -> Result<Vec<Atom>, String> {
    let (&what, rest) = words.split_first().ok_or("a test is empty")?;
    let (mut how, mut ignores_case, mut values) = (None, false, rest);
    loop {
        match values {
            ["-i", after @ ..] => (ignores_case, values) = (true, after),
            ["-m", kind, after @ ..] => {
                how = Some(match *kind {
                    "str" => How::Is,
                    "beg" => How::Begins,
                    "end" => How::Ends,
                    "dom" => How::Domain,
                    "found" => How::Found,
                    other => return Err(format!("values cannot be compared by {other} here")),
                });
                values = after;
            }
            ["--", after @ ..] => {
                values = after;
                break;
            }
            [flag, ..] if flag.len() == 2 && flag.starts_with('-') => {
                return Err(format!("the flag {flag} of a test has no counterpart here"));
            }
            _ => break,
        }
    }
    let test = Test {
        how,
        ignores_case,
        values,
    };
    test.of(what)
}

struct Test<'a> {
    how: Option<How>,
    ignores_case: bool,
    values: &'a [&'a str],
}

impl Test<'_> {
    fn of(&self, what: &str) -> Result<Vec<Atom>, String> {
        match what {
            "always_true" => return Ok(vec![Atom::Always(true)]),
            "always_false" => return Ok(vec![Atom::Always(false)]),
            "ssl_fc" => return Ok(vec![Atom::Tls(true)]),
            "method" => {
                if let Some(name) = self.values.iter().find(|name| !is_token(name)) {
                    return Err(format!("{name:?} is no method"));
                }
                let names = self.values.iter().map(|&name| name.to_owned());
                return self.checked(vec![Atom::Methods(names.collect())]);
            }
            "dst_port" => {
                return self.each(|port| {
                    let port = port.parse().map_err(|_| format!("{port} is no port"))?;
                    Ok(vec![Atom::Port(port)])
                });
            }
            _ => {}
        }
        if let Some(kind) = what.strip_prefix("path") {
            return self.path(kind, what);
        }
        for (before, how) in [
            ("req.hdr", How::Is),
            ("req.fhdr", How::Is),
            ("hdr_beg", How::Begins),
            ("hdr_end", How::Ends),
            ("hdr_dom", How::Domain),
            ("hdr_cnt", How::Found),
            ("hdr", How::Is),
        ] {
            let inner = what
                .strip_prefix(before)
                .and_then(|rest| rest.strip_prefix('('));
            let Some((name, converters)) = inner.and_then(|rest| rest.split_once(')')) else {
                continue;
            };
            return self.header(name, converters, self.how.unwrap_or(how));
        }
        Err(format!(
            "routes go by host, path, header and method, and not by {what}"
        ))
    }

    fn each(&self, atoms: impl Fn(&str) -> Result<Vec<Atom>, String>) -> Result<Vec<Atom>, String> {
        let mut all = Vec::new();
        for value in self.values {
            all.extend(atoms(value)?);
        }
        self.checked(all)
    }

    fn checked(&self, atoms: Vec<Atom>) -> Result<Vec<Atom>, String> {
        if self.values.is_empty() || atoms.is_empty() {
            return Err("the test has no value".to_owned());
        }
        Ok(atoms)
    }

    fn path(&self, kind: &str, what: &str) -> Result<Vec<Atom>, String> {
        let how = match (kind, self.how) {
            ("", how) => how.unwrap_or(How::Is),
            ("_beg", None) => How::Begins,
            ("_end", None) => How::Ends,
            _ => {
                return Err(format!(
                    "{what} has no counterpart: take path, path_beg, path_end"
                ));
            }
        };
        self.each(|value| {
            if !values::is_of_path(value) {
                return Err(format!("{value:?} stands in no path"));
            }
            if self.ignores_case && value.bytes().any(|byte| byte.is_ascii_alphabetic()) {
                return Err(format!(
                    "paths are compared with their case: drop -i of {value}"
                ));
            }
            let value = value.to_owned();
            let has_root = value.starts_with('/');
            Ok(vec![match how {
                How::Ends => Atom::Path(PathIs::Ends(value)),
                // No path begins otherwise.
                _ if !has_root => Atom::Always(false),
                How::Is => Atom::Path(PathIs::Is(value)),
                How::Begins => Atom::Path(PathIs::Begins(value)),
                How::Domain | How::Found => return Err("paths have no domains".to_owned()),
            }])
        })
    }

    fn header(&self, name: &str, converters: &str, how: How) -> Result<Vec<Atom>, String> {
        if !is_token(name) {
            return Err(format!("{name:?} is no name of a header"));
        }
        let is_host = name.eq_ignore_ascii_case("host");
        let keeps_all = [
            "",
            ",lower",
            ",field(1,:)",
            ",field(1,:),lower",
            ",lower,field(1,:)",
        ];
        let is_plain = converters.is_empty() || (is_host && keeps_all.contains(&converters));
        if !is_plain {
            return Err(format!(
                "the converter {converters} has no counterpart here"
            ));
        }
        if how == How::Found && !is_host {
            let is_there = matches!(self.values, [] | ["gt", "0"] | ["ge", "1"] | ["1"]);
            return match is_there {
                true => Ok(vec![Atom::Header(name.to_owned(), "*".to_owned())]),
                false => Err("headers are there or not, and are not counted".to_owned()),
            };
        }
        self.each(|value| {
            if is_host {
                host(value, how)
            } else {
                self.value(name, value, how)
            }
        })
    }

    fn value(&self, name: &str, value: &str, how: How) -> Result<Vec<Atom>, String> {
        if how != How::Is {
            return Err(format!("the header {name} is compared as a whole here"));
        }
        if self.ignores_case && value.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            let said = format!("the header {name} is compared with its case: drop -i of {value}");
            return Err(said);
        }
        if value == "*" {
            return Err("a header cannot be compared with `*` here, which is any value".to_owned());
        }
        Ok(vec![Atom::Header(name.to_owned(), value.to_owned())])
    }
}

/// The host. Ports and case do not count here.
fn host(value: &str, how: How) -> Result<Vec<Atom>, String> {
    let value = value.to_ascii_lowercase();
    let name = match value.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => &value,
    };
    let plain = name.strip_prefix('.').unwrap_or(name);
    if !values::is_host(plain) || plain.starts_with("*.") {
        return Err(format!("{value:?} is no host"));
    }
    let below = || Atom::Host(format!("*.{plain}"));
    match how {
        How::Is if name == plain => Ok(vec![Atom::Host(plain.to_owned())]),
        How::Ends if name != plain => Ok(vec![below()]),
        // As a part between dots, of which the end is what is meant.
        How::Domain if plain.contains('.') => Ok(vec![Atom::Host(plain.to_owned()), below()]),
        How::Ends => Err(format!(
            "hosts end at a dot here: write .{plain}, and {plain} for itself"
        )),
        _ => Err("hosts are whole names, or all names below one".to_owned()),
    }
}
