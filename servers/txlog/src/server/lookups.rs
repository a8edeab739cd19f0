//! Requests that look something up, beside appends and reads, and trims.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::time::timeout;
use tokio::sync::Semaphore;
use txlog_client::Trim;
use txlog_client::frame::{Code, CursorChange, Request, Response, is_name};

use super::answers::Answer;
use super::logs::{LISTED_MAX, Lease};
use super::peers::Peer;
use super::reads::{admitted, beyond_end, busy, elsewhere, encoded};
use super::requests::refused;
use super::{Context, health};
use crate::log::ReadLimits;
use crate::store::{Store, StoreError};

/// How many records by time are looked for at a time, by all connections: each may read a whole
/// file.
pub(super) const SEEKS_MAX: usize = 4;

/// The most that a list takes: so many names and what is said of each, twice while it is encoded.
pub(super) const LIST: ReadLimits = ReadLimits {
    records_max: LISTED_MAX,
    bytes_max: LISTED_MAX * 128,
};

/// Somebody who asks, and of what.
pub(super) struct Lookup<S: Store> {
    pub(super) context: Arc<Context<S>>,
    pub(super) log: Arc<Lease<S>>,
    pub(super) peer: Arc<Peer>,
    /// The connection's share of the memory for reads.
    pub(super) share: Arc<Semaphore>,
    /// The protocol's version that is spoken.
    pub(super) version: u16,
    pub(super) id: u64,
}

/// The server's logs after this name, of which the client may know.
pub(super) async fn list<S: Store>(
    context: &Context<S>,
    peer: &Peer,
    id: u64,
    mut after: String,
) -> Result<Response, StoreError> {
    loop {
        let (mut logs, more) = context.logs.list(&after).await?;
        let last = logs.last().map(|log| log.name.clone());
        logs.retain(|log| peer.may_know(&log.name));
        match last {
            // The next ones may be among those that this client may use.
            Some(last) if logs.is_empty() && more => after = last,
            _ => return Ok(Response::Logs { id, more, logs }),
        }
    }
}

impl<S: Store> Lookup<S> {
    /// The answer to a request that looks something up. That about health may take as long as an
    /// append may.
    pub(super) async fn answer(self, request: Request) -> Answer {
        let id = self.id;
        Answer::Small(match request {
            Request::Health { within_ms, .. } => {
                let within = Duration::from_millis(within_ms.into());
                health::answer(&self.context, &self.log, id, within).await
            }
            Request::Seek { time_ms, .. } => self.sought(time_ms).await,
            Request::Cursor { name, change, .. } => self.cursor(name, change).await,
            Request::Cursors { after, .. } => return self.listed(after, Self::cursors).await,
            Request::Logs { after, .. } => return self.listed(after, Self::logs).await,
            Request::Trim { trim, .. } => self.trimmed(trim).await,
            _ => self.refused(StoreError::new(Code::Unsupported, "this looks nothing up")),
        })
    }

    /// A list, which takes memory of the reads until the client has taken it.
    async fn listed(
        self,
        after: String,
        list: impl AsyncFnOnce(&Self, String) -> Response,
    ) -> Answer {
        let share = (&self.peer, &self.share);
        let Some(room) = admitted(&self.context, 0, share, LIST).await else {
            return Answer::Small(self.refused(busy(&self.context)));
        };
        encoded(&list(&self, after).await, room)
    }

    /// The server's logs.
    async fn logs(&self, after: String) -> Response {
        let listed = list(&self.context, &self.peer, self.id, after).await;
        listed.unwrap_or_else(|error| self.refused(error))
    }

    /// The first record of this time or later.
    async fn sought(self, time_ms: u64) -> Response {
        let context = &self.context;
        let bytes_max = self.log.store.record_bytes_max();
        let admitted =
            (context.memory).for_seek(&self.peer, &self.share, &context.seeks, bytes_max);
        let Ok((_room, _turn)) = timeout(context.config.stall_max, admitted).await else {
            return self.refused(busy(context));
        };
        let id = self.id;
        match self.log.store.seek(time_ms).await {
            Ok(sequence) => Response::Sought { id, sequence },
            Err(error) => self.refused(error),
        }
    }

    /// Where a named cursor is, after this change.
    async fn cursor(self, name: String, change: CursorChange) -> Response {
        let (id, store) = (self.id, &self.log.store);
        if !is_name(&name) {
            let text = format!(
                "{name:?} is no name for a cursor: take letters, digits, `.`, `_` and `-`, up to \
                 64, and begin with a letter, a digit or `_`"
            );
            return self.refused(StoreError::new(Code::BadFrame, text));
        }
        if let CursorChange::Set(cursor) = change {
            let outside = elsewhere(store, Some(cursor.identity()));
            if let Some(error) = outside.or_else(|| beyond_end(store, cursor.sequence)) {
                return self.refused(error);
            }
        }
        match store.cursor(&name, change).await {
            Ok(cursor) => Response::Cursor { id, cursor },
            Err(error) => self.refused(error),
        }
    }

    /// The named cursors.
    async fn cursors(&self, after: String) -> Response {
        let id = self.id;
        match self.log.store.cursors().await {
            Ok(all) => {
                let mut behind = all.into_iter().filter(|(name, _)| *name > after);
                let cursors = behind.by_ref().take(LISTED_MAX).collect();
                let more = behind.next().is_some();
                Response::Cursors { id, more, cursors }
            }
            Err(error) => self.refused(error),
        }
    }

    /// Removes the oldest records. The names of all cursors are in memory meanwhile, as for a list.
    async fn trimmed(self, trim: Trim) -> Response {
        let share = (&self.peer, &self.share);
        let Some(_room) = admitted(&self.context, 0, share, LIST).await else {
            return self.refused(busy(&self.context));
        };
        let id = self.id;
        match self.log.store.trim(trim).await {
            Ok(first) => Response::Trimmed { id, first },
            Err(error) => self.refused(error),
        }
    }

    fn refused(&self, error: StoreError) -> Response {
        refused(&self.log.store, self.version, self.id, error)
    }
}
