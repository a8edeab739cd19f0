//! Counters that threads write as they go and any thread may read: a worker's accounts,
//! deliveries to readers, and histograms. [`stats`](crate::stats) reads them.

/// False in a build for one measurement, `cargo xtask compare --accounts`: there, nothing is
/// counted that only statistics read. What the scheduler decides by is kept: until when time is
/// charged and the class since then, which a hand-off reads, and how often workers parked.
pub(crate) const KEPT: bool = cfg!(not(evenkeel_no_accounts));

pub(crate) mod accounts;
pub(crate) mod deliveries;
pub(crate) mod histogram;
