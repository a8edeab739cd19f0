//! What a client's connection waits for, again and again: its timer, and the end of the proxy.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::watch;

use crate::server::Taken;
use crate::timer::Timer;

/// The waits of a connection.
pub(super) struct Waits<'a> {
    pub(super) timer: Timer,
    closing: Closing<'a>,
}

/// The end of the proxy. It is waited for between any two requests, and comes once: who waits is
/// registered once, and else only looks whether it has come.
struct Closing<'a> {
    receiver: watch::Receiver<bool>,
    told: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    /// Who is registered.
    waker: Option<Waker>,
}

impl<'a> Waits<'a> {
    /// `told` is ready when the proxy ends, which `receiver`, that nobody reads, sees.
    pub(super) fn new(
        receiver: watch::Receiver<bool>,
        told: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    ) -> Self {
        Self {
            timer: Timer::default(),
            closing: Closing {
                receiver,
                told,
                waker: None,
            },
        }
    }

    /// Reads the first bytes of a request into the empty buffer; `None` if none come in this time,
    /// or, where `may_close`, the proxy ends.
    pub(super) async fn first(
        &mut self,
        taken: &mut Taken,
        limit: Duration,
        may_close: bool,
    ) -> Option<io::Result<usize>> {
        let mut read = pin!(taken.stream.read_first(&mut taken.buffer));
        let closing = &mut self.closing;
        let first = poll_fn(|cx| {
            if let Poll::Ready(read) = read.as_mut().poll(cx) {
                return Poll::Ready(Some(read));
            }
            if may_close && closing.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            Poll::Pending
        });
        self.timer.within(limit, first).await.ok().flatten()
    }
}

impl Closing<'_> {
    /// Not to be polled again once it has come.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.receiver.has_changed().unwrap_or(true) {
            return Poll::Ready(());
        }
        let is_registered = |waker: &Waker| waker.will_wake(cx.waker());
        if self.waker.as_ref().is_some_and(is_registered) {
            return Poll::Pending;
        }
        self.waker = Some(cx.waker().clone());
        self.told.as_mut().poll(cx)
    }
}
