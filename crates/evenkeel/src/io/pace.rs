//! When a descriptor's reader is to be woken: the pure core of delivery.
//!
//! It knows no thread, clock or system call. Its inputs are events, with the time as a number of
//! nanoseconds; its outputs are [`Orders`].
//!
//! # States
//!
//! ```text
//!             event: watermark up, armed            due: released
//!   silent ──────────────────────────────▶ active ─────────────────▶ active, reader at it
//!     ▲                                      ▲                            │      │
//!     │                                      └── socket emptied: armed ◀──┘      │
//!     └────────────── nothing was there: watermark down ◀────────────────────────┘
//! ```
//!
//! - *Silent*: the kernel reports every byte. The descriptor has no entry in the sweep, and costs
//!   nothing.
//! - *Active*: the kernel reports at the watermark, and the sweep has one entry for the descriptor
//!   while its reader waits. A delivery needs no system call for either.
//!
//! At its deadline the reader is woken without asking the kernel first: usually there is data, and
//! its read will tell. If it finds none, none came for a whole delay, and the descriptor becomes
//! silent again.
//!
//! If the delay decides and not the watermark, a delay that begins when the socket is emptied has
//! partly run out when the next byte comes. So a descriptor with long pauses becomes silent as soon
//! as its socket is empty, and the delay begins with the first byte. That costs two system calls
//! and an event, and each delivery brings as much more as comes in a pause. Pauses are measured now
//! and then to find out whether they are long.
//!
//! Where the kernel has no watermark, a descriptor is always silent; the event itself is held back,
//! as an entry in the sweep.
//!
//! **Invariant:** an active descriptor whose reader waits has an entry in the sweep. Without it, a
//! tail shorter than the watermark would never arrive.

use super::delivery::Delivery;

pub(crate) const TICK_NS: u64 = 1_000_000;
/// The watermark of an adaptive descriptor that is held back. It fits the smallest common receive
/// buffer, so setting it makes no buffer grow.
const ADAPTIVE_BYTES: usize = 64 * 1024;
/// The highest pressure. At it, an adaptive descriptor is held back for its longest delay.
pub(crate) const PRESSURE_MAX: u64 = 1024;
/// A pause is long if it exceeds this fraction of the delay: then waiting for its end pays off.
const LONG_PAUSE: u64 = 16;
/// A delay of at least this many ticks ends a tick early: a worker that sleeps may wake up to a
/// tick late, as the kernel rounds the lengths of waits up to whole milliseconds. For a shorter
/// delay, a tick less is worse than being a tick late.
const TICKS_TO_SPARE: u64 = 64;
/// While pauses are short, one in this many is measured.
const MEASURED_EACH: u8 = 16;
/// The highest watermark that the kernel's interface can express.
const WATERMARK_MAX: usize = i32::MAX as usize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// Set the kernel's watermark to this number of bytes.
    pub(crate) watermark: Option<usize>,
    /// Add an entry to the sweep, at this tick, in place of the one that is there.
    pub(crate) arm: Option<u64>,
    /// Remove the entry from the sweep.
    pub(crate) disarm: bool,
    pub(crate) release: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    pauses: Pauses,
    mode: Delivery,
    /// The kernel's watermark. 0 and 1 are its default.
    watermark: usize,
    /// Whether the kernel supports a watermark.
    has_watermark: bool,
    /// The tick of the entry in the sweep.
    armed: Option<u64>,
    deadline: u64,
    /// Since when bytes may have been held back.
    since: u64,
    /// For how long they were held back, at the latest release.
    held: u64,
    /// Whether the delay caused the latest release.
    by_delay: bool,
}

/// The pauses between an emptied socket and the next byte.
#[derive(Clone, Debug, Default)]
struct Pauses {
    /// The beginning of the pause that is being measured.
    began: Option<u64>,
    /// A moving mean; `None` before the first.
    mean: Option<u64>,
    /// Pauses since one was measured.
    unmeasured: u8,
}

impl Pauses {
    /// Decides whether to measure the pause that begins.
    fn measure(&mut self, now: u64, delay: u64) -> bool {
        let are_long = self.mean.is_none_or(|mean| mean >= delay / LONG_PAUSE);
        self.unmeasured = self.unmeasured.saturating_add(1);
        if !are_long && self.unmeasured < MEASURED_EACH {
            return false;
        }
        self.unmeasured = 0;
        self.began = Some(now);
        true
    }

    /// A byte came. A pause longer than the delay counts as the delay.
    fn end(&mut self, now: u64, delay: u64) {
        if let Some(began) = self.began.take() {
            let pause = now.saturating_sub(began).min(delay);
            let mean = self.mean.map_or(pause, |mean| mean - mean / 4 + pause / 4);
            self.mean = Some(mean);
        }
    }
}

