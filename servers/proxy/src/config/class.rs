//! Classes of work, among which processor time is shared.
//!
//! A listener or a route that has a class of its own also has an account of the processor time that
//! it costs.

use std::time::Duration;

use evenkeel::ClassConfig;
use serde::Deserialize;

use super::values;

/// The classes that there always are. Checks and operators are served in the first one.
pub const BUILT_IN: [&str; 3] = ["urgent", "normal", "bulk"];

/// How many others there may be.
pub(super) const OWN_MAX: usize = 61;

/// What is said of a class. What is left out is as the runtime has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfClass {
    /// Its part of the processor time, beside other classes that want some: from 1 to 10000.
    pub share: Option<u32>,
    /// How soon it wants to be served when it is owed time.
    #[serde(default, deserialize_with = "values::optional_time")]
    pub latency_target: Option<Duration>,
}

impl From<&OfClass> for ClassConfig {
    fn from(class: &OfClass) -> Self {
        let mut config = Self::new();
        if let Some(share) = class.share {
            config = config.share(share);
        }
        if let Some(target) = class.latency_target {
            config = config.latency_target(target);
        }
        config
    }
}
