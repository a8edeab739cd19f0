//! How times and sizes are written in configurations.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// No time is longer: who wants more has probably mistaken a unit.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A time with its unit.
///
/// # Errors
///
/// It is not written so: how it is.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration(&text).map_err(de::Error::custom)
}

/// The same, where it may be left out.
///
/// # Errors
///
/// It is not written so: how it is.
pub fn optional_time<'de, D>(deserializer: D) -> Result<Option<Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    time(deserializer).map(Some)
}

/// A number of bytes with its unit.
///
/// # Errors
///
/// It is not written so: how it is.
pub fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let text = String::deserialize(deserializer)?;
    bytes(&text).map_err(de::Error::custom)
}

/// The same, where it may be left out.
///
/// # Errors
///
/// It is not written so: how it is.
pub fn optional_size<'de, D>(deserializer: D) -> Result<Option<usize>, D::Error>
where
    D: Deserializer<'de>,
{
    size(deserializer).map(Some)
}

/// How long something is kept, where it may be left out.
///
/// # Errors
///
/// It is not written so: how it is.
pub fn optional_age<'de, D>(deserializer: D) -> Result<Option<Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    age(&text).map(Some).map_err(de::Error::custom)
}

fn age(text: &str) -> Result<Duration, String> {
    let hours = number_and_unit(text, |unit| match unit {
        "h" => Some(1),
        "d" => Some(24),
        _ => None,
    });
    let time = hours.and_then(|hours| hours.checked_mul(3_600));
    time.map(Duration::from_secs).ok_or_else(|| {
        format!("{text:?} is no time here: write a number from 1 on with h or d, such as \"30d\"")
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let time = number_and_unit(text, |unit| match unit {
        "us" => Some(1),
        "ms" => Some(1_000),
        "s" => Some(1_000_000),
        "m" | "min" => Some(60_000_000),
        "h" => Some(3_600_000_000),
        _ => None,
    });
    let time = time
        .map(Duration::from_micros)
        .filter(|time| *time <= TIME_MAX);
    time.ok_or_else(|| {
        format!(
            "{text:?} is no time here: write a number from 1 on with us, ms, s, m or h, such as \
             \"30s\", of at most 24h"
        )
    })
}

fn bytes(text: &str) -> Result<usize, String> {
    let bytes = number_and_unit(text, |unit| match unit {
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        "TiB" => Some(1 << 40),
        _ => None,
    });
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| {
        format!(
            "{text:?} is no number of bytes: write a number from 1 on with KiB, MiB, GiB or TiB, \
             such as \"512MiB\""
        )
    })
}

fn number_and_unit(text: &str, factor: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|&number| number > 0)?;
    number.checked_mul(factor(unit.trim_start())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
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
        assert_eq!(age("2d"), Ok(Duration::from_secs(172_800)));
        for text in ["", "0d", "5s", "d", "-1h", "999999999999999999d"] {
            assert!(age(text).is_err(), "{text}");
        }
        assert_eq!(bytes("3KiB"), Ok(3_072));
        assert_eq!(bytes("2 GiB"), Ok(2 << 30));
        for text in ["", "5", "0MiB", "5MB", "99999999999TiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
