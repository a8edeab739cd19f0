//! The tasks that wait: all that have been polled without finishing.
//!
//! Shutdown has to drop every future, also those that nobody will ever wake. A task that finishes
//! in its first poll never enters the registry: until then it lies in a queue, where shutdown
//! finds it.

use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

use slab::Slab;

use super::cell::{Header, Reference, Runnable};

/// A list of tasks, split so that workers do not contend.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug, Default)]
struct Shard {
    tasks: Slab<Reference>,
    closed: bool,
}

/// A key is the shard's index in the upper half and the entry's in the lower, plus one.
const SHARD_SHIFT: u32 = 32;

impl Registry {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::default())).collect(),
        }
    }

    /// Enters a task that is about to wait, for its runner, which still has it to itself. Returns
    /// false if the runtime is shutting down, and the task has to be cancelled.
    #[inline]
    pub(crate) fn insert(&self, task: &Runnable, shard: usize) -> bool {
        let header = task.header();
        // Relaxed: the runner alone touches the key, here and in all below.
        header.key.load(Ordering::Relaxed) != 0 || self.enter(task, shard)
    }

    fn enter(&self, task: &Runnable, shard: usize) -> bool {
        let mut guard = self.shards[shard].lock();
        if guard.closed {
            return false;
        }
        let entry = guard.tasks.insert(Reference::of_running(task));
        let key = ((shard as u64) << SHARD_SHIFT) + entry as u64 + 1;
        // Relaxed: as in `insert`.
        task.header().key.store(key, Ordering::Relaxed);
        true
    }

    /// Strikes off a task that is about to complete, for its runner.
    #[inline]
    pub(crate) fn remove(&self, header: &Header) {
        // Relaxed: as in `insert`.
        let key = header.key.load(Ordering::Relaxed);
        if key != 0 {
            self.strike_off(header, key);
        }
    }

    fn strike_off(&self, header: &Header, key: u64) {
        let (shard, entry) = ((key - 1) >> SHARD_SHIFT, (key - 1) & u64::from(u32::MAX));
        let reference = self.shards[shard as usize]
            .lock()
            .tasks
            .try_remove(entry as usize);
        // Relaxed: as in `insert`.
        header.key.store(0, Ordering::Relaxed);
        // The body's reference outlives this one, so no future is dropped here.
        drop(reference);
    }

    /// Refuses all tasks from now on.
    pub(crate) fn close(&self) {
        self.shards
            .iter()
            .for_each(|shard| shard.lock().closed = true);
    }

    /// How many tasks wait.
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().tasks.len())
            .sum()
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
