//! Asking tasks where they wait.
//!
//! A task says it by a poll (`task::trace`). So it is marked and woken; its runner makes a traced
//! poll instead of an ordinary one, and hands over what that has shown. The future's contract
//! allows such a poll at any time.
//!
//! One thread asks at a time: dumps have a lane with one thread (`blocking::lanes`). It keeps
//! references to the tasks that it has asked, so that no other task gets the address of one of them
//! meanwhile. A task that completes, or is aborted, hands over nothing; that thread looks for such
//! tasks now and then. So it does for a runtime that stops, which it does not keep from ending.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::clock;
use crate::sync::{Condvar, Mutex};

use super::shared::Shared;
use super::task::Id;
use super::task::cell::{Header, Reference};
use super::task::state::Phase;
use super::task::trace::{self, Trace};
use super::within;

/// So many tasks are asked at once, so that others need not wait behind the polls of all.
const ASKED_AT_ONCE: usize = 64;
/// How long these are waited for before the next ones are asked: some may be of a class that gets
/// no time.
const STEP: Duration = Duration::from_millis(5);
/// How often the asking thread looks for tasks that have completed.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Marks in a task's `since` that a dump has put it back: the task is about to wait again, though
/// it may still be said to run, and has not run since then. No clock counts so far.
const PUT_BACK: u64 = 1 << 63;

/// Since when a task is ready, runs or waits, in cycles, and whether a dump has put that back.
pub(crate) fn since_of(task: &Header) -> (u64, bool) {
    let since = task.since.load();
    (since & !PUT_BACK, since & PUT_BACK != 0)
}

/// The task has waited since then, and not only since the poll that a dump has had it make.
pub(crate) fn put_back(task: &Header, since: u64) {
    task.since.put(since | PUT_BACK);
}

#[derive(Debug, Default)]
pub(crate) struct Dumps {
    state: Mutex<State>,
    /// Notified when as many have come as are waited for.
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether somebody asks. What comes later is dropped.
    is_open: bool,
    waited_for: usize,
    traces: HashMap<Id, Trace>,
    /// Since when those have waited that waited when they were asked, in cycles.
    waiting: HashMap<Id, u64>,
}

impl Dumps {
    /// Hands over what the traced poll of a task has shown. For its runner, which has made the poll
    /// just now on this thread.
    #[cold]
    pub(crate) fn deliver(&self, task: &Header) {
        task.mark.end();
        let mut trace = trace::take();
        trace.is_woken = task.phase() == Phase::Running { woken: true };
        let mut state = self.state.lock();
        if !state.is_open {
            return;
        }
        // It has waited on, as far as its owner is concerned: the poll was ours. One that was woken
        // besides seems to have waited for longer than it has.
        if let Some(since) = state.waiting.get(&task.into()).filter(|_| !trace.is_woken) {
            put_back(task, *since);
        }
        state.traces.insert(task.into(), trace);
        let are_all = state.traces.len() >= state.waited_for;
        drop(state);
        if are_all {
            self.arrived.notify_one();
        }
    }

    /// Has the tasks polled, and returns what that has shown until the deadline. It costs a poll of
    /// each. For one thread at a time, which is no worker's.
    pub(crate) fn ask(
        &self,
        shared: &Shared,
        tasks: &[Reference],
        deadline: Instant,
    ) -> HashMap<Id, Trace> {
        trace::note_within(within::here);
        self.state.lock().is_open = true;
        let mut asked = 0;
        for some in tasks.chunks(ASKED_AT_ONCE) {
            if shared.is_stopping() || clock::now() >= deadline {
                break;
            }
            let waiting = some.iter().map(Reference::header);
            let waiting = waiting.filter(|task| task.phase() == Phase::Waiting);
            let waiting = waiting.map(|task| (task.into(), since_of(task).0));
            self.state.lock().waiting = waiting.collect();
            for task in some {
                task.header().mark.ask();
                task.wake();
            }
            asked += some.len();
            let step = clock::now() + STEP;
            self.wait(shared, some, step.min(deadline));
        }
        let asked = &tasks[..asked];
        for some in asked.chunks(ASKED_AT_ONCE) {
            self.wait(shared, some, deadline);
        }
        asked.iter().for_each(|task| task.header().mark.take_back());
        std::mem::take(&mut *self.state.lock()).traces
    }

    /// Waits until these tasks have been polled or have completed, or the runtime stops.
    fn wait(&self, shared: &Shared, asked: &[Reference], deadline: Instant) {
        let mut state = self.state.lock();
        loop {
            let traces = &state.traces;
            let is_missing = |task: &&Reference| {
                !traces.contains_key(&Id::from(task.header())) && !task.is_complete()
            };
            let missing = asked.iter().filter(is_missing).count();
            let left = deadline.saturating_duration_since(clock::now());
            if missing == 0 || left.is_zero() || shared.is_stopping() {
                return;
            }
            state.waited_for = traces.len() + missing;
            (state, _) = self.arrived.wait_timeout(state, left.min(LOOK_AGAIN));
        }
    }
}
