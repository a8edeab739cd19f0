//! The regular look around: I/O, timers, readers that were held back, and one other worker.

use std::cell::Cell;
use std::ptr;
use std::time::Duration;

use crate::class::Class;
use crate::clock::Clock;
use crate::counters::accounts::{CheckOrigin, State};
use crate::io::readiness::{WakeList, wake_all};
use crate::sched::desk::Desk;
use crate::sched::observed::Ask;
use crate::sched::shared::Seat;
use crate::sys::thread;

use super::Worker;
use super::choose::WokenTo;

/// What a worker remembers of its neighbours, the other workers.
pub(super) struct Neighbour {
    /// The worker that was looked at last.
    last: Cell<usize>,
    /// When the poll on guard began in which a worker was last found stuck.
    reported: Cell<u64>,
}

impl Neighbour {
    pub(super) fn new(index: usize) -> Self {
        Self {
            last: Cell::new(index),
            reported: Cell::new(0),
        }
    }
}

/// The thread that sits at a desk.
struct ThreadAt<'a>(&'a Desk, &'a Clock);

impl Ask for ThreadAt<'_> {
    fn cpu(&self) -> Option<u64> {
        let Self(desk, clock) = self;
        let cpu = desk.try_ask_thread(thread::cpu_time).flatten();
        cpu.map(|cpu| clock.cycles_of(cpu))
    }

    fn is_runnable(&self) -> Option<bool> {
        self.0.try_ask_thread(thread::is_runnable).flatten()
    }
}

impl Worker {
    /// Looks around, whatever the queues hold.
    pub(super) fn look_around(&self) {
        let seat = self.seat();
        self.check_due.set(self.now.get() + self.bounds.check);
        self.note_pressure(true);
        if seat.driver.has_descriptors() {
            self.check(seat, CheckOrigin::Due);
        }
        self.fire_timers(seat);
        self.sweep(seat);
        (0..self.shared.injection_queues.len()).for_each(|index| {
            self.take_injected(Class::at(index));
        });
        self.note_fill();
        let now = self.mark(State::Check, State::Steal);
        self.check_due.set(now + self.bounds.check);
        self.real_time.goes_on(&self.desk, now);
        seat.looked_at.put(now);
        self.look_at_neighbour(now);
    }

    /// Rouses the monitor if the next worker in the round is stuck in a poll. A poll on guard is
    /// reported when it has lasted, whatever its thread does: it is likely to be a hog's.
    fn look_at_neighbour(&self, now: u64) {
        let seats = &self.shared.seats;
        let next = (self.neighbour.last.get() + 1) % seats.len();
        self.neighbour.last.set(next);
        let desk = self.shared.desk_of(&seats[next]);
        let since = desk.tenure().polling_since();
        if since == 0 || next == self.index {
            return;
        }
        let age = now.saturating_sub(since);
        let stuck = if desk.is_on_guard() {
            let lasts = age >= self.shared.live.guard();
            lasts && self.neighbour.reported.replace(since) != since
        } else {
            let limit = self.shared.live.hog();
            let thread = ThreadAt(desk, self.clock());
            age >= limit / 2 && desk.observed.is_stuck(since, now, limit, &thread)
        };
        if stuck {
            self.shared.monitor.rouse();
        }
    }

    /// Checks a readiness queue without sleeping: this seat's own, or another's in a visit. Returns
    /// whether a task was woken.
    pub(super) fn check(&self, seat: &Seat, origin: CheckOrigin) -> bool {
        let mut wakers = self.wakers.take();
        let checked = if ptr::eq(seat, self.seat()) {
            Some(seat.driver.check(Some(Duration::ZERO), &mut wakers))
        } else {
            seat.driver.visit(&mut wakers)
        };
        if let Some(checked) = checked {
            seat.checked_at.put(self.now.get());
            self.accounts()
                .count_check(origin, checked.events, checked.deliveries);
        }
        let found = !wakers.is_empty();
        self.dispatch(wakers);
        found
    }

    /// Wakes tasks for events, in the order in which the events came.
    pub(super) fn dispatch(&self, mut wakers: WakeList) {
        let before = self.woken_to.replace(WokenTo::RunQueue);
        wake_all(&mut wakers);
        self.woken_to.set(before);
        self.wakers.set(wakers);
    }

    /// The current tick, if `due` has come. Does not read the clock if nothing is due ever.
    #[inline]
    fn tick_if_due(&self, due: u64) -> Option<u64> {
        if due == u64::MAX {
            return None;
        }
        let tick = self.clock().tick();
        (due <= tick).then_some(tick)
    }

    /// Wakes the tasks of a seat whose timers are due. Returns whether there were any.
    pub(super) fn fire_timers(&self, seat: &Seat) -> bool {
        let timers = &seat.timers;
        let Some(tick) = self.tick_if_due(timers.next_due()) else {
            return false;
        };
        let mut wakers = self.wakers.take();
        let found = !timers.fire(tick, &mut wakers) || !wakers.is_empty();
        self.dispatch(wakers);
        found
    }

    /// Wakes the readers of a seat that were held back and are due. Returns whether there were any.
    pub(super) fn sweep(&self, seat: &Seat) -> bool {
        let Some(tick) = self.tick_if_due(seat.driver.sweep_due()) else {
            return false;
        };
        let mut wakers = self.wakers.take();
        let swept = seat.driver.sweep(tick, &mut wakers);
        self.accounts().count_sweep(swept.looks, swept.deliveries);
        self.dispatch(wakers);
        swept.deliveries > 0
    }
}
