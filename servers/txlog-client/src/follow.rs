//! Reading records in order, and waiting for new ones.

use std::collections::VecDeque;
use std::time::Duration;

use crate::client::Client;
use crate::cursor::{Cursor, Identity};
use crate::error::ClientError;
use crate::frame::Record;

/// How long the server holds a read that finds nothing. It bounds what the server keeps for a
/// client that has disappeared.
pub(crate) const WAIT: Duration = Duration::from_secs(20);

/// Where to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The oldest record.
    Oldest,
    /// The record with this number.
    Sequence(u64),
    /// The first record that is appended after the client connected.
    End,
}

/// Reads records in order, and waits for new ones; from [`Client::follow`].
#[derive(Debug)]
pub struct Follower {
    client: Client,
    /// The log that is read; unknown if the server speaks version 1.
    of: Option<Identity>,
    next: u64,
    records: VecDeque<Record>,
}

impl Follower {
    pub(crate) fn new(client: Client, from: ReadFrom) -> Self {
        let next = match from {
            ReadFrom::Oldest => 0,
            ReadFrom::Sequence(sequence) => sequence,
            ReadFrom::End => client.info().next,
        };
        Self {
            of: client.info().identity,
            client,
            next,
            records: VecDeque::new(),
        }
    }

    pub(crate) fn resume(client: Client, cursor: Cursor) -> Self {
        Self {
            client,
            of: Some(cursor.identity()),
            next: cursor.sequence,
            records: VecDeque::new(),
        }
    }

    /// Its connection, the number to read on from, and the records before that.
    pub(crate) fn into_parts(self) -> (Client, u64, VecDeque<Record>) {
        (self.client, self.next, self.records)
    }

    /// Waits for the next record.
    ///
    /// # Errors
    ///
    /// [`ClientError`]. If records are no longer kept, the code is
    /// [`Trimmed`](crate::frame::Code::Trimmed). If the log was replaced by another one, or has
    /// lost records, it is [`OtherLog`](ClientError::OtherLog) or
    /// [`OutOfRange`](ClientError::OutOfRange).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no record is lost.
    pub async fn next(&mut self) -> Result<Record, ClientError> {
        loop {
            if let Some(record) = self.records.pop_front() {
                return Ok(record);
            }
            self.fill(WAIT).await?;
        }
    }

    /// The next record, if there is one now.
    ///
    /// # Errors
    ///
    /// As [`next`](Follower::next).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no record is lost.
    pub async fn try_next(&mut self) -> Result<Option<Record>, ClientError> {
        if self.records.is_empty() {
            self.fill(Duration::ZERO).await?;
        }
        Ok(self.records.pop_front())
    }

    /// The number of the next record.
    pub fn position(&self) -> u64 {
        self.records
            .front()
            .map_or(self.next, |record| record.sequence)
    }

    /// Where it is, to [resume](Client::resume) there: before the record that is returned next.
    /// `None` if the server speaks version 1.
    pub fn cursor(&self) -> Option<Cursor> {
        let Identity { log, epoch } = self.of?;
        let sequence = self.position();
        Some(Cursor {
            log,
            epoch,
            sequence,
        })
    }

    async fn fill(&mut self, wait: Duration) -> Result<(), ClientError> {
        let (records, next) = self.client.read_of(self.of, self.next, wait).await?;
        self.records.extend(records);
        self.next = next;
        Ok(())
    }
}
