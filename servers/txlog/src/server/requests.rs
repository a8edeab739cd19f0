//! The requests of a connection that appends or reads, each begun as soon as there is room for it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use txlog_client::frame::{Code, RECORD_OVERHEAD, Request, Response, VERSION_MIN};
use txlog_client::wire::FrameReader;

use super::Context;
use super::answers::{Answer, last, refused_with};
use super::connection::{Asked, End, Fault, next_request};
use super::login::Login;
use super::logs::Lease;
use super::lookups::Lookup;
use super::memory::Room;
use super::peers::Peer;
use super::queue::{Append, Awaited, Ordered, Tail};
use super::reads::{self, Reading};
use super::stream::ReadHalf;
use crate::log::gaps::Gaps;
use crate::log::{Batch, ReadLimits, Stored};
use crate::store::{Identity, Store, StoreError};

/// What a request appends.
enum Appended {
    Record(Bytes),
    Batch(Batch),
}

impl Appended {
    fn bytes(&self) -> usize {
        match self {
            Appended::Record(payload) => payload.len(),
            Appended::Batch(batch) => batch.bytes(),
        }
    }
}

/// What a store has taken.
pub(super) enum Submitted<S: Store> {
    Record(S::Pending),
    Batch(S::PendingBatch),
}

impl<S: Store> Future for Submitted<S> {
    type Output = Result<Stored, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Submitted::Record(record) => Pin::new(record).poll(cx).map_ok(Stored::from),
            Submitted::Batch(batch) => Pin::new(batch).poll(cx),
        }
    }
}

/// The state of the task that reads requests.
pub(super) struct Requests<S: Store> {
    pub(super) context: Arc<Context<S>>,
    /// The connection's log.
    pub(super) log: Arc<Lease<S>>,
    pub(super) peer: Arc<Peer>,
    /// The protocol's version that is spoken.
    pub(super) version: u16,
    /// What the client may do.
    pub(super) login: Login,
    /// Places for reads.
    pub(super) reads: Arc<Semaphore>,
    /// The connection's share of the memory for reads.
    pub(super) share: Arc<Semaphore>,
    /// Where what its producers have sent has gaps.
    pub(super) gaps: Gaps,
    pub(super) ordered: Tail<Submitted<S>>,
    pub(super) others: mpsc::Sender<Answer>,
    /// Dropped when no more requests are taken: then reads stop waiting for new records.
    pub(super) taking: watch::Sender<()>,
}

impl<S: Store> Requests<S> {
    /// Takes requests until the client sends no more, the server closes, or there is a fault.
    pub(super) async fn take(self, frames: &mut FrameReader<ReadHalf>, first: Asked) -> End {
        let mut ends = self.ends();
        let mut request = first;
        loop {
            if !self.begin(request).await? {
                return Ok(());
            }
            let next = tokio::select! {
                biased;
                // First, as it is mostly there. Whoever sends without a pause has to wait as well
                // when the slice of this task is over, which looks at what ends it.
                next = next_request(frames, &self.context, &self.peer) => {
                    next.map_err(|fault| self.login.explained(fault))?
                }
                Some(end) = ends.next() => return end,
            };
            match next {
                Some(next) => request = next,
                None => return Ok(()),
            }
        }
    }

