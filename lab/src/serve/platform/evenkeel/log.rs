//! The log server, as its own program has it.

use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;

use txlog::log::{LocalDisk, Log, LogConfig};
use txlog::server::{Server, ServerConfig};

use crate::error::{Error, Result};

/// As many connections as the process may have.
const CONNECTIONS_MAX: usize = 20_000;

/// Serves the log in `directory`, which is made if it is not there, and says where.
pub(super) async fn serve(address: SocketAddr, directory: PathBuf) -> Result<SocketAddr> {
    let failed = |error: &dyn std::error::Error| Error::Log {
        path: directory.clone(),
        reason: error.to_string(),
    };
    let disk = LocalDisk::hold(&directory).await;
    let disk = disk.map_err(|error| failed(&error))?;
    let log = Log::open(disk, LogConfig::default()).await;
    let (log, _) = log.map_err(|error| failed(&error))?;
    let config = ServerConfig {
        connections_max: CONNECTIONS_MAX,
        ..ServerConfig::default()
    };
    let refused = Error::listen("log", address);
    let server = Server::bind(address, log, config).await.map_err(&refused)?;
    let bound = server.local_addr().map_err(&refused)?;
    drop(evenkeel::spawn(async move {
        if let Err(error) = server.run(pending()).await {
            eprintln!("log: {error}");
        }
    }));
    Ok(bound)
}
