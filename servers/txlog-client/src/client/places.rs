//! Places: the logs of a server, the records of a time, named cursors, and where a log begins.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Asked, Client, unexpected};
use crate::cursor::Cursor;
use crate::error::ClientError;
use crate::frame::{CursorChange, LogInfo, Request, Response, Trim};

/// The version that has these requests.
const VERSION_NEEDED: u16 = 3;

/// The version that has trims.
const TRIM_VERSION: u16 = 4;

impl Client {
    /// The server's logs, by their names in order; the one without a name is the first, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn logs(&self) -> Result<Vec<LogInfo>, ClientError> {
        self.needs_version(VERSION_NEEDED, "lists of logs")?;
        let mut all: Vec<LogInfo> = Vec::new();
        loop {
            let after = all.last().map_or_else(String::new, |log| log.name.clone());
            let request = |id| Request::Logs { id, after };
            match self.ask(request).await? {
                Response::Logs { more, logs, .. } => {
                    let is_last = !more || logs.is_empty();
                    all.extend(logs);
                    if is_last {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// The number of the first record that the server took at this time or later, or of the next
    /// one to come, if there is none.
    ///
    /// The server goes by its own clock. If that was put back, times of records step back as well:
    /// the answer is then a record of this time or later whose predecessor in its file is older,
    /// and records of that time or later may be before it as well.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn seek(&self, time: SystemTime) -> Result<u64, ClientError> {
        self.needs_version(VERSION_NEEDED, "seeking by time")?;
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        match self.ask(|id| Request::Seek { id, time_ms }).await? {
            Response::Sought { sequence, .. } => Ok(sequence),
            other => Err(unexpected(&other)),
        }
    }

    /// Where the named cursor is, if there is one. It may be of an earlier epoch of the log, in
    /// which it was put there; to read from it fails then.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`Code::Unsupported`](crate::frame::Code::Unsupported) if the server's
    /// store keeps no cursors.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cursor(&self, name: &str) -> Result<Option<Cursor>, ClientError> {
        self.change_cursor(name, CursorChange::Keep).await
    }

    /// Puts the named cursor there, also behind where it was; returns when that is durable. Names
    /// are those of logs: see [`is_name`](crate::frame::is_name).
    ///
    /// # Errors
    ///
    /// [`ClientError`], after which the cursor may be there or not;
    /// [`OtherLog`](ClientError::OtherLog) if the cursor is of another log, or of another epoch;
    /// [`OutOfRange`](ClientError::OutOfRange) if it is beyond the next record;
    /// [`Code::TooMany`](crate::frame::Code::TooMany) if the log has as many cursors as it may
    /// have.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the cursor may be there or not.
    pub async fn set_cursor(&self, name: &str, cursor: Cursor) -> Result<(), ClientError> {
        let set = self.change_cursor(name, CursorChange::Set(cursor)).await;
        set.map(drop)
    }

    /// Removes the named cursor, if there is one; returns when that is durable.
    ///
    /// # Errors
    ///
    /// [`ClientError`], after which the cursor may be there or not.
    ///
    /// # Cancel safety
    ///
    /// As [`set_cursor`](Client::set_cursor).
    pub async fn remove_cursor(&self, name: &str) -> Result<(), ClientError> {
        self.change_cursor(name, CursorChange::Remove)
            .await
            .map(drop)
    }

    async fn change_cursor(
        &self,
        name: &str,
        change: CursorChange,
    ) -> Result<Option<Cursor>, ClientError> {
        self.needs_version(VERSION_NEEDED, "named cursors")?;
        let name = name.to_owned();
        match self.ask(|id| Request::Cursor { id, name, change }).await? {
            Response::Cursor { cursor, .. } => Ok(cursor),
            other => Err(unexpected(&other)),
        }
    }

    /// The named cursors of the log, by their names in order.
    ///
    /// # Errors
    ///
    /// As [`cursor`](Client::cursor).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cursors(&self) -> Result<Vec<(String, Cursor)>, ClientError> {
        self.needs_version(VERSION_NEEDED, "named cursors")?;
        let mut all: Vec<(String, Cursor)> = Vec::new();
        loop {
            let after = all
                .last()
                .map_or_else(String::new, |(name, _)| name.clone());
            match self.ask(|id| Request::Cursors { id, after }).await? {
                Response::Cursors { more, cursors, .. } => {
                    let is_last = !more || cursors.is_empty();
                    all.extend(cursors);
                    if is_last {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Removes the oldest records of the log; returns the number of the oldest one that is left,
    /// or of the next one to come if none is. Readers that are behind it are told so.
    ///
    /// Whole files are removed, so some records below the number to keep may be left; none are if
    /// that is the next number. There is no way back.
    ///
    /// # Errors
    ///
    /// [`ClientError`], after which some of these records may be removed, and no others;
    /// [`OldServer`](ClientError::OldServer) if the server has no trims;
    /// [`OutOfRange`](ClientError::OutOfRange) if `before` is beyond the next record;
    /// [`Code::CursorsBehind`](crate::frame::Code::CursorsBehind) if consumers have yet to read
    /// what would go, and [`force`](Trim::force) does not say that it goes all the same;
    /// [`Code::Unsupported`](crate::frame::Code::Unsupported) if the server's store is trimmed by
    /// other means.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some of these records may be removed.
    pub async fn trim(&self, trim: Trim) -> Result<u64, ClientError> {
        self.needs_version(TRIM_VERSION, "trims")?;
        match self.ask(|id| Request::Trim { id, trim }).await? {
            Response::Trimmed { first, .. } => Ok(first),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(
        &self,
        request: impl FnOnce(u64) -> Request,
    ) -> Result<Response, ClientError> {
        let mut asked = Asked::new(&self.inner);
        let answer = asked.send(None, request).await?;
        asked.answer(answer).await
    }
}
