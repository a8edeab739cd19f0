//! Answers that the configuration asks for, after which the connection goes on: redirects, fixed
//! answers, and that a rate is exceeded.

use std::io::Write;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use super::edit::{Edits, Lines};
use super::template::Values;
use crate::config::{FixedAnswer, Redirect, RequestEdits, Scheme};

/// An answer of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Its headers, without those of the framing.
    pub headers: Lines,
    /// Its body.
    pub body: Arc<str>,
}

/// Whether an answer with this status may have a body.
pub fn status_has_body(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 205 | 304)
}

impl Reply {
    /// One that is the same for all.
    pub(super) fn fixed(answer: &FixedAnswer) -> Self {
        let headers = match answer.body.is_empty() {
            true => Vec::new(),
            false => vec![("content-type".into(), answer.content_type.clone())],
        };
        Self {
            status: answer.status,
            headers,
            body: answer.body.as_str().into(),
        }
    }

    /// That a client has to wait so long.
    pub(super) fn too_many(wait: Duration) -> Self {
        // Rounded up, as who comes earlier is refused again.
        let seconds = wait.as_millis().div_ceil(1_000).max(1);
        let text = format!("429 Too Many Requests: ask again in {seconds} s, and less often\n");
        Self::plain(429, text).with("retry-after", seconds.to_string())
    }

    /// Where to ask instead; `path` is that of the route.
    pub(super) fn redirect(redirect: &Redirect, path: Option<&str>, values: &Values<'_>) -> Self {
        let location = location(redirect, path, values);
        match location {
            Some(location) => {
                let text = format!("{}: ask for {location}\n", redirect.status);
                Self::plain(redirect.status, text).with("location", location)
            }
            // A path alone might begin with `//`, and lead elsewhere.
            None => Self::plain(
                400,
                "400 Bad Request: there is no Host to redirect to; add one\n".to_owned(),
            ),
        }
    }

    fn plain(status: u16, body: String) -> Self {
        Self {
            status,
            headers: vec![(
                "content-type".into(),
                "text/plain; charset=utf-8".to_owned(),
            )],
            body: body.into(),
        }
    }

    fn with(mut self, name: &str, value: String) -> Self {
        self.headers.push((name.into(), value));
        self
    }

    /// Makes the changes of answers in it.
    pub(super) fn edited(mut self, edits: &Edits, values: &Values<'_>) -> Self {
        self.headers.retain(|(name, _)| !edits.drops(name));
        self.headers.extend(edits.lines(values));
        self
    }

    /// The whole answer by HTTP/1.1: after one that `closes`, the connection ends. Those whose
    /// version is old are told if it does not.
    pub fn write(&self, is_for_head: bool, closes: bool, is_old: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.body.len());
        let reason = crate::http::reason(self.status);
        // Writing to memory cannot fail.
        let _ = write!(out, "HTTP/1.1 {} {reason}\r\n", self.status);
        for (name, value) in &self.headers {
            let _ = write!(out, "{name}: {value}\r\n");
        }
        if status_has_body(self.status) || self.status == 205 {
            let _ = write!(out, "content-length: {}\r\n", self.body.len());
        }
        if closes {
            out.extend_from_slice(b"connection: close\r\n");
        } else if is_old {
            out.extend_from_slice(b"connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if !is_for_head {
            out.extend_from_slice(self.body.as_bytes());
        }
        out
    }
}

/// The URL of a redirect; `None` if nobody says the host.
fn location(redirect: &Redirect, path: Option<&str>, values: &Values<'_>) -> Option<String> {
    let (asked_host, asked_port) = split(values.host);
    let is_https = match redirect.scheme {
        Some(scheme) => scheme == Scheme::Https,
        None => values.is_tls,
    };
    let scheme = if is_https { "https" } else { "http" };
    let host = redirect.host.as_deref().unwrap_or(asked_host);
    if host.is_empty() {
        return None;
    }
    let stays = redirect.scheme.is_none() && redirect.host.is_none();
    let port = match redirect.port {
        Some(port) => Some(port),
        None if stays => asked_port.and_then(|port| port.parse().ok()),
        None => None,
    };
    let usual = if is_https { 443 } else { 80 };
    let port = port.filter(|port| *port != usual);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    // Some write an IPv6 address in a configuration without its brackets.
    let host = match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => host.to_owned(),
    };
    let target = match &redirect.path {
        // A question mark at the end says that there is no query.
        Some(path) if path.contains('?') => path.strip_suffix('?').unwrap_or(path).to_owned(),
        Some(path) => {
            let query = values.target.find('?').map(|at| &values.target[at..]);
            format!("{path}{}", query.unwrap_or_default())
        }
        None => moved(redirect, path, values.target),
    };
    Some(format!("{scheme}://{host}{port}{target}"))
}

