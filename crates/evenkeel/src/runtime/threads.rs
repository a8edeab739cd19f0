//! A runtime's workers and monitor: their start, and their end within a time limit.

use std::io;
use std::time::{Duration, Instant};

use crate::clock;
use crate::sched::monitor::{self, Start, Stuck};
use crate::sched::shared::Shared;
use crate::sched::worker::Worker;
use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex};
use crate::sys::thread;

use crate::sched::config::Hook;
use crate::sched::context;

/// The threads that have not ended, and a place to wait for them.
#[derive(Debug, Default)]
struct Alive {
    count: Mutex<usize>,
    changed: Condvar,
    /// To be joined at the end. Handles of ended threads are dropped when others start.
    handles: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
pub(crate) enum StartError {
    Thread(io::Error),
    RealTime(io::Error),
}

/// An extension of the runtime, so that a poll can ask for an heir.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    alive: Arc<Alive>,
}

impl Threads {
    /// # Errors
    ///
    /// A thread cannot be started, or not with real-time priority. The threads that were started
    /// end again.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, StartError> {
        let threads = shared.extensions.get::<Self>().clone();
        if !shared.config.real_time.is_ever() {
            threads.start_all(shared).map_err(StartError::Thread)?;
            return Ok(threads);
        }
        // The threads inherit the priority. If each had to get a processor first, to ask for it, it
        // could wait long behind those that have it already.
        let (all, shared) = (threads.clone(), Arc::clone(shared));
        let starter = Builder::new().spawn(move || {
            thread::set_real_time(thread::REAL_TIME_MONITOR, true).map_err(StartError::RealTime)?;
            all.start_all(&shared).map_err(StartError::Thread)
        });
        let started = starter.map_err(StartError::Thread)?.join();
        // The thread does not panic.
        started.unwrap_or_else(|_| Err(StartError::Thread(io::Error::other("it panicked"))))?;
        Ok(threads)
    }

    fn start_all(&self, shared: &Arc<Shared>) -> io::Result<()> {
        for worker in 0..shared.seats.len() {
            if let Err(error) = self.start_worker(Arc::clone(shared), worker) {
                return Err(self.give_up(shared, error));
            }
        }
        if shared.config.is_watched()
            && let Err(error) = self.start_monitor(Arc::clone(shared))
        {
            return Err(self.give_up(shared, error));
        }
        Ok(())
    }

    fn give_up(&self, shared: &Arc<Shared>, error: io::Error) -> io::Error {
        shared.stop();
        self.wait(clock::now() + Duration::from_secs(1));
        error
    }

    fn start_worker(&self, shared: Arc<Shared>, index: usize) -> io::Result<()> {
        let name = shared.config.worker_name(index);
        self.start_thread(name, &Arc::clone(&shared), move || {
            let desk = shared.seats[index].desk();
            let sitting = Sitting::new(&shared, desk);
            let worker = Worker::new(Arc::clone(&shared), index, desk);
            worker.begin();
            context::run_worker(&worker);
            drop(sitting);
        })
    }

    /// Starts a thread that takes over a seat, if its holder is still stuck.
    pub(super) fn start_heir(&self, shared: Arc<Shared>, stuck: Stuck) -> io::Result<()> {
        let name = shared.config.worker_name(stuck.worker);
        self.start_thread(name, &Arc::clone(&shared), move || {
            if let Some((worker, desk)) = Worker::take_over(&shared, stuck) {
                let sitting = Sitting::new(&shared, desk);
                context::run_worker(&worker);
                drop(sitting);
            }
        })
    }

    fn start_heavy(&self, shared: Arc<Shared>) -> io::Result<()> {
        let name = format!("{}-heavy", shared.config.thread_name);
        self.start_thread(name, &Arc::clone(&shared), move || {
            let Some(desk) = shared.desks.take() else {
                // Not reached, as there is a desk for each thread that the pool may have.
                return shared.heavy_pool.give_up_thread();
            };
            let sitting = Sitting::new(&shared, desk);
            shared.heavy_pool.join(desk);
            let home = shared.next_home();
            let worker = Worker::without_seat(Arc::clone(&shared), home, desk);
            context::run_worker(&worker);
            drop(sitting);
        })
    }

    /// The monitor runs no code of the user's, not even hooks. If workers have real-time priority,
    /// it has a higher one, to get a processor even if stuck workers have them all. It takes their
    /// priority away first, so the threads that it starts need none.
    fn start_monitor(&self, shared: Arc<Shared>) -> io::Result<()> {
        let name = format!("{}-monitor", shared.config.thread_name);
        let threads = self.clone();
        self.start_bare(Builder::new().name(name), move || {
            if shared.config.real_time.is_ever() {
                // It has inherited the priority. The threads that it starts are not to.
                let _ = thread::set_real_time(thread::REAL_TIME_MONITOR, false);
            }
            let start = |wanted| match wanted {
                Start::Seat(stuck) => threads.start_heir(Arc::clone(&shared), stuck),
                Start::HeavyThread => threads.start_heavy(Arc::clone(&shared)),
            };
            monitor::run(&shared, &start);
        })
    }

    fn start_thread(
        &self,
        name: String,
        shared: &Arc<Shared>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let thread = shared.config.thread(name);
        let shared = Arc::clone(shared);
        self.start_bare(thread, move || {
            if shared.config.real_time.is_ever() {
                // The first workers have inherited the priority. Hooks run without it.
                let _ = thread::set_ordinary();
                // A thread that one of real-time priority starts begins at level 0.
                thread::set_nice(shared.heavy_pool.nice());
            }
            context::own_thread(&shared);
            let config = shared.config.clone();
            drop(shared);
            config.surrounded(|| {
                config.on_thread_start.iter().for_each(Hook::run);
                run();
                config.on_thread_stop.iter().for_each(Hook::run);
            });
        })
    }

    fn start_bare(&self, thread: Builder, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let alive = Arc::clone(&self.alive);
        *alive.count.lock() += 1;
        let started = thread.spawn(move || {
            let _leave = Leave(alive);
            run();
        });
        match started {
            Ok(handle) => {
                let mut handles = self.alive.handles.lock();
                let ended = handles.extract_if(.., |handle| handle.is_finished());
                let ended: Vec<_> = ended.collect();
                handles.push(handle);
                drop(handles);
                // Not under the lock: they may hold the payload of a panic in a hook, whose drop
                // may run any code.
                drop(ended);
                Ok(())
            }
            Err(error) => {
                *self.alive.count.lock() -= 1;
                Err(error)
            }
        }
    }

    /// Waits until all threads have ended. Returns false if some have not by then; they go on.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let mut count = self.alive.count.lock();
        while *count > 0 {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return false;
            }
            count = self.alive.changed.wait_timeout(count, left).0;
        }
        drop(count);
        // All have left, so a join takes no longer than a thread's end. The panic hook has reported
        // any panic.
        let handles = std::mem::take(&mut *self.alive.handles.lock());
        handles.into_iter().for_each(|handle| drop(handle.join()));
        true
    }
}

/// A thread's use of a desk, which is free again when the thread is done, however it ends.
struct Sitting {
    shared: Arc<Shared>,
    desk: usize,
}

impl Sitting {
    fn new(shared: &Arc<Shared>, desk: usize) -> Self {
        shared.desks.get(desk).sit();
        Self {
            shared: Arc::clone(shared),
            desk,
        }
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        self.shared.desks.get(self.desk).rise();
        self.shared.desks.give_back(self.desk);
    }
}

struct Leave(Arc<Alive>);

impl Drop for Leave {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.changed.notify_all();
    }
}
