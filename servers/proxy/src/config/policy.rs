//! What is done with requests beside sending them to a pool.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::values;
use crate::compress::Coding;
use crate::policy::{EditName, Template, status_has_body};

/// The longest body of a fixed answer.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// How many requests there may be in a time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// So many in each `period`.
    pub requests: NonZeroU32,
    /// In this time.
    #[serde(default = "values::one_second", deserialize_with = "values::time")]
    pub period: Duration,
    /// So many at once, saved up while there were none; as many as `requests`, if it is not given.
    pub burst: Option<NonZeroU32>,
    /// Whose requests are counted together.
    #[serde(default)]
    pub per: Per,
    /// Clients that are told apart at a time.
    #[serde(default = "values::clients_max")]
    pub clients_max: usize,
}

impl RateLimit {
    /// The time between two requests.
    pub fn interval(&self) -> Duration {
        self.period / self.requests.get()
    }

    /// How many may come at once.
    pub fn burst(&self) -> NonZeroU32 {
        self.burst.unwrap_or(self.requests)
    }
}

/// Whose requests are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Per {
    /// Those of an address, or of an IPv6 network of 64 bits.
    #[default]
    Client,
    /// Those with the same value of a header; without it, those of an address.
    Header(String),
    /// All.
    All,
}

impl TryFrom<String> for Per {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "client" => Ok(Self::Client),
            "all" => Ok(Self::All),
            other => match other.strip_prefix("header:") {
                Some(name) if values::is_token(name) => Ok(Self::Header(name.to_owned())),
                _ => Err(format!(
                    "{other:?} is nothing to count by: write \"client\", \"all\" or \"header:NAME\""
                )),
            },
        }
    }
}

/// What is changed in the head of a request. Headers as in [`HeaderEdits`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestEdits {
    /// Take the place of those with the same name.
    pub set_headers: BTreeMap<EditName, Template>,
    /// Come beside those with the same name.
    pub add_headers: BTreeMap<EditName, Template>,
    /// Are dropped.
    pub remove_headers: Vec<EditName>,
    /// Takes the place of the host.
    pub host: Option<Spanned<String>>,
    /// Takes the place of the whole path.
    pub path: Option<Spanned<String>>,
    /// Takes the place of the route's `path`, which `/` strips.
    pub prefix: Option<Spanned<String>>,
}

impl RequestEdits {
    /// Those of headers.
    pub fn headers(&self) -> HeaderEdits {
        HeaderEdits {
            set_headers: self.set_headers.clone(),
            add_headers: self.add_headers.clone(),
            remove_headers: self.remove_headers.clone(),
        }
    }
}

/// What is changed in the head of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderEdits {
    /// Take the place of those with the same name.
    pub set_headers: BTreeMap<EditName, Template>,
    /// Come beside those with the same name.
    pub add_headers: BTreeMap<EditName, Template>,
    /// Are dropped.
    pub remove_headers: Vec<EditName>,
}

/// `true`, `false`, or a table that says more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch<T> {
    /// `false`.
    Off,
    /// `true`, with the defaults, or a table.
    On(T),
}

impl<T> Switch<T> {
    /// What it says if it is on.
    pub fn on(&self) -> Option<&T> {
        match self {
            Self::Off => None,
            Self::On(more) => Some(more),
        }
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Switch<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a table")
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Self::Value, E> {
                Ok(match is_on {
                    true => Switch::On(T::default()),
                    false => Switch::Off,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Switch::On)
            }
        }

        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// Which answers are compressed, and how.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compress {
    /// How; the first one that the client takes, unless it likes another one better.
    pub codings: Vec<Coding>,
    /// The types that are; `text/*` are all that begin with `text/`.
    pub types: Vec<String>,
    /// Shorter ones are not.
    pub bytes_min: u64,
    /// So many at a time; each needs up to a megabyte.
    pub answers_max: usize,
}

impl Default for Compress {
    fn default() -> Self {
        let types = [
            "text/*",
            "application/javascript",
            "application/json",
            "application/ld+json",
            "application/manifest+json",
            "application/xml",
            "application/xhtml+xml",
            "application/rss+xml",
            "application/atom+xml",
            "application/wasm",
            "image/svg+xml",
        ];
        Self {
            codings: vec![Coding::Zstd, Coding::Brotli, Coding::Gzip],
            types: types.map(str::to_owned).to_vec(),
            bytes_min: 1_024,
            answers_max: 128,
        }
    }
}

/// An answer that says where to ask instead. What is not given is as in the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// `http` or `https`.
    pub scheme: Option<Scheme>,
    /// The host, without its port.
    pub host: Option<String>,
    /// The port; that of the scheme, if the scheme or the host is given and this is not.
    pub port: Option<u16>,
    /// The whole path. One with a `?` takes the place of the query, too.
    pub path: Option<String>,
    /// Takes the place of the route's `path`.
    pub prefix: Option<String>,
    /// 301, 302, 307 or 308.
    #[serde(default = "values::found")]
    pub status: u16,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

/// An answer that is always the same.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedAnswer {
    /// The status, from 200 to 599.
    pub status: u16,
    /// The body.
    #[serde(default)]
    pub body: String,
    /// What it is.
    #[serde(default = "values::plain_text")]
    pub content_type: String,
}

impl FixedAnswer {
    /// What is wrong with it.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let status = self.status;
        if !(200..600).contains(&status) {
            problems.push(format!(
                "the status is {status}, and has to be between 200 and 599"
            ));
        } else if !self.body.is_empty() && !status_has_body(status) {
            problems.push(format!("one with status {status} has no body"));
        }
        if self.body.len() > BODY_BYTES_MAX {
            problems.push(format!(
                "the body has more than {BODY_BYTES_MAX} bytes; serve it from a pool"
            ));
        }
        let kind = &self.content_type;
        if kind.is_empty() || !kind.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            problems.push(format!("{kind:?} is no content type"));
        }
        problems
    }
}

/// Whether this is a type of answers, such as `text/html` or `text/*`.
pub fn is_type(kind: &str) -> bool {
    let is_of_type = |byte: u8| byte.is_ascii_graphic() && byte != b';';
    kind.contains('/') && kind.bytes().all(is_of_type)
}
