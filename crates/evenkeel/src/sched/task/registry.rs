//! The waiting tasks: all that have been polled without completing.
//!
//! Shutdown has to drop every future, also of tasks that nobody will ever wake. A task that
//! completes in its first poll is never registered: until then it is in a queue, where shutdown
//! finds it.

use std::ptr;

use slab::Slab;

use crate::class::{CLASSES_MAX, Class};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

use super::Id;
use super::cell::{Header, Reference, Runnable};

/// A list of tasks in shards, so that workers do not contend. A task's key in it is Relaxed
/// throughout: only the task's runner touches it.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug)]
struct Shard {
    tasks: Slab<Reference>,
    /// How many there are of each class. It is changed where the lock is held anyhow, so that to
    /// count the tasks by class takes no walk over all of them.
    by_class: [usize; CLASSES_MAX],
    closed: bool,
}

impl Shard {
    fn new() -> Self {
        Self {
            tasks: Slab::new(),
            by_class: [0; CLASSES_MAX],
            closed: false,
        }
    }
}

/// How many tasks a walk looks at before it lets go of the lock, for which a worker may be waiting:
/// some microseconds, if none of them is in a cache.
const WALK_STEP: usize = 64;

/// A key has the shard's index in the upper half and the entry's in the lower, plus one.
const SHARD_SHIFT: u32 = 32;

fn shard_of(key: u64) -> usize {
    ((key - 1) >> SHARD_SHIFT) as usize
}

fn entry_of(key: u64) -> usize {
    ((key - 1) & u64::from(u32::MAX)) as usize
}

fn key_of(shard: usize, entry: usize) -> u64 {
    ((shard as u64) << SHARD_SHIFT) + entry as u64 + 1
}

impl Registry {
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::new())).collect(),
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
        guard.by_class[task.header().class().index()] += 1;
        // Relaxed: see `Registry`.
        (task.header().key).store(key_of(shard, entry), Ordering::Relaxed);
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
        let mut guard = self.shards[shard_of(key)].lock();
        let reference = guard.tasks.try_remove(entry_of(key));
        if reference.is_some() {
            guard.by_class[header.class().index()] -= 1;
        }
        drop(guard);
        let is_its_own = |it: &Reference| ptr::eq(it.header(), header);
        debug_assert!(reference.as_ref().is_some_and(is_its_own), "key {key}");
        // Relaxed: see `Registry`.
        header.key.store(0, Ordering::Relaxed);
        // The body's reference outlives this one, so no future is dropped here.
        drop(reference);
    }

    /// Puts a task into another class. For who has the right to run it.
    pub(crate) fn change_class(&self, header: &Header, class: Class) {
        // Relaxed: see `Registry`.
        let key = header.key.load(Ordering::Relaxed);
        if key == 0 {
            return header.change_class(class);
        }
        let mut guard = self.shards[shard_of(key)].lock();
        guard.by_class[header.class().index()] -= 1;
        guard.by_class[class.index()] += 1;
        header.change_class(class);
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

    /// How many there are of each class.
    pub(crate) fn len_by_class(&self) -> [usize; CLASSES_MAX] {
        let mut sums = [0; CLASSES_MAX];
        for shard in &self.shards {
            let by_class = shard.lock().by_class;
            (sums.iter_mut().zip(by_class)).for_each(|(sum, count)| *sum += count);
        }
        sums
    }

    /// Visits all tasks that are registered throughout, and some of those that come and go
    /// meanwhile, each with its key. Under a lock: a visit must not drop a reference.
    pub(crate) fn walk(&self, mut visit: impl FnMut(u64, &Header)) {
        for (index, shard) in self.shards.iter().enumerate() {
            for first in (0..).step_by(WALK_STEP) {
                let guard = shard.lock();
                if first >= guard.tasks.capacity() {
                    break;
                }
                for entry in first..first + WALK_STEP {
                    if let Some(task) = guard.tasks.get(entry) {
                        visit(key_of(index, entry), task.header());
                    }
                }
            }
        }
    }

    /// The task that a walk has shown with this key, if it is still there.
    pub(crate) fn reference(&self, key: u64, id: Id) -> Option<Reference> {
        let guard = self.shards[shard_of(key)].lock();
        let task = guard.tasks.get(entry_of(key))?;
        (Id::from(task.header()) == id).then(|| task.clone())
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
