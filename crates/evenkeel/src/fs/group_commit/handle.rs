//! The user's handle of a log, and the task that writes it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;

use super::Position;
use super::company::Company;
use super::core::{GroupCommitStats, Limits, Next, Pushed};
use super::error::{CommitError, Failure, Stage};
use super::file::{CommitRecord, ReceiptLog};
use super::shared::CommitQueue;
use crate::class::Class;
use crate::runtime;
use crate::runtime::setters::setters;
use crate::sched::coop::yield_now;
use crate::sync::hint;
use crate::time::{Instant, Sleep, sleep_until};

/// Appends of many tasks, made durable together.
///
/// [`append`](GroupCommit::append) takes a record and completes when the record would survive a
/// crash. Records that come while a sync is under way form the next *batch*: one write and one sync
/// for all of them. So the more tasks append at a time, the fewer syncs each of them costs, and
/// none has to wait for a timer. After a batch, the log waits for its tasks to append again as long
/// as they keep coming, at most for as long as a sync takes and for 10 milliseconds: then they wait
/// for one sync, and not for two.
///
/// # Guarantee
///
/// - An append succeeds only after a sync that began after its record was written whole.
/// - Records are written in the order of their [`Position`]s, without gaps. A task that awaits one
///   append before it makes the next has its records in that order.
/// - After a write or a sync has failed, nothing is written any more. All pending and all later
///   appends get the error: see [`CommitError`].
/// - The queue is bounded ([`queue_bytes`](GroupCommitBuilder::queue_bytes)): further appends wait
///   for room, first come, first served.
///
/// # Cancel safety
///
/// Dropping the future of an append, or a [`Commit`], never tears a record and affects no other. If
/// its batch has not begun, the record is not written; else it is written whole, and its result is
/// dropped.
///
/// # Records and receipts
///
/// `R` is what is appended, and `P` what an append returns: bytes and their position, unless the
/// log is a [`ReceiptLog`] of its own.
///
/// # Shutdown
///
/// [`close`](GroupCommit::close) writes all pending records. When all handles have been dropped,
/// they are written as well, in the background. A runtime that shuts down drops the task that
/// writes: pending records then fail.
///
/// # Examples
///
/// ```
/// use evenkeel::fs::{File, FileLog, GroupCommit, Position};
/// use evenkeel::task::JoinSet;
///
/// # let directory = std::env::temp_dir().join(format!("commit-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let path = directory.join("log");
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let file = File::create(&path).await?;
/// let log = GroupCommit::builder().open(FileLog::new(file), Position::default());
///
/// let mut tasks = JoinSet::new();
/// for number in 0..100 {
///     let log = log.clone();
///     tasks.spawn(async move { log.append(format!("record {number:02}\n")).await });
/// }
/// while let Some(appended) = tasks.join_next().await {
///     appended.expect("the task does not panic")?;
/// }
///
/// assert!(log.stats().batches <= 100);
/// assert_eq!(log.close().await?, Position { index: 100, offset: 1_000 });
/// assert_eq!(std::fs::read(&path)?.len(), 1_000);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<_, std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct GroupCommit<R = Bytes, P = Position> {
    handle: Arc<Owner<R, P>>,
}

impl<R, P> Clone for GroupCommit<R, P> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
        }
    }
}

struct Owner<R, P> {
    shared: Arc<CommitQueue<R, P>>,
    epoch: Instant,
}

impl<R, P> Drop for Owner<R, P> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Configures a [`GroupCommit`]; made by [`GroupCommit::builder`].
///
/// ```no_run
/// # async fn f() -> std::io::Result<()> {
/// use evenkeel::{Class, fs::{File, FileLog, GroupCommit, Position}};
///
/// let log = FileLog::new(File::create("log").await?);
/// let log = GroupCommit::builder()
///     .batch_bytes(256 << 10)
///     .class(Class::URGENT)
///     .open(log, Position::default());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct GroupCommitBuilder {
    batch_bytes: usize,
    batch_records: usize,
    queue_bytes: usize,
    queue_records: usize,
    delay: Duration,
    class: Option<Class>,
}

setters! {
    GroupCommitBuilder;
    /// The most bytes of a batch, and so of a record; 1 MiB by default, at least 1.
    batch_bytes(bytes: usize) => batch_bytes = bytes.max(1);
    /// The most records of a batch; 4 096 by default, at least 1.
    batch_records(records: usize) => batch_records = records.max(1);
    /// The most bytes in the queue; 4 MiB by default, at least as many as a batch may have.
    queue_bytes(bytes: usize) => queue_bytes = bytes;
    /// The most records in the queue; 16 384 by default, at least as many as a batch may have.
    queue_records(records: usize) => queue_records = records;
    /// How long a record that finds no sync under way waits for others; not at all by default.
    ///
    /// A full batch is written at once. The resolution is a millisecond.
    delay(delay: Duration) => delay = delay;
    /// The class of the task that writes; by default that of the task that calls
    /// [`open`](Self::open).
    class(class: Class) => class = Some(class);
}

