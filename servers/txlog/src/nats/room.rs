//! The memory that all streams of a server share.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// The bound on the pending records of all streams together, in KiB.
pub(super) const PENDING_KIB: usize = 64 * 1024;

/// The bound on the answers to reads of all streams together, in KiB.
pub(super) const ANSWERS_KIB: usize = 64 * 1024;

/// How many repeats may be looked for at a time. Each holds a MiB of a stream, and a record.
const SEEKS_MAX: usize = 8;

/// Room for the pending records, and for the answers to reads, of all stores that have this or a
/// clone of it: 64 MiB for each of the two.
#[derive(Clone, Debug)]
pub struct NatsRoom {
    /// In KiB.
    pub(super) pending: Arc<Semaphore>,
    /// In KiB.
    pub(super) answers: Arc<Semaphore>,
    /// How many repeats may be looked for at a time.
    pub(super) seeks: Arc<Semaphore>,
}

impl Default for NatsRoom {
    fn default() -> Self {
        Self {
            pending: Arc::new(Semaphore::new(PENDING_KIB)),
            answers: Arc::new(Semaphore::new(ANSWERS_KIB)),
            seeks: Arc::new(Semaphore::new(SEEKS_MAX)),
        }
    }
}
