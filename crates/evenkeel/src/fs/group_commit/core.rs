//! Which records go into the next batch, and which tasks to wake. No thread, clock or I/O.
//!
//! ```text
//!            1 push, no room          2 admit                3 next
//!  (record) ───────────────▶ Waiting ────────▶ Queued ─────────────▶ Writing
//!      │                        │                ▲ │                    │ 4 complete
//!      └──── 1 push, room ──────┼────────────────┘ │                    ▼
//!                               └────── 5 fail ────┴────────────────▶ Done ── 6 result ──▶ (gone)
//! ```
//!
//! 1 `push`, 2 `admit`, 3 `next`, 4 `complete`, 5 `fail`, 6 `result`. A cancelled record leaves at
//! once from every stage but `Writing`, from which it leaves when its batch is complete. A record
//! gets its place in the file in step 3: one that leaves before leaves no gap.
//!
//! Waiting records are admitted first come, first served.
//!
//! Wakers are returned and never woken here, as this is called under a lock. Their type is generic,
//! so that tests can use numbers.

use std::mem;

use bytes::Bytes;
use slab::Slab;

use super::Position;
use super::error::{Failure, Stage as FailedStage};

/// No entry: the end of a list.
const NONE: usize = usize::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) batch_bytes: usize,
    pub(super) batch_records: usize,
    /// At least `batch_bytes`, so that the queue can always fill a batch.
    pub(super) queue_bytes: usize,
    pub(super) queue_records: usize,
    /// How long a record waits for company at most, from its push.
    pub(super) delay_ns: u64,
}

#[derive(Debug)]
enum Stage<P> {
    Waiting,
    Queued,
    Writing,
    Done(Result<P, Failure>),
    /// Not a record, but a task that waits for the end.
    Closing,
    /// The same, when the end is there.
    Ended(Result<Position, Failure>),
}

#[derive(Debug)]
struct Entry<W, R, P> {
    stage: Stage<P>,
    /// Until it is written. A task that waits for the end has none.
    record: Option<R>,
    bytes: usize,
    /// Taken when it is woken, so that each wait is woken once.
    waker: Option<W>,
    /// Whether the waker waits for room in the queue rather than the result. Set and cleared with
    /// the waker.
    wants_room: bool,
    /// Whether it was cancelled. Only set in `Writing`.
    abandoned: bool,
    pushed_ns: u64,
    previous: usize,
    next: usize,
}

/// A doubly linked list of entries, each of which is in at most one list.
#[derive(Debug)]
struct List {
    first: usize,
    last: usize,
    len: usize,
    bytes: usize,
}

/// The state of the committer, the task that writes the batches.
#[derive(Clone, Copy, Debug)]
enum Committer {
    /// It works, or has not started yet.
    Busy,
    Idle,
    /// It has a record and waits for company.
    Delaying,
    Ended,
}

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Next {
    Sleep,
    /// Sleep until it is woken or the time has come.
    SleepUntil(u64),
    /// Write the records, the first of them at this position; sync; and call `complete`.
    Write(Position),
    /// End: there will be no more records.
    End,
}

#[derive(Debug)]
pub(super) enum Refused {
    TooLarge,
    Closed,
    Failed(Failure),
}

/// Where a record is that was pushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pushed {
    pub(super) key: usize,
    /// Whether there was room for it in the queue.
    pub(super) is_admitted: bool,
}

/// A record that was not written, and a waker: to be dropped outside the lock.
pub(super) type Left<R, W> = (Option<R>, Option<W>);

/// Counters and queue lengths of a log; from [`GroupCommit::stats`](super::GroupCommit::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupCommitStats {
    /// Batches made durable.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    /// The most records in one batch so far.
    pub largest_batch: usize,
    /// Records of the batch that is being written.
    pub writing: usize,
    /// Records in the queue.
    pub queued: usize,
    /// Bytes of these records.
    pub queued_bytes: usize,
    /// Appends that wait for room in the queue.
    pub waiting: usize,
}

