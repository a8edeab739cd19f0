//! One connection: its service, and the limit for its first request.
//!
//! hyper limits the time for a head once it knows that the client speaks HTTP/1. What comes before,
//! and a client of HTTP/2 that asks for nothing, is limited here.
//!
//! `asked` is `Relaxed`: it is a flag alone, and is looked at again at the limit, by the task that
//! set it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ::hyper::Request;
use ::hyper::service::Service;

use super::AnyError;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::sleep;

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

/// Serves a connection, and gives it up if no request has come within the limit.
pub(super) async fn within_limit(
    connection: impl Future<Output = Result<(), AnyError>>,
    limit: Option<Duration>,
    asked: Arc<AtomicBool>,
) -> Result<(), AnyError> {
    let mut connection = pin!(connection);
    let mut first = limit.map(sleep);
    poll_fn(|cx| {
        if let Poll::Ready(result) = connection.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        let is_due = |first: &mut crate::time::Sleep| first.poll_elapsed(cx).is_ready();
        if first.as_mut().is_some_and(is_due) {
            // Relaxed: see the module.
            if !asked.load(Ordering::Relaxed) {
                let message = "no request came within the time for its head";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message).into()));
            }
            first = None;
        }
        Poll::Pending
    })
    .await
}
