//! A log that can hold back its acknowledgements, and whose epoch a test changes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use txlog::log::{Batch, Log, LogConfig, ReadLimits, Stored};
use txlog::store::{Found, Identity, Store, StoreError};
use txlog_client::frame::Code;

use super::memory::MemoryDisk;

#[derive(Clone)]
pub(crate) struct Held {
    log: Log<MemoryDisk>,
    /// Whether acknowledgements are held back.
    pub(crate) held: Arc<watch::Sender<bool>>,
    pub(crate) epoch: Arc<watch::Sender<u64>>,
}

impl Held {
    pub(crate) async fn new(config: LogConfig) -> Self {
        let (log, _) = Log::open(MemoryDisk::new(1), config).await.unwrap();
        Self {
            log,
            held: Arc::new(watch::Sender::new(false)),
            epoch: Arc::new(watch::Sender::new(1)),
        }
    }
}

impl Store for Held {
    type Pending = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>>;
    type PendingBatch = std::future::Ready<Result<Stored, StoreError>>;

    async fn submit_batch(&self, _: Batch) -> Result<Self::PendingBatch, StoreError> {
        Err(StoreError::new(Code::Unsupported, "not in this test"))
    }

    fn batch_bytes_max(&self) -> usize {
        1_000
    }

    async fn submit(&self, payload: Bytes) -> Result<Self::Pending, StoreError> {
        let pending = Store::submit(&self.log, payload).await?;
        let mut held = self.held.subscribe();
        Ok(Box::pin(async move {
            let _ = held.wait_for(|held| !held).await;
            pending.await
        }))
    }

    async fn read(&self, from: u64, limits: ReadLimits) -> Result<Found, StoreError> {
        Store::read(&self.log, from, limits).await
    }

    async fn wait_for(&self, sequence: u64) {
        let mut epoch = self.epoch.subscribe();
        tokio::select! {
            () = Store::wait_for(&self.log, sequence) => {}
            _ = epoch.changed() => {}
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            epoch: *self.epoch.borrow(),
            ..Store::identity(&self.log)
        }
    }

    fn bounds(&self) -> (u64, u64) {
        Store::bounds(&self.log)
    }

    fn record_bytes_max(&self) -> usize {
        Store::record_bytes_max(&self.log)
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        Store::maintain(&self.log).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        Store::close(&self.log).await
    }
}
