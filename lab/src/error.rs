//! What can go wrong in the lab, in sentences that say what to do about it.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Why a command of the lab failed. Nobody tells one failure from another, as each ends the
/// command; so a failure is what is said of it, by whoever knows the circumstances.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }

    /// Wraps a failed system call; `what` says what was being done.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error(format!("{what}: {source}"))
    }

    /// Nothing can listen on `address` for the flag of that name.
    pub(crate) fn listen(
        service: &'static str,
        address: SocketAddr,
    ) -> impl Fn(io::Error) -> Error {
        move |source| {
            let what = format!("cannot listen on {address} for --{service}");
            Error(format!("{what}: {source}; is the port taken?"))
        }
    }

    /// Nobody can be reached at `address`.
    pub(crate) fn connect(address: SocketAddr) -> impl Fn(io::Error) -> Error {
        move |source| {
            let what = format!("cannot connect to {address}");
            Error(format!("{what}: {source}; does the server run there?"))
        }
    }

    /// A program cannot be started.
    pub(crate) fn start(program: &str) -> impl Fn(io::Error) -> Error {
        let what = format!("cannot start {program}");
        let advice = "is it installed? `lab/setup.sh` installs the tools";
        move |source| Error(format!("{what}: {source}; {advice}"))
    }

    /// What is to be at `path` cannot be written.
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Error {
        move |source| Error(format!("cannot write {}: {source}", path.display()))
    }

    /// The log in `path` cannot be served or appended to.
    pub(crate) fn log<E: Display>(path: &Path) -> impl Fn(E) -> Error {
        move |reason| {
            Error(format!(
                "cannot serve the log in {}: {reason}",
                path.display()
            ))
        }
    }

    /// A program says nothing for too long.
    pub(crate) fn not_ready(program: &str, patience: Duration) -> Error {
        let seconds = patience.as_secs();
        Error(format!("{program} did not say `ready` within {seconds} s"))
    }

    /// A program says what it should not.
    pub(crate) fn unreadable(program: &str, reason: impl Display) -> Error {
        let what = "answered with what the lab cannot read";
        Error(format!("{program} {what}: {reason}"))
    }
}

/// A result of the lab.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
