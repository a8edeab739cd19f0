//! What is changed in the heads of requests and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::template::{Template, Values};
use crate::config::{HeaderEdits, RequestEdits};

/// Lines of headers: names and values.
pub type Lines = Vec<(Arc<str>, String)>;

/// Changes of one head, of a listener and a route together.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// Dropped, in lower case; also those that are set.
    dropped: BTreeSet<Arc<str>>,
    set: BTreeMap<Arc<str>, Template>,
    added: Vec<(Arc<str>, Template)>,
}

impl Edits {
    /// These changes, and after them those of a route: what it sets takes the place of what the
    /// listener sets or adds, and what it removes is gone.
    pub fn and(mut self, more: &HeaderEdits) -> Self {
        let removed = more.remove_headers.iter();
        for name in removed.chain(more.set_headers.keys()) {
            let name: Arc<str> = name.as_str().into();
            self.set.remove(&name);
            self.added.retain(|(added, _)| *added != name);
            self.dropped.insert(name);
        }
        for (name, value) in &more.set_headers {
            self.set.insert(name.as_str().into(), value.clone());
        }
        for (name, value) in &more.add_headers {
            self.added.push((name.as_str().into(), value.clone()));
        }
        self
    }

    /// The same, with one header set.
    pub fn set(mut self, name: &str, value: Template) -> Self {
        self.added.retain(|(added, _)| &**added != name);
        self.dropped.insert(name.into());
        self.set.insert(name.into(), value);
        self
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.added.is_empty()
    }

    /// Whether a header of the head is not passed on.
    pub fn drops(&self, name: &str) -> bool {
        !self.dropped.is_empty() && (self.dropped.iter()).any(|it| name.eq_ignore_ascii_case(it))
    }

    /// Whether a value has the id of the request.
    pub fn has_request_id(&self) -> bool {
        let added = self.added.iter().map(|(_, value)| value);
        self.set.values().chain(added).any(Template::has_request_id)
    }

    /// The headers that are set and added.
    pub fn lines(&self, values: &Values<'_>) -> Lines {
        let added = self.added.iter().map(|(name, value)| (name, value));
        self.set
            .iter()
            .chain(added)
            .map(|(name, value)| (Arc::clone(name), value.fill(values)))
            .collect()
    }
}

/// The target that a request is passed on with, if it is another one. `path` is that of the route.
pub(super) fn target(edits: &RequestEdits, path: Option<&str>, asked: &str) -> Option<String> {
    let (asked_path, query) = match asked.find('?') {
        Some(at) => asked.split_at(at),
        None => (asked, ""),
    };
    if let Some(whole) = &edits.path {
        return Some(format!("{}{query}", whole.get_ref()));
    }
    let prefix = edits.prefix.as_ref()?.get_ref();
    let rest = asked_path.strip_prefix(path?.trim_end_matches('/'))?;
    // One `/` between the two, and no `//` at the beginning, which some read as a host.
    let rest = rest.trim_start_matches('/');
    let prefix = prefix.trim_end_matches('/');
    // The path alone, without a `/` behind it, stays so.
    let slash = if rest.is_empty() && !asked_path.ends_with('/') && !prefix.is_empty() {
        ""
    } else {
        "/"
    };
    Some(format!("{prefix}{slash}{rest}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'a>() -> Values<'a> {
        Values {
            client: None,
            host: "a",
            listener: "web",
            target: "/",
            request_id: "9",
            route: "web/route1",
            is_tls: false,
        }
    }

    #[test]
    fn a_route_goes_before_its_listener() {
        let edits = |text: &str| -> HeaderEdits { toml::from_str(text).unwrap() };
        let listener = edits(
            "set_headers = { x-a = \"1\", x-b = \"2\" }\n\
             add_headers = { x-c = \"3\", x-d = \"4\" }",
        );
        let route = edits(
            "set_headers = { X-B = \"{request_id}\" }\nadd_headers = { X-D = \"5\" }\n\
             remove_headers = [\"X-C\", \"x-e\"]",
        );
        let both = Edits::default().and(&listener).and(&route);
        let lines: Vec<String> = both
            .lines(&values())
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(lines, ["x-a: 1", "x-b: 9", "x-d: 4", "x-d: 5"]);
        for (name, drops) in [
            ("X-A", true),
            ("x-b", true),
            ("x-C", true),
            ("x-d", false),
            ("X-E", true),
            ("x-f", false),
        ] {
            assert_eq!(both.drops(name), drops, "{name}");
        }
        assert!(both.has_request_id() && !both.is_empty());
        assert!(Edits::default().is_empty());
    }

    #[test]
    fn a_prefix_takes_the_place_of_the_routes_path() {
        let prefix = |prefix: &str, path: &str, asked: &str| {
            let edits = toml::from_str(&format!("prefix = {prefix:?}")).unwrap();
            target(&edits, Some(path), asked).unwrap()
        };
        for (new, path, asked, passed_on) in [
            ("/", "/api", "/api/x?y", "/x?y"),
            ("/", "/api", "/api", "/"),
            ("/", "/api", "/api?y", "/?y"),
            ("/", "/api", "/api/", "/"),
            ("/", "/api/", "/api/x", "/x"),
            ("/", "/api", "/api//evil.example/x", "/evil.example/x"),
            ("/v1", "/api", "/api/x", "/v1/x"),
            ("/v1/", "/api/", "/api/x", "/v1/x"),
            ("/v1", "/api", "/api?y", "/v1?y"),
            ("/v1", "/", "/x", "/v1/x"),
        ] {
            assert_eq!(prefix(new, path, asked), passed_on, "{new} {path} {asked}");
        }
        let whole = toml::from_str("path = \"/new\"").unwrap();
        assert_eq!(target(&whole, None, "/x/y?z").unwrap(), "/new?z");
        assert_eq!(target(&RequestEdits::default(), Some("/"), "/x"), None);
    }
}
