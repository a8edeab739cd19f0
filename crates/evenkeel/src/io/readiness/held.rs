//! Wake-ups that are held back: the pace of a descriptor, applied to its readiness.
//!
//! # The protocol
//!
//! All steps below hold the lock of the pace, which is taken before that of the waiters.
//!
//! ```text
//!  task                                       whoever checks the readiness queue, or sweeps it
//!  1. look, try, clear, as in `readiness`     a. an event, or an entry is due: lock the pace;
//!  2. lock the pace; enter the sweep again,      if the reader knows already, pass it on
//!     or lower the watermark, whereupon the   b. else raise the watermark and enter the sweep,
//!     kernel reports what is there               or set the flags and take the waiters
//!  3. enlist, wait                            c. unlock, and wake whom b took
//! ```
//!
//! A byte that comes while the reader is between 1 and 3 either reaches the watermark, and causes
//! an event, or does not; then the entry of step 2 releases it. A sweep between 1 and 2 either
//! finds the flag cleared and wakes a reader that will find nothing, or finds it set and leaves the
//! entry to step 2.
//!
//! A watermark is set only under the lock and while `fd` is `Some`. Before the descriptor is
//! closed, `fd` becomes `None`.

use std::os::fd::RawFd;

use super::{PACED, Readiness, WakeList};
use crate::io::delivery::Delivery;
use crate::io::interest::{Interest, Ready};
use crate::io::pace::{Orders, Pace};
use crate::sync::atomic::Ordering;
use crate::timer::timers::Key;

/// What holding back needs: a clock, the kernel, and the sweep of the descriptor's worker.
pub(crate) trait Ground {
    /// The time, in nanoseconds.
    fn now(&self) -> u64;

    /// The worker's pressure, from 0 to [`PRESSURE_MAX`](crate::io::pace::PRESSURE_MAX).
    fn pressure(&self) -> u64;

    /// Sets the kernel's watermark. Returns false if the kernel has none.
    fn set_watermark(&self, fd: RawFd, bytes: usize) -> bool;

    /// Requests a call of [`due`](Readiness::due) at a tick.
    fn arm(&self, tick: u64) -> Key;

    /// Cancels a request of [`arm`](Self::arm).
    fn disarm(&self, key: Key);
}

/// The pace of one descriptor and its registration. A descriptor whose mode was never set has none.
#[derive(Debug, Default)]
pub(super) struct Held {
    pace: Pace,
    /// `Some` while the descriptor is registered with a readiness queue.
    fd: Option<RawFd>,
    /// The entry in the sweep, if the pace is armed.
    key: Option<Key>,
}

impl Held {
    fn pressure(&self, ground: &impl Ground) -> u64 {
        if self.pace.is_adaptive() {
            ground.pressure()
        } else {
            0
        }
    }

    fn carry_out(&mut self, orders: Orders, ground: &impl Ground) {
        if let Some(key) = self.key.take_if(|_| orders.disarm || orders.arm.is_some()) {
            ground.disarm(key);
        }
        if let Some(tick) = orders.arm {
            self.key = Some(ground.arm(tick));
        }
        if let (Some(bytes), Some(fd)) = (orders.watermark, self.fd)
            && !ground.set_watermark(fd, bytes)
        {
            self.pace.give_up_watermark();
        }
        debug_assert_eq!(self.pace.is_armed(), self.key.is_some(), "{orders:?}");
    }
}

impl Readiness {
    pub(crate) fn delivery(&self) -> Delivery {
        let held = self.held.lock();
        held.as_ref()
            .map(|held| held.pace.mode())
            .unwrap_or_default()
    }

    /// Whether the mode of delivery was ever set.
    pub(crate) fn has_pace(&self) -> bool {
        self.held.lock().is_some()
    }

    /// The descriptor has been registered, and its reader may be held back from now on.
    pub(crate) fn settle(&self, fd: RawFd) {
        if let Some(held) = self.held.lock().as_mut() {
            held.fd = Some(fd);
        }
    }

