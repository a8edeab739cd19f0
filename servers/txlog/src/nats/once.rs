//! Work that many want done, and that one does for all of them.

use std::future::Future;

use evenkeel::time::Instant;
use tokio::sync::Mutex;

/// Does work for one at a time. Whoever has waited takes the outcome of work that began after they
/// came, instead of doing it once more: it is as new as they need. So a server that does not answer
/// holds up a thousand clients for as long as one.
#[derive(Debug)]
pub(super) struct Once<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> Once<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The outcome of this work, or of the same work of another, begun after this call.
    pub(super) async fn share(&self, work: impl Future<Output = T>) -> T {
        let came = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((began, outcome)) = &*last
            && *began >= came
        {
            return outcome.clone();
        }
        let began = Instant::now();
        let outcome = work.await;
        *last = Some((began, outcome.clone()));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn who_waited_takes_what_was_begun_later_and_nothing_older() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let once = Once::new();
            let done = Cell::new(0);
            let (go, gone) = oneshot::channel::<()>();
            let mut first = pin!(once.share(async {
                gone.await.unwrap();
                0
            }));
            let work = || async {
                done.set(done.get() + 1);
                done.get()
            };
            let mut others: Vec<_> = (0..20).map(|_| Box::pin(once.share(work()))).collect();
            // The first is at work when the others come.
            poll_fn(|cx| {
                assert!(first.as_mut().poll(cx).is_pending());
                for other in &mut others {
                    assert!(other.as_mut().poll(cx).is_pending());
                }
                Poll::Ready(())
            })
            .await;
            go.send(()).unwrap();
            assert_eq!(first.await, 0);
            for other in others {
                assert_eq!(other.await, 1, "older than the request, or done once more");
            }
            assert_eq!(once.share(work()).await, 2, "it came later");
        });
    }
}
