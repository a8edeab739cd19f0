//! Counters that threads write as they go and any thread may read: a worker's accounts,
//! deliveries to readers, and histograms. [`stats`](crate::stats) reads them.

pub(crate) mod accounts;
pub(crate) mod deliveries;
pub(crate) mod histogram;
