//! What is done with requests and answers beside sending them to a server.

use std::collections::BTreeMap;

use super::condition::{Alternatives, Atom, Conditions, Literal, PathIs};
use super::routes::{self, Here};
use super::toml::{Table, text};
use super::values::is_of_path;
use super::words::Line;
use crate::config::FixedAnswer;

/// A rule as it stands: `http-request`, `http-response`, `redirect`, `monitor-uri`.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The line.
    pub line: usize,
    /// What it applies to.
    pub of: Of,
    /// Which rules come first, whatever their lines.
    pub turn: u8,
    /// What is to be done, and of which.
    words: Vec<String>,
}

/// What a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Requests.
    Request,
    /// Answers.
    Response,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The request goes no further: the keys of a route that says why.
    End(String),
    /// A header is set, added or removed.
    Edit(Edit),
    /// `X-Forwarded-Proto` says whether the client speaks TLS.
    /// That clients speak HTTPS, or not, or what they speak.
    ForwardedProto(Option<bool>),
    /// Nothing that changes what is served, and why.
    Nothing(&'static str),
}

/// A change of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Set(String, String),
    Add(String, String),
    Remove(String),
}

/// Changes of headers, as they are written here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edits {
    set: BTreeMap<String, String>,
    add: BTreeMap<String, String>,
    remove: Vec<String>,
}

impl Rule {
    pub(super) fn new(line: &Line) -> Self {
        let of = match line.words[0].as_str() {
            "http-response" | "http-after-response" => Of::Response,
            _ => Of::Request,
        };
        let words = match line.words[0].as_str() {
            "http-request" | "http-response" | "http-after-response" => line.words[1..].to_vec(),
            _ => line.words.clone(),
        };
        let turn = match line.words[0].as_str() {
            "monitor-uri" => 0,
            "redirect" => 2,
            _ => 1,
        };
        let line = line.number;
        Self {
            line,
            of,
            turn,
            words,
        }
    }

    /// Which requests `monitor-uri` answers.
    pub(super) fn monitored(&self) -> Option<Alternatives> {
        match self.words.as_slice() {
            [name, path] if name == "monitor-uri" => {
                let is_so = |atom: Atom| Literal {
                    is_not: false,
                    any_of: vec![atom],
                };
                let (host, path) = of_url(path)?;
                let path = is_so(Atom::Path(PathIs::Is(path.to_owned())));
                let host = host.map(|host| is_so(Atom::Host(host)));
                Some(vec![host.into_iter().chain([path]).collect()])
            }
            _ => None,
        }
    }

    /// What it does, and the condition behind it.
    ///
    /// # Errors
    ///
    /// It has no counterpart here.
    pub(super) fn read(&self) -> Result<(Action, &[String]), String> {
        let is_if = |word: &String| word == "if" || word == "unless";
        let end = self
            .words
            .iter()
            .position(is_if)
            .unwrap_or(self.words.len());
        let (words, condition) = self.words.split_at(end);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok((action(&words)?, condition))
    }
}

fn action(words: &[&str]) -> Result<Action, String> {
    match words {
        ["deny", rest @ ..] => {
            let status = match rest {
                [] => 403,
                ["deny_status" | "status", status] => status_of(status)?,
                _ => return Err("an answer of this form has no counterpart here".to_owned()),
            };
            Ok(Action::End(format!("answer = {{ status = {status} }}")))
        }
        ["return", rest @ ..] => answer(rest).map(Action::End),
        ["redirect", rest @ ..] => redirect(rest).map(Action::End),
        ["monitor-uri", url] if of_url(url).is_some() => {
            Ok(Action::End("answer = { status = 200 }".to_owned()))
        }
        ["set-header", name, value] => {
            if name.eq_ignore_ascii_case("x-forwarded-proto") {
                return forwarded_proto(value);
            }
            Ok(Action::Edit(Edit::Set(editable(name)?, template(value)?)))
        }
        ["add-header", name, value] => {
            if name.eq_ignore_ascii_case("x-forwarded-proto") {
                return forwarded_proto(value);
            }
            Ok(Action::Edit(Edit::Add(editable(name)?, template(value)?)))
        }
        ["del-header", name] => Ok(Action::Edit(Edit::Remove(editable(name)?))),
        ["set-log-level" | "capture", ..] => Ok(Action::Nothing(
            "lines of logs have the combined format of web servers",
        )),
        [other, ..] => Err(format!("{other} has no counterpart here")),
        [] => Err("a rule needs an action".to_owned()),
    }
}

