//! Counters that threads write as they go and any thread may read: a worker's accounts, and
//! deliveries to readers. [`stats`](crate::stats) reads them.

pub(crate) mod accounts;
pub(crate) mod deliveries;
