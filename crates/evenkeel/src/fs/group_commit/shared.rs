//! The core behind its lock, shared by the tasks that append and the committer.
//!
//! Under the lock, nothing is woken, no waker is cloned, and no record or waker is dropped: each
//! may run any code.

use std::mem;
use std::task::{Poll, Waker};

use bytes::Bytes;

use super::Position;
use super::core::{Batches, GroupCommitStats, Limits, Next, Pushed, Refused};
use super::error::{Cause, CommitError, Failure};
use crate::io::readiness::wake_all;
use crate::sync::Mutex;

/// How many records of a batch are completed under one hold of the lock.
const TOLD_AT_ONCE: usize = 64;

pub(super) struct CommitQueue<R = Bytes, P = Position> {
    core: Mutex<Batches<Waker, R, P>>,
    limits: Limits,
}

impl<R, P> CommitQueue<R, P> {
    pub(super) fn new(limits: Limits, next: Position) -> Self {
        Self {
            core: Mutex::new(Batches::new(limits, next)),
            limits,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Pushes a record of so many bytes. `waker` is woken when there is a result.
    pub(super) fn push(
        &self,
        record: R,
        bytes: usize,
        now_ns: u64,
        waker: Option<&Waker>,
    ) -> Result<Pushed, CommitError> {
        let mut waker = waker.cloned();
        let pushed = self
            .core
            .lock()
            .push(record, bytes, now_ns, || waker.take());
        match pushed {
            Ok((pushed, committer)) => {
                committer.into_iter().for_each(Waker::wake);
                Ok(pushed)
            }
            Err((refused, record)) => {
                drop(record);
                Err(self.refused(refused, bytes))
            }
        }
    }

    /// Waits until the record has room in the queue.
    pub(super) fn poll_admitted(&self, key: usize, waker: &Waker) -> Poll<()> {
        self.poll(waker, |core, renewal| {
            let is_admitted = core.is_admitted(key, |slot| renewal.fill(slot));
            is_admitted.then_some(())
        })
    }

    /// Waits for the result of the record. Once it is ready, the key is invalid.
    pub(super) fn poll_result(&self, key: usize, waker: &Waker) -> Poll<Result<P, CommitError>> {
        // The record, if it was not written, is dropped here, outside the lock.
        self.poll(waker, |core, renewal| {
            core.result(key, |slot| renewal.fill(slot))
        })
        .map(|(result, _record)| result.map_err(failed))
    }

    /// As [`poll_result`](Self::poll_result), for a key of [`await_end`](Self::await_end).
    pub(super) fn poll_end(
        &self,
        key: usize,
        waker: &Waker,
    ) -> Poll<Result<Position, CommitError>> {
        self.poll(waker, |core, renewal| {
            core.end_result(key, |slot| renewal.fill(slot))
        })
        .map(|result| result.map_err(failed))
    }

    /// Waits until `look` finds something.
    #[inline]
    fn poll<T>(
        &self,
        waker: &Waker,
        look: impl Fn(&mut Batches<Waker, R, P>, &mut Renewal<'_>) -> Option<T>,
    ) -> Poll<T> {
        let mut renewal = Renewal {
            waker,
            spare: None,
            is_missing: false,
        };
        loop {
            let found = look(&mut self.core.lock(), &mut renewal);
            if let Some(found) = found {
                return Poll::Ready(found);
            }
            if !mem::take(&mut renewal.is_missing) {
                return Poll::Pending;
            }
            renewal.spare = Some(waker.clone());
        }
    }

    pub(super) fn cancel(&self, key: usize) {
        let mut wake = Vec::new();
        let cancelled = self.core.lock().cancel(key, &mut wake);
        drop(cancelled);
        wake_all(&mut wake);
    }

    pub(super) fn next(&self, now_ns: u64, waker: &Waker, records: &mut Vec<R>) -> Next {
        let mut wake = Vec::new();
        let waker = waker.clone();
        let (next, before) = self.core.lock().next(now_ns, waker, records, &mut wake);
        drop(before);
        wake_all(&mut wake);
        next
    }

    /// The batch is durable; `receipts` has one for each of its records, in their order. It and
    /// `wake` are empty afterwards, and kept for their memory. Returns how many records the next
    /// batch would have if all tasks of this one appended again.
    pub(super) fn complete(&self, receipts: &mut Vec<P>, wake: &mut Vec<Waker>) -> usize {
        let hoped = self.core.lock().hoped();
        let (mut receipts, mut left) = (receipts.drain(..), Vec::new());
        // In parts, so that the first tasks can go on while the others are woken.
        while (self.core.lock()).complete(TOLD_AT_ONCE, &mut receipts, &mut left, wake) {
            wake_all(wake);
        }
        wake_all(wake);
        hoped
    }

    /// How many records the next batch has so far; `None` if it need not wait for more.
    pub(super) fn company(&self) -> Option<usize> {
        self.core.lock().company()
    }

    pub(super) fn fail(&self, failure: &Failure) {
        let mut wake = Vec::new();
        self.core.lock().fail(failure, &mut wake);
        wake_all(&mut wake);
    }

    pub(super) fn close(&self) {
        let committer = self.core.lock().close();
        committer.into_iter().for_each(Waker::wake);
    }

    /// Returns a key for `poll_end`, which is ready when all is written.
    pub(super) fn await_end(&self) -> usize {
        self.core.lock().await_end()
    }

    pub(super) fn end(&self) {
        let mut wake = Vec::new();
        let committer = self.core.lock().end(&mut wake);
        drop(committer);
        wake_all(&mut wake);
    }

    pub(super) fn failure(&self) -> Option<CommitError> {
        self.core.lock().failure().cloned().map(failed)
    }

    pub(super) fn stats(&self) -> GroupCommitStats {
        self.core.lock().stats()
    }

    fn refused(&self, refused: Refused, bytes: usize) -> CommitError {
        CommitError(match refused {
            Refused::TooLarge => Cause::TooLarge {
                bytes,
                bytes_max: self.limits.batch_bytes,
            },
            Refused::Closed => Cause::Closed,
            Refused::Failed(failure) => Cause::Failed(failure),
        })
    }
}

fn failed(failure: Failure) -> CommitError {
    CommitError(Cause::Failed(failure))
}

/// Puts a waker into a slot under the lock, if none of the same task is there.
struct Renewal<'a> {
    waker: &'a Waker,
    /// Its clone, which is made outside the lock.
    spare: Option<Waker>,
    /// Whether a clone was needed and was not there.
    is_missing: bool,
}

impl Renewal<'_> {
    fn fill(&mut self, slot: &mut Option<Waker>) {
        let is_known = slot.as_ref().is_some_and(|kept| kept.will_wake(self.waker));
        if !is_known && self.spare.is_some() {
            mem::swap(slot, &mut self.spare);
            return;
        }
        self.is_missing = !is_known;
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::sync::Arc;
    use crate::sync::atomic::Ordering;
    use crate::sys::touchy::touchy_wakers;

    /// Either may run any code, such as an append to the same log.
    #[test]
    fn no_waker_is_cloned_or_dropped_under_the_lock_of_a_log() {
        let limits = Limits {
            batch_bytes: 4,
            batch_records: 1,
            queue_bytes: 4,
            queue_records: 1,
            delay_ns: 0,
        };
        let log = Arc::new(CommitQueue::new(limits, Position::default()));
        let lock: Weak<CommitQueue> = Arc::downgrade(&log);
        let is_free = move || (lock.upgrade()).is_none_or(|log| log.core.try_lock().is_some());
        let (wakers, misplaced) = touchy_wakers::<3>(is_free);
        let record = || Bytes::from_static(b"x");
        let (mut records, mut keys) = (Vec::new(), Vec::new());
        for waker in &wakers {
            assert_eq!(log.next(0, waker, &mut records), Next::Sleep);
        }
        assert!(
            log.push(Bytes::from_static(b"large"), 5, 0, Some(&wakers[0]))
                .is_err()
        );
        for waker in &wakers {
            keys.push(log.push(record(), 1, 0, Some(waker)).unwrap().key);
        }
        for waker in &wakers {
            assert!(log.poll_admitted(keys[1], waker).is_pending());
            assert!(log.poll_result(keys[2], waker).is_pending());
            assert!(log.poll_result(keys[2], waker).is_pending());
        }
        let next = log.next(0, &wakers[0], &mut records);
        assert_eq!(next, Next::Write(Position::default()));
        log.complete(&mut vec![Position::default()], &mut Vec::new());
        assert!(log.poll_result(keys[0], &wakers[1]).is_ready());
        log.cancel(keys[1]);
        log.end();
        assert!(log.poll_result(keys[2], &wakers[1]).is_ready());
        assert_eq!(misplaced.load(Ordering::SeqCst), 0);
    }
}
