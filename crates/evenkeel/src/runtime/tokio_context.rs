//! A runtime of Tokio's beside this one, for crates that need its reactor.
//!
//! It has one thread, which starts and ends with this runtime. Every thread of this runtime, and
//! every thread while it is in `block_on`, has entered it, so that Tokio's sockets and timers can
//! be made anywhere. The reactor's thread belongs to this runtime in turn: what is spawned there
//! may use it.

use std::io;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::oneshot;

use crate::sched::config::Surround;
use crate::sched::context;
use crate::sched::shared::Shared;
use crate::sync::thread::{self, JoinHandle, ThreadId};
use crate::sync::{Arc, Condvar, Mutex};

/// How long the end of this runtime waits for that of Tokio's: a task there may be in a poll that
/// does not return.
const END_WAIT: Duration = Duration::from_secs(1);

/// A runtime of Tokio's whose thread has not been started.
pub(super) struct TokioContext(runtime::Runtime);

impl TokioContext {
    pub(super) fn new() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self(runtime?))
    }

    /// Runs functions with the runtime entered.
    pub(super) fn surround(&self) -> Surround {
        let handle = self.0.handle().clone();
        Surround::new(move |run| {
            let _entered = handle.enter();
            run();
        })
    }

    pub(super) fn start(self, shared: &Arc<Shared>) -> io::Result<TokioThread> {
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = Arc::new(Ended::default());
        let leave = Leave(Arc::clone(&ended));
        let name = format!("{}-tokio", shared.config.thread_name);
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let _leave = leave;
            context::own_thread(&shared);
            let _entered = context::enter(shared);
            // Stopped by a message or by the loss of its sender.
            let _ = self.0.block_on(stopped);
            self.0.shutdown_background();
        })?;
        Ok(TokioThread {
            stop: Some(stop),
            ended,
            id: thread.thread().id(),
            thread: Some(thread),
        })
    }
}

/// The thread of Tokio's runtime, which ends when this is dropped.
pub(super) struct TokioThread {
    stop: Option<oneshot::Sender<()>>,
    ended: Arc<Ended>,
    id: ThreadId,
    thread: Option<JoinHandle<()>>,
}

impl Drop for TokioThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if thread::current().id() == self.id || !self.ended.wait(END_WAIT) {
            return;
        }
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported any panic.
            drop(thread.join());
        }
    }
}

#[derive(Default)]
struct Ended {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    /// Returns false if the thread has not ended within about this time.
    fn wait(&self, limit: Duration) -> bool {
        let deadline = crate::clock::now() + limit;
        let mut ended = self.ended.lock();
        while !*ended {
            let left = deadline.saturating_duration_since(crate::clock::now());
            if left.is_zero() {
                return false;
            }
            ended = self.changed.wait_timeout(ended, left).0;
        }
        true
    }
}

struct Leave(Arc<Ended>);

impl Drop for Leave {
    fn drop(&mut self) {
        *self.0.ended.lock() = true;
        self.0.changed.notify_all();
    }
}
