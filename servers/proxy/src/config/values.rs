//! How values are written, and the defaults of those that are left out.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
pub(super) use servers_common::values::{optional_time, time};
use toml::Spanned;

use super::{Process, RealTime, Resolver};
use crate::congestion::CongestionControl;
use crate::socket::Address;

/// The largest weight.
pub const WEIGHT_MAX: u32 = 256;

/// An address as it may be written.
pub const BIND_EXAMPLE: &str = "127.0.0.1:8080";

pub(super) fn process() -> Spanned<Process> {
    Spanned::new(0..0, Process::default())
}

pub(super) fn resolver() -> Spanned<Resolver> {
    Spanned::new(0..0, Resolver::default())
}

pub(super) fn connections_max() -> usize {
    10_000
}

pub(super) fn connections_per_client_max() -> usize {
    1_000
}

pub(super) fn handshakes_max() -> usize {
    1_000
}

pub(super) fn sessions_max() -> usize {
    1_000
}

pub(super) fn one_second() -> Duration {
    Duration::from_secs(1)
}

pub(super) fn clients_max() -> usize {
    65_536
}

pub(super) fn queue_bytes_max() -> usize {
    1 << 20
}

pub(super) fn no_limit() -> usize {
    usize::MAX
}

pub(super) fn found() -> u16 {
    302
}

pub(super) fn plain_text() -> String {
    "text/plain; charset=utf-8".to_owned()
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn head_bytes_max() -> usize {
    16 * 1_024
}

pub(super) fn body_rate_min() -> u64 {
    500
}

pub(super) fn splice() -> bool {
    true
}

pub(super) fn idle_connections_max() -> usize {
    64
}

pub(super) fn server_connections_max() -> usize {
    10_000
}

pub(super) fn weight() -> u32 {
    1
}

pub(super) fn root() -> String {
    "/".to_owned()
}

pub(super) fn get() -> String {
    "GET".to_owned()
}

pub(super) fn two_seconds() -> Duration {
    Duration::from_secs(2)
}

pub(super) fn rise() -> u32 {
    2
}

pub(super) fn fall() -> u32 {
    3
}

/// A congestion control.
pub(super) fn congestion_control<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<CongestionControl, D::Error> {
    let text = String::deserialize(deserializer)?;
    CongestionControl::parse(&text).ok_or_else(|| {
        let expected = "\"auto\", \"system\", or a name such as \"cubic\"";
        de::Error::invalid_value(de::Unexpected::Str(&text), &expected)
    })
}

impl<'de> Deserialize<'de> for RealTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RealTimeVisitor)
    }
}

struct RealTimeVisitor;

impl de::Visitor<'_> for RealTimeVisitor {
    type Value = RealTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or \"auto\"")
    }

    fn visit_bool<E: de::Error>(self, yes: bool) -> Result<RealTime, E> {
        Ok(if yes { RealTime::Yes } else { RealTime::No })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RealTime, E> {
        match text {
            "auto" => Ok(RealTime::Auto),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Whether it is a token of HTTP, as names of headers and methods are.
pub(super) fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}
