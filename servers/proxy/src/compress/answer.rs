//! Which answers are compressed, and what their heads say then.
//!
//! Not those whose server forbids it (`no-transform`), that are compressed already, are parts of
//! something (ranges), or carry a digest of their bytes. What is compressed is another
//! representation of the same: its `ETag` is weak, it has no ranges, and its length is not known.
//! Whether it is one depends on the request, which caches have to know: so `Vary` says that also of
//! answers which could have been compressed, and are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use httparse::Header;

use super::accept::{Coding, accepted};
use super::encoder::Encoder;
use crate::config;
use crate::counters::Counter;

/// Headers of an answer whose bytes are not to change.
const OF_BYTES: [&str; 8] = [
    "content-digest",
    "content-encoding",
    "content-md5",
    "content-range",
    "digest",
    "repr-digest",
    "signature",
    "trailer",
];

/// The compression of a listener or a route.
#[derive(Debug)]
pub struct Compress {
    config: config::Compress,
    running: AtomicUsize,
    /// Answers that were compressed.
    pub answers: Counter,
    /// Answers that were not, since there were enough already.
    pub crowded: Counter,
    /// Bytes that went in.
    pub bytes_in: Counter,
    /// Bytes that came out.
    pub bytes_out: Counter,
}

/// What a request allows.
#[derive(Clone, Debug)]
pub struct Offer {
    by: Arc<Compress>,
    coding: Option<Coding>,
}

/// What becomes of an answer.
#[derive(Debug)]
pub enum Form {
    /// It is none that is compressed.
    Fixed,
    /// It could be compressed, and is not.
    Plain,
    /// It is compressed.
    Squeezed(Box<Squeeze>),
}

/// An answer that is being compressed; its place is free again when this is dropped.
#[derive(Debug)]
pub struct Squeeze {
    /// What does it.
    pub encoder: Encoder,
    by: Arc<Compress>,
}

impl Compress {
    /// By this configuration.
    pub fn new(config: &config::Compress) -> Arc<Self> {
        Arc::new(Self {
            config: config.clone(),
            running: AtomicUsize::new(0),
            answers: Counter::default(),
            crowded: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
        })
    }

    /// One that goes on, or a new one.
    pub fn kept(known: Option<&Arc<Self>>, config: &config::Compress) -> Arc<Self> {
        match known {
            Some(known) if known.config == *config => Arc::clone(known),
            _ => Self::new(config),
        }
    }

    /// What the configuration says.
    pub fn config(&self) -> &config::Compress {
        &self.config
    }

    /// What a request allows that says this in `Accept-Encoding` and `Cache-Control`.
    pub fn offer(self: &Arc<Self>, accept: Option<&[u8]>, cache_control: Option<&[u8]>) -> Offer {
        let accept = accept.filter(|_| !cache_control.is_some_and(forbids));
        Offer {
            by: Arc::clone(self),
            coding: accept.and_then(|accept| accepted(accept, &self.config.codings)),
        }
    }

    /// How many are being compressed now.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    fn takes(&self, status: u16, headers: &[Header<'_>], length: Option<u64>) -> bool {
        // Parts, and answers that have no body or whose body is of no use.
        let is_whole = (200..600).contains(&status) && ![204, 205, 206, 304].contains(&status);
        let is_long = length.is_none_or(|length| length >= self.config.bytes_min);
        let is_of_bytes = |header: &Header<'_>| {
            let is = |name: &&str| header.name.eq_ignore_ascii_case(name);
            OF_BYTES.iter().any(is)
                || (header.name.eq_ignore_ascii_case("cache-control") && forbids(header.value))
        };
        is_whole
            && is_long
            && self.takes_type(value(headers, "content-type").unwrap_or_default())
            && !headers.iter().any(is_of_bytes)
    }

    fn takes_type(&self, said: &[u8]) -> bool {
        let said = said.split(|&byte| byte == b';').next().unwrap_or_default();
        let said = said.trim_ascii();
        self.config
            .types
            .iter()
            .any(|kind| match kind.strip_suffix('*') {
                Some(begin) => said
                    .get(..begin.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(begin.as_bytes())),
                None => said.eq_ignore_ascii_case(kind.as_bytes()),
            })
    }
}

impl Offer {
    /// What becomes of an answer with this head, to a request that is not by HEAD or for HTTP/1.0
    /// if `may_code` says so. The length is that of its body, as far as it is said.
    pub fn form(
        &self,
        status: u16,
        headers: &[Header<'_>],
        length: Option<u64>,
        may_code: bool,
    ) -> Form {
        if !self.by.takes(status, headers, length) {
            return Form::Fixed;
        }
        let Some(coding) = self.coding.filter(|_| may_code) else {
            return Form::Plain;
        };
        let max = self.by.config.answers_max;
        // Relaxed: a limit of memory, which nothing else is read by.
        if self.by.running.fetch_add(1, Ordering::Relaxed) >= max {
            self.by.running.fetch_sub(1, Ordering::Relaxed);
            self.by.crowded.one();
            return Form::Plain;
        }
        // From here on its end counts down.
        match Encoder::new(coding) {
            Ok(encoder) => {
                self.by.answers.one();
                Form::Squeezed(Box::new(Squeeze {
                    encoder,
                    by: Arc::clone(&self.by),
                }))
            }
            Err(_) => {
                self.by.running.fetch_sub(1, Ordering::Relaxed);
                Form::Plain
            }
        }
    }
}

impl Form {
    /// The coding, if there is one.
    pub fn coding(&self) -> Option<Coding> {
        match self {
            Self::Squeezed(squeeze) => Some(squeeze.encoder.coding()),
            Self::Fixed | Self::Plain => None,
        }
    }

