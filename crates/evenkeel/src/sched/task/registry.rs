//! The waiting tasks: all that have been polled without completing.
//!
//! Shutdown has to drop every future, also of tasks that nobody will ever wake. A task that
//! completes in its first poll is never registered: until then it is in a queue, where shutdown
//! finds it.

use std::ptr;

use slab::Slab;

use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

use super::cell::{Header, Reference, Runnable};

/// A list of tasks in shards, so that workers do not contend. A task's key in it is Relaxed
/// throughout: only the task's runner touches it.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug, Default)]
struct Shard {
    tasks: Slab<Reference>,
    closed: bool,
}

/// A key has the shard's index in the upper half and the entry's in the lower, plus one.
const SHARD_SHIFT: u32 = 32;

impl Registry {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::default())).collect(),
        }
    }

    /// Registers a task that is about to wait. Returns false if the runtime is shutting down, and
    /// the task has to be cancelled. For the task's runner.
    #[inline]
    pub(crate) fn insert(&self, task: &Runnable, shard: usize) -> bool {
        let header = task.header();
        // Relaxed: see `Registry`.
        header.key.load(Ordering::Relaxed) != 0 || self.enter(task, shard)
    }

    fn enter(&self, task: &Runnable, shard: usize) -> bool {
        let mut guard = self.shards[shard].lock();
        if guard.closed {
            return false;
        }
        let entry = guard.tasks.insert(Reference::of_running(task));
        let key = ((shard as u64) << SHARD_SHIFT) + entry as u64 + 1;
        // Relaxed: see `Registry`.
        task.header().key.store(key, Ordering::Relaxed);
        true
    }

    /// Removes a task that is about to complete. For the task's runner.
    #[inline]
    pub(crate) fn remove(&self, header: &Header) {
        // Relaxed: see `Registry`.
        let key = header.key.load(Ordering::Relaxed);
        if key != 0 {
            self.take_out(header, key);
        }
    }

    fn take_out(&self, header: &Header, key: u64) {
        let (shard, entry) = ((key - 1) >> SHARD_SHIFT, (key - 1) & u64::from(u32::MAX));
        let mut guard = self.shards[shard as usize].lock();
        let reference = guard.tasks.try_remove(entry as usize);
        drop(guard);
        let is_its_own = |it: &Reference| ptr::eq(it.header(), header);
        debug_assert!(reference.as_ref().is_some_and(is_its_own), "key {key}");
        // Relaxed: see `Registry`.
        header.key.store(0, Ordering::Relaxed);
        // The body's reference outlives this one, so no future is dropped here.
        drop(reference);
    }

    /// Refuses all tasks from now on.
    pub(crate) fn close(&self) {
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.lock().closed = true);
    }

    pub(crate) fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().tasks.len()).sum()
    }

    /// References to all tasks that are registered now.
    pub(crate) fn all(&self) -> Vec<Reference> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().tasks.iter().map(|(_, task)| task.clone()));
        }
        all
    }
}
