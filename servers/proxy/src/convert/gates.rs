//! Which connections are taken: `tcp-request`.
//!
//! Rules of connections come before those of sessions, and these before those of contents. The
//! first one that fits decides in each of the three. What content is waited for is known here by
//! what routes ask for.

use std::time::Duration;

use super::condition::{Alternatives, Atom};
use super::routes::{self, Here, Match};
use super::sections::Part;
use super::values::{At, time};

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// It goes on to the rules behind.
    Pass,
    /// It is ended.
    Reject,
}

/// The rules of a section.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// In three turns.
    turns: [Vec<routes::Rule<Gate>>; 3],
    /// How long a first message is waited for.
    pub(super) delay: Option<Duration>,
    /// Whether all that begins with a message of TLS is accepted, whatever rules follow.
    accepts_tls: bool,
    /// What could not be read: the line, and why.
    pub(super) wrong: Vec<(usize, String)>,
}

impl Gates {
    /// Those of a section.
    pub(super) fn read(part: &Part) -> Self {
        let mut gates = Self::default();
        for gate in &part.gates {
            if let Err(why) = gates.take(part, gate) {
                gates.wrong.push((gate.line, why));
            }
        }
        gates
    }

    fn take(&mut self, part: &Part, gate: &At<Vec<String>>) -> Result<(), String> {
        let words: Vec<&str> = gate.value.iter().map(String::as_str).collect();
        let (turn, rest) = match words[..] {
            ["inspect-delay", text] => {
                self.delay = Some(time(text)?);
                return Ok(());
            }
            ["connection", ref rest @ ..] => (0, rest),
            ["session", ref rest @ ..] => (1, rest),
            ["content", ref rest @ ..] => (2, rest),
            _ => return Err("tcp-request needs connection, session or content".to_owned()),
        };
        let to = match rest.first() {
            Some(&"accept") => Gate::Pass,
            Some(&"reject") => Gate::Reject,
            other => {
                let other = other.unwrap_or(&"nothing");
                return Err(format!("tcp-request with {other} has no counterpart here"));
            }
        };
        let condition = &gate.value[2..];
        // Those that wait for a first message take whatever comes with one.
        if turn == 2 && to == Gate::Pass && is_of_hello(condition) {
            self.accepts_tls = true;
            return Ok(());
        }
        if turn == 2 && to == Gate::Reject && self.accepts_tls {
            let why = "a rule before it accepts what begins with a message of TLS, which cannot be \
                       told from other contents here: write this one before it";
            return Err(why.to_owned());
        }
        let of = part.conditions.read(condition)?;
        self.turns[turn].push(routes::Rule {
            line: gate.line,
            of,
            to,
        });
        Ok(())
    }

    /// The first rule of connections that goes by the client.
    pub(super) fn of_address(&self) -> Option<usize> {
        let is_of_client = |rule: &&routes::Rule<Gate>| {
            let mut atoms = rule.of.iter().flatten().flat_map(|literal| &literal.any_of);
            atoms.any(|atom| matches!(atom, Atom::Client(_)))
        };
        self.turns[0]
            .iter()
            .find(is_of_client)
            .map(|rule| rule.line)
    }

    /// Whether any connection may be rejected.
    pub(super) fn reject(&self) -> bool {
        let mut all = self.turns.iter().flatten();
        all.any(|rule| rule.to == Gate::Reject)
    }

    /// What they ask for.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (usize, &Alternatives)> {
        let all = self.turns.iter().flatten();
        all.map(|rule| (rule.line, &rule.of))
    }

    /// The list of what goes where, behind these rules.
    ///
    /// # Errors
    ///
    /// The line of a rule that cannot be said, and why not.
    pub(super) fn before<T: Clone + PartialEq>(
        &self,
        mut list: Vec<(Match, T)>,
        rejected: &T,
        here: Here,
    ) -> Result<Vec<(Match, T)>, (usize, String)> {
        for rules in self.turns.iter().rev().filter(|rules| !rules.is_empty()) {
            let line = rules[0].line;
            let mut all = Vec::new();
            for (of, gate) in routes::compiled(rules, Gate::Pass, here)? {
                match gate {
                    Gate::Reject => all.push((of, rejected.clone())),
                    Gate::Pass => all.extend(routes::within(&of, list.clone(), line)?),
                }
            }
            list = routes::thinned(all);
        }
        Ok(list)
    }
}

/// Whether a condition says that a first message of TLS has come, which is waited for in any case.
fn is_of_hello(condition: &[String]) -> bool {
    let words: Vec<&str> = condition.iter().map(String::as_str).collect();
    matches!(
        words[..],
        [
            "if",
            "{",
            "req.ssl_hello_type" | "req_ssl_hello_type" | "req.ssl_ver" | "req_ssl_ver",
            ..,
            "}"
        ] | ["if", "WAIT_END" | "REQ_CONTENT"]
    )
}

/// What of a condition cannot be had with this mode.
pub(super) fn out_of_place(of: &Alternatives, is_http: bool) -> Option<&'static str> {
    let mut atoms = of.iter().flatten().flat_map(|literal| &literal.any_of);
    let is_of_both = |atom: &Atom| {
        matches!(
            atom,
            Atom::Client(_) | Atom::Tls(_) | Atom::Port(_) | Atom::Always(_)
        )
    };
    let is_of_tcp = |atom: &Atom| matches!(atom, Atom::ServerName(_));
    match is_http {
        true if atoms.any(is_of_tcp) => {
            Some("with mode http, routes go by the host, and not by the name asked for by TLS")
        }
        false if atoms.any(|atom| !is_of_both(atom) && !is_of_tcp(atom)) => {
            Some("with mode tcp, routes go by the client and by the name asked for by TLS alone")
        }
        _ => None,
    }
}