    /// Whether `Vary` has to be added to these headers.
    pub fn varies(&self, headers: &[Header<'_>]) -> bool {
        !matches!(self, Self::Fixed) && !headers.iter().any(says_vary)
    }

    /// Whether a header is not passed on as it is.
    pub fn drops(&self, name: &str) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        matches!(self, Self::Squeezed(_)) && (is("accept-ranges") || is("etag"))
    }
}

impl Drop for Squeeze {
    fn drop(&mut self) {
        self.by.running.fetch_sub(1, Ordering::Relaxed);
        let (bytes_in, bytes_out) = self.encoder.moved();
        self.by.bytes_in.add(bytes_in);
        self.by.bytes_out.add(bytes_out);
    }
}

/// An entity tag that says the same thing in other bytes.
pub fn weak(tag: &[u8]) -> Vec<u8> {
    let begin: &[u8] = if tag.starts_with(b"W/") { b"" } else { b"W/" };
    [begin, tag].concat()
}

fn value<'b>(headers: &[Header<'b>], name: &str) -> Option<&'b [u8]> {
    let named = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| header.value)
}

fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether `Cache-Control` forbids to change the bytes.
fn forbids(value: &[u8]) -> bool {
    words(value).any(|word| word.eq_ignore_ascii_case(b"no-transform"))
}

fn says_vary(header: &Header<'_>) -> bool {
    let is_it = |word: &[u8]| word == b"*" || word.eq_ignore_ascii_case(b"accept-encoding");
    header.name.eq_ignore_ascii_case("vary") && words(header.value).any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<Header<'a>> {
        let header = |&(name, value): &(&'a str, &'a str)| Header {
            name,
            value: value.as_bytes(),
        };
        pairs.iter().map(header).collect()
    }

    #[test]
    fn what_may_not_be_changed_or_is_not_worth_it_stays() {
        let by = Compress::new(&toml::from_str("").unwrap());
        let html = ("Content-Type", "text/html; charset=utf-8");
        for (status, more, length, takes) in [
            (200, ("x", "y"), None, true),
            (404, ("x", "y"), Some(1_024), true),
            (200, ("x", "y"), Some(1_023), false),
            (206, ("x", "y"), None, false),
            (304, ("x", "y"), None, false),
            (200, ("Content-Range", "bytes 0-1/2"), None, false),
            (200, ("Content-Encoding", "br"), None, false),
            (200, ("Cache-Control", "public, No-Transform"), None, false),
            (200, ("Cache-Control", "public"), None, true),
            (200, ("Content-MD5", "x"), None, false),
            (200, ("Trailer", "x"), None, false),
        ] {
            let headers = headers(&[html, more]);
            assert_eq!(
                by.takes(status, &headers, length),
                takes,
                "{status} {more:?}"
            );
        }
        for (kind, takes) in [
            ("application/json", true),
            ("TEXT/Whatever", true),
            ("image/png", false),
            ("application/jsonx", false),
            ("", false),
        ] {
            assert_eq!(by.takes_type(kind.as_bytes()), takes, "{kind}");
        }
    }

    #[test]
    fn no_more_are_compressed_at_a_time_than_allowed() {
        let by = Compress::new(&toml::from_str("answers_max = 1").unwrap());
        let headers = headers(&[("content-type", "text/html")]);
        let offer = by.offer(Some(b"gzip"), None);
        let form = |may_code| offer.form(200, &headers, None, may_code);
        assert!(matches!(form(false), Form::Plain));
        let first = form(true);
        assert_eq!(first.coding(), Some(Coding::Gzip));
        assert!(matches!(form(true), Form::Plain));
        assert_eq!(by.crowded.total(), 1);
        drop(first);
        assert!(matches!(form(true), Form::Squeezed(_)));
        let refused = by.offer(Some(b"gzip"), Some(b"no-transform"));
        assert!(matches!(
            refused.form(200, &headers, None, true),
            Form::Plain
        ));
    }

    #[test]
    fn caches_are_told_once() {
        for (vary, adds) in [
            ("Origin", true),
            ("origin, Accept-Encoding", false),
            ("*", false),
        ] {
            let headers = headers(&[("Vary", vary)]);
            assert_eq!(Form::Plain.varies(&headers), adds, "{vary}");
            assert!(!Form::Fixed.varies(&headers));
        }
        assert_eq!(weak(b"\"x\""), b"W/\"x\"");
        assert_eq!(weak(b"W/\"x\""), b"W/\"x\"");
    }
}
