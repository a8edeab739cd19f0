//! What requests and answers say, or why they cannot be taken.
//!
//! The syntax is read by httparse. Before it, [`HeadEnd`] finds the end of the head, and refuses
//! lines that end otherwise than with CR and LF, which httparse lets pass. After it, what has
//! several readings is refused.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Status};

use super::framing::Framing;

/// How many headers a head may have.
pub const HEADERS_MAX: usize = 100;

/// How many words all `Connection` headers of a head may have, also empty ones: each header is
/// compared with all of them.
const CONNECTION_WORDS_MAX: usize = 32;

/// In the place of a minor version, of requests that came by HTTP/2.
pub(super) const HTTP_2: u8 = 2;

/// Where the headers of a head are while it is looked at.
pub type Storage<'b> = [MaybeUninit<Header<'b>>; HEADERS_MAX];

/// Room for the headers of one head.
pub fn storage<'b>() -> Storage<'b> {
    [const { MaybeUninit::uninit() }; HEADERS_MAX]
}

/// Why a head cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct BadHead {
    /// The status that says so.
    pub status: u16,
    /// What is wrong.
    pub why: &'static str,
}

impl BadHead {
    pub(super) const fn bad(why: &'static str) -> Self {
        Self { status: 400, why }
    }

    const fn with(status: u16, why: &'static str) -> Self {
        Self { status, why }
    }
}

/// Finds the end of a head in a buffer that grows, and looks at each byte once.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadEnd {
    /// Where the current line begins.
    line: usize,
    /// From where on nothing was looked at.
    seen: usize,
}

impl HeadEnd {
    /// The length of the head with the empty line at its end, if it is complete.
    ///
    /// # Errors
    ///
    /// [`BadHead`]: a line does not end with CR and LF.
    pub fn find(&mut self, buffer: &[u8]) -> Result<Option<usize>, BadHead> {
        while let Some(offset) = memchr::memchr(b'\n', &buffer[self.seen..]) {
            let end = self.seen + offset;
            if end == self.line || buffer[end - 1] != b'\r' {
                return Err(BadHead::bad("a line of the head ends with LF alone"));
            }
            if end - 1 == self.line {
                return Ok(Some(end + 1));
            }
            (self.line, self.seen) = (end + 1, end + 1);
        }
        self.seen = buffer.len();
        Ok(None)
    }
}

/// What `Connection` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Persistence {
    /// The connection ends after this.
    pub close: bool,
    /// It does not, which HTTP/1.0 has to say.
    pub keep_alive: bool,
    /// The protocol changes.
    pub upgrade: bool,
}

impl Persistence {
    fn said(headers: &[Header<'_>]) -> Result<Self, BadHead> {
        if connection_words(headers)
            .nth(CONNECTION_WORDS_MAX)
            .is_some()
        {
            return Err(BadHead::bad(
                "the Connection headers have more than 32 words",
            ));
        }
        let mut said = Self::default();
        for token in connection_tokens(headers) {
            said.close |= token.eq_ignore_ascii_case(b"close");
            said.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            said.upgrade |= token.eq_ignore_ascii_case(b"upgrade");
        }
        Ok(said)
    }

    /// Whether the connection can be used again.
    fn persists(self, minor_version: u8) -> bool {
        !self.close && (minor_version > 0 || self.keep_alive)
    }
}

/// What the `Connection` headers list.
pub(super) fn connection_tokens<'b>(
    headers: &'b [Header<'b>],
) -> impl Iterator<Item = &'b [u8]> + 'b {
    connection_words(headers)
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

/// The same, with what is empty.
fn connection_words<'a>(headers: &'a [Header<'_>]) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("connection"))
        .flat_map(|header| header.value.split(|&byte| byte == b','))
}

/// A request, without its body.
#[derive(Debug)]
pub struct Request<'b> {
    /// The method.
    pub method: &'b str,
    /// The path and the query, or `*`.
    pub target: &'b str,
    /// The host, with its port; empty if HTTP/1.0 does not say it.
    pub host: &'b str,
    /// The minor version of HTTP/1: 0 or 1; 2 by HTTP/2.
    pub minor_version: u8,
    /// All headers.
    pub headers: &'b [Header<'b>],
    /// Where the body ends.
    pub framing: Framing,
    /// The client can send another request after it.
    pub persists: bool,
    /// The protocol to which the client wants to change.
    pub upgrade: Option<&'b [u8]>,
    /// The client waits for a word before it sends the body.
    pub expects_continue: bool,
    /// It logs in for the whole connection.
    pub binds: bool,
}