    /// What ends a connection while it waits for a request. These futures stay: making them anew
    /// for each request, and having them wait, would take locks that all connections share.
    fn ends(&self) -> FuturesUnordered<Pin<Box<dyn Future<Output = End> + Send + '_>>> {
        let mut closing = self.context.closing.subscribe();
        let ends = FuturesUnordered::new();
        ends.push(boxed(async move {
            // The sender is in the context, so this cannot fail.
            let _ = closing.wait_for(|closing| *closing).await;
            Err(Fault::closing())
        }));
        ends.push(boxed(async {
            // The sender of answers has ended: the client is gone.
            self.others.closed().await;
            Ok(())
        }));
        ends.push(boxed(async { Err(Fault::cut(self.peer.cut().await)) }));
        ends
    }

    /// Begins a request, as soon as there is room for it. False if the sender of answers has ended.
    async fn begin(&self, Asked { request, room }: Asked) -> Result<bool, Fault> {
        if let Some((id, error)) = self.login.refuses(&request) {
            return Ok(self.answer(self.refused(id, error)).await);
        }
        match request {
            Request::Append { id, payload } => {
                self.append(id, Appended::Record(payload), room).await
            }
            Request::Batch {
                id,
                expected,
                producer,
                not_before,
                records,
            } => {
                let batch = Batch::new(records).expecting(expected).of(producer);
                let batch = batch.not_before(not_before);
                self.append(id, Appended::Batch(batch), room).await
            }
            Request::Read {
                id,
                from,
                records_max,
                bytes_max,
                wait_ms,
                of,
            } => {
                let reading = Reading {
                    id,
                    from,
                    limits: self.limits(records_max, bytes_max),
                    wait: Duration::from_millis(wait_ms.into()),
                    of,
                    version: self.version,
                };
                self.begin_read(reading).await;
                Ok(true)
            }
            Request::Ping { id } => Ok(self.answer(Response::Pong { id }).await),
            Request::Health { id, .. }
            | Request::Seek { id, .. }
            | Request::Cursor { id, .. }
            | Request::Logs { id, .. }
            | Request::Cursors { id, .. }
            | Request::Trim { id, .. } => {
                let answer = self.lookup(id).answer(request);
                self.begin_beside(id, answer).await;
                Ok(true)
            }
            Request::Hello { .. } => Err(Fault::hello()),
        }
    }

    /// The limits of a read for which a client asks.
    fn limits(&self, records_max: u32, bytes_max: u32) -> ReadLimits {
        let most = self.context.config.read_bytes_max;
        self.context.memory.limit(ReadLimits {
            // Records without bytes take memory, too.
            records_max: (records_max as usize).clamp(1, (most / RECORD_OVERHEAD).max(1)),
            bytes_max: (bytes_max as usize).min(most),
        })
    }

    async fn answer(&self, response: Response) -> bool {
        self.others.send(Answer::Small(response)).await.is_ok()
    }

    /// False if the sender of answers has ended.
    async fn append(&self, id: u64, appended: Appended, room: Option<Room>) -> Result<bool, Fault> {
        Ok(self.try_append(id, appended, room).await.is_some())
    }

    /// `None` if the sender of answers has ended.
    async fn try_append(&self, id: u64, appended: Appended, room: Option<Room>) -> Option<()> {
        // A place first, which bounds the pending appends.
        self.ordered.place().await?;
        let room = match room {
            Some(room) => room,
            None => tokio::select! {
                biased;
                room = self.context.memory.for_append(&self.peer, appended.bytes()) => room,
                () = self.others.closed() => return None,
            },
        };
        let began = Instant::now();
        let (is_batch, bytes) = (matches!(appended, Appended::Batch(_)), appended.bytes());
        let submitting = self.submit(appended);
        let submitted = while_pending(submitting, |pending| {
            self.peer.submitting(pending.then_some(began));
        });
        let submitted = submitted.await;
        self.ordered.push(match submitted {
            Ok(record) => Ordered::Append(Append {
                id,
                record: Awaited::Pending(record),
                bytes,
                is_batch,
                began,
                is_front: false,
                _room: room,
            }),
            Err(error) => {
                self.peer.refused(last(began, Some(&error)));
                Ordered::Ready(self.refused(id, error))
            }
        });
        Some(())
    }

    /// Submits a record, unless it is too large: where records have to be small, a frame may have
    /// room for more.
    async fn submit(&self, appended: Appended) -> Result<Submitted<S>, StoreError> {
        let store = &self.log.store;
        let payload = match appended {
            Appended::Record(payload) => payload,
            Appended::Batch(batch) => return self.submit_batch(batch).await.map(Submitted::Batch),
        };
        let (bytes, bytes_max) = (payload.len(), store.record_bytes_max());
        if bytes > bytes_max {
            let text = format!(
                "a record of {bytes} bytes; the server takes {bytes_max} at most: send less, or \
                 start it with a larger --record-bytes-max"
            );
            return Err(StoreError::new(Code::RecordTooLarge, text));
        }
        store.submit(payload).await.map(Submitted::Record)
    }

    /// Submits records, unless others before them have to come again.
    async fn submit_batch(&self, batch: Batch) -> Result<S::PendingBatch, StoreError> {
        let Some(produced) = batch.producer else {
            return self.log.store.submit_batch(batch).await;
        };
        self.gaps.pass(produced)?;
        let submitted = self.log.store.submit_batch(batch.behind(self.gaps.clone()));
        submitted.await.inspect_err(|error| {
            if error.may_pass() {
                self.gaps.refused(produced);
            }
        })
    }

    async fn begin_read(&self, reading: Reading) {
        let id = reading.id;
        let Some(place) = self.read_place(id).await else {
            return;
        };
        let (context, log) = (Arc::clone(&self.context), Arc::clone(&self.log));
        let (peer, share) = (Arc::clone(&self.peer), Arc::clone(&self.share));
        let others = self.others.clone();
        let taking = self.taking.subscribe();
        drop(evenkeel::spawn(async move {
            let mut closing = context.closing.subscribe();
            let from = reading.from;
            let answer = tokio::select! {
                answer = reads::answer(&context, &log.store, &peer, &share, reading, taking) => {
                    answer
                },
                _ = closing.wait_for(|closing| *closing) => Answer::Small(empty(id, from)),
                () = others.closed() => return,
            };
            // The read stays pending until there is room for its answer, so a client that reads
            // no answers gets no more of them. If the sender has ended, the connection is about
            // to end.
            let Ok(room) = others.reserve().await else {
                return;
            };
            // The place is free before the answer is sent, so that the client may ask again.
            drop(place);
            room.send(answer);
        }));
    }

    /// Answers when it is known, beside other requests: with a place of a read.
    async fn begin_beside(&self, id: u64, work: impl Future<Output = Answer> + Send + 'static) {
        let Some(place) = self.read_place(id).await else {
            return;
        };
        let others = self.others.clone();
        let mut closing = self.context.closing.subscribe();
        drop(evenkeel::spawn(async move {
            let answer = tokio::select! {
                answer = work => answer,
                // The client hears that the server ends.
                _ = closing.wait_for(|closing| *closing) => return,
                () = others.closed() => return,
            };
            // As of a read: see there.
            let Ok(room) = others.reserve().await else {
                return;
            };
            drop(place);
            room.send(answer);
        }));
    }

    /// What the answers of lookups need.
    fn lookup(&self, id: u64) -> Lookup<S> {
        Lookup {
            context: Arc::clone(&self.context),
            log: Arc::clone(&self.log),
            peer: Arc::clone(&self.peer),
            share: Arc::clone(&self.share),
            version: self.version,
            id,
        }
    }

    /// A place among the connection's pending reads; if there is none, the client is told.
    async fn read_place(&self, id: u64) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.reads).try_acquire_owned() {
            return Some(place);
        }
        let reads_max = self.context.config.reads_max;
        let text = format!("{reads_max} reads of this connection are under way; await one");
        let error = StoreError::new(Code::TooManyReads, text);
        // If the sender has ended, the connection is about to end.
        let _ = self.answer(self.refused(id, error)).await;
        None
    }

    fn refused(&self, id: u64, error: StoreError) -> Response {
        refused(&self.log.store, self.version, id, error)
    }
}