/// The host and the path of a URL, or the path alone.
fn of_url(url: &str) -> Option<(Option<String>, &str)> {
    let is_path = |path: &str| path.starts_with('/') && is_of_path(path);
    if url.starts_with('/') {
        return is_path(url).then_some((None, url));
    }
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let host = authority.split(':').next().unwrap_or_default();
    let is_good = super::values::is_host(host) && !host.starts_with("*.") && is_path(path);
    is_good.then(|| (Some(host.to_ascii_lowercase()), path))
}

fn status_of(text: &str) -> Result<u16, String> {
    let status = text.parse().ok();
    let status = status.filter(|status| (200..600).contains(status));
    status.ok_or_else(|| format!("{text} is no status of an answer"))
}

fn answer(words: &[&str]) -> Result<String, String> {
    let mut words = words.iter();
    let (mut status, mut kind, mut body) = (200, None, None);
    while let Some(word) = words.next() {
        match (*word, words.next()) {
            ("status", Some(value)) => status = status_of(value)?,
            ("content-type", Some(value)) => kind = Some(*value),
            ("string", Some(value)) => body = Some(*value),
            (other, _) => return Err(format!("{other} of an answer has no counterpart here")),
        }
    }
    let made = FixedAnswer {
        status,
        body: body.unwrap_or_default().to_owned(),
        content_type: kind.unwrap_or("text/plain").to_owned(),
    };
    if let Some(problem) = made.problems().into_iter().next() {
        return Err(format!("this cannot be answered: {problem}"));
    }
    let mut keys = vec![format!("status = {status}")];
    keys.extend(kind.map(|kind| format!("content_type = {}", text(kind))));
    keys.extend(body.map(|body| format!("body = {}", text(body))));
    Ok(format!("answer = {{ {} }}", keys.join(", ")))
}

/// `scheme`, `prefix` or `location`, with `code`.
fn redirect(words: &[&str]) -> Result<String, String> {
    let mut keys = None;
    let mut status = 302;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (*word, words.next()) {
            ("scheme", Some(scheme)) if ["http", "https"].contains(scheme) => {
                keys = Some(format!("scheme = {}", text(scheme)));
            }
            ("code", Some(code)) => {
                let known = ["301", "302", "307", "308"].contains(code);
                status = code.parse().ok().filter(|_| known).ok_or_else(|| {
                    format!("a redirect has the status 301, 302, 307 or 308, not {code}")
                })?;
            }
            ("prefix", Some(url)) => {
                let (place, path) = place(url)?;
                if !(path.is_empty() || path == "/") {
                    return Err("the prefix of a redirect has no path here".to_owned());
                }
                keys = Some(place.ok_or("the prefix of a redirect is a scheme and a host")?);
            }
            ("location", Some(url)) => {
                let (place, path) = place(url)?;
                // The query of the request is not kept by HAProxy.
                let path = if path.is_empty() { "/" } else { path };
                if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(format!("{url} is no place to be sent to"));
                }
                let path = if path.contains('?') {
                    path.to_owned()
                } else {
                    format!("{path}?")
                };
                let path = format!("path = {}", text(&path));
                let place = place.into_iter();
                keys = Some(place.chain([path]).collect::<Vec<_>>().join(", "));
            }
            (other, _) => return Err(format!("{other} of a redirect has no counterpart here")),
        }
    }
    let keys = keys.ok_or("a redirect needs a scheme, a prefix or a location")?;
    Ok(format!("redirect = {{ {keys}, status = {status} }}"))
}

/// The keys for the scheme, host and port of a URL, if it has them, and the path.
fn place(url: &str) -> Result<(Option<String>, &str), String> {
    if url.contains('%') {
        return Err(format!(
            "{url} is put together from the request, which cannot be had here"
        ));
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Ok((None, url));
    };
    if scheme != "http" && scheme != "https" {
        return Err(format!("{scheme} is no scheme of a redirect"));
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => {
            let port: u16 = port.parse().map_err(|_| format!("{port} is no port"))?;
            (host, Some(port))
        }
        None => (authority, None),
    };
    if !super::values::is_host(host) || host.starts_with("*.") {
        return Err(format!("{host:?} is no host"));
    }
    let port = port.map_or_else(String::new, |port| format!(", port = {port}"));
    let keys = format!("scheme = {}, host = {}{port}", text(scheme), text(host));
    Ok((Some(keys), path))
}

