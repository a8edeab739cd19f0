//! When one descriptor's reader is to be woken: the pure core of delivery.
//!
//! It knows no thread, clock or system call. What happens goes in, with the time as a number of
//! nanoseconds, and what is to be done comes out as [`Orders`].
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
//! - *Silent*: the kernel reports every byte. The descriptor is in no sweep, and costs nothing.
//! - *Active*: the kernel reports `bytes` bytes, and the sweep has one entry for the descriptor
//!   while its reader waits. Neither needs a system call for a delivery.
//!
//! At its deadline the reader is woken without asking the kernel first: mostly there is something,
//! and the reader's own read finds out. If it finds nothing, nothing came for a whole delay, and
//! the descriptor becomes silent again.
//!
//! When the delay decides, and not the watermark, a delay that begins when the socket is emptied
//! has run for a while when the next byte comes. So a descriptor whose pauses are long falls silent
//! as soon as its socket is empty, and the delay begins with the byte: two system calls and an
//! event, for as much more in each delivery as comes in a pause. Whether pauses are long is found
//! out by trying it now and then.
//!
//! Where the kernel has no watermark, a descriptor is always silent; its event itself is held back
//! and put into the sweep.
//!
//! **Invariant:** an active descriptor whose reader waits has an entry in the sweep. Without it, a
//! tail shorter than the watermark would never arrive.

use super::delivery::Delivery;

/// The sweep's resolution.
pub(crate) const TICK_NS: u64 = 1_000_000;
/// The watermark of an adaptive descriptor that is held back: what fits the smallest common receive
/// buffer, so that setting it makes none grow.
const ADAPTIVE_BYTES: usize = 64 * 1024;
/// The pressure at which an adaptive descriptor is held back for as long as it may be.
pub(crate) const PRESSURE_MAX: u64 = 1024;
/// A pause is long from this part of the delay on: then it makes up for what it costs to wait for
/// its end.
const LONG_PAUSE: u64 = 16;
/// From so many ticks on, a delay ends a tick early: a worker that sleeps may wake up to a tick too
/// late, as the kernel takes the lengths of waits in whole milliseconds and rounds them up. To a
/// shorter delay a tick makes more of a difference than being late by one.
const TICKS_TO_SPARE: u64 = 64;
/// After so many deliveries with short pauses one is measured anew.
const MEASURED_EACH: u8 = 16;
/// The highest watermark that the kernel's interface can express.
const WATERMARK_MAX: usize = i32::MAX as usize;

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// Have the kernel report this many bytes and no fewer.
    pub(crate) watermark: Option<usize>,
    /// Put an entry into the sweep, at this tick.
    pub(crate) arm: Option<u64>,
    /// Take the entry out of the sweep.
    pub(crate) disarm: bool,
    /// Wake the reader.
    pub(crate) release: bool,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    pauses: Pauses,
    mode: Delivery,
    /// The kernel reports as many bytes; no more than 1 is what it does by itself.
    watermark: usize,
    /// The kernel can be told how many bytes to wait for.
    has_watermark: bool,
    /// The tick of the entry in the sweep.
    armed: Option<u64>,
    /// When the reader is to be woken, by whatever entry.
    deadline: u64,
    /// Since when bytes may have been held back.
    since: u64,
    /// For how long they were, at the latest release.
    held: u64,
    /// It was the delay that ended it.
    by_delay: bool,
}

/// How long it takes after the socket was emptied until something comes.
#[derive(Clone, Debug, Default)]
struct Pauses {
    /// When one began that is being measured.
    began: Option<u64>,
    /// The mean of the latest; `None` before the first.
    mean: Option<u64>,
    /// Deliveries since one was measured.
    unmeasured: u8,
}

impl Pauses {
    /// Whether to measure the one that begins.
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

    /// Something came. What is beyond the delay makes no difference.
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

    /// Whether it matters how old the queues are.
    pub(crate) fn is_adaptive(&self) -> bool {
        matches!(self.mode, Delivery::Adaptive { .. })
    }

    /// Whether the sweep has an entry.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// The kernel refused.
    pub(crate) fn give_up_watermark(&mut self) {
        self.has_watermark = false;
        self.watermark = 1;
    }

    /// Another mode. Whatever is held back is released, and the new mode begins silent.
    /// `has_watermark`: the kernel can be told how many bytes to wait for.
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

    /// The kernel says that there are bytes, and the reader does not know it.
    pub(crate) fn event(&mut self, now: u64, pressure: u64) -> Orders {
        let mut orders = Orders::default();
        if self.is_active() {
            // The watermark is reached, or the buffer full. A worker that comes late finds that the
            // delay has passed as well; what is beyond is not the pace's doing, as in `due`.
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
            orders.watermark = Some(self.watermark);
            self.hold(now, delay, &mut orders);
        } else if self.armed.is_none() {
            self.hold(now, delay, &mut orders);
        }
        orders
    }

    /// For how long what the reader was brought had been held back. Asked once for each delivery:
    /// the next may pass by without the pace.
    pub(crate) fn take_held(&mut self) -> u64 {
        std::mem::take(&mut self.held)
    }

    /// The reader got bytes, and has emptied the socket. Does nothing unless it is active.
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

    /// The reader found nothing, and has got nothing since it was woken.
    pub(crate) fn found_nothing(&mut self) -> Orders {
        // With an entry in the sweep the delay is not over.
        if self.is_active() && self.armed.is_none() {
            return self.become_silent();
        }
        Orders::default()
    }

    /// The sweep has come to an entry. `is_ready`: the reader has not come since it was woken.
    pub(crate) fn due(&mut self, now: u64, is_ready: bool) -> Orders {
        let mut orders = Orders::default();
        let tick = now / TICK_NS;
        // The entry had left the sweep when it was taken out, so it is stale.
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
            // A worker that is late for its sweep would have been late for an event as well.
            self.release(began.min(now), &mut orders);
            self.by_delay = true;
        }
        orders
    }

    /// Whether the kernel reports so many bytes and no fewer.
    pub(crate) fn is_active(&self) -> bool {
        self.watermark > 1
    }

    fn become_silent(&mut self) -> Orders {
        let told = std::mem::replace(&mut self.watermark, 1);
        Orders {
            watermark: (told > 1).then_some(1),
            ..Orders::default()
        }
    }

    fn hold(&mut self, now: u64, delay: u64, orders: &mut Orders) {
        let spare = if delay < TICKS_TO_SPARE * TICK_NS {
            0
        } else {
            TICK_NS
        };
        self.since = now;
        self.deadline = now + delay - spare;
        if self.armed.is_none() {
            self.arm(now, orders);
        }
    }

    /// The tick in which the deadline lies, but none that has begun: rounding down keeps a delay
    /// from being exceeded by more than the worker is late.
    fn arm(&mut self, now: u64, orders: &mut Orders) {
        let tick = (self.deadline / TICK_NS).max(now / TICK_NS + 1);
        self.armed = Some(tick);
        orders.arm = Some(tick);
    }

    fn release(&mut self, now: u64, orders: &mut Orders) {
        self.held = now.saturating_sub(self.since);
        orders.release = true;
    }

    /// For how long to hold back; zero for not at all.
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
