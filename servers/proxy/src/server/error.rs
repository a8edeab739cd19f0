//! Why the proxy cannot begin, or not go on by another configuration.

use std::io;
use std::path::PathBuf;

use crate::access_log;
use crate::config::ConfigError;
use crate::socket::Address;

/// Why the proxy cannot begin, or not with another configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("listener {name} cannot listen on {address}: {error}")]
    Listen {
        /// The listener.
        name: String,
        /// The address.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
    /// The system does not let a listener have its congestion control.
    #[error("listener {name}: {error}")]
    CongestionControl {
        /// The listener.
        name: String,
        /// What is wrong.
        error: io::Error,
    },
    /// The socket for operators.
    #[error("process.admin_socket {path}: {error}")]
    AdminSocket {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// An earlier process, from which this one was to take over.
    #[error("{0}")]
    Predecessor(io::Error),
    /// There is one change at a time.
    #[error("an upgrade is under way: reload when it is over, or ask the new process")]
    Upgrading,
    /// Another process serves, or this one ends.
    #[error("this process takes no more connections: ask the one that serves now, if there is one")]
    Leaving,
    /// The page.
    #[error("process.admin_page {address}: {error}")]
    AdminPage {
        /// Its address.
        address: String,
        /// What is wrong.
        error: evenkeel_admin::AdminError,
    },
    /// Others can connect to the page.
    #[error(
        "process.admin_page {0}: others can connect to it, so they need a token: name a file that \
         has one in process.admin_page_token_file, or listen on 127.0.0.1 or a Unix socket"
    )]
    AdminPageOpen(String),
    /// The token of the page.
    #[error("process.admin_page_token_file: {0}")]
    AdminPageToken(#[from] crate::tls::TlsError),
    /// A class that came with a reload.
    #[error(
        "class {0} is new, and classes are made when the proxy begins: upgrade or restart it, or \
         use one of those that there are"
    )]
    NewClass(String),
    /// The runtime refuses a setting of a class.
    #[error("class {name}: {error}")]
    Class {
        /// The class.
        name: String,
        /// What is wrong.
        error: evenkeel::ClassError,
    },
    /// A log cannot be opened.
    #[error("log {name} cannot open {to}: {error}")]
    Log {
        /// The log.
        name: String,
        /// Where it goes.
        to: access_log::Target,
        /// The system's error.
        error: io::Error,
    },
    /// There are too few descriptors.
    #[error("{0}")]
    Descriptors(String),
}
