//! What can go wrong in the lab, in sentences that say what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A failed command of the lab.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is no report of the lab: {source}")]
    NoReport {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{path} has no experiment `{wanted}`, but {found}")]
    NoExperiment {
        path: PathBuf,
        wanted: String,
        found: String,
    },
    #[error("`{experiment}` has {plots} plots in {path}, and no plot {wanted}")]
    NoPlot {
        path: PathBuf,
        experiment: String,
        plots: usize,
        wanted: std::num::NonZeroU32,
    },
    #[error(
        "nothing to serve: give at least one of --echo, --sink, --camera, --http, --api, --proxy, \
         --relay, --admin, --log, --hogs, --burn, --mixed, --apart, --mixed-h2, --apart-h2, \
         --fresh, --block"
    )]
    NothingToServe,
    #[error(
        "{flag} names `{class}`, which is no class: there are urgent, normal and bulk, and \
         `--shares {class}=SHARE` adds it"
    )]
    UnknownClass { flag: &'static str, class: String },
    #[error(
        "`serve os-thread` has no {flag}: a lone thread only echoes (--echo) and answers \
         `GET /stat` (--api) beside --hogs, --burn, --fsync and --hang"
    )]
    OsThreadOnlyEchoes { flag: &'static str },
    #[error(
        "{runtime} wakes a reader at whatever arrives: it has no --delivery, which is evenkeel's; \
         leave it out"
    )]
    NoDelivery { runtime: &'static str },
    #[error("{runtime} has no --log-directory, as `txlog` runs on evenkeel; give --log-path")]
    NoTxlog { runtime: &'static str },
    #[error("cannot serve the log in {path}: {reason}")]
    Log { path: PathBuf, reason: String },
    #[error("--hogs-in {class}: there are {classes} classes, counted from 0")]
    NoSuchClass { class: usize, classes: usize },
    #[error("`split os-thread` has no runtime whose split could be measured")]
    NothingToSplit,
    #[error("the {runtime} runtime did not start: {reason}")]
    Runtime {
        runtime: &'static str,
        reason: String,
    },
    #[error("cannot listen on {address} for --{service}: {source}; is the port taken?")]
    Listen {
        service: &'static str,
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "`--over shared` makes calls of both kinds over each connection: leave --hogs-at out, or \
         give one of `--over fresh`, `kept`, `h2`"
    )]
    SharedHasOneTarget,
    #[error("cannot connect to {address}: {source}; does the server run there?")]
    Connect {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot start {program}: {source}; is it installed? `lab/setup.sh` installs the tools")]
    Start { program: String, source: io::Error },
    #[error("{program} did not say `ready` within {seconds} s")]
    NotReady { program: String, seconds: u64 },
    #[error("{program} ended before it was ready ({status}); its own words are above")]
    EndedEarly { program: String, status: String },
    #[error("{program} listens, but named no address for {service}")]
    NoAddress {
        program: String,
        service: &'static str,
    },
    #[error("{program} failed ({status}): {output}")]
    Failed {
        program: String,
        status: String,
        output: String,
    },
    #[error("{program} answered with what the lab cannot read: {reason}")]
    Unreadable { program: String, reason: String },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
}

impl Error {
    /// Wraps a failed system call; `what` says what was being done.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { what, source }
    }

    /// Nothing can listen on `address` for the flag of that name.
    pub(crate) fn listen(
        service: &'static str,
        address: SocketAddr,
    ) -> impl Fn(io::Error) -> Error {
        move |source| Error::Listen {
            service,
            address,
            source,
        }
    }

    /// Nobody can be reached at `address`.
    pub(crate) fn connect(address: SocketAddr) -> impl Fn(io::Error) -> Error {
        move |source| Error::Connect { address, source }
    }

    /// A program cannot be started.
    pub(crate) fn start(program: &str) -> impl Fn(io::Error) -> Error {
        move |source| Error::Start {
            program: program.to_owned(),
            source,
        }
    }

    /// What is to be at `path` cannot be written.
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Error {
        move |source| Error::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// A result of the lab.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
