//! What is appended: a record, or several that are stored together; and what becomes of it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use evenkeel::fs::{Commit, CommitRecord};
use txlog_client::frame::{Batched, Produced};

use super::LogError;
use super::gaps::Gaps;
use super::record::APPEND_RECORDS_MAX;

/// Records that get numbers in a row, all or none, also after a crash; for
/// [`Log::submit_batch`](super::Log::submit_batch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub(crate) records: Batched,
    pub(crate) expected: Option<u64>,
    pub(crate) producer: Option<Produced>,
    pub(crate) not_before: Option<u64>,
    /// Those of the connection over which it came.
    pub(crate) gaps: Option<Gaps>,
}

impl Batch {
    /// These records.
    pub fn new(records: Batched) -> Self {
        Self {
            records,
            expected: None,
            producer: None,
            not_before: None,
            gaps: None,
        }
    }

    /// To be stored only if the first record gets this number.
    ///
    /// That is decided when the batch is ordered among all others, and told when all records before
    /// that number are durable.
    #[must_use]
    pub fn expecting(self, expected: Option<u64>) -> Self {
        Self { expected, ..self }
    }

    /// To be stored once, however often the producer repeats it.
    #[must_use]
    pub fn of(self, producer: Option<Produced>) -> Self {
        Self { producer, ..self }
    }

    /// That the producer may have sent it before. If it is stored, its records have no lower number
    /// than this. If the producer of a first batch was forgotten, and may have been this one, it is
    /// refused as [`Refusal::Unknown`].
    #[must_use]
    pub fn not_before(self, not_before: Option<u64>) -> Self {
        Self { not_before, ..self }
    }

    /// To be stored only if no record before it has to come again over this connection.
    pub(crate) fn behind(self, gaps: Gaps) -> Self {
        Self {
            gaps: Some(gaps),
            ..self
        }
    }
}

impl Batch {
    /// The bytes of its records and their lengths.
    pub fn bytes(&self) -> usize {
        self.records.bytes()
    }

    /// Whether it is within the limits.
    pub(super) fn check(&self, record_max: usize, batch_max: usize) -> Result<(), LogError> {
        let bad = |what, found, most| Err(LogError::BadBatch { what, found, most });
        let count = self.records.count();
        if count == 0 {
            return bad("records (it needs one)", 0, APPEND_RECORDS_MAX as usize);
        }
        if count > APPEND_RECORDS_MAX {
            return bad("records", count as usize, APPEND_RECORDS_MAX as usize);
        }
        let largest = self.records.iter().map(<[u8]>::len).max().unwrap_or(0);
        if largest > record_max {
            return bad("bytes in one record", largest, record_max);
        }
        match self.records.bytes() {
            bytes if bytes > batch_max => bad("bytes", bytes, batch_max),
            _ => Ok(()),
        }
    }
}

/// Where an append is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of its first record; those of the others follow.
    pub first: u64,
    /// How many records it has.
    pub count: u32,
    /// Whether it had been stored before, and the producer has repeated it.
    pub repeated: bool,
}

impl From<u64> for Stored {
    /// One record of this number.
    fn from(first: u64) -> Self {
        Self {
            first,
            count: 1,
            repeated: false,
        }
    }
}

/// Why a batch is not stored, though the log is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The log's next number is another one.
    #[error(
        "the batch expects to begin with record {expected}, and the log's next is {next}: read up \
         to there, and decide again"
    )]
    NotExpected {
        /// What the batch expects.
        expected: u64,
        /// The log's next number. All records before it are durable.
        next: u64,
    },
    /// The producer left out records, or some of the batch are stored already.
    #[error(
        "the batch begins with record {number} of its producer, and the next to be stored is \
         {next}: send a batch that begins there"
    )]
    Gap {
        /// The producer's number of the batch's first record.
        number: u64,
        /// The producer's number that comes next.
        next: u64,
    },
    /// All of it is stored already, and where is no longer known, or it is not in one place.
    #[error(
        "the records {number} up to, not including, {end} of the producer are stored already, and \
         not known to be in a row; its next is {next}: go on from there"
    )]
    Past {
        /// The producer's number of the batch's first record.
        number: u64,
        /// The producer's number after the batch's last record.
        end: u64,
        /// The producer's number that comes next.
        next: u64,
    },
    /// The producer is not known, or no longer.
    #[error(
        "the log does not know the producer, or no longer, so it cannot tell whether record \
         {number} of it is stored: read the log's end, and begin as a new producer"
    )]
    Unknown {
        /// The producer's number of the batch's first record.
        number: u64,
    },
}

/// What an append returns when its batch is durable.
pub(super) type Receipt = Result<Stored, Refusal>;

/// What is queued.
#[derive(Debug)]
pub(super) enum Item {
    One(Bytes),
    Many(Box<Batch>),
}

impl CommitRecord for Item {
    fn bytes(&self) -> usize {
        match self {
            Item::One(payload) => payload.len(),
            Item::Many(batch) => batch.records.bytes(),
        }
    }
}

/// A pending append; completes when it is durable. From
/// [`Log::submit_batch`](super::Log::submit_batch).
#[derive(Debug)]
#[must_use = "whether the records are durable is not known before this completes"]
pub struct PendingBatch(pub(super) Commit<Item, Receipt>);

impl Future for PendingBatch {
    type Output = Result<Stored, LogError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let receipt = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(match receipt {
            Ok(receipt) => receipt.map_err(LogError::from),
            Err(error) => Err(error.into()),
        })
    }
}

/// A pending record; completes with its number when it is durable. From
/// [`Log::submit`](super::Log::submit).
#[derive(Debug)]
#[must_use = "whether the record is durable is not known before this completes"]
pub struct Pending(pub(super) PendingBatch);

impl Future for Pending {
    type Output = Result<u64, LogError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_ok(|stored| stored.first)
    }
}
