//! The tasks of HTTP/2, in which each request has one of its own.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use ::hyper::rt;

use super::{ServeError, Settings};
use crate::runtime;
use crate::task::JoinError;

/// Runs the requests of HTTP/2, and reports one that panics: nobody waits for these tasks.
#[derive(Clone)]
pub(super) struct Requests(pub(super) Settings);

impl<F> rt::Executor<F> for Requests
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        let settings = self.0.clone();
        // Dropping the handle lets the task run on. It ends with its connection.
        drop(runtime::spawn(async move {
            let mut future = pin!(future);
            let caught = poll_fn(|cx| {
                // After a panic the future is only dropped.
                match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
                    Ok(polled) => polled.map(|_| Ok(())),
                    Err(payload) => Poll::Ready(Err(payload)),
                }
            });
            if let Err(payload) = caught.await {
                settings.report(ServeError::Task(JoinError::panic(payload)));
            }
        }));
    }
}
