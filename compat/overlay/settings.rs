//! What whoever operates a program sets by its environment.

use super::{leave, LeftToTokio};
use evenkeel::drop_in::Settings;
use std::io;
use std::sync::OnceLock;

/// Whether new multi-thread runtimes are Evenkeel's.
pub(crate) fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os("EVENKEEL").map_or(true, |value| value != "off"))
}

/// What any runtime asks for, also one that is Tokio's.
pub(crate) fn prepare() -> io::Result<()> {
    if let Some(value) = std::env::var_os("EVENKEEL_FORCE") {
        if value != "1" && value != "0" && !value.is_empty() {
            return Err(io::Error::other(format!(
                "the environment variable EVENKEEL_FORCE is {value:?}: use `1` for current-thread \
                 runtimes on Evenkeel, or leave it out"
            )));
        }
    }
    evenkeel::drop_in::prepare()
}

/// Settings of the runtime that is about to be built, if it will be Evenkeel's.
pub(crate) fn settings() -> io::Result<Settings> {
    if let Some(value) = std::env::var_os("EVENKEEL") {
        if value != "off" && value != "on" && !value.is_empty() {
            return Err(io::Error::other(format!(
                "the environment variable EVENKEEL is {value:?}: use `off` for Tokio, or leave it \
                 out"
            )));
        }
    }
    prepare()?;
    if !is_on() {
        leave(LeftToTokio::SwitchedOff);
        return Ok(Settings::default());
    }
    Settings::from_env()
}
