//! Answers of the proxy itself, each of which says what is wrong and what to do.

use std::fmt::Display;

/// An answer of the proxy, after which it closes the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// What is wrong, and what to do.
    pub why: String,
}

impl Refusal {
    /// An answer with this status, for this reason.
    pub fn new(status: u16, why: impl Display) -> Self {
        Self {
            status,
            why: why.to_string(),
        }
    }

    /// What a person reads.
    pub(super) fn text(&self) -> String {
        format!("{} {}: {}\n", self.status, reason(self.status), self.why)
    }

    /// The whole answer, by HTTP/1.1.
    pub fn write(&self, is_for_head: bool) -> Vec<u8> {
        let (status, reason) = (self.status, reason(self.status));
        let body = self.text();
        let mut out = format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        if !is_for_head {
            out.push_str(&body);
        }
        out.into_bytes()
    }
}

/// What a status is called.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        205 => "Reset Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}