    /// The descriptor is about to leave the readiness queue. Its pace no longer touches it.
    pub(crate) fn unsettle(&self, ground: &impl Ground) {
        if let Some(held) = self.held.lock().as_mut() {
            let orders = held.pace.set_mode(Delivery::Immediate, false);
            held.carry_out(orders, ground);
            debug_assert!(held.key.is_none(), "an entry would outlive the descriptor");
            held.fd = None;
        }
    }

    /// Changes how the reader is woken, and wakes it in case anything was held back. `ground` is
    /// `Some`, with the descriptor, if it is registered.
    pub(crate) fn set_delivery(
        &self,
        mode: Delivery,
        has_watermark: bool,
        ground: Option<(RawFd, &impl Ground)>,
        wakers: &mut WakeList,
    ) {
        let mut held = self.held.lock();
        if held.is_none() && mode == Delivery::Immediate {
            return;
        }
        let held = held.get_or_insert_default();
        let orders = held.pace.set_mode(mode, has_watermark);
        // Release pairs with the Acquire in `look`: the descriptor does not move any more, and who
        // sees that it is paced also sees where it is. A thread that misses either delivers at
        // once, or takes the lock in vain.
        if mode.is_immediate() {
            self.word.fetch_and(!PACED, Ordering::Release);
        } else {
            self.word.fetch_or(PACED, Ordering::Release);
        }
        if let Some((fd, ground)) = ground {
            held.fd = Some(fd);
            held.carry_out(orders, ground);
            self.set(Ready::READABLE, wakers);
        }
    }

    /// (a) An event came. Returns how many readers it wakes.
    pub(crate) fn arrive(
        &self,
        ready: Ready,
        ground: &impl Ground,
        wakers: &mut WakeList,
    ) -> usize {
        // Only plain bytes are ever held back.
        let is_plain = ready.for_interest(Interest::READABLE) == Ready::READABLE;
        if !is_plain || !self.look().is_paced() {
            return self.set(ready, wakers);
        }
        let mut held = self.held.lock();
        let held = match held.as_mut() {
            Some(held) if held.fd.is_some() && !self.knows_of_bytes() => held,
            _ => return self.set(ready, wakers),
        };
        let pressure = held.pressure(ground);
        let orders = held.pace.event(ground.now(), pressure);
        held.carry_out(orders, ground);
        let passed_on = if orders.release {
            ready
        } else {
            ready.without(Ready::READABLE)
        };
        if passed_on.is_empty() {
            return 0;
        }
        self.set(passed_on, wakers)
    }

    /// (a) An entry of this descriptor is due in the sweep. Returns how many readers it wakes.
    pub(crate) fn due(&self, ground: &impl Ground, wakers: &mut WakeList) -> usize {
        let mut held = self.held.lock();
        let Some(held) = held.as_mut().filter(|held| held.fd.is_some()) else {
            return 0;
        };
        let orders = held.pace.due(ground.now(), self.knows_of_bytes());
        if orders.arm.is_some() || !held.pace.is_armed() {
            // The key belonged to the entry that is due, which has left the sweep.
            held.key = None;
        }
        held.carry_out(orders, ground);
        if orders.release {
            self.set(Ready::READABLE, wakers)
        } else {
            0
        }
    }

    /// (2) The reader has got bytes and emptied the socket. Returns how long they were held back,
    /// in nanoseconds.
    pub(crate) fn drained(&self, ground: &impl Ground) -> u64 {
        let mut held = self.held.lock();
        let Some(held) = held.as_mut() else {
            return 0;
        };
        let nanos = held.pace.take_held();
        if held.pace.is_active() {
            let pressure = held.pressure(ground);
            let orders = held.pace.drained(ground.now(), pressure);
            held.carry_out(orders, ground);
        }
        nanos
    }

    /// (2) The reader was woken and found no bytes.
    pub(crate) fn found_nothing(&self, ground: &impl Ground) {
        if let Some(held) = self.held.lock().as_mut() {
            let orders = held.pace.found_nothing();
            held.carry_out(orders, ground);
        }
    }

    fn knows_of_bytes(&self) -> bool {
        !self
            .look()
            .ready()
            .for_interest(Interest::READABLE)
            .is_empty()
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
