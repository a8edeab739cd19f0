//! The sink: reads, computes for each delivery, discards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::AsyncReadExt;

use super::platform::{Platform, accept_loop};
use super::work::compute;

/// Bytes of one read: as much as a delivery can bring on loopback.
const BUFFER_LEN: usize = 64 * 1024;

/// What the sink has seen since its start.
#[derive(Debug, Default)]
pub(crate) struct SinkCounters {
    deliveries: AtomicU64,
    bytes: AtomicU64,
}

impl SinkCounters {
    /// Deliveries and bytes so far. Taken while the sink runs, the two may differ by a delivery in
    /// progress.
    pub(crate) fn read(&self) -> (u64, u64) {
        // Relaxed: plain statistics, which order nothing else.
        (
            self.deliveries.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn delivered(&self, len: usize) {
        // Relaxed: as in `read`.
        self.deliveries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
    }
}

pub(crate) async fn serve<P: Platform>(
    listener: P::Listener,
    work_us: u64,
    counters: Arc<SinkCounters>,
) {
    accept_loop::<P, _>("sink", listener, move |stream| {
        connection::<P>(stream, work_us, Arc::clone(&counters))
    })
    .await;
}

async fn connection<P: Platform>(mut stream: P::Stream, work_us: u64, counters: Arc<SinkCounters>) {
    let mut buffer = vec![0; BUFFER_LEN];
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        counters.delivered(len);
        if work_us > 0 {
            compute(work_us);
        }
    }
}