impl GroupCommitBuilder {
    /// Opens `log`, whose next record has the position `next`: the default one if it is empty.
    /// Spawns the task that writes.
    ///
    /// # Panics
    ///
    /// If there is no current runtime.
    #[track_caller]
    pub fn open<L: ReceiptLog>(
        &self,
        log: L,
        next: Position,
    ) -> GroupCommit<L::Record, L::Receipt> {
        let limits = Limits {
            batch_bytes: self.batch_bytes,
            batch_records: self.batch_records,
            queue_bytes: self.queue_bytes.max(self.batch_bytes),
            queue_records: self.queue_records.max(self.batch_records),
            delay_ns: u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX),
        };
        let shared = Arc::new(CommitQueue::new(limits, next));
        let epoch = Instant::now();
        let ended = Ended(Arc::clone(&shared));
        let committer = commit(ended, log, epoch);
        match self.class {
            Some(class) => drop(runtime::spawn_in(class, committer)),
            None => drop(runtime::spawn(committer)),
        }
        GroupCommit {
            handle: Arc::new(Owner { shared, epoch }),
        }
    }
}

impl GroupCommit {
    /// Returns a builder with the defaults.
    pub fn builder() -> GroupCommitBuilder {
        GroupCommitBuilder {
            batch_bytes: 1 << 20,
            batch_records: 4_096,
            queue_bytes: 4 << 20,
            queue_records: 16_384,
            delay: Duration::ZERO,
            class: None,
        }
    }
}

impl<R: CommitRecord, P: Send + 'static> GroupCommit<R, P> {
    /// Appends a record, and returns its position or its receipt once it is durable.
    ///
    /// # Errors
    ///
    /// [`CommitError`]: the record is too large, or the log is closed or poisoned.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the record is written whole or not at all. See the
    /// [type](GroupCommit#cancel-safety).
    pub async fn append(&self, record: impl Into<R>) -> Result<P, CommitError> {
        let mut record = Some(record.into());
        let mut pushed = None;
        poll_fn(|cx| match (&mut pushed, record.take()) {
            // Pushed with the waker, so that the result need not be polled at once.
            (_, Some(record)) => match self.push(record, Some(cx.waker())) {
                Ok(Pushed { key, .. }) => {
                    pushed = Some(Ticket::new(&*self.handle.shared, key));
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(error)),
            },
            (Some(ticket), None) => ticket.poll(cx.waker()),
            (None, None) => unreachable!("the record was pushed at the first poll"),
        })
        .await
    }

    /// Waits for room in the queue and puts a record there. The returned [`Commit`] completes when
    /// the record is durable.
    ///
    /// Use it to have several records under way: they are written in the order in which they were
    /// submitted.
    ///
    /// # Errors
    ///
    /// [`CommitError`]: the record is too large, or the log is closed or poisoned.
    ///
    /// # Cancel safety
    ///
    /// If the future or the [`Commit`] is dropped, the record is written whole or not at all: whole
    /// if its batch has begun, which may be before this future completes. See the
    /// [type](GroupCommit#cancel-safety).
    pub async fn submit(&self, record: impl Into<R>) -> Result<Commit<R, P>, CommitError> {
        let Pushed { key, is_admitted } = self.push(record.into(), None)?;
        let ticket = Ticket::new(Arc::clone(&self.handle.shared), key);
        if !is_admitted {
            poll_fn(|cx| ticket.shared.poll_admitted(key, cx.waker())).await;
        }
        Ok(Commit(ticket))
    }

    /// Takes no more records, waits until all pending ones are durable, and returns the position
    /// that the next one would have.
    ///
    /// # Errors
    ///
    /// [`CommitError`]: not all records could be made durable.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the log is closed from the first poll on, and this can be called again.
    pub async fn close(&self) -> Result<Position, CommitError> {
        let shared = &self.handle.shared;
        shared.close();
        let mut ticket = Ticket::new(Arc::clone(shared), shared.await_end());
        poll_fn(|cx| ticket.poll_end(cx.waker())).await
    }

    /// The error of a poisoned log.
    pub fn failure(&self) -> Option<CommitError> {
        self.handle.shared.failure()
    }

    /// Returns counters and queue lengths.
    pub fn stats(&self) -> GroupCommitStats {
        self.handle.shared.stats()
    }

    fn push(&self, record: R, waker: Option<&Waker>) -> Result<Pushed, CommitError> {
        let Owner { shared, epoch } = &*self.handle;
        let bytes = record.bytes();
        shared.push(record, bytes, now_ns(shared, *epoch), waker)
    }
}

impl<R, P> fmt::Debug for GroupCommit<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCommit")
            .field("stats", &self.handle.shared.stats())
            .finish_non_exhaustive()
    }
}

/// A future that completes when its record is durable. From [`GroupCommit::submit`].
///
/// # Cancel safety
///
/// If it is dropped before its batch has begun, the record is not written; later, it is written
/// whole.
#[must_use = "whether the record is durable is not known before this completes"]
pub struct Commit<R = Bytes, P = Position>(Ticket<Arc<CommitQueue<R, P>>, R, P>);

