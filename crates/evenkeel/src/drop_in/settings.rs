//! Settings by the environment, in a program that makes its runtimes by Tokio's builder.

use std::io;
use std::time::Duration;

use crate::runtime::{Builder, settings};

/// What is set of a runtime's part that is Tokio's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    pub workers: Option<usize>,
    pub max_blocking_threads: Option<usize>,
    pub blocking_keep_alive: Option<Duration>,
}

impl Settings {
    /// Reads the environment variable of [`Builder::settings_from_env`].
    ///
    /// # Errors
    ///
    /// A setting is invalid, or would have no effect in such a program.
    pub fn from_env() -> io::Result<Self> {
        let config = Builder::new().settings_from_env().config()?;
        let given = settings::given_in_env();
        let has_no_effect =
            |name: &&String| name.starts_with("disk_") || *name == "blocking_queue_limit";
        if let Some(name) = given.iter().find(has_no_effect) {
            return Err(io::Error::other(format!(
                "EVENKEEL_SETTINGS cannot be used: `{name}` has no effect in a program that uses \
                 Tokio; leave it out"
            )));
        }
        let is_given = |name: &str| given.iter().any(|given| given == name);
        Ok(Self {
            workers: is_given("workers").then_some(config.workers),
            max_blocking_threads: is_given("max_blocking_threads")
                .then_some(config.max_blocking_threads),
            blocking_keep_alive: is_given("blocking_keep_alive")
                .then_some(config.blocking_keep_alive),
        })
    }
}
