//! Logs with names: in memory, where they may fail or hang, and in directories.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::{oneshot, watch};
use txlog::log::{LocalDisk, Log, LogConfig};
use txlog::named::Directories;
use txlog::server::{Boxed, LogSource, Page, Server, ServerConfig};
use txlog::store::{Store, StoreError};
use txlog_client::frame::Code;
use txlog_client::{Client, ClientError, Connect};

use super::memory::MemoryDisk;
use super::small;

/// Serves logs of this source while `test` runs, and closes the server after it. Returns how that
/// ended.
pub(crate) async fn serving_logs<S: Store>(
    source: impl LogSource<S>,
    config: ServerConfig,
    test: impl AsyncFnOnce(SocketAddr),
) -> Result<(), StoreError> {
    let named: Option<Box<dyn LogSource<S>>> = Some(Box::new(source));
    let server = Server::bind_logs("127.0.0.1:0", None, named, config).await;
    let server = server.unwrap();
    let address = server.local_addr().unwrap();
    let (end, ends) = oneshot::channel::<()>();
    let server = evenkeel::spawn(server.run(async {
        let _ = ends.await;
    }));
    test(address).await;
    drop(end);
    server.await.unwrap()
}

/// Logs in this directory, of which there may be so many.
pub(crate) async fn directories(path: &Path, logs_max: usize) -> Directories {
    let opened = Directories::open(path, LogConfig::default(), logs_max, None).await;
    opened.unwrap()
}

/// A server that lets clients create logs.
pub(crate) fn creating() -> ServerConfig {
    ServerConfig {
        create_logs: true,
        ..ServerConfig::default()
    }
}

pub(crate) async fn connect(address: SocketAddr, log: &str) -> Result<Client, ClientError> {
    Connect::new().log(log).create(true).connect(address).await
}

/// Disks in memory, each of a log.
#[derive(Clone, Default)]
pub(crate) struct Disks {
    pub(crate) all: Arc<Mutex<BTreeMap<String, MemoryDisk>>>,
    /// While this is true, logs whose names begin with `hung` do not open.
    pub(crate) hung: Arc<watch::Sender<bool>>,
}

impl Disks {
    pub(crate) fn disk(&self, name: &str) -> MemoryDisk {
        self.all.lock().unwrap()[name].clone()
    }

    async fn open_log(&self, name: &str, create: bool) -> Result<Log<MemoryDisk>, StoreError> {
        if name.starts_with("hung") {
            let _ = self.hung.subscribe().wait_for(|hung| !hung).await;
        }
        let disk = {
            let mut all = self.all.lock().unwrap();
            if !create && !all.contains_key(name) {
                return Err(StoreError::new(Code::NoSuchLog, "there is none"));
            }
            all.entry(name.to_owned()).or_default().clone()
        };
        Ok(Log::open(disk, small()).await?.0)
    }
}

impl LogSource<Log<MemoryDisk>> for Disks {
    fn open<'a>(
        &'a self,
        name: &'a str,
        create: bool,
    ) -> Boxed<'a, Result<Log<MemoryDisk>, StoreError>> {
        Box::pin(self.open_log(name, create))
    }

    fn list<'a>(&'a self, _: &'a str, _: usize) -> Boxed<'a, Result<Page, StoreError>> {
        Box::pin(async { Ok(Page::default()) })
    }

    fn record_bytes_max(&self) -> usize {
        small().record_bytes_max
    }
}

/// A directory that a test holds, as another server would.
pub(crate) async fn hold(path: &Path) -> LocalDisk {
    LocalDisk::hold_existing(path).await.unwrap()
}
