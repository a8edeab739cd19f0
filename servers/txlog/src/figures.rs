//! Figures for metrics: how long something took, and what a store says of itself.

pub use servers_common::histogram::Histogram;

/// What a store says of itself; nothing of what it does not know.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StoreFigures {
    /// How long its syncs took: the sum in seconds, and the buckets of a [`Histogram`].
    pub syncs: Option<(f64, Vec<(f64, u64)>)>,
    /// Records that wait for a sync, those that are being written among them.
    pub queued: Option<u64>,
    /// Bytes of those that are not being written yet.
    pub queued_bytes: Option<u64>,
    /// Appends that wait for room in the queue.
    pub waiting: Option<u64>,
    /// Files of the log, without its mark.
    pub segments: Option<u64>,
    /// Bytes of durable records in them, and of their heads.
    pub bytes: Option<u64>,
    /// When the mark was last written, in seconds since 1970.
    pub marked_at: Option<f64>,
    /// How many durable records the mark does not cover.
    pub unmarked: Option<u64>,
    /// Whether it is connected to the server that keeps the records.
    pub is_connected: Option<bool>,
    /// Where consumers are.
    pub consumers: Option<ConsumerFigures>,
    /// Whether it is not known where they are, as the file that says so cannot be read.
    pub are_cursors_unreadable: Option<bool>,
}

/// Where the consumers of a log are, by their named cursors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerFigures {
    /// Some of those whose cursor is in the log's epoch, by their names in order.
    pub shown: Vec<Lag>,
    /// How many others there are.
    pub left_out: u64,
    /// The greatest lag, also of those that are left out.
    pub lag_max: u64,
    /// How many cursors mean nothing any more: the records there are no longer kept, or the log has
    /// another epoch. Their consumers are refused.
    pub lost: u64,
}

/// How far a consumer is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The cursor's name.
    pub name: String,
    /// The number of the record to be read next.
    pub sequence: u64,
    /// How many records it has yet to read.
    pub records: u64,
}

impl ConsumerFigures {
    /// Shows so many at most.
    pub fn limit(&mut self, shown_max: usize) {
        let over = self.shown.len().saturating_sub(shown_max);
        self.shown.truncate(shown_max);
        self.left_out += over as u64;
    }
}
