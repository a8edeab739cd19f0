//! What can go wrong.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TopError {
    #[error(
        "{0:?} is no address of an admin server; use one like 127.0.0.1:7070 or \
         unix:/run/app/admin.sock"
    )]
    Address(String),
    #[error(
        "cannot connect to {address}: {source}; is the process running, and does it call \
         evenkeel_admin::listen(\"{address}\")?"
    )]
    Connect { address: String, source: io::Error },
    #[error("{address} ended the connection: {source}")]
    Talk {
        address: String,
        source: hyper::Error,
    },
    #[error("{0} did not answer within {1} seconds")]
    Late(String, u64),
    #[error("{address} answers {status}: {message}")]
    Refused {
        address: String,
        status: u16,
        message: String,
    },
    #[error("the answer of {address} is not that of an admin server: {source}")]
    Answer {
        address: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("a token has characters that no header can carry")]
    Token,
    #[error("cannot {what} {path}: {source}")]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("line {line} of {path} is no snapshot: {source}")]
    Line {
        path: PathBuf,
        line: usize,
        source: serde_json::Error,
    },
    #[error("{0} has fewer than two snapshots, so there is nothing to compare")]
    Short(PathBuf),
    #[error("cannot use the terminal: {0}; `--plain` needs none")]
    Terminal(io::Error),
    #[error("cannot start the thread that asks the process: {0}")]
    Thread(io::Error),
    #[error("cannot write: {0}")]
    Output(io::Error),
    #[error("cannot start the runtime: {0}")]
    Runtime(#[from] evenkeel::runtime::BuildError),
}
