//! The tasks of HTTP/2, in which each request has one of its own.
//!
//! hyper's connection may end before them: its client has gone, or it was cut off, and a handler is
//! in a poll that takes long. So a connection counts its requests, and its task ends after them. If
//! that task is aborted, it aborts them; then the server waits until the watchers are gone, of
//! which each request holds its connection's.
//!
//! `tasks` is locked by the task of the connection and by those of its requests, which take
//! themselves out when they end. Under the lock nothing is spawned, aborted, woken or dropped.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ::hyper::rt;
use hyper_util::server::graceful::Watcher;
use pin_project_lite::pin_project;

use super::{ServeError, Settings};
use crate::runtime;
use crate::sync::{Arc, Mutex};
use crate::task::{AbortHandle, JoinError};

/// Runs the requests of a connection over HTTP/2, counts them, and reports those that panic.
#[derive(Clone)]
pub(super) struct Requests {
    settings: Settings,
    under_way: Arc<UnderWay>,
}

struct UnderWay {
    tasks: Mutex<Tasks>,
    /// The end of the server waits until it is dropped.
    _watcher: Watcher,
}

#[derive(Default)]
struct Tasks {
    /// Those that have not ended, by number; `None` while one is being spawned.
    handles: BTreeMap<u64, Option<AbortHandle>>,
    /// The number of the next.
    next: u64,
    /// Set when the connection is cut off, and never cleared: later ones are aborted at once.
    cut_off: bool,
    /// The task of the connection, if it waits for them.
    waiting: Option<Waker>,
}

impl Requests {
    pub(super) fn new(settings: Settings, watcher: Watcher) -> Self {
        let under_way = Arc::new(UnderWay {
            tasks: Mutex::new(Tasks::default()),
            _watcher: watcher,
        });
        Self {
            settings,
            under_way,
        }
    }

    /// Waits until none is under way.
    pub(super) async fn ended(&self) {
        poll_fn(|cx| {
            let mut tasks = self.under_way.tasks.lock();
            if tasks.handles.is_empty() {
                return Poll::Ready(());
            }
            let before = tasks.waiting.replace(cx.waker().clone());
            drop(tasks);
            drop(before);
            Poll::Pending
        })
        .await;
    }
}

impl<F> rt::Executor<F> for Requests
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        let number = {
            let mut tasks = self.under_way.tasks.lock();
            let number = tasks.next;
            tasks.next += 1;
            tasks.handles.insert(number, None);
            number
        };
        let counted = Counted {
            number,
            under_way: Arc::clone(&self.under_way),
        };
        let settings = self.settings.clone();
        let task = runtime::spawn(Request {
            future,
            settings,
            _counted: counted,
        });
        let mut tasks = self.under_way.tasks.lock();
        let is_late = tasks.cut_off;
        let handle = task.abort_handle();
        // It may have ended, and taken itself out.
        let unused = match tasks.handles.get_mut(&number) {
            Some(place) => place.replace(handle),
            None => Some(handle),
        };
        drop(tasks);
        drop(unused);
        if is_late {
            task.abort();
        }
    }
}

/// Aborts the requests of a connection when it is dropped.
pub(super) struct CutOff<'a>(pub(super) &'a Requests);

impl Drop for CutOff<'_> {
    fn drop(&mut self) {
        let handles: Vec<_> = {
            let mut tasks = self.0.under_way.tasks.lock();
            tasks.cut_off = true;
            tasks
                .handles
                .values_mut()
                .filter_map(Option::take)
                .collect()
        };
        handles.iter().for_each(AbortHandle::abort);
    }
}

pin_project! {
    /// A request. Its future is dropped before it no longer counts.
    struct Request<F> {
        #[pin]
        future: F,
        settings: Settings,
        _counted: Counted,
    }
}

impl<F: Future> Future for Request<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let request = self.project();
        // After a panic the future is only dropped.
        let polled = catch_unwind(AssertUnwindSafe(|| request.future.poll(cx)));
        let settings = request.settings;
        match polled {
            Ok(polled) => polled.map(|_| ()),
            Err(payload) => {
                settings.report(ServeError::Task(JoinError::panic(payload)));
                Poll::Ready(())
            }
        }
    }
}

/// One that is under way, until it is dropped.
struct Counted {
    number: u64,
    under_way: Arc<UnderWay>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut tasks = self.under_way.tasks.lock();
        let handle = tasks.handles.remove(&self.number);
        let waiting = if tasks.handles.is_empty() {
            mem::take(&mut tasks.waiting)
        } else {
            None
        };
        drop(tasks);
        drop(handle);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}