/// What `X-Forwarded-Proto` may be set to: what the proxy says by itself.
fn forwarded_proto(value: &str) -> Result<Action, String> {
    match value {
        "https" => Ok(Action::ForwardedProto(Some(true))),
        "http" => Ok(Action::ForwardedProto(Some(false))),
        "%[ssl_fc,iif(https,http)]" => Ok(Action::ForwardedProto(None)),
        _ => Err(format!(
            "X-Forwarded-Proto says http or https here, not {value}"
        )),
    }
}

/// The name of a header that may be changed.
pub(super) fn editable(name: &str) -> Result<String, String> {
    match crate::policy::EditName::try_from(name.to_owned()) {
        Ok(_) => Ok(name.to_ascii_lowercase()),
        Err(why) => Err(why),
    }
}

/// A value with what HAProxy puts in, as it is written here.
fn template(value: &str) -> Result<String, String> {
    const KNOWN: [(&str, &str); 12] = [
        ("%[src]", "{client}"),
        ("%ci", "{client}"),
        ("%[req.hdr(host)]", "{host}"),
        ("%[hdr(host)]", "{host}"),
        ("%[path]", "{path}"),
        ("%[ssl_fc,iif(https,http)]", "{scheme}"),
        ("%[fe_name]", "{listener}"),
        ("%f", "{listener}"),
        ("%[unique-id]", "{request_id}"),
        ("%ID", "{request_id}"),
        ("%HP", "{path}"),
        ("%%", "%"),
    ];
    let mut out = String::new();
    let mut rest = value;
    while let Some(first) = rest.chars().next() {
        // `%f` is not the beginning of `%fp`.
        let is_whole = |theirs: &str| {
            let behind = rest[theirs.len()..].chars().next();
            let ends_itself = theirs.ends_with([']', '%']);
            ends_itself || !behind.is_some_and(|next| next.is_ascii_alphabetic())
        };
        let known = KNOWN
            .iter()
            .find(|(theirs, _)| rest.starts_with(theirs) && is_whole(theirs));
        if let Some((theirs, ours)) = known {
            out.push_str(ours);
            rest = &rest[theirs.len()..];
            continue;
        }
        match first {
            '%' => {
                return Err(format!(
                    "{rest} is put in by HAProxy, and cannot be had here"
                ));
            }
            '{' => out.push_str("{{"),
            '}' => out.push_str("}}"),
            ' '..='~' => out.push(first),
            _ => return Err(format!("{value:?} cannot stand in a header")),
        }
        rest = &rest[first.len_utf8()..];
    }
    Ok(out)
}

/// Whether a condition is so for all requests of a listener.
///
/// # Errors
///
/// It is so for some of them.
pub(super) fn always(
    conditions: &Conditions,
    words: &[String],
    here: Here,
) -> Result<bool, String> {
    let rule = routes::Rule {
        line: 0,
        of: conditions.read(words)?,
        to: true,
    };
    let list = routes::compiled(&[rule], false, here).map_err(|(_, why)| why)?;
    match list.as_slice() {
        [(of, is_so)] if of.is_open() => Ok(*is_so),
        _ => Err("headers are changed for all requests, and not under a condition".to_owned()),
    }
}

impl Edits {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a change behind those before.
    ///
    /// # Errors
    ///
    /// Both together cannot be had here.
    pub(super) fn add(&mut self, edit: Edit) -> Result<(), String> {
        match edit {
            Edit::Set(name, value) => {
                self.add.remove(&name);
                self.remove.retain(|removed| *removed != name);
                self.set.insert(name, value);
            }
            Edit::Add(name, value) => {
                if self.add.contains_key(&name) || self.set.contains_key(&name) {
                    return Err(format!("{name} is changed once, and not twice"));
                }
                self.add.insert(name, value);
            }
            Edit::Remove(name) => {
                self.add.remove(&name);
                self.set.remove(&name);
                if !self.remove.contains(&name) {
                    self.remove.push(name);
                }
            }
        }
        Ok(())
    }

    /// The keys for them, below this one.
    pub(super) fn write(&self, below: &str, out: &mut Table) {
        let table = |headers: &BTreeMap<String, String>| {
            let pairs = headers.iter();
            let pairs = pairs.map(|(name, value)| format!("{} = {}", text(name), text(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        };
        if !self.set.is_empty() {
            out.key(&format!("{below}.set_headers"), &table(&self.set));
        }
        if !self.add.is_empty() {
            out.key(&format!("{below}.add_headers"), &table(&self.add));
        }
        if !self.remove.is_empty() {
            let names: Vec<String> = self.remove.iter().map(|name| text(name)).collect();
            let names = format!("[{}]", names.join(", "));
            out.key(&format!("{below}.remove_headers"), &names);
        }
    }
}