/// `W` are wakers, `R` records, and `P` what an append returns.
#[derive(Debug)]
pub(super) struct Batches<W, R = Bytes, P = Position> {
    limits: Limits,
    entries: Slab<Entry<W, R, P>>,
    waiting: List,
    queued: List,
    closers: List,
    writing: Vec<usize>,
    writing_bytes: usize,
    next: Position,
    committer: Committer,
    /// The waker of its latest call of `next`, unless it was woken since.
    committer_waker: Option<W>,
    closed: bool,
    failure: Option<Failure>,
    /// The counters, without the queue's lengths.
    totals: GroupCommitStats,
}

impl<W, R, P> Batches<W, R, P> {
    pub(super) fn new(limits: Limits, next: Position) -> Self {
        assert!(limits.batch_records > 0 && limits.batch_bytes > 0);
        assert!(limits.queue_records >= limits.batch_records);
        assert!(limits.queue_bytes >= limits.batch_bytes);
        Self {
            limits,
            entries: Slab::new(),
            waiting: List::EMPTY,
            queued: List::EMPTY,
            closers: List::EMPTY,
            writing: Vec::new(),
            writing_bytes: 0,
            next,
            committer: Committer::Busy,
            committer_waker: None,
            closed: false,
            failure: None,
            totals: GroupCommitStats::default(),
        }
    }

    /// Takes a record of so many bytes into the queue, or, if there is no room or others wait for
    /// it, into the line. `waker` is woken when there is a result. Returns where it is, and the
    /// committer's waker if that has to be woken; or the record. (No record is dropped in here, as
    /// that may run any code.)
    pub(super) fn push(
        &mut self,
        record: R,
        bytes: usize,
        now_ns: u64,
        waker: impl FnOnce() -> Option<W>,
    ) -> Result<(Pushed, Option<W>), (Refused, R)> {
        if let Some(refused) = self.refusal(bytes) {
            return Err((refused, record));
        }
        let room = self.waiting.len == 0 && self.has_room_for(bytes);
        let stage = if room { Stage::Queued } else { Stage::Waiting };
        let key = self.insert(stage, Some(record), bytes, now_ns);
        self.entries[key].waker = waker();
        let list = if room {
            &mut self.queued
        } else {
            &mut self.waiting
        };
        list.push(&mut self.entries, key);
        // Also without room: a queue that gets no fuller ends the wait for company.
        let committer = self.rouse();
        self.check();
        let is_admitted = room;
        Ok((Pushed { key, is_admitted }, committer))
    }

    /// Why a record of this size is refused now, if it is.
    fn refusal(&self, bytes: usize) -> Option<Refused> {
        if let Some(failure) = &self.failure {
            return Some(Refused::Failed(failure.as_unwritten()));
        }
        if self.closed {
            return Some(Refused::Closed);
        }
        (bytes > self.limits.batch_bytes).then_some(Refused::TooLarge)
    }

    /// Whether the record is in the queue, or past it. If not, `renew` sets the waker to wake then.
    pub(super) fn is_admitted(&mut self, key: usize, renew: impl FnOnce(&mut Option<W>)) -> bool {
        let entry = &mut self.entries[key];
        let waits = matches!(entry.stage, Stage::Waiting);
        if waits {
            renew(&mut entry.waker);
            entry.wants_room = true;
        }
        !waits
    }

    /// Removes a record that is done. Returns its result, and the record if it was not written. If
    /// it is not done yet, `renew` sets the waker to wake then.
    pub(super) fn result(
        &mut self,
        key: usize,
        renew: impl FnOnce(&mut Option<W>),
    ) -> Option<(Result<P, Failure>, Option<R>)> {
        let entry = &mut self.entries[key];
        if !matches!(entry.stage, Stage::Done(_)) {
            renew(&mut entry.waker);
            entry.wants_room = false;
            return None;
        }
        let entry = self.entries.remove(key);
        match entry.stage {
            Stage::Done(result) => Some((result, entry.record)),
            _ => unreachable!("it was looked at above"),
        }
    }

