//! Reading that outlives connections.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel::time::{sleep, timeout};
use tokio::sync::watch;

use super::backoff::Backoff;
use super::link::{Link, may_pass};
use crate::client::{Client, ServerInfo, disconnected};
use crate::cursor::{Cursor, Identity};
use crate::error::ClientError;
use crate::follow::{Follower, ReadFrom, WAIT};
use crate::frame::Record;

/// How much longer than the server may wait an answer may take, before the connection is taken to
/// be dead.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Reads records in order, and waits for new ones, over any number of connections; from
/// [`Session::follow`](crate::Session::follow).
#[derive(Debug)]
pub struct SessionFollower {
    link: Link,
    give_up_after: Duration,
    place: Place,
    records: VecDeque<Record>,
    backoff: Backoff,
    /// Since when nothing could be read.
    trouble_since: Option<Instant>,
}

/// Where it reads on.
#[derive(Debug)]
enum Place {
    /// There, in the log that the server has when the first connection is made.
    Asked(ReadFrom),
    /// There, in this log and no other.
    In(Cursor),
    /// There, on this connection alone, as the server does not say which log it has.
    Nameless(Client, u64),
}

impl SessionFollower {
    pub(super) fn new(link: Link, give_up_after: Duration, from: ReadFrom) -> Self {
        Self::at(link, give_up_after, Place::Asked(from))
    }

    pub(super) fn resume(link: Link, give_up_after: Duration, cursor: Cursor) -> Self {
        Self::at(link, give_up_after, Place::In(cursor))
    }

    pub(super) fn adopt(mut link: Link, give_up_after: Duration, follower: Follower) -> Self {
        let cursor = follower.cursor();
        let (client, next, records) = follower.into_parts();
        link.begin_with(client.clone());
        let place = match cursor {
            Some(cursor) => Place::In(Cursor {
                sequence: next,
                ..cursor
            }),
            None => Place::Nameless(client, next),
        };
        Self {
            records,
            ..Self::at(link, give_up_after, place)
        }
    }

    fn at(link: Link, give_up_after: Duration, place: Place) -> Self {
        Self {
            link,
            give_up_after,
            place,
            records: VecDeque::new(),
            backoff: Backoff::default(),
            trouble_since: None,
        }
    }

    /// Waits for the next record. When the connection ends, it connects again, and reads on exactly
    /// where it was.
    ///
    /// # Errors
    ///
    /// As [`Follower::next`](crate::Follower::next), at once: a log that was replaced, or has lost
    /// records, is [`OtherLog`](ClientError::OtherLog) or
    /// [`OutOfRange`](ClientError::OutOfRange), and not a new beginning. A failure that may pass is
    /// an error when nothing could be read for the time of
    /// [`give_up_after`](crate::SessionOptions::give_up_after); the next call tries again. A server
    /// that speaks version 1 does not say which log it has, so there the end of the connection is
    /// an error.
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
    /// As [`next`](SessionFollower::next).
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

    /// Connects, if it is not connected, and says what the server said about itself.
    ///
    /// # Errors
    ///
    /// That of one attempt at each server.
    pub async fn connect(&mut self) -> Result<ServerInfo, ClientError> {
        Ok(self.locate().await?.0.info())
    }

    /// Where it is: before the record that is returned next. `None` before the first connection,
    /// and if the server speaks version 1.
    pub fn cursor(&self) -> Option<Cursor> {
        let Place::In(mut cursor) = self.place else {
            return None;
        };
        if let Some(record) = self.records.front() {
            cursor.sequence = record.sequence;
        }
        Some(cursor)
    }

    /// Finds out where it is, if it was not connected yet: the cursor of the next record.
    pub(super) async fn place(&mut self) -> Result<Option<Cursor>, ClientError> {
        if matches!(self.place, Place::Asked(_)) {
            self.fill(Duration::ZERO).await?;
        }
        Ok(self.cursor())
    }

    /// Why nothing can be read for now: connecting has failed, or the server refuses; changes as
    /// that does.
    pub fn trouble(&self) -> watch::Receiver<Option<ClientError>> {
        self.link.trouble()
    }

    /// Reads once, in as many attempts as there is time for.
    async fn fill(&mut self, wait: Duration) -> Result<(), ClientError> {
        loop {
            let error = match self.read(wait).await {
                Ok(()) => {
                    self.link.is_well();
                    self.backoff.reset();
                    self.trouble_since = None;
                    return Ok(());
                }
                Err(error) => error,
            };
            let since = *self.trouble_since.get_or_insert_with(Instant::now);
            if !may_pass(&error) || self.is_nameless() || since.elapsed() >= self.give_up_after {
                self.trouble_since = None;
                return Err(error);
            }
            // The link waits between connections; this is for a server that refuses to read.
            if matches!(
                error,
                ClientError::Refused { .. } | ClientError::LogAway { .. }
            ) {
                self.link.is_refused(&error);
                sleep(self.backoff.next()).await;
            }
        }
    }

    /// One attempt.
    async fn read(&mut self, wait: Duration) -> Result<(), ClientError> {
        let (client, of, from) = self.locate().await?;
        let answer = timeout(wait + SILENCE_MAX, client.read_of(of, from, wait)).await;
        let (records, next) = answer.unwrap_or_else(|_| {
            let why = disconnected(format!(
                "no answer to a read within {:?}",
                wait + SILENCE_MAX
            ));
            client.abandon(why.clone());
            Err(why)
        })?;
        self.link.works();
        match &mut self.place {
            Place::In(cursor) => cursor.sequence = next,
            Place::Nameless(_, at) => *at = next,
            Place::Asked(_) => {}
        }
        self.records.extend(records);
        Ok(())
    }

    /// The connection, and where to read on.
    async fn locate(&mut self) -> Result<(Client, Option<Identity>, u64), ClientError> {
        if let Place::Nameless(client, at) = &self.place {
            return Ok((client.clone(), None, *at));
        }
        let client = self.link.client().await?;
        let info = client.info();
        if let Place::Asked(from) = self.place {
            let sequence = match from {
                ReadFrom::Oldest => 0,
                ReadFrom::Sequence(sequence) => sequence,
                ReadFrom::End => info.next,
            };
            self.place = match info.identity {
                Some(Identity { log, epoch }) => Place::In(Cursor {
                    log,
                    epoch,
                    sequence,
                }),
                None => Place::Nameless(client.clone(), sequence),
            };
        }
        match &self.place {
            Place::In(_) if info.identity.is_none() => Err(ClientError::OldServer {
                version: info.version,
                what: "cursors",
            }),
            Place::In(cursor) => Ok((client, Some(cursor.identity()), cursor.sequence)),
            Place::Nameless(_, at) => Ok((client, None, *at)),
            Place::Asked(_) => Ok((client, None, 0)),
        }
    }

    /// Ends the connection, as the network may.
    #[cfg(test)]
    pub(super) async fn cut(&self) -> Client {
        let client = self.link.client().await.unwrap();
        client.abandon(disconnected("by the test"));
        client
    }

    fn is_nameless(&self) -> bool {
        matches!(self.place, Place::Nameless(..))
    }
}
