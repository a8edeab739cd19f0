//! Counters that threads write as they go and anybody may read: a worker's accounts, and what reads
//! brought. [`stats`](crate::stats) has the readings of them.

pub(crate) mod accounts;
pub(crate) mod deliveries;