/// Does work, and says when it has to wait for the first time, and when it has ended after that.
async fn while_pending<T>(work: impl Future<Output = T>, say: impl Fn(bool)) -> T {
    let (mut work, mut said) = (pin!(work), false);
    let output = poll_fn(|cx| {
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() && !said {
            said = true;
            say(true);
        }
        polled
    });
    let output = output.await;
    if said {
        say(false);
    }
    output
}

fn boxed<'a>(
    end: impl Future<Output = End> + Send + 'a,
) -> Pin<Box<dyn Future<Output = End> + Send + 'a>> {
    Box::pin(end)
}

/// An error as a client of this version is told, with the numbers that it needs to go on.
pub(super) fn refused<S: Store>(store: &S, version: u16, id: u64, error: StoreError) -> Response {
    let code = error.code;
    let numbers = match code {
        Code::OutOfRange => <[u64; 2]>::from(store.bounds()),
        Code::OtherLog | Code::NewEpoch => {
            let Identity { log, epoch } = store.identity();
            [log, epoch]
        }
        _ => return refused_with(id, version, error),
    };
    let text = error.text;
    match version {
        VERSION_MIN => Response::Refused { id, code, text },
        _ => Response::RefusedAt {
            id,
            code,
            numbers,
            text,
        },
    }
}

fn empty(id: u64, next: u64) -> Response {
    Response::Records {
        id,
        next,
        records: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