    /// As [`result`](Self::result), for a key of [`await_end`](Self::await_end).
    pub(super) fn end_result(
        &mut self,
        key: usize,
        renew: impl FnOnce(&mut Option<W>),
    ) -> Option<Result<Position, Failure>> {
        let entry = &mut self.entries[key];
        if !matches!(entry.stage, Stage::Ended(_)) {
            renew(&mut entry.waker);
            return None;
        }
        match self.entries.remove(key).stage {
            Stage::Ended(result) => Some(result),
            _ => unreachable!("it was looked at above"),
        }
    }

    /// Cancels a record. Unless it is being written, it will not be. Adds tasks to wake to `wake`.
    #[must_use = "the record and the waker are to be dropped outside the lock"]
    pub(super) fn cancel(&mut self, key: usize, wake: &mut Vec<W>) -> Option<Left<R, W>> {
        match self.entries[key].stage {
            Stage::Writing => {
                self.entries[key].abandoned = true;
                return None;
            }
            Stage::Waiting => self.waiting.unlink(&mut self.entries, key),
            Stage::Queued => self.queued.unlink(&mut self.entries, key),
            Stage::Closing => self.closers.unlink(&mut self.entries, key),
            Stage::Done(_) | Stage::Ended(_) => {}
        }
        let entry = self.entries.remove(key);
        // There may be room now, or the record that was too large for it has left the line.
        self.admit(wake);
        Some((entry.record, entry.waker))
    }

    /// Decides what the committer does next. Also returns the waker that `waker` replaces. The
    /// records of the batch are added to `records`, and tasks to wake to `wake`.
    #[must_use = "the waker is to be dropped outside the lock"]
    pub(super) fn next(
        &mut self,
        now_ns: u64,
        waker: W,
        records: &mut Vec<R>,
        wake: &mut Vec<W>,
    ) -> (Next, Option<W>) {
        let before = self.committer_waker.replace(waker);
        (self.next_step(now_ns, records, wake), before)
    }

    fn next_step(&mut self, now_ns: u64, records: &mut Vec<R>, wake: &mut Vec<W>) -> Next {
        debug_assert!(self.writing.is_empty(), "one batch at a time");
        self.committer = Committer::Busy;
        if self.failure.is_some() || (self.closed && self.queued.len == 0) {
            debug_assert!(self.failure.is_some() || self.waiting.len == 0);
            return Next::End;
        }
        if self.queued.len == 0 {
            self.committer = Committer::Idle;
            return Next::Sleep;
        }
        let due_ns = self.entries[self.queued.first]
            .pushed_ns
            .saturating_add(self.limits.delay_ns);
        if due_ns > now_ns && !self.is_batch_full() && !self.closed {
            self.committer = Committer::Delaying;
            return Next::SleepUntil(due_ns);
        }
        let position = self.next;
        self.take_batch(records, wake);
        Next::Write(position)
    }

    /// The batch has been written and synced. Completes up to `most` of its records with as many of
    /// `receipts`, which are in their order, and adds tasks to wake to `wake`. Returns whether
    /// there are more, for which to call it again.
    ///
    /// Receipts of cancelled records are returned in `left`, to be dropped outside the lock.
    pub(super) fn complete(
        &mut self,
        most: usize,
        receipts: &mut impl Iterator<Item = P>,
        left: &mut Vec<P>,
        wake: &mut Vec<W>,
    ) -> bool {
        let count = most.min(self.writing.len());
        for at in 0..count {
            let key = self.writing[at];
            debug_assert!(matches!(self.entries[key].stage, Stage::Writing));
            let receipt = receipts.next().expect("there is one for each record");
            if let Some(Stage::Done(Ok(receipt))) = self.finish(key, Stage::Done(Ok(receipt)), wake)
            {
                left.push(receipt);
            }
        }
        self.writing.drain(..count);
        self.totals.records += count as u64;
        if !self.writing.is_empty() {
            return true;
        }
        self.totals.batches += 1;
        self.totals.bytes += mem::take(&mut self.writing_bytes) as u64;
        debug_assert!(self.totals.batches <= self.totals.records);
        self.check();
        false
    }

    /// How many records the next batch would have if all tasks of this one appended again.
    pub(super) fn hoped(&self) -> usize {
        (self.queued.len + self.writing.len()).min(self.limits.batch_records)
    }