impl<'b> Request<'b> {
    /// Reads a whole head, with the empty line at its end.
    ///
    /// # Errors
    ///
    /// [`BadHead`].
    pub fn parse(head: &'b [u8], storage: &'b mut Storage<'b>) -> Result<Self, BadHead> {
        let mut request = httparse::Request::new(&mut []);
        let read = ParserConfig::default()
            .parse_request_with_uninit_headers(&mut request, head, storage)
            .map_err(cause)?;
        if read != Status::Complete(head.len()) {
            return Err(BadHead::bad("the head ends early"));
        }
        let (Some(method), Some(target), Some(minor_version)) =
            (request.method, request.path, request.version)
        else {
            return Err(BadHead::bad("the first line is not whole"));
        };
        let headers: &'b [Header<'b>] = request.headers;
        let framing = Framing::said(headers, minor_version)?.unwrap_or(Framing::None);
        let (target, host) = destination(method, target, single(headers, "host")?, minor_version)?;
        let said = Persistence::said(headers)?;
        Ok(Self {
            method,
            target,
            host,
            minor_version,
            headers,
            // A body after which another protocol begins would have two meanings.
            upgrade: match framing {
                Framing::None if said.upgrade && minor_version > 0 => upgrade(headers)?,
                _ => None,
            },
            expects_continue: expects(headers)? && minor_version > 0 && framing != Framing::None,
            framing,
            persists: said.persists(minor_version),
            binds: binds(headers, ["authorization", "proxy-authorization"]),
        })
    }

    /// One that came by HTTP/2: the method, the path and the authority are those of its
    /// pseudo-headers.
    ///
    /// # Errors
    ///
    /// [`BadHead`].
    pub(super) fn of_two(
        method: &'b str,
        target: &'b str,
        authority: Option<&'b str>,
        headers: &'b [Header<'b>],
        framing: Framing,
    ) -> Result<Self, BadHead> {
        if headers.len() > HEADERS_MAX {
            return Err(BadHead::with(431, "there are more than 100 headers"));
        }
        let host = single(headers, "host")?;
        // Someone behind might go by the other one.
        if let (Some(host), Some(authority)) = (host, authority)
            && !host.eq_ignore_ascii_case(authority.as_bytes())
        {
            return Err(BadHead::bad(":authority and Host name different hosts"));
        }
        let host = authority.map(str::as_bytes).or(host);
        if !target.starts_with('/') && target != "*" {
            return Err(BadHead::bad(":path is no path"));
        }
        let (target, host) = destination(method, target, host, 1)?;
        if host.is_empty() {
            return Err(BadHead::bad("there is no host in :authority or Host"));
        }
        Ok(Self {
            method,
            target,
            host,
            minor_version: HTTP_2,
            headers,
            framing,
            persists: true,
            upgrade: None,
            expects_continue: expects(headers)? && framing != Framing::None,
            binds: binds(headers, ["authorization", "proxy-authorization"]),
        })
    }

    /// Whether it has no effects beyond those of one of its kind, so that it may be sent twice.
    pub fn is_repeatable(&self) -> bool {
        let is_idempotent = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].contains(&self.method);
        is_idempotent && self.framing == Framing::None
    }
}

/// An answer, without its body.
#[derive(Debug)]
pub struct Response<'b> {
    /// The status.
    pub status: u16,
    /// What it is called.
    pub reason: &'b str,
    /// All headers.
    pub headers: &'b [Header<'b>],
    /// Where the body ends.
    pub framing: Framing,
    /// The length that is said of a body which does not follow.
    pub length_said: Option<u64>,
    /// The server takes another request after it.
    pub persists: bool,
}

impl<'b> Response<'b> {
    /// Reads a whole head, with the empty line at its end: the answer to a request, by HEAD or
    /// another method.
    ///
    /// # Errors
    ///
    /// [`BadHead`].
    pub fn parse(
        head: &'b [u8],
        is_for_head: bool,
        storage: &'b mut Storage<'b>,
    ) -> Result<Self, BadHead> {
        let mut response = httparse::Response::new(&mut []);
        let read = ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, head, storage)
            .map_err(cause)?;
        if read != Status::Complete(head.len()) {
            return Err(BadHead::bad("the head ends early"));
        }
        let (Some(status), Some(minor_version)) = (response.code, response.version) else {
            return Err(BadHead::bad("the first line is not whole"));
        };
        if !(100..1_000).contains(&status) {
            return Err(BadHead::bad("the status is below 100"));
        }
        let headers: &'b [Header<'b>] = response.headers;
        let said = Framing::said(headers, minor_version)?;
        let is_bare = matches!(status, 100..=199 | 204 | 304);
        let framing = match said {
            _ if is_for_head || is_bare => Framing::None,
            Some(framing) => framing,
            None => Framing::Close,
        };
        Ok(Self {
            status,
            reason: response.reason.unwrap_or_default(),
            headers,
            framing,
            length_said: match said {
                Some(Framing::Length(length)) if status >= 200 && status != 204 => Some(length),
                _ => None,
            },
            // A login of the whole connection is not for the next client.
            persists: Persistence::said(headers)?.persists(minor_version)
                && framing != Framing::Close
                && !binds(headers, ["www-authenticate", "proxy-authenticate"]),
        })
    }
}

