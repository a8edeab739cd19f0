//! What operators are told on standard error, and how.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Which events are told, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Events {
    /// How they are written. A change needs an upgrade or a restart.
    pub format: EventFormat,
    /// From which level on.
    pub level: Level,
    /// The same of parts, such as `proxy::discovery`, and of libraries, which are silent otherwise.
    pub levels: BTreeMap<String, Level>,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventFormat {
    /// Their messages, for people.
    #[default]
    Text,
    /// Objects, one a line, with all fields.
    Json,
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing is told.
    Off,
    /// Clients have no service, or a command has failed.
    Error,
    /// Something is wrong that the proxy copes with.
    Warn,
    /// What changes, as servers that come up.
    #[default]
    Info,
    /// More, for who looks for something.
    Debug,
    /// All that there is.
    Trace,
}
