//! The pool of threads for blocking work: bounded in threads and in what may wait.

use std::collections::VecDeque;
use std::panic::Location;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::clock;
use crate::runtime::config::{Config, Hook};
use crate::runtime::context;
use crate::runtime::handle::Handle;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex};
use crate::task::cell::{Ran, Runnable};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    /// There is work, or the pool closes.
    work: Condvar,
    /// A thread has ended.
    ended: Condvar,
    threads_max: usize,
    queue_limit: usize,
    keep_alive: Duration,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Runnable>,
    threads: usize,
    idle: usize,
    /// Those of the threads, and of some that have ended since.
    handles: Vec<JoinHandle<()>>,
    closed: bool,
    /// Where the work that runs was spawned.
    running: Slab<&'static Location<'static>>,
}

/// What the pool looks like at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolStats {
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) queued: usize,
}

impl Pool {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            ended: Condvar::new(),
            threads_max: config.max_blocking_threads,
            queue_limit: config.blocking_queue_limit,
            keep_alive: config.blocking_keep_alive,
        }
    }

    /// Queues work, and starts a thread for it if none is idle. If the queue is full or the pool
    /// closed, the work is refused or cancelled, which its join handle says.
    pub(crate) fn submit(&self, handle: &Handle, task: Runnable) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            task.cancel(|_| ());
            return;
        }
        if state.queue.len() >= self.queue_limit {
            drop(state);
            task.refuse();
            return;
        }
        state.queue.push_back(task);
        if state.idle >= state.queue.len() {
            drop(state);
            self.work.notify_one();
            return;
        }
        if state.threads < self.threads_max {
            state.threads += 1;
            drop(state);
            self.start_thread(handle);
        }
    }

    fn start_thread(&self, handle: &Handle) {
        let handle = handle.clone();
        let name = format!("{}-blocking", handle.shared().config.thread_name);
        let started = thread::Builder::new().name(name).spawn(move || {
            context::own_thread(handle.shared());
            let config = &handle.shared().config;
            let _entered = context::enter(handle.clone());
            let _leave = Leave(&handle);
            config.on_thread_start.iter().for_each(Hook::run);
            handle.shared().pool.run_thread();
            config.on_thread_stop.iter().for_each(Hook::run);
        });
        match started {
            Ok(thread) => self.keep_track(thread),
            Err(_) => self.give_up_thread(),
        }
    }

    /// Remembers a thread, to be joined at the end, and forgets those that have ended.
    fn keep_track(&self, thread: JoinHandle<()>) {
        let mut state = self.state.lock();
        state.handles.retain(|handle| !handle.is_finished());
        state.handles.push(thread);
    }

    /// There is one thread less than counted on. If there are others, one of them will do the work;
    /// if there are none, it is refused rather than left waiting for ever.
    fn give_up_thread(&self) {
        let mut state = self.state.lock();
        state.threads -= 1;
        let orphans = if state.threads == 0 {
            std::mem::take(&mut state.queue)
        } else {
            VecDeque::new()
        };
        drop(state);
        self.ended.notify_all();
        orphans.into_iter().for_each(|task| task.refuse());
    }

    /// Does work until there has been none for the time to keep alive, or the pool closes.
    fn run_thread(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.queue.pop_front() {
                let running = state.running.insert(task.header().spawned_at());
                drop(state);
                // The work never waits, so it is complete after one run.
                if let Ran::Again(task) = task.run(|_| true, |_| ()) {
                    task.cancel(|_| ());
                }
                state = self.state.lock();
                state.running.remove(running);
                continue;
            }
            if state.closed {
                return;
            }
            state.idle += 1;
            let began = clock::now();
            let (guard, _) = self.work.wait_timeout(state, self.keep_alive);
            state = guard;
            state.idle -= 1;
            if state.queue.is_empty() && began.elapsed() >= self.keep_alive {
                return;
            }
        }
    }

    /// A thread of the pool is done. Work that came after it decided to leave has counted on it,
    /// as the most threads were there; then another takes its place.
    fn end_thread(&self, handle: &Handle) {
        let mut state = self.state.lock();
        let replace = !state.closed && state.queue.len() > state.idle;
        if !replace {
            state.threads -= 1;
        }
        drop(state);
        if replace {
            self.start_thread(handle);
        } else {
            self.ended.notify_all();
        }
    }

    /// Refuses work from now on, and cancels what waits for a thread.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.queue);
        drop(state);
        self.work.notify_all();
        waiting.into_iter().for_each(|task| task.cancel(|_| ()));
    }

    /// Waits, after [`close`](Pool::close), for what runs. Returns false if some work has not ended
    /// by the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while state.threads > 0 {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return false;
            }
            state = self.ended.wait_timeout(state, left).0;
        }
        let ended = std::mem::take(&mut state.handles);
        drop(state);
        // They have counted themselves out, so none of these blocks for longer than a thread's
        // end takes; after it, they hold nothing of the runtime's any more.
        ended.into_iter().for_each(|thread| drop(thread.join()));
        true
    }

    /// Where the work that runs was spawned.
    pub(crate) fn running(&self) -> Vec<&'static Location<'static>> {
        self.state
            .lock()
            .running
            .iter()
            .map(|(_, location)| *location)
            .collect()
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let state = self.state.lock();
        PoolStats {
            threads: state.threads,
            idle: state.idle,
            queued: state.queue.len(),
        }
    }
}

/// Counts a thread out, however it ends.
struct Leave<'a>(&'a Handle);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let pool = &self.0.shared().pool;
        if thread::panicking() {
            // A hook of the user's panicked, and would do so on the next thread, too.
            pool.give_up_thread();
        } else {
            pool.end_thread(self.0);
        }
    }
}