impl<R, P> Future for Commit<R, P> {
    type Output = Result<P, CommitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll(cx.waker())
    }
}

/// The key of a record whose result is awaited.
struct Ticket<S: Deref<Target = CommitQueue<R, P>>, R, P> {
    shared: S,
    key: usize,
    live: bool,
}

impl<S: Deref<Target = CommitQueue<R, P>>, R, P> Ticket<S, R, P> {
    fn new(shared: S, key: usize) -> Self {
        let live = true;
        Self { shared, key, live }
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Result<P, CommitError>> {
        assert!(self.live, "a commit was polled after it had completed");
        let result = self.shared.poll_result(self.key, waker);
        self.live = result.is_pending();
        result
    }

    /// The same, for the key of one who waits for the log's end.
    fn poll_end(&mut self, waker: &Waker) -> Poll<Result<Position, CommitError>> {
        let result = self.shared.poll_end(self.key, waker);
        self.live = result.is_pending();
        result
    }
}

impl<S: Deref<Target = CommitQueue<R, P>>, R, P> Drop for Ticket<S, R, P> {
    fn drop(&mut self) {
        if self.live {
            self.shared.cancel(self.key);
        }
    }
}

impl<R, P> fmt::Debug for Commit<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}

/// Spins between two looks at the queue, of some tens of nanoseconds each.
const LOOKS_APART: usize = 32;

/// Reports the end of the committing task, however it ends.
struct Ended<R, P>(Arc<CommitQueue<R, P>>);

impl<R, P> Drop for Ended<R, P> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The task that writes: one batch after another.
async fn commit<L: ReceiptLog>(ended: Ended<L::Record, L::Receipt>, mut log: L, epoch: Instant) {
    let shared = &ended.0;
    let (mut records, mut receipts) = (Vec::new(), Vec::new());
    let mut wake: Vec<Waker> = Vec::new();
    let mut company = Company::default();
    while let Some(first) = next_batch(shared, epoch, &mut records).await {
        let took = match commit_batch(&mut log, first, &records).await {
            Ok(took) => took,
            Err((stage, error)) => {
                shared.fail(&Failure::new(stage, Some(error)));
                break;
            }
        };
        let mut position = first;
        for record in records.drain(..) {
            receipts.push(log.receipt(position));
            position.index += 1;
            position.offset += record.bytes() as u64;
        }
        let hoped = shared.complete(&mut receipts, &mut wake);
        gather(shared, &mut company, hoped, took).await;
    }
}

/// Writes a batch and syncs it. Returns how long the sync took.
async fn commit_batch<L: ReceiptLog>(
    log: &mut L,
    first: Position,
    records: &[L::Record],
) -> Result<Duration, (Stage, io::Error)> {
    let written = log.write(first, records).await;
    written.map_err(|error| (Stage::Write, error))?;
    let began = Instant::now();
    log.sync().await.map_err(|error| (Stage::Sync, error))?;
    Ok(began.elapsed())
}

/// Waits for the woken tasks to append again, as long as enough of them do.
async fn gather<R, P>(
    shared: &CommitQueue<R, P>,
    company: &mut Company,
    hoped: usize,
    sync: Duration,
) {
    let Some(mut gathering) = (shared.company()).and_then(|seen| company.gather(hoped, seen, sync))
    else {
        return;
    };
    let began = Instant::now();
    loop {
        yield_now().await;
        // Leave the lock to the tasks that append.
        (0..LOOKS_APART).for_each(|_| hint::spin_loop());
        let Some(seen) = shared.company() else { return };
        if !gathering.goes_on(seen, began.elapsed()) {
            break;
        }
    }
    company.learn(&gathering);
}

/// Waits until a batch is to be written, and takes its records. `None` if there will be no more.
async fn next_batch<R, P>(
    shared: &CommitQueue<R, P>,
    epoch: Instant,
    records: &mut Vec<R>,
) -> Option<Position> {
    let mut company: Option<Sleep> = None;
    poll_fn(|cx| {
        loop {
            match shared.next(now_ns(shared, epoch), cx.waker(), records) {
                Next::Write(first) => return Poll::Ready(Some(first)),
                Next::End => return Poll::Ready(None),
                Next::Sleep => return Poll::Pending,
                Next::SleepUntil(due_ns) => {
                    let due = epoch + Duration::from_nanos(due_ns);
                    let sleep = company.get_or_insert_with(|| sleep_until(due));
                    if sleep.deadline() != due {
                        Pin::new(&mut *sleep).reset(due);
                    }
                    if Pin::new(sleep).poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    })
    .await
}

/// The time since the log was opened. Without a delay it is 0, to save reading the clock.
fn now_ns<R, P>(shared: &CommitQueue<R, P>, epoch: Instant) -> u64 {
    if shared.limits().delay_ns == 0 {
        return 0;
    }
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
