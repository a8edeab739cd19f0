//! What single logs keep and take, where that is not what the server's options say: a file in TOML.
//!
//! ```
//! use txlog::named::Settings;
//!
//! let settings: Settings = "
//!     [logs.orders]
//!     keep_seconds = 604_800
//!
//!     [logs.'eu.audit']
//!     keep_bytes = 0              # for ever, though the server was told otherwise
//!     record_bytes_max = 4_096
//! "
//! .parse()?;
//! assert_eq!(settings.of("orders").keep_seconds, Some(604_800));
//! assert_eq!(settings.of("another"), Default::default());
//! # Ok::<_, String>(())
//! ```

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use txlog_client::frame::is_name;

use crate::log::{LogConfig, Retention};

/// What single logs keep and take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default)]
    logs: BTreeMap<String, LogSettings>,
}

/// What one log keeps and takes. What is missing is as the server's options say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// Keep so many bytes; 0 keeps all.
    pub keep_bytes: Option<u64>,
    /// Keep so many records; 0 keeps all.
    pub keep_records: Option<u64>,
    /// Keep records so long; 0 keeps all.
    pub keep_seconds: Option<u64>,
    /// The largest record, in bytes; no more than the server takes.
    pub record_bytes_max: Option<usize>,
    /// A file of the log is followed by a new one at this size; not for streams of NATS.
    pub segment_bytes: Option<u64>,
}

impl Settings {
    /// Those of this log.
    pub fn of(&self, name: &str) -> LogSettings {
        self.logs.get(name).copied().unwrap_or_default()
    }

    /// What is wrong with them on a server that takes records of this size, if anything is.
    pub(crate) fn beyond(&self, record_bytes_max: usize) -> Option<String> {
        let too_large = |settings: &LogSettings| {
            let bytes = settings.record_bytes_max?;
            (bytes > record_bytes_max).then_some(bytes)
        };
        self.logs.iter().find_map(|(name, settings)| {
            let bytes = too_large(settings)?;
            Some(format!(
                "the log {name} is to take records of {bytes} bytes, and the server takes \
                 {record_bytes_max} at most: give it a larger --record-bytes-max"
            ))
        })
    }
}

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match settings.logs.keys().find(|name| !is_name(name)) {
            None => Ok(settings),
            Some(name) => Err(format!("{name:?} is no name for a log")),
        }
    }
}

impl LogSettings {
    /// The configuration of a log that has these settings.
    pub(crate) fn applied(self, config: &LogConfig) -> LogConfig {
        LogConfig {
            segment_bytes: self.segment_bytes.unwrap_or(config.segment_bytes),
            record_bytes_max: self.record_bytes_max.unwrap_or(config.record_bytes_max),
            retention: self.retention(config.retention),
            ..config.clone()
        }
    }

    /// What a log keeps that has these settings.
    pub(crate) fn retention(self, usual: Retention) -> Retention {
        Retention {
            bytes_max: self.keep_bytes.unwrap_or(usual.bytes_max),
            records_max: self.keep_records.unwrap_or(usual.records_max),
            age_max: self.keep_seconds.map_or(usual.age_max, Duration::from_secs),
        }
    }
}

/// What has changed from one retention to another, in words; the settings have names as in the
/// file.
pub(crate) fn changes(was: Retention, is: Retention) -> impl Iterator<Item = Change> {
    let seconds = |retention: Retention| retention.age_max.as_secs();
    let all = [
        ("keep_bytes", was.bytes_max, is.bytes_max),
        ("keep_records", was.records_max, is.records_max),
        ("keep_seconds", seconds(was), seconds(is)),
    ];
    let changed = all.into_iter().filter(|(_, was, is)| was != is);
    changed.map(|(setting, was, is)| Change { setting, was, is })
}

/// A setting that is to be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) setting: &'static str,
    pub(crate) was: u64,
    pub(crate) is: u64,
}

impl Change {
    /// Says that it is so.
    pub(crate) fn done(self) -> String {
        let Self { setting, was, is } = self;
        format!("{setting} is {is} now, and was {was}")
    }

    /// Says that it cannot be so while the log is open.
    pub(crate) fn put_off(self) -> String {
        let Self { setting, was, is } = self;
        format!(
            "{setting} stays {was} as long as the log is open, and is {is} when it is opened \
             again: leave it without clients for a while, or start the server again"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_setting_is_an_error_that_names_it() {
        for (text, said) in [
            ("[logs.a]\nkeep_byte = 3", "keep_byte"),
            ("[log.a]", "log"),
            ("[logs.'../a']", "../a"),
            ("[logs.a]\nkeep_bytes = -1", "-1"),
            ("[logs.a]\nkeep_bytes = 'much'", "much"),
            ("[logs.a", "logs"),
        ] {
            let error = text.parse::<Settings>().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!("".parse(), Ok(Settings::default()));
    }

    #[test]
    fn a_log_has_its_own_settings_and_the_servers_otherwise() {
        let text = "[logs.a]\nkeep_records = 9\nkeep_bytes = 0\nrecord_bytes_max = 100";
        let settings: Settings = text.parse().unwrap();
        let usual = LogConfig {
            retention: Retention {
                bytes_max: 7,
                records_max: 8,
                age_max: Duration::from_secs(3),
            },
            ..LogConfig::default()
        };
        let (own, other) = (
            settings.of("a").applied(&usual),
            settings.of("b").applied(&usual),
        );
        let Retention {
            bytes_max,
            records_max,
            age_max,
        } = own.retention;
        assert_eq!((bytes_max, records_max), (0, 9));
        assert_eq!(age_max, usual.retention.age_max);
        assert_eq!(own.record_bytes_max, 100);
        assert_eq!(other.retention, usual.retention);
        assert_eq!(other.record_bytes_max, usual.record_bytes_max);
        assert_eq!(settings.beyond(100), None);
        assert!(settings.beyond(99).unwrap().contains("the log a"));
    }
}
