//! What rules ask of a request: conditions that have names, and those that stand in braces.
//!
//! A condition is kept as alternatives, each of which is a list of what has to be so and of what
//! must not be so. What a single test asks for is an [`Atom`], of which routes can say some.

use std::collections::HashMap;

use ipnet::IpNet;

use super::Remarks;
use super::atoms::atoms;
use super::settings::is_token;

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
    /// A header in which this pattern is found.
    HeaderMatches(String, String),
    /// A host in which this pattern is found.
    HostMatches(String),
    /// A path in which this pattern is found.
    PathMatches(String),
    /// The client is in one of these networks.
    Client(Vec<IpNet>),
    /// The name that the client asks for by TLS, or `*.` and the end of it.
    ServerName(String),
    /// Whether the client speaks TLS, which is so for all or none of a listener.
    Tls(bool),
    /// The port that was connected to, which is so for all or none of a listener.
    Port(u16),
    /// That what comes is HTTP, which is so of all with mode http.
    Http,
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
            "HTTP" => Ok(vec![Atom::Http]),
            "TRUE" | "REQ_CONTENT" | "WAIT_END" => Ok(vec![Atom::Always(true)]),
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
