//! Classes of work, among which processor time is shared.
//!
//! A listener or a route that has a class of its own also has an account of the processor time that
//! it costs.

use std::time::Duration;

use evenkeel::{Class, ClassConfig};
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

impl OfClass {
    /// All that holds for a class by this, also what is left out: for one that may have had other
    /// settings before.
    pub fn whole(&self, class: Class) -> ClassConfig {
        let ms = Duration::from_millis;
        let (share, target) = match class {
            Class::URGENT => (30, Duration::from_micros(200)),
            Class::BULK => (20, ms(20)),
            _ => (50, ms(2)),
        };
        ClassConfig::new()
            .share(self.share.unwrap_or(share))
            .latency_target(self.latency_target.unwrap_or(target))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_as_the_runtime_has_it() {
        let mut builder = evenkeel::runtime::Builder::new();
        let runtime = builder.workers(1).class("own", ClassConfig::new()).build();
        let runtime = runtime.unwrap();
        let handle = runtime.handle();
        let before = handle.classes();
        assert!(before.iter().any(|info| info.name == "own"));
        let other = ClassConfig::new()
            .share(77)
            .latency_target(Duration::from_secs(1));
        for info in &before {
            handle.set_class(info.class, other).unwrap();
            let whole = OfClass::default().whole(info.class);
            handle.set_class(info.class, whole).unwrap();
        }
        assert_eq!(handle.classes(), before);
    }
}