    /// How many records the next batch has so far; `None` if it need not wait for more.
    pub(super) fn company(&self) -> Option<usize> {
        let over = self.closed || self.failure.is_some() || self.is_batch_full();
        (!over).then_some(self.queued.len)
    }

    /// Poisons the log: all records have failed, and later ones fail at once. Adds tasks to wake to
    /// `wake`. Only the first failure is kept.
    pub(super) fn fail(&mut self, failure: &Failure, wake: &mut Vec<W>) {
        let failure = self.failure.get_or_insert_with(|| failure.clone()).clone();
        for key in mem::take(&mut self.writing) {
            let _ = self.finish(key, Stage::Done(Err(failure.clone())), wake);
        }
        while let Some(key) = self.queued.pop(&mut self.entries) {
            let _ = self.finish(key, Stage::Done(Err(failure.as_unwritten())), wake);
        }
        while let Some(key) = self.waiting.pop(&mut self.entries) {
            let _ = self.finish(key, Stage::Done(Err(failure.as_unwritten())), wake);
        }
    }

    /// Takes no more records; those that were taken are still written. Returns the committer's
    /// waker, if that has to be woken.
    pub(super) fn close(&mut self) -> Option<W> {
        self.closed = true;
        match self.committer {
            Committer::Idle | Committer::Delaying => self.roused(),
            Committer::Busy | Committer::Ended => None,
        }
    }

    /// Returns a key whose `end_result` is there when all is written and the committer has ended.
    pub(super) fn await_end(&mut self) -> usize {
        let ended = matches!(self.committer, Committer::Ended);
        let key = self.insert(Stage::Closing, None, 0, 0);
        if ended {
            self.entries[key].stage = Stage::Ended(self.how_it_ended());
        } else {
            self.closers.push(&mut self.entries, key);
        }
        key
    }