fn moved(redirect: &Redirect, path: Option<&str>, asked: &str) -> String {
    let edits = RequestEdits {
        prefix: redirect
            .prefix
            .clone()
            .map(|prefix| toml::Spanned::new(0..0, prefix)),
        ..RequestEdits::default()
    };
    match super::edit::target(&edits, path, asked) {
        Some(target) => target,
        // `OPTIONS *` is of no path.
        None if asked == "*" => "/".to_owned(),
        None => asked.to_owned(),
    }
}

/// The name and the port of a host.
fn split(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'a>(host: &'a str, target: &'a str) -> Values<'a> {
        Values {
            client: None,
            host,
            listener: "web",
            target,
            request_id: "",
            route: "web",
            is_tls: false,
        }
    }

    #[test]
    fn a_redirect_changes_what_it_says_and_nothing_else() {
        let asked = values("a.example:8080", "/old/x?y=1");
        for (redirect, said) in [
            ("scheme = \"https\"", "https://a.example/old/x?y=1"),
            (
                "scheme = \"https\"\nport = 8443",
                "https://a.example:8443/old/x?y=1",
            ),
            ("host = \"b.example\"", "http://b.example/old/x?y=1"),
            ("path = \"/new\"", "http://a.example:8080/new?y=1"),
            ("path = \"/new?z\"", "http://a.example:8080/new?z"),
            ("path = \"/new?\"", "http://a.example:8080/new"),
            ("prefix = \"/new\"", "http://a.example:8080/new/x?y=1"),
            ("prefix = \"/\"", "http://a.example:8080/x?y=1"),
            ("port = 80", "http://a.example/old/x?y=1"),
            ("host = \"::1\"\nport = 81", "http://[::1]:81/old/x?y=1"),
        ] {
            let redirect: Redirect = toml::from_str(redirect).unwrap();
            assert_eq!(location(&redirect, Some("/old"), &asked).unwrap(), said);
        }
    }

    #[test]
    fn without_a_host_there_is_no_redirect() {
        let redirect: Redirect = toml::from_str("scheme = \"https\"").unwrap();
        let reply = Reply::redirect(&redirect, None, &values("", "//evil.example/"));
        assert_eq!(reply.status, 400);
        let reply = Reply::redirect(&redirect, None, &values("[::1]:80", "//evil.example/"));
        let location = ("location".into(), "https://[::1]//evil.example/".to_owned());
        assert!(reply.headers.contains(&location), "{reply:?}");
    }

    #[test]
    fn an_answer_says_its_length_and_how_its_connection_goes_on() {
        let fixed = |text: &str| Reply::fixed(&toml::from_str(text).unwrap());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let reply = fixed("status = 200\nbody = \"ok\"");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\
                    content-length: 2\r\n";
        assert_eq!(
            text(reply.write(false, false, false)),
            format!("{head}\r\nok")
        );
        assert_eq!(text(reply.write(true, false, false)), format!("{head}\r\n"));
        assert_eq!(
            text(reply.write(false, true, true)),
            format!("{head}connection: close\r\n\r\nok")
        );
        let bare = fixed("status = 204").write(false, false, true);
        assert_eq!(
            text(bare),
            "HTTP/1.1 204 No Content\r\nconnection: keep-alive\r\n\r\n"
        );
        let wait = Reply::too_many(Duration::from_millis(1_001));
        assert!(
            wait.headers
                .contains(&("retry-after".into(), "2".to_owned()))
        );
        let wait = Reply::too_many(Duration::from_nanos(1));
        assert!(
            wait.headers
                .contains(&("retry-after".into(), "1".to_owned()))
        );
    }
}
