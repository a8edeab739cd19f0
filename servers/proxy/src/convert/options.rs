//! Options that are switched on and off by their names.

/// Options that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    /// The client's address is added to `X-Forwarded-For`.
    ForwardedFor,
    /// Connections to servers end with each answer.
    CloseServer,
    /// All backups are used at the same time.
    AllBackups,
}

/// Options that mean nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It changes nothing of what is served, and why not.
    NotNeeded(&'static str),
    /// It has no counterpart, and what there is instead.
    Missing(&'static str),
}

/// Options that change nothing of what is served.
const NOT_NEEDED: [(&str, &str); 28] = [
    ("httplog", "lines have the combined format of web servers"),
    ("tcplog", "lines have the combined format of web servers"),
    ("httpslog", "lines have the combined format of web servers"),
    ("dontlognull", "each request has one line, at its end"),
    ("dontlog-normal", "each request has one line, at its end"),
    (
        "log-separate-errors",
        "each request has one line, at its end",
    ),
    ("logasap", "each request has one line, at its end"),
    (
        "log-health-checks",
        "changes of health are said as they are",
    ),
    ("http-use-htx", "there is one form of requests"),
    (
        "http-pretend-keepalive",
        "connections to servers are kept by what they say",
    ),
    ("http-no-delay", "nothing is held back"),
    ("http-ignore-probes", "who says nothing gets no answer"),
    ("splice-auto", "bytes are moved by the kernel where it can"),
    (
        "splice-request",
        "bytes are moved by the kernel where it can",
    ),
    (
        "splice-response",
        "bytes are moved by the kernel where it can",
    ),
    ("tcpka", "the system probes silent peers"),
    ("clitcpka", "the system probes silent peers"),
    ("srvtcpka", "the system probes silent peers"),
    ("socket-stats", "listeners have figures of their own"),
    ("contstats", "figures go on while connections do"),
    ("tcp-smart-accept", "the system decides"),
    ("tcp-smart-connect", "the system decides"),
    ("independent-streams", "a byte in either direction counts"),
    (
        "redispatch",
        "another attempt goes to another server in any case",
    ),
    ("persist", "a server that is down gets nothing"),
    (
        "abortonclose",
        "a client that has gone is noticed when its answer comes",
    ),
    ("prefer-last-server", "any server may get the next request"),
    (
        "idle-close-on-response",
        "kept connections are told that the proxy ends",
    ),
];

/// Options that have no counterpart, with what there is instead.
const MISSING: [(&str, &str); 19] = [
    (
        "httpclose",
        "clients' connections are kept; there is no way to close each",
    ),
    (
        "forceclose",
        "clients' connections are kept; there is no way to close each",
    ),
    ("http_proxy", "this is no forward proxy"),
    ("transparent", "servers have addresses of their own"),
    ("nolinger", "connections end in order"),
    (
        "originalto",
        "there is no header for the address that was asked",
    ),
    ("http-buffer-request", "bodies are passed on as they come"),
    (
        "accept-invalid-http-request",
        "what has two readings is refused",
    ),
    (
        "accept-invalid-http-response",
        "what has two readings is refused",
    ),
    (
        "h1-case-adjust-bogus-client",
        "names of headers are written in lower case",
    ),
    (
        "h1-case-adjust-bogus-server",
        "names of headers are written in lower case",
    ),
    ("checkcache", "answers are not searched"),
    ("external-check", "there are checks by tcp and http"),
    ("ldap-check", "there are checks by tcp and http"),
    ("mysql-check", "there are checks by tcp and http"),
    ("pgsql-check", "there are checks by tcp and http"),
    ("redis-check", "there are checks by tcp and http"),
    ("smtpchk", "there are checks by tcp and http"),
    ("ssl-hello-chk", "a check of a pool with tls shakes hands"),
];

/// What an option means here; nothing, for one that says what is so in any case.
///
/// # Errors
///
/// [`Unknown`].
pub(super) fn meaning(name: &str) -> Result<Option<Meaning>, Unknown> {
    match name {
        "forwardfor" => return Ok(Some(Meaning::ForwardedFor)),
        "http-server-close" => return Ok(Some(Meaning::CloseServer)),
        "allbackups" => return Ok(Some(Meaning::AllBackups)),
        "http-keep-alive" => return Ok(None),
        _ => {}
    }
    let find = |all: &'static [(&str, &str)]| {
        let found = all.iter().find(|(known, _)| *known == name)?;
        Some(found.1)
    };
    match (find(&NOT_NEEDED), find(&MISSING)) {
        (Some(why), _) => Err(Unknown::NotNeeded(why)),
        (None, Some(why)) => Err(Unknown::Missing(why)),
        (None, None) => Err(Unknown::Missing("it has no counterpart here")),
    }
}
