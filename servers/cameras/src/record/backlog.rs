//! What waits for disks, within a budget for each camera and one for all. Pure.
//!
//! A group that does not fit makes the oldest ones go: those of its camera if the camera's budget
//! is used up, and otherwise the oldest of all, which are those of the slowest disk. What went is
//! kept as a gap in front of the camera's next group.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::gap::{Gap, Reason};
use crate::media::Gop;
use crate::mp4::origin::unix_us;

/// How many bytes may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Of one camera.
    pub camera_bytes: usize,
    /// Of all together.
    pub all_bytes: usize,
}

impl Default for Budgets {
    /// Half a minute of a camera with four megabits a second; and as much memory as a server of
    /// hundreds of cameras has to spare.
    fn default() -> Self {
        Self {
            camera_bytes: 16 << 20,
            all_bytes: 1 << 30,
        }
    }
}

/// A camera in a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(u64);

/// A group that is to be written, with what is missing in front of it.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The group.
    pub gop: Arc<Gop>,
    /// What is missing.
    pub gap: Option<Gap>,
}

/// What a camera has in the backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Groups.
    pub gops: usize,
    /// Bytes, of the one that is being written too.
    pub bytes: usize,
    /// What is missing and has not been written down yet.
    pub gap: Option<Gap>,
}

/// All that waits.
#[derive(Debug)]
pub struct Backlog {
    budgets: Budgets,
    bytes: usize,
    next_slot: u64,
    next_turn: u64,
    queues: BTreeMap<Slot, Queue>,
    /// Whose group is the oldest: by the turn in which it came.
    order: BTreeMap<u64, Slot>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(u64, Arc<Gop>)>,
    bytes: usize,
    /// Bytes of the group that is being written, which cannot be dropped.
    taken: usize,
    gap: Option<Gap>,
}

impl Backlog {
    /// Without cameras.
    pub fn new(budgets: Budgets) -> Self {
        Self {
            budgets,
            bytes: 0,
            next_slot: 0,
            next_turn: 0,
            queues: BTreeMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// Adds a camera.
    pub fn add(&mut self) -> Slot {
        let slot = Slot(self.next_slot);
        self.next_slot += 1;
        self.queues.insert(slot, Queue::default());
        slot
    }

    /// Removes a camera with all that waits.
    pub fn remove(&mut self, slot: Slot) {
        if let Some(queue) = self.queues.remove(&slot) {
            self.bytes -= queue.bytes + queue.taken;
            for (turn, _) in queue.waiting {
                self.order.remove(&turn);
            }
        }
    }

    /// Takes a group in. Returns what was dropped for it: cameras, with how many groups.
    pub fn push(&mut self, slot: Slot, gop: Arc<Gop>) -> Vec<(Slot, Gap)> {
        let mut dropped = Vec::new();
        let Some(queue) = self.queues.get_mut(&slot) else {
            return dropped;
        };
        let turn = self.next_turn;
        self.next_turn += 1;
        queue.bytes += gop.footprint;
        self.bytes += gop.footprint;
        queue.waiting.push_back((turn, gop));
        self.order.insert(turn, slot);
        while self.has_too_much(slot) {
            let Some(gap) = self.drop_oldest(slot) else {
                break;
            };
            dropped.push((slot, gap));
        }
        while self.bytes > self.budgets.all_bytes {
            let Some((_, &oldest)) = self.order.first_key_value() else {
                break;
            };
            let Some(gap) = self.drop_oldest(oldest) else {
                break;
            };
            dropped.push((oldest, gap));
        }
        dropped
    }

    /// Something is missing that was never here, or that was taken and could not be written.
    pub fn missing(&mut self, slot: Slot, gap: Gap) {
        if let Some(queue) = self.queues.get_mut(&slot) {
            // What was taken is older than what was dropped since.
            queue.gap = Some(match queue.gap {
                Some(later) => gap.and(later),
                None => gap,
            });
        }
    }

    /// The oldest group of a camera. It counts until it is [`done`](Self::done).
    pub fn take(&mut self, slot: Slot) -> Option<Taken> {
        let queue = self.queues.get_mut(&slot)?;
        let (turn, gop) = queue.waiting.pop_front()?;
        self.order.remove(&turn);
        queue.bytes -= gop.footprint;
        queue.taken += gop.footprint;
        Some(Taken {
            gop,
            gap: queue.gap.take(),
        })
    }

    /// The group that was taken is written, or given up.
    pub fn done(&mut self, slot: Slot) {
        if let Some(queue) = self.queues.get_mut(&slot) {
            self.bytes -= std::mem::take(&mut queue.taken);
        }
    }

    /// What a camera has here.
    pub fn waiting(&self, slot: Slot) -> Waiting {
        self.queues
            .get(&slot)
            .map_or_else(Waiting::default, |queue| Waiting {
                gops: queue.waiting.len(),
                bytes: queue.bytes + queue.taken,
                gap: queue.gap,
            })
    }

    /// Bytes of all cameras.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn has_too_much(&self, slot: Slot) -> bool {
        let queue = self.queues.get(&slot);
        queue.is_some_and(|queue| queue.bytes + queue.taken > self.budgets.camera_bytes)
    }

    fn drop_oldest(&mut self, slot: Slot) -> Option<Gap> {
        let queue = self.queues.get_mut(&slot)?;
        let (turn, gop) = queue.waiting.pop_front()?;
        self.order.remove(&turn);
        queue.bytes -= gop.footprint;
        self.bytes -= gop.footprint;
        let gap = lost(&gop, Reason::SlowDisk);
        queue.gap = Some(queue.gap.map_or(gap, |before| before.and(gap)));
        Some(gap)
    }
}

/// The gap that a group leaves.
pub fn lost(gop: &Gop, reason: Reason) -> Gap {
    Gap {
        reason,
        gops: 1,
        bytes: gop.bytes() as u64,
        from_us: unix_us(gop.start.wall),
        until_us: unix_us(gop.end.wall),
    }
}

#[cfg(test)]
mod tests;