impl Pace {
    pub(crate) fn mode(&self) -> Delivery {
        self.mode
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        matches!(self.mode, Delivery::Adaptive { .. })
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    pub(crate) fn give_up_watermark(&mut self) {
        self.has_watermark = false;
        self.watermark = 1;
    }

    /// Changes the mode. Held-back data is released, and the new mode begins silent.
    /// `has_watermark` says whether the kernel supports a watermark.
    pub(crate) fn set_mode(&mut self, mode: Delivery, has_watermark: bool) -> Orders {
        self.mode = mode;
        self.has_watermark = has_watermark;
        let mut orders = self.become_silent();
        orders.disarm = self.armed.take().is_some();
        orders.release = true;
        self.held = 0;
        self.pauses = Pauses::default();
        orders
    }

    /// The kernel reports bytes, and the reader has not been woken for them.
    pub(crate) fn event(&mut self, now: u64, pressure: u64) -> Orders {
        let mut orders = Orders::default();
        if self.is_active() {
            // The watermark is reached, or the buffer is full. A late worker may find the deadline
            // passed as well; its lateness does not count as held back, as in `due`.
            self.release(now.min(self.deadline), &mut orders);
            self.by_delay = false;
            return orders;
        }
        let delay = self.delay(pressure);
        if delay == 0 {
            self.pauses.began = None;
            self.since = now;
            self.release(now, &mut orders);
        } else if self.has_watermark {
            self.pauses.end(now, delay);
            self.watermark = self.watermark_of_mode();
            debug_assert!(self.is_active(), "a mode that delays has a watermark");
            orders.watermark = Some(self.watermark);
            self.hold(now, delay, &mut orders);
        } else if self.armed.is_none() {
            self.hold(now, delay, &mut orders);
        }
        orders
    }

    /// How long the latest delivery was held back. Resets it, since the next delivery may bypass
    /// the pace.
    pub(crate) fn take_held(&mut self) -> u64 {
        std::mem::take(&mut self.held)
    }

    /// The reader got bytes and has emptied the socket. Does nothing while silent.
    pub(crate) fn drained(&mut self, now: u64, pressure: u64) -> Orders {
        let mut orders = Orders::default();
        if !self.is_active() {
            return orders;
        }
        let delay = self.delay(pressure).max(TICK_NS);
        let is_over = self.is_adaptive() && pressure == 0;
        if is_over || (self.by_delay && self.pauses.measure(now, delay)) {
            return self.become_silent();
        }
        self.hold(now, delay, &mut orders);
        orders
    }

    /// The reader was woken and found no bytes.
    pub(crate) fn found_nothing(&mut self) -> Orders {
        // While there is an entry in the sweep, the delay is not over.
        if self.is_active() && self.armed.is_none() {
            return self.become_silent();
        }
        Orders::default()
    }

    /// An entry of the sweep is due. `is_ready`: the reader was woken and has not read since.
    pub(crate) fn due(&mut self, now: u64, is_ready: bool) -> Orders {
        let mut orders = Orders::default();
        let tick = now / TICK_NS;
        // The entry is stale: it had left the sweep before it was cancelled.
        if self.armed.is_none_or(|armed| armed > tick) {
            return orders;
        }
        let began = self.armed.take().unwrap_or(tick) * TICK_NS;
        let holds_nothing = self.has_watermark && !self.is_active();
        if is_ready || holds_nothing {
            return orders;
        }
        if self.deadline / TICK_NS > tick {
            self.arm(now, &mut orders);
        } else {
            // The lateness of the sweep does not count: an event would have come late as well.
            self.release(began.min(now), &mut orders);
            self.by_delay = true;
        }
        orders
    }

    pub(crate) fn is_active(&self) -> bool {
        self.watermark > 1
    }

    fn become_silent(&mut self) -> Orders {
        let before = std::mem::replace(&mut self.watermark, 1);
        Orders {
            watermark: (before > 1).then_some(1),
            ..Orders::default()
        }
    }

    fn hold(&mut self, now: u64, delay: u64, orders: &mut Orders) {
        debug_assert!(delay >= TICK_NS, "the sweep cannot resolve {delay} ns");
        debug_assert!(self.has_watermark || !self.is_active());
        let spare = if delay < TICKS_TO_SPARE * TICK_NS {
            0
        } else {
            TICK_NS
        };
        self.since = now;
        self.deadline = now + delay - spare;
        // An earlier entry stays: when it is due, `due` moves it. A later one, from before an
        // adaptive delay shrank, would hold the reader back for too long.
        let wanted = self.tick_to_wake(now);
        if self.armed.is_none_or(|armed| armed > wanted) {
            self.arm(now, orders);
        }
    }

    /// The tick of the deadline, but none that has begun. Rounding down means that a delay is
    /// exceeded by no more than the worker is late.
    fn tick_to_wake(&self, now: u64) -> u64 {
        (self.deadline / TICK_NS).max(now / TICK_NS + 1)
    }

    fn arm(&mut self, now: u64, orders: &mut Orders) {
        let tick = self.tick_to_wake(now);
        self.armed = Some(tick);
        orders.arm = Some(tick);
    }

    fn release(&mut self, now: u64, orders: &mut Orders) {
        self.held = now.saturating_sub(self.since);
        orders.release = true;
    }

    /// How long to hold bytes back; zero if not at all.
    fn delay(&self, pressure: u64) -> u64 {
        if self.mode.is_immediate() {
            return 0;
        }
        let most = u64::try_from(self.mode.delay_max().as_nanos()).unwrap_or(u64::MAX);
        match self.mode {
            Delivery::Immediate => 0,
            Delivery::Coalesce { .. } => most.max(TICK_NS),
            Delivery::Adaptive { .. } => {
                let delay = most / PRESSURE_MAX * pressure.min(PRESSURE_MAX);
                if delay < TICK_NS { 0 } else { delay }
            }
        }
    }

    fn watermark_of_mode(&self) -> usize {
        match self.mode {
            Delivery::Immediate => 1,
            Delivery::Coalesce { bytes, .. } => bytes.min(WATERMARK_MAX),
            Delivery::Adaptive { .. } => ADAPTIVE_BYTES,
        }
    }
}
