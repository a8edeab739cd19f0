//! The core behind its lock: what those who append and the one who commits share.
//!
//! Nothing is woken and no record or waker dropped under the lock, since either may run anything.

use std::task::{Poll, Waker};

use bytes::Bytes;

use super::Position;
use super::core::{Core, Depth, Limits, Next, Refused, Totals};
use super::error::{CommitError, Failure, Kind};
use crate::io::readiness::wake_all;
use crate::sync::Mutex;

/// Of how many records of a batch it is said in one go that they are durable.
const TOLD_AT_ONCE: usize = 64;

pub(super) struct Shared {
    core: Mutex<Core<Waker>>,
    limits: Limits,
}

impl Shared {
    pub(super) fn new(limits: Limits, next: Position) -> Self {
        Self {
            core: Mutex::new(Core::new(limits, next)),
            limits,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Hands a record in; its key is for the functions below. `waker` is woken when there is a
    /// result.
    pub(super) fn push(
        &self,
        record: Bytes,
        now_ns: u64,
        waker: Option<&Waker>,
    ) -> Result<usize, CommitError> {
        let bytes = record.len();
        let pushed = self.core.lock().push(record, now_ns, || waker.cloned());
        match pushed {
            Ok((key, committer)) => {
                committer.into_iter().for_each(Waker::wake);
                Ok(key)
            }
            Err((refused, record)) => {
                drop(record);
                Err(self.refused(refused, bytes))
            }
        }
    }

    /// Waits until the record has room in the queue.
    pub(super) fn poll_admitted(&self, key: usize, waker: &Waker) -> Poll<()> {
        let mut before = None;
        let admitted = self
            .core
            .lock()
            .is_admitted(key, |old| renewed(old, waker, &mut before));
        drop(before);
        if admitted {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Waits for what becomes of the record. Once it is ready, the key is none any more.
    pub(super) fn poll_result(
        &self,
        key: usize,
        waker: &Waker,
    ) -> Poll<Result<Position, CommitError>> {
        let mut before = None;
        let result = self
            .core
            .lock()
            .result(key, |old| renewed(old, waker, &mut before));
        drop(before);
        match result {
            // What is left of the record is dropped here, outside the lock.
            Some((result, _record)) => Poll::Ready(result.map_err(failed)),
            None => Poll::Pending,
        }
    }

    /// Nobody waits for the record any more.
    pub(super) fn cancel(&self, key: usize) {
        let mut wake = Vec::new();
        let cancelled = self.core.lock().cancel(key, &mut wake);
        drop(cancelled);
        wake_all(&mut wake);
    }

    /// What the one who commits is to do next.
    pub(super) fn next(&self, now_ns: u64, waker: &Waker, records: &mut Vec<Bytes>) -> Next {
        let mut wake = Vec::new();
        let next = self
            .core
            .lock()
            .next(now_ns, || waker.clone(), records, &mut wake);
        wake_all(&mut wake);
        next
    }

    /// The batch is durable. `wake` is empty, before and after, and kept for its memory. Returns
    /// how many records the next batch would have if all who hear of this one came again.
    pub(super) fn complete(&self, wake: &mut Vec<Waker>) -> usize {
        let hoped = self.core.lock().hoped();
        // In parts, as the first may go on while the others are told.
        while self.core.lock().complete(TOLD_AT_ONCE, wake) {
            wake_all(wake);
        }
        wake_all(wake);
        hoped
    }

    /// How many records the next batch has so far, unless it is not to be waited for.
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

    /// A key for `poll_result`, which is ready when all is written.
    pub(super) fn await_end(&self) -> usize {
        self.core.lock().await_end()
    }

    /// The one who commits is gone.
    pub(super) fn end(&self) {
        let mut wake = Vec::new();
        self.core.lock().end(&mut wake);
        wake_all(&mut wake);
    }

    pub(super) fn failure(&self) -> Option<CommitError> {
        self.core.lock().failure().cloned().map(failed)
    }

    pub(super) fn accounts(&self) -> (Totals, Depth) {
        let core = self.core.lock();
        (core.totals(), core.depth())
    }

    fn refused(&self, refused: Refused, bytes: usize) -> CommitError {
        CommitError(match refused {
            Refused::TooLarge => Kind::TooLarge {
                bytes,
                bytes_max: self.limits.batch_bytes,
            },
            Refused::Closed => Kind::Closed,
            Refused::Failed(failure) => Kind::Failed(failure),
        })
    }
}

fn failed(failure: Failure) -> CommitError {
    CommitError(Kind::Failed(failure))
}

/// The waker to keep: the old one if it wakes the same task. One that is replaced goes to `before`,
/// to be dropped outside the lock.
fn renewed(old: Option<Waker>, waker: &Waker, before: &mut Option<Waker>) -> Waker {
    match old {
        Some(old) if old.will_wake(waker) => old,
        old => {
            *before = old;
            waker.clone()
        }
    }
}
