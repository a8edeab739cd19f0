//! A runtime's workers and monitor: their start, and their end within a time limit.

use std::io;
use std::time::{Duration, Instant};

use crate::clock;
use crate::sched::shared::Shared;
use crate::sched::worker::Worker;
use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex};

use super::context;

/// The threads that have not ended, and a place to wait for them.
#[derive(Debug, Default)]
struct Alive {
    count: Mutex<usize>,
    changed: Condvar,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Threads {
    alive: Arc<Alive>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// # Errors
    ///
    /// If the system gives no thread. Those that were started end again.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let mut threads = Self {
            alive: Arc::new(Alive::default()),
            handles: Vec::new(),
        };
        for index in 0..shared.seats.len() {
            match threads.start_worker(Arc::clone(shared), index) {
                Ok(handle) => threads.handles.push(handle),
                Err(error) => return Err(threads.give_up(shared, error)),
            }
        }
        // A single worker has nobody to help it.
        if shared.seats.len() > 1 {
            match threads.start_monitor(Arc::clone(shared)) {
                Ok(handle) => threads.handles.push(handle),
                Err(error) => return Err(threads.give_up(shared, error)),
            }
        }
        Ok(threads)
    }

    fn give_up(&mut self, shared: &Shared, error: io::Error) -> io::Error {
        shared.stop();
        self.wait(clock::now() + Duration::from_secs(1));
        error
    }

    fn start_worker(&self, shared: Arc<Shared>, index: usize) -> io::Result<JoinHandle<()>> {
        let name = format!("{}-{index}", shared.config.thread_name);
        self.start_thread(name, move || {
            context::own_thread(&shared);
            let config = shared.config.clone();
            config.on_thread_start.iter().for_each(|hook| hook.run());
            context::run_worker(&Worker::new(shared, index));
            config.on_thread_stop.iter().for_each(|hook| hook.run());
        })
    }

    /// The monitor runs nothing of the user's, not even hooks.
    fn start_monitor(&self, shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
        let name = format!("{}-monitor", shared.config.thread_name);
        self.start_thread(name, move || shared.monitor.run(&shared))
    }

    fn start_thread(
        &self,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let alive = Arc::clone(&self.alive);
        *alive.count.lock() += 1;
        let started = Builder::new().name(name).spawn(move || {
            let _leave = Leave(alive);
            run();
        });
        if started.is_err() {
            *self.alive.count.lock() -= 1;
        }
        started
    }

    /// Waits until all threads have ended. Returns false if some have not by then; they go on.
    pub(crate) fn wait(&mut self, deadline: Instant) -> bool {
        let mut count = self.alive.count.lock();
        while *count > 0 {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return false;
            }
            count = self.alive.changed.wait_timeout(count, left).0;
        }
        drop(count);
        // All have left, so none of these blocks for longer than a thread's end takes. A worker
        // does not panic but by a defect or in a hook of the user's, which said so itself.
        self.handles
            .drain(..)
            .for_each(|handle| drop(handle.join()));
        true
    }
}

/// Counts a thread out, however it ends.
struct Leave(Arc<Alive>);

impl Drop for Leave {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.changed.notify_all();
    }
}
