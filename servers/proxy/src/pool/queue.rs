//! Who waits for a server, in the order in which they came.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::Lease;

/// One that waits. It has left when the other end of `lease` is closed.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) key: u64,
    pub(super) tried: Vec<usize>,
    pub(super) lease: oneshot::Sender<Lease>,
}

/// Those who wait.
#[derive(Debug)]
pub(super) struct Queue {
    waiters: VecDeque<Waiter>,
    max: usize,
}

impl Queue {
    pub(super) fn new(max: usize) -> Self {
        Self {
            waiters: VecDeque::new(),
            max,
        }
    }

    /// A place at the end; `None` if the queue is full.
    pub(super) fn join(&mut self, key: u64, tried: &[usize]) -> Option<oneshot::Receiver<Lease>> {
        if self.waiters.len() >= self.max {
            // Some may have left.
            self.waiters.retain(|waiter| !waiter.lease.is_closed());
        }
        if self.waiters.len() >= self.max {
            return None;
        }
        let (lease, waiting) = oneshot::channel();
        let tried = tried.to_vec();
        self.waiters.push_back(Waiter { key, tried, lease });
        Some(waiting)
    }

    /// Takes out those for whom there are servers, from the first one on.
    pub(super) fn serve(
        &mut self,
        mut choose: impl FnMut(&Waiter) -> Option<usize>,
    ) -> Vec<(Waiter, usize)> {
        let mut served = Vec::new();
        while let Some(waiter) = self.waiters.pop_front() {
            if waiter.lease.is_closed() {
                continue;
            }
            match choose(&waiter) {
                Some(index) => served.push((waiter, index)),
                None => {
                    self.waiters.push_front(waiter);
                    break;
                }
            }
        }
        served
    }

    pub(super) fn len(&self) -> usize {
        let here = |waiter: &&Waiter| !waiter.lease.is_closed();
        self.waiters.iter().filter(here).count()
    }
}