    /// The committer has ended; returns its waker. Records that it has left fail.
    #[must_use = "the waker is to be dropped outside the lock"]
    pub(super) fn end(&mut self, wake: &mut Vec<W>) -> Option<W> {
        let finished = self.closed && self.queued.len + self.waiting.len + self.writing.len() == 0;
        if !finished && self.failure.is_none() {
            self.fail(&Failure::new(FailedStage::Abandoned, None), wake);
        }
        self.committer = Committer::Ended;
        while let Some(key) = self.closers.pop(&mut self.entries) {
            let ended = Stage::Ended(self.how_it_ended());
            let _ = self.finish(key, ended, wake);
        }
        self.committer_waker.take()
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    pub(super) fn stats(&self) -> GroupCommitStats {
        GroupCommitStats {
            waiting: self.waiting.len,
            queued: self.queued.len,
            queued_bytes: self.queued.bytes,
            writing: self.writing.len(),
            ..self.totals
        }
    }

    fn how_it_ended(&self) -> Result<Position, Failure> {
        self.failure.clone().map_or(Ok(self.next), Err)
    }

    /// Asserts the limits of the queue, and that no entry was lost from its list.
    fn check(&self) {
        let (queued, limits) = (&self.queued, &self.limits);
        debug_assert!(queued.len <= limits.queue_records && queued.bytes <= limits.queue_bytes);
        let listed = self.waiting.len + queued.len + self.closers.len + self.writing.len();
        debug_assert!(listed <= self.entries.len());
    }

    fn insert(
        &mut self,
        stage: Stage<P>,
        record: Option<R>,
        bytes: usize,
        pushed_ns: u64,
    ) -> usize {
        self.entries.insert(Entry {
            stage,
            record,
            bytes,
            waker: None,
            wants_room: false,
            abandoned: false,
            pushed_ns,
            previous: NONE,
            next: NONE,
        })
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.queued.len < self.limits.queue_records
            && self.queued.bytes + bytes <= self.limits.queue_bytes
    }

    fn is_batch_full(&self) -> bool {
        // A record waits for room only if the queue is full, at least for this record. So the queue
        // would not grow, however long one waited.
        self.queued.len >= self.limits.batch_records
            || self.queued.bytes >= self.limits.batch_bytes
            || self.waiting.len > 0
    }

    /// Takes the committer's waker, if it sleeps and has to be woken.
    fn rouse(&mut self) -> Option<W> {
        let due = match self.committer {
            Committer::Idle => true,
            Committer::Delaying => self.is_batch_full(),
            Committer::Busy | Committer::Ended => false,
        };
        if due { self.roused() } else { None }
    }

    fn roused(&mut self) -> Option<W> {
        self.committer = Committer::Busy;
        self.committer_waker.take()
    }

    /// Moves as many records from the line to the queue as there is room for.
    fn admit(&mut self, wake: &mut Vec<W>) {
        while self.waiting.len > 0 {
            let key = self.waiting.first;
            if !self.has_room_for(self.entries[key].bytes) {
                break;
            }
            self.waiting.unlink(&mut self.entries, key);
            self.queued.push(&mut self.entries, key);
            let entry = &mut self.entries[key];
            entry.stage = Stage::Queued;
            if mem::take(&mut entry.wants_room) {
                wake.extend(entry.waker.take());
            }
        }
        if self.queued.len > 0 {
            wake.extend(self.rouse());
        }
        self.check();
    }

    fn take_batch(&mut self, records: &mut Vec<R>, wake: &mut Vec<W>) {
        let mut bytes = 0;
        while self.queued.len > 0 && self.writing.len() < self.limits.batch_records {
            let key = self.queued.first;
            let len = self.entries[key].bytes;
            // The first always fits, as `push` refuses larger records.
            if bytes + len > self.limits.batch_bytes {
                break;
            }
            self.queued.unlink(&mut self.entries, key);
            bytes += len;
            let entry = &mut self.entries[key];
            entry.stage = Stage::Writing;
            records.extend(entry.record.take());
            self.next.index += 1;
            self.next.offset += len as u64;
            self.writing.push(key);
            if self.queued.len == 0 {
                self.admit(wake);
            }
        }
        debug_assert!(!self.writing.is_empty() && bytes <= self.limits.batch_bytes);
        self.writing_bytes = bytes;
        self.totals.largest_batch = self.totals.largest_batch.max(self.writing.len());
        self.admit(wake);
    }

    /// Stores how an entry ended, or removes it if it was cancelled: then this is returned.
    #[must_use = "a receipt is to be dropped outside the lock"]
    fn finish(&mut self, key: usize, end: Stage<P>, wake: &mut Vec<W>) -> Option<Stage<P>> {
        let entry = &mut self.entries[key];
        wake.extend(entry.waker.take());
        debug_assert!(
            !matches!(entry.stage, Stage::Done(_)),
            "a record has one result"
        );
        if entry.abandoned {
            // The record has left with its batch, so no code of the user's runs here.
            self.entries.remove(key);
            return Some(end);
        }
        entry.stage = end;
        None
    }
}

impl List {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        len: 0,
        bytes: 0,
    };

    fn push<W, R, P>(&mut self, entries: &mut Slab<Entry<W, R, P>>, key: usize) {
        let last = mem::replace(&mut self.last, key);
        if last == NONE {
            self.first = key;
        } else {
            entries[last].next = key;
        }
        let entry = &mut entries[key];
        entry.previous = last;
        entry.next = NONE;
        self.len += 1;
        self.bytes += entry.bytes;
    }

    fn pop<W, R, P>(&mut self, entries: &mut Slab<Entry<W, R, P>>) -> Option<usize> {
        let key = self.first;
        (key != NONE).then(|| {
            self.unlink(entries, key);
            key
        })
    }

    fn unlink<W, R, P>(&mut self, entries: &mut Slab<Entry<W, R, P>>, key: usize) {
        let entry = &entries[key];
        let (previous, next, bytes) = (entry.previous, entry.next, entry.bytes);
        if previous == NONE {
            self.first = next;
        } else {
            entries[previous].next = next;
        }
        if next == NONE {
            self.last = previous;
        } else {
            entries[next].previous = previous;
        }
        self.len -= 1;
        self.bytes -= bytes;
        debug_assert_eq!(self.len == 0, self.first == NONE && self.last == NONE);
        debug_assert!(self.len > 0 || self.bytes == 0);
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
