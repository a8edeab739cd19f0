//! Values with variables: `{client}` and others stand for something of the request.
//!
//! What can be put in has no control characters, so that no value can end its line.

use std::fmt::Write;
use std::net::IpAddr;

use serde::Deserialize;

/// A text with variables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(Variable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Client,
    Host,
    Listener,
    Path,
    RequestId,
    Route,
    Scheme,
}

const VARIABLES: [(&str, Variable); 7] = [
    ("client", Variable::Client),
    ("host", Variable::Host),
    ("listener", Variable::Listener),
    ("path", Variable::Path),
    ("request_id", Variable::RequestId),
    ("route", Variable::Route),
    ("scheme", Variable::Scheme),
];

/// What the variables stand for.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The client's address, which nobody knows on a Unix socket: `-` then.
    pub client: Option<IpAddr>,
    /// The host that was asked for.
    pub host: &'a str,
    /// The name of the listener.
    pub listener: &'a str,
    /// The target that was asked for; its path is put in.
    pub target: &'a str,
    /// The id of the request.
    pub request_id: &'a str,
    /// The route, such as `web/route1`.
    pub route: &'a str,
    /// It came over TLS.
    pub is_tls: bool,
}

impl Template {
    /// The text with its variables put in.
    pub fn fill(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Variable(variable) => values.put(*variable, &mut text),
            }
        }
        text
    }

    /// Whether it has the id of the request.
    pub fn has_request_id(&self) -> bool {
        self.0.contains(&Part::Variable(Variable::RequestId))
    }
}

impl Values<'_> {
    fn put(&self, variable: Variable, text: &mut String) {
        match variable {
            Variable::Client => match self.client {
                // Writing to memory cannot fail.
                Some(client) => drop(write!(text, "{client}")),
                None => text.push('-'),
            },
            Variable::Host => text.push_str(self.host),
            Variable::Listener => text.push_str(self.listener),
            Variable::Path => text.push_str(self.target.split('?').next().unwrap_or_default()),
            Variable::RequestId => text.push_str(self.request_id),
            Variable::Route => text.push_str(self.route),
            Variable::Scheme => text.push_str(if self.is_tls { "https" } else { "http" }),
        }
    }
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(format!(
                "{text:?} cannot stand in a header: take visible characters of ASCII and spaces"
            ));
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let (name, after) =
                after
                    .split_once('}')
                    .filter(|_| brace == "{")
                    .ok_or_else(|| {
                        format!(
                            "{text:?} has a brace alone: write {{{{ or }}}} for one that is meant"
                        )
                    })?;
            let known = VARIABLES.iter().find(|(known, _)| *known == name);
            let (_, variable) = known.ok_or_else(|| unknown(name))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Variable(*variable));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<String> = VARIABLES
        .iter()
        .map(|(name, _)| format!("{{{name}}}"))
        .collect();
    format!(
        "there is no variable {{{name}}}: there are {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let values = Values {
            client: Some("192.0.2.7".parse().unwrap()),
            host: "a.example:80",
            listener: "web",
            target: "/p?q",
            request_id: "77",
            route: "web/route1",
            is_tls: true,
        };
        Ok(Template::try_from(text.to_owned())?.fill(&values))
    }

    #[test]
    fn variables_are_put_in() {
        let text = "{client} {host} {listener} {path} {request_id} {route} {scheme}";
        assert_eq!(
            filled(text).unwrap(),
            "192.0.2.7 a.example:80 web /p 77 web/route1 https"
        );
        assert_eq!(filled("a{{b}}c").unwrap(), "a{b}c");
        assert_eq!(filled("").unwrap(), "");
    }

    #[test]
    fn what_would_end_a_line_or_is_unknown_is_refused() {
        for (text, said) in [
            ("a\r\nb: c", "visible"),
            ("a\tb", "visible"),
            ("\u{e9}", "visible"),
            ("{", "brace"),
            ("a}b", "brace"),
            ("{caller}", "{client}"),
        ] {
            let error = filled(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
