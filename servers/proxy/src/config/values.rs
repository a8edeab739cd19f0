//! How values are written, and the defaults of those that are left out.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::{Process, Resolver};
use crate::socket::Address;

/// The largest weight.
pub const WEIGHT_MAX: u32 = 256;

/// An address as it may be written.
pub const BIND_EXAMPLE: &str = "127.0.0.1:8080";

/// No time is longer: who wants more has probably mistaken a unit.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

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

/// A time with its unit.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration(&text).map_err(de::Error::custom)
}

/// The same, of a key that has no default.
pub(super) fn optional_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    time(deserializer).map(Some)
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

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let us_of_unit = match unit.trim_start() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => 0,
    };
    let us = number
        .parse()
        .ok()
        .and_then(|number: u64| number.checked_mul(us_of_unit));
    let time = us.map(Duration::from_micros).unwrap_or_default();
    if time.is_zero() || time > TIME_MAX {
        return Err(format!(
            "{text:?} is no time here: write a number from 1 on with us, ms, s, m or h, such as \
             \"30s\", of at most 24h"
        ));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ms) in [
            ("5ms", 5),
            ("30s", 30_000),
            ("2 m", 120_000),
            ("24h", 86_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "0s",
            "-1s",
            "1.5s",
            "25h",
            "99999999999999999999s",
            "5 weeks",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
