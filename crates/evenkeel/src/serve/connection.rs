//! One connection: its service, and the limit for its first request.
//!
//! hyper limits the time for a head once it knows that the client speaks HTTP/1. What comes before,
//! and a client of HTTP/2 that asks for nothing, is limited here.
//!
//! `asked` is set by the first request, `ending` by the server when it is told to end; neither is
//! cleared. Both are `Relaxed`, as they are flags alone. The task that set `asked` looks at it, or
//! one that shares the connection; and whoever sets `ending` then wakes each connection.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ::hyper::Request;
use ::hyper::service::Service;

use super::AnyError;
use super::requests::{CutOff, Requests};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::sleep;

/// How long a shutdown waits for the first request of a connection. It has to suffice for a client
/// of HTTP/2 that is just beginning to be told that it should go elsewhere, which takes a round
/// trip; clients that stall hold the end up for as long.
const FIRST_AT_THE_END: Duration = Duration::from_secs(1);

/// The address of a request's peer, among the request's extensions. With axum, a handler takes it
/// as `Extension<Peer<SocketAddr>>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer<A>(
    /// The address.
    pub A,
);

/// Gives each request its peer, and notes that there was one.
#[derive(Clone)]
pub(super) struct Noted<S, A> {
    pub(super) service: S,
    pub(super) peer: A,
    pub(super) asked: Arc<AtomicBool>,
}

impl<S, A, B> Service<Request<B>> for Noted<S, A>
where
    S: Service<Request<B>>,
    A: Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<B>) -> S::Future {
        // Relaxed: see the module.
        self.asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Peer(self.peer.clone()));
        self.service.call(request)
    }
}

/// What a connection is watched by.
pub(super) struct Watched {
    pub(super) limit: Option<Duration>,
    pub(super) asked: Arc<AtomicBool>,
    pub(super) ending: Arc<AtomicBool>,
    pub(super) requests: Requests,
}

/// Serves a connection, with the limit for its first request, and waits for its requests.
pub(super) async fn serve(
    connection: impl Future<Output = Result<(), AnyError>>,
    watched: Watched,
) -> Result<(), AnyError> {
    let connection = pin!(within_limit(connection, &watched));
    // If the task is aborted, requests that have not begun are not polled once more: the connection
    // is dropped after them.
    let _cut_off = CutOff(&watched.requests);
    let result = connection.await;
    watched.requests.ended().await;
    result
}

/// Serves a connection, and gives it up if no request has come within the limit.
async fn within_limit(
    connection: impl Future<Output = Result<(), AnyError>>,
    watched: &Watched,
) -> Result<(), AnyError> {
    let mut connection = pin!(connection);
    let mut first = watched.limit.map(sleep);
    let mut is_told = false;
    poll_fn(|cx| {
        let polled = connection.as_mut().poll(cx);
        // Relaxed: see the module.
        let asked = watched.asked.load(Ordering::Relaxed);
        if let Poll::Ready(result) = polled {
            let is_idle_end = |error: &AnyError| !asked && is_cancelled(error);
            return Poll::Ready(match result {
                Err(error) if is_idle_end(&error) => Ok(()),
                result => result,
            });
        }
        if !is_told && watched.ending.load(Ordering::Relaxed) {
            is_told = true;
            first = Some(sleep(FIRST_AT_THE_END));
        }
        let is_due = |first: &mut crate::time::Sleep| first.poll_elapsed(cx).is_ready();
        if first.as_mut().is_some_and(is_due) {
            if !asked {
                return Poll::Ready(if is_told { Ok(()) } else { Err(no_request()) });
            }
            first = None;
        }
        Poll::Pending
    })
    .await
}

/// Whether hyper-util means that no byte had come when the connection was told to end. That is no
/// error.
fn is_cancelled(error: &AnyError) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::Interrupted)
}

fn no_request() -> AnyError {
    let message = "no request came within the time for its head";
    io::Error::new(io::ErrorKind::TimedOut, message).into()
}
