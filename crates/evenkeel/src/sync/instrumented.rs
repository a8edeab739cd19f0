//! The standard library's locks with hooks: to pause (`preempt`), or to show ThreadSanitizer the
//! order that they make (`tsan`).
//!
//! The hooks are the methods of `Edge`: `before` locking, `acquire` and `release` while the lock is
//! held, and `after` unlocking.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
use std::time::Duration;

pub(crate) use std::sync::Arc;

#[cfg(evenkeel_preempt)]
use super::preempt::{Edge, Site};
#[cfg(evenkeel_preempt)]
pub(crate) use super::preempt::{OnceLock, atomic};
#[cfg(evenkeel_tsan)]
use super::tsan::{Edge, Site};
#[cfg(evenkeel_tsan)]
pub(crate) use super::tsan::{OnceLock, atomic};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    edge: Edge,
    lock: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            edge: Edge::new(),
            lock: std::sync::Mutex::new(value),
        }
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let site = Site::here();
        self.edge.before(site);
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.guard(held, site))
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let site = Site::here();
        self.edge.before(site);
        match self.lock.try_lock() {
            Ok(held) => Ok(self.guard(held, site)),
            Err(TryLockError::Poisoned(held)) => Ok(self.guard(held.into_inner(), site)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }

    fn guard<'a>(&'a self, held: std::sync::MutexGuard<'a, T>, site: Site) -> MutexGuard<'a, T> {
        let edge = &self.edge;
        edge.acquire(site);
        let held = Some(held);
        MutexGuard { edge, held, site }
    }

    pub(crate) fn get_mut(&mut self) -> LockResult<&mut T> {
        self.lock.get_mut()
    }

    pub(crate) fn into_inner(self) -> LockResult<T> {
        self.lock.into_inner()
    }
}

pub(crate) struct MutexGuard<'a, T> {
    edge: &'a Edge,
    /// Only taken when the guard ends.
    held: Option<std::sync::MutexGuard<'a, T>>,
    site: Site,
}

impl<'a, T> MutexGuard<'a, T> {
    /// Takes the standard library's guard, for a wait that unlocks it.
    fn begin_wait(mut self) -> (std::sync::MutexGuard<'a, T>, &'a Edge) {
        self.edge.release(self.site);
        let held = self.held.take().expect("it is held until here");
        (held, self.edge)
    }

    fn end_wait(held: std::sync::MutexGuard<'a, T>, edge: &'a Edge, site: Site) -> Self {
        edge.acquire(site);
        let held = Some(held);
        Self { edge, held, site }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.edge.release(self.site);
            drop(held);
            self.edge.after(self.site);
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("it is held until it is dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("it is held until it is dropped")
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar {
    edge: Edge,
    condvar: std::sync::Condvar,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self {
            edge: Edge::new(),
            condvar: std::sync::Condvar::new(),
        }
    }

    #[track_caller]
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let site = Site::here();
        let (held, edge) = guard.begin_wait();
        let held = self
            .condvar
            .wait(held)
            .unwrap_or_else(PoisonError::into_inner);
        Ok(MutexGuard::end_wait(held, edge, site))
    }

    #[track_caller]
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let site = Site::here();
        let (held, edge) = guard.begin_wait();
        let (held, result) = self
            .condvar
            .wait_timeout(held, timeout)
            .unwrap_or_else(PoisonError::into_inner);
        Ok((MutexGuard::end_wait(held, edge, site), result))
    }

    #[track_caller]
    pub(crate) fn notify_one(&self) {
        self.edge.before(Site::here());
        self.condvar.notify_one();
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        self.edge.before(Site::here());
        self.condvar.notify_all();
    }
}
