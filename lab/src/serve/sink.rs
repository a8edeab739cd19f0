//! The sink: reads, computes for each delivery, discards.

use tokio::io::AsyncReadExt;

use super::platform::Platform;
use super::stats::Count;
use super::work::compute;

/// Bytes of one read: as much as a delivery can bring on loopback.
const BUFFER_LEN: usize = 64 * 1024;

/// What the sink has seen since its start.
#[derive(Debug, Default)]
pub(crate) struct SinkCounters {
    deliveries: Count,
    bytes: Count,
}

impl SinkCounters {
    /// Deliveries and bytes so far. Taken while the sink runs, the two may differ by a delivery in
    /// progress.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.deliveries.read(), self.bytes.read())
    }

    pub(crate) fn delivered(&self, len: usize) {
        self.deliveries.add(1);
        self.bytes.add(len as u64);
    }
}

pub(crate) async fn connection<P: Platform>(
    mut stream: P::Stream,
    work_us: u64,
    counters: &SinkCounters,
) {
    let mut buffer = vec![0; BUFFER_LEN];
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        counters.delivered(len);
        if work_us > 0 {
            compute(work_us);
        }
    }
}
