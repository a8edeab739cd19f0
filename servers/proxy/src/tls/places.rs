//! Who may shake hands at a listener, so that handshakes hold up neither each other nor what is
//! established.
//!
//! ```text
//!              1            2                 3
//!  connection ───▶ place ──▶ waits for its ──▶ waits for ──▶ computes ──┐
//!     │ 1a                   client            a permit                 │ 4
//!     ▼                       ▲ │ 1b                                    │
//!   shed                      └─┼───────────────────────────────────────┘
//!                               ▼
//!                             shed
//! ```
//!
//! 1. A handshake needs a place. If all are taken, the oldest one that waits for its client makes
//!    room (1b): a handshake takes a round trip or two, so that the oldest is the one that has most
//!    probably stalled, and a flood of stalled ones sheds itself. If none waits for its client, it
//!    is this process that is slow. Then the new one is shed (1a), since those before it have
//!    waited for longer, and serving the newest first would have all of them fail.
//! 2. When the client has sent something, the handshake waits for a permit, in the order of
//!    arrival.
//! 3. There are as many permits as workers, so that in the queue of its class there are never more
//!    handshakes than that, however many have come: other tasks of the class wait for one each. It
//!    computes in the heavy pool, so that no worker is held up.
//! 4. What is to be sent is sent without a permit.
//!
//! Places and permits are counted for each listener, so that one listener's flood is not another's.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The handshakes of a listener.
#[derive(Debug)]
pub struct Handshakes {
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Places that are taken.
    taken: usize,
    next: u64,
    /// Those that wait for their clients, the oldest first.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// There are too many handshakes, and this one had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are too many handshakes: see who connects; allow more by tls.handshakes_max, or give \
     tls.class a larger share"
)]
pub struct Shed;

/// The place of a handshake, which is free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    handshakes: Arc<Handshakes>,
    id: u64,
    /// Told when it has to go.
    go: Arc<Notify>,
    waits: bool,
    is_taken: bool,
}

impl Handshakes {
    /// None yet, of which so many may compute at a time.
    pub fn new(permits: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            state: Mutex::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.state().taken
    }

    /// A place among at most so many.
    ///
    /// # Errors
    ///
    /// [`Shed`]: all are taken by handshakes that wait for this process.
    pub fn take(self: &Arc<Self>, max: usize) -> Result<Place, Shed> {
        let mut state = self.state();
        let mut told = None;
        if state.taken >= max {
            let (_, oldest) = state.waiting.pop_first().ok_or(Shed)?;
            told = Some(oldest);
            state.taken -= 1;
        }
        state.taken += 1;
        let id = state.next;
        state.next += 1;
        drop(state);
        // Without the lock, as this wakes.
        if let Some(oldest) = told {
            oldest.notify_one();
        }
        Ok(Place {
            handshakes: Arc::clone(self),
            id,
            go: Arc::default(),
            waits: false,
            is_taken: true,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is made whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits for the client, or until it has to go.
    ///
    /// # Errors
    ///
    /// [`Shed`].
    pub async fn client<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Shed> {
        let (id, go) = (self.id, Arc::clone(&self.go));
        self.handshakes.state().waiting.insert(id, go);
        self.waits = true;
        let done = tokio::select! {
            biased;
            () = self.go.notified() => None,
            done = wait => Some(done),
        };
        self.stop_waiting();
        match done {
            Some(done) if self.is_taken => Ok(done),
            _ => Err(Shed),
        }
    }

    /// Waits for the permission to compute.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.handshakes.permits)
            .acquire_owned()
            .await
            .ok()
    }

    fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.waits) {
            // Whoever took it out has given the place to another one.
            let mut state = self.handshakes.state();
            self.is_taken = state.waiting.remove(&self.id).is_some();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop_waiting();
        if self.is_taken {
            self.handshakes.state().taken -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Waits for the client of each place.
    fn run(test: impl Future<Output = ()>) {
        evenkeel::runtime::Runtime::new().unwrap().block_on(test);
    }

    #[test]
    fn the_oldest_that_waits_for_its_client_makes_room() {
        run(async {
            let handshakes = Arc::new(Handshakes::new(1));
            let mut places: Vec<Place> = (0..3).map(|_| handshakes.take(3).unwrap()).collect();
            // The first one computes, and the others wait for their clients.
            let [_first, second, third] = &mut places[..] else {
                unreachable!("there are three")
            };
            let mut second = pin!(second.client(pending::<()>()));
            let mut third = pin!(third.client(pending::<()>()));
            let mut polled = async || {
                poll_fn(|cx| {
                    let (one, two) = (second.as_mut().poll(cx), third.as_mut().poll(cx));
                    Poll::Ready((one.is_ready(), two.is_ready()))
                })
                .await
            };
            assert_eq!(polled().await, (false, false));
            let mut fourth = handshakes.take(3).unwrap();
            assert_eq!(handshakes.count(), 3);
            assert_eq!(polled().await, (true, false), "the oldest has to go");
            assert_eq!(fourth.client(ready(7)).await, Ok(7));
        });
    }

    #[test]
    fn the_newest_goes_if_all_wait_for_the_process() {
        let handshakes = Arc::new(Handshakes::new(1));
        let places: Vec<Place> = (0..3).map(|_| handshakes.take(3).unwrap()).collect();
        assert_eq!(handshakes.take(3).unwrap_err(), Shed);
        drop(places);
        assert_eq!(handshakes.count(), 0);
        assert!(handshakes.take(3).is_ok());
    }

    #[test]
    fn a_place_that_is_given_away_is_not_freed_twice() {
        run(async {
            let handshakes = Arc::new(Handshakes::new(1));
            let mut old = handshakes.take(1).unwrap();
            let new = {
                let mut waiting = pin!(old.client(pending::<()>()));
                let is_pending = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
                assert!(is_pending.await);
                handshakes.take(1).unwrap()
                // Cancelled here, as by its time limit.
            };
            drop(old);
            assert_eq!(handshakes.count(), 1);
            drop(new);
            assert_eq!(handshakes.count(), 0);
            assert!(handshakes.state().waiting.is_empty());
        });
    }

    #[test]
    fn who_was_ready_in_the_moment_when_it_had_to_go_goes() {
        run(async {
            let handshakes = Arc::new(Handshakes::new(1));
            let mut old = handshakes.take(1).unwrap();
            let take = Arc::clone(&handshakes);
            let mut new = None;
            let result = old.client(async { new = take.take(1).ok() }).await;
            assert_eq!(result, Err(Shed));
            drop(old);
            assert_eq!(handshakes.count(), 1);
        });
    }

    #[test]
    fn only_so_many_compute_at_a_time() {
        run(async {
            let handshakes = Arc::new(Handshakes::new(1));
            let (one, two) = (handshakes.take(9).unwrap(), handshakes.take(9).unwrap());
            let permit = one.permit().await;
            let mut other = pin!(two.permit());
            let is_pending = poll_fn(|cx| Poll::Ready(other.as_mut().poll(cx).is_pending()));
            assert!(is_pending.await);
            drop(permit);
            assert!(other.await.is_some());
        });
    }
}
