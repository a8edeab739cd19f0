//! Why a server cannot begin.

use std::io;
use std::net::SocketAddr;

use crate::access::Lack;

/// Why a server cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(io::Error),
    /// Others than this machine's users can reach the address, and the server is not protected.
    #[error("others can reach {address}, and {}", lack.advice())]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// What is lacking.
        lack: Lack,
    },
    /// The memory is too little.
    #[error(
        "{bytes} bytes of memory are too little for {connections} connections, {logs} logs with \
         names and records of up to {record_bytes_max} bytes: give at least {least} by \
         --memory-bytes, or make --connections-max, --open-logs-max or --record-bytes-max smaller"
    )]
    Memory {
        /// What was given.
        bytes: usize,
        /// The least that suffices.
        least: usize,
        /// How many connections there may be, with those in reserve.
        connections: usize,
        /// How many logs with names may be open.
        logs: usize,
        /// The largest record.
        record_bytes_max: usize,
    },
}