/// The value of a header that may be there once.
fn single<'b>(headers: &'b [Header<'b>], name: &str) -> Result<Option<&'b [u8]>, BadHead> {
    let mut values = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name));
    let first = values.next().map(|header| header.value);
    if values.next().is_some() {
        return Err(BadHead::bad(
            "a header that may be there once is there twice",
        ));
    }
    Ok(first)
}

/// The path and the host.
fn destination<'b>(
    method: &str,
    target: &'b str,
    host: Option<&'b [u8]>,
    minor_version: u8,
) -> Result<(&'b str, &'b str), BadHead> {
    if !target
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err(BadHead::bad(
            "the target has characters that belong to no target",
        ));
    }
    if method == "CONNECT" {
        return Err(BadHead::with(
            405,
            "CONNECT is not served: this is no forward proxy",
        ));
    }
    let host = match host {
        None if minor_version > 0 => return Err(BadHead::bad("there is no Host header")),
        None => "",
        Some(host) => host_of(host)?,
    };
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok((target, host));
    }
    let scheme = "http://";
    let is_absolute = target
        .get(..scheme.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !is_absolute {
        return Err(BadHead::bad(
            "the target is neither a path nor an http:// URL",
        ));
    }
    let rest = &target[scheme.len()..];
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = host_of(authority.as_bytes())?;
    // Someone before or behind might go by the other one.
    if authority.is_empty() || !(host.is_empty() || host.eq_ignore_ascii_case(authority)) {
        return Err(BadHead::bad("the target and Host name different hosts"));
    }
    match path.chars().next() {
        Some('/') => Ok((path, authority)),
        None => Ok(("/", authority)),
        // A query without a path would have to be put together.
        Some(_) => Err(BadHead::bad("the URL has a query and no path")),
    }
}

fn host_of(value: &[u8]) -> Result<&str, BadHead> {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(&byte);
    match std::str::from_utf8(value) {
        Ok(host) if host.bytes().all(is_of_host) => Ok(host),
        _ => Err(BadHead::bad("Host has characters that belong to no host")),
    }
}

/// The protocol to which the client wants to change, if it is passed on: one alone, so that it is
/// clear which.
fn upgrade<'b>(headers: &'b [Header<'b>]) -> Result<Option<&'b [u8]>, BadHead> {
    let is_of_protocol = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._/".contains(byte);
    // HTTP/2 that begins in this way would pass by everything that is decided here.
    let is_http2 = |value: &[u8]| value.len() >= 2 && value[..2].eq_ignore_ascii_case(b"h2");
    Ok(single(headers, "upgrade")?
        .filter(|value| !value.is_empty() && value.iter().all(is_of_protocol) && !is_http2(value)))
}

/// Whether a login is that of the connection, and not of each request.
fn binds(headers: &[Header<'_>], names: [&str; 2]) -> bool {
    let is_bound = |value: &[u8]| {
        let value = value.trim_ascii();
        let begins = |with: &[u8]| {
            value
                .get(..with.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(with))
        };
        begins(b"ntlm") || begins(b"nego")
    };
    headers
        .iter()
        .filter(|header| {
            names
                .iter()
                .any(|name| header.name.eq_ignore_ascii_case(name))
        })
        .flat_map(|header| header.value.split(|&byte| byte == b','))
        .any(is_bound)
}

fn expects(headers: &[Header<'_>]) -> Result<bool, BadHead> {
    match single(headers, "expect")? {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => Ok(true),
        Some(_) => Err(BadHead::with(
            417,
            "Expect is something else than \"100-continue\"",
        )),
    }
}

fn cause(error: httparse::Error) -> BadHead {
    use httparse::Error;
    match error {
        Error::HeaderName => BadHead::bad("the name of a header has characters that it must not"),
        Error::HeaderValue => BadHead::bad("the value of a header has characters that it must not"),
        Error::NewLine => BadHead::bad("a line ends in the wrong place"),
        Error::Status => BadHead::bad("the status is malformed"),
        Error::Token => BadHead::bad("the first line has characters that it must not"),
        Error::TooManyHeaders => BadHead::with(431, "there are more than 100 headers"),
        Error::Version => BadHead::with(505, "the version is none of HTTP/1.1 and HTTP/1.0"),
    }
}

#[cfg(test)]
mod tests;
