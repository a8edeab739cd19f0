//! Why a session with a camera ended.

use std::io;
use std::time::Duration;

use crate::hub::PublishError;
use crate::onvif::DeviceError;
use crate::rtsp::{ClientError, WireError};

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// It cannot be connected to.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// Where it should be.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// It did not answer in time.
    #[error("no answer to {what} within {patience:?}; is the camera overloaded, or the network?")]
    Slow {
        /// What was waited for.
        what: &'static str,
        /// How long.
        patience: Duration,
    },
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The other side ended it.
    #[error("the camera ended the connection")]
    Ended,
    /// What came cannot be read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The camera refuses, or says what is not understood.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It does not say where its streams are.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The hub refuses.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// No packet came.
    #[error("no packet has come for {0:?}; over UDP a firewall may hold them up: try tcp")]
    Silent(Duration),
    /// Packets come, of which nothing can be shown.
    #[error(
        "packets come, and for {0:?} nothing that a decoder can begin with: no parameter sets, or \
         no key frame; set a shorter interval of key frames in the camera"
    )]
    Useless(Duration),
    /// There are no ports for datagrams.
    #[error("cannot open sockets for datagrams: {0}")]
    Ports(io::Error),
}
