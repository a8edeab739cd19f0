//! How a lane gets its threads, and what becomes of its work if the system refuses one.

use std::io;

use crate::class::Class;
use crate::sched::config::Hook;
use crate::sched::context;
use crate::sched::shared::Shared;
use crate::sched::spawn::Spawn;
use crate::sync::Arc;
use crate::sync::thread::JoinHandle;
use crate::sys;

use super::super::LaneError;
use super::{Core, Job, Leave, run_here};

impl Core {
    /// Starts a thread. It would inherit the priority of this one, which may be a hog's, and could
    /// never raise it: then the monitor starts it.
    pub(super) fn call_thread(self: &Arc<Self>, shared: &Arc<Shared>) {
        let is_lowered = || sys::thread::nice() > shared.heavy_pool.nice();
        let by_monitor = shared.config.is_watched() && is_lowered();
        let (core, starter) = (Arc::clone(self), Arc::clone(shared));
        let start = move || {
            if let Err(error) = core.start_thread(&starter) {
                // What gives up the work runs the user's code, which is not for the monitor.
                let gives_up = GivesUp(core, Arc::clone(&starter), error.kind());
                let spawn = Spawn::new(Some(Class::URGENT), None);
                drop(spawn.on(&starter, async move { drop(gives_up) }));
            }
        };
        if by_monitor && shared.monitor.ask(start).is_ok() {
            return;
        }
        if let Err(error) = self.start_thread(shared) {
            drop(GivesUp(Arc::clone(self), Arc::clone(shared), error.kind()));
        }
    }

    fn start_thread(self: &Arc<Self>, starter: &Arc<Shared>) -> io::Result<()> {
        let shared = Arc::clone(starter);
        let core = Arc::clone(self);
        let runtime = &shared.config.thread_name;
        let name = format!("{runtime}-{}", self.settings.thread_suffix);
        let started = starter.config.thread(name).spawn(move || {
            context::own_thread(&shared);
            let config = &shared.config;
            let _entered = context::enter(Arc::clone(&shared));
            let _leave = Leave(&core, &shared);
            config.surrounded(|| {
                config.on_thread_start.iter().for_each(Hook::run);
                core.run_thread(&shared);
                config.on_thread_stop.iter().for_each(Hook::run);
            });
        });
        started.map(|thread| self.keep_track(thread))
    }

    /// Keeps a thread's handle, to be joined at the end, and drops those that have ended.
    pub(super) fn keep_track(&self, thread: JoinHandle<()>) {
        let mut state = self.state.lock();
        let ended = state.handles.extract_if(.., |thread| thread.is_finished());
        let ended: Vec<_> = ended.collect();
        state.handles.push(thread);
        drop(state);
        // Dropped outside the lock: a handle may hold the payload of a panic in the user's hook,
        // whose drop may run any code.
        drop(ended);
    }

    /// A thread that was expected could not be started. If there are others, they do the work;
    /// otherwise it is refused rather than left waiting for ever.
    pub(super) fn give_up_thread(self: &Arc<Self>, shared: &Arc<Shared>, kind: io::ErrorKind) {
        let mut state = self.state.lock();
        state.threads -= 1;
        let left = if state.threads == 0 {
            state.order.take_all()
        } else {
            Vec::new()
        };
        let (patient, orphans): (Vec<Job>, Vec<Job>) =
            left.into_iter().partition(|job| job.patient);
        self.note_queued(&state);
        state.tally.refused += orphans.len() as u64;
        // The submitter set no timer, as it expected this thread. Now one is needed, as the others
        // may hang.
        let waits = !state.order.is_empty() && self.settings.wait.is_some();
        let arm = waits && !state.armed && !state.closed;
        state.armed |= arm;
        drop(state);
        self.ended.notify_all();
        if arm && let Some(wait) = self.settings.wait {
            self.set_timer(shared, wait);
        }
        for job in orphans {
            job.task.fail(
                LaneError::NoThread {
                    lane: Arc::clone(&self.settings.name),
                    kind,
                }
                .into_join(),
            );
        }
        // Perhaps no thread would ever come to do it.
        patient.into_iter().for_each(|job| run_here(job.task));
    }
}

/// A thread that could not be started: it is given up when this is dropped, also by a task that is
/// cancelled.
struct GivesUp(Arc<Core>, Arc<Shared>, io::ErrorKind);

impl Drop for GivesUp {
    fn drop(&mut self) {
        let Self(core, shared, kind) = self;
        core.state.lock().coming -= 1;
        core.give_up_thread(shared, *kind);
    }
}
