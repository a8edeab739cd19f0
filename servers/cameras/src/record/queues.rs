//! The backlog with the tasks around it: those that take groups from the hub, and those that write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::backlog::{Backlog, Budgets, Slot, Taken, Waiting};
use super::gap::Gap;
use super::report::Report;
use crate::media::Gop;

/// A backlog that tasks share. Its lock is held for moments: nothing under it waits.
#[derive(Debug)]
pub struct Queues {
    backlog: Mutex<Backlog>,
    reports: Mutex<BTreeMap<Slot, Arc<Report>>>,
}

impl Queues {
    /// Without cameras.
    pub fn new(budgets: Budgets) -> Arc<Self> {
        Arc::new(Self {
            backlog: Mutex::new(Backlog::new(budgets)),
            reports: Mutex::default(),
        })
    }

    /// Adds a camera, whose losses are counted in this report. Its queue is removed when what is
    /// returned is dropped.
    pub fn queue(self: &Arc<Self>, report: &Arc<Report>) -> Queue {
        let slot = self.backlog().add();
        self.reports().insert(slot, Arc::clone(report));
        Queue {
            queues: Arc::clone(self),
            slot,
            wake: Notify::new(),
        }
    }

    /// Bytes of all cameras.
    pub fn bytes(&self) -> usize {
        self.backlog().bytes()
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        // A panic within would be a bug of ours; sums may then be wrong, and types are kept.
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reports(&self) -> MutexGuard<'_, BTreeMap<Slot, Arc<Report>>> {
        // A map, which no panic leaves half-changed.
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A camera's part of the backlog.
#[derive(Debug)]
pub struct Queue {
    queues: Arc<Queues>,
    slot: Slot,
    wake: Notify,
}

impl Queue {
    /// Takes a group in, without waiting. Each camera from which groups had to go for it is told
    /// so by its report.
    pub fn push(&self, gop: Arc<Gop>) {
        let dropped = self.queues.backlog().push(self.slot, gop);
        self.wake.notify_one();
        for (slot, gap) in dropped {
            let report = self.queues.reports().get(&slot).cloned();
            if let Some(report) = report {
                report.lost(gap);
            }
        }
    }

    /// Something is missing that was not written.
    pub fn missing(&self, gap: Gap) {
        self.queues.backlog().missing(self.slot, gap);
    }

    /// Waits for the next group.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, nothing is lost.
    pub async fn take(&self) -> Taken {
        loop {
            if let Some(taken) = self.try_take() {
                return taken;
            }
            self.wake.notified().await;
        }
    }

    /// The next group, if there is one.
    pub fn try_take(&self) -> Option<Taken> {
        self.queues.backlog().take(self.slot)
    }

    /// The group that was taken is written, or given up.
    pub fn done(&self) {
        self.queues.backlog().done(self.slot);
    }

    /// What waits.
    pub fn waiting(&self) -> Waiting {
        self.queues.backlog().waiting(self.slot)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.queues.backlog().remove(self.slot);
        self.queues.reports().remove(&self.slot);
    }
}
