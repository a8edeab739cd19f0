//! A worker without work: it searches, spins, and parks.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::clock::Clock;
use crate::counters::accounts::{CheckOrigin, State};
use crate::sched::config::{Config, Hook};
use crate::sched::run_queues::Rank;
use crate::sched::shared::Seat;
use crate::sched::spin::{BusyWait, Spinner};

use super::Worker;

/// The state of searching and spinning.
pub(super) struct Idling {
    /// `Idle` counts this worker as searching.
    searching: Cell<bool>,
    /// The level that the spinner was made for.
    level: Cell<BusyWait>,
    spinner: RefCell<Spinner>,
    /// State of a xorshift generator, which chooses the first victim of work stealing.
    random: Cell<u32>,
}

impl Idling {
    pub(super) fn new(config: &Config, clock: &Clock, index: usize) -> Self {
        let level = config.busy_wait;
        Self {
            searching: Cell::new(false),
            level: Cell::new(level),
            spinner: RefCell::new(spinner(level, config, clock)),
            random: Cell::new(index as u32 + 1),
        }
    }

    /// Goes by another level, if it was changed.
    fn follow(&self, level: BusyWait, config: &Config, clock: &Clock) {
        if self.level.replace(level) != level {
            self.spinner.replace(spinner(level, config, clock));
        }
    }

    pub(super) fn is_searching(&self) -> bool {
        self.searching.get()
    }

    /// Stops searching. Returns whether the worker counted as searching.
    pub(super) fn stops_searching(&self) -> bool {
        self.searching.take()
    }

    /// Marsaglia's xorshift with 32 bits (G. Marsaglia, "Xorshift RNGs", 2003).
    pub(super) fn next_random(&self) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        x
    }
}

fn spinner(level: BusyWait, config: &Config, clock: &Clock) -> Spinner {
    Spinner::new(level, clock.cycles_of(level.limit()), config.quota)
}

impl Worker {
    /// Searches, spins, and parks until there is work.
    pub(super) fn idle(&self) {
        let began = self.now.get();
        if !self.idling.searching.get() {
            self.idling.searching.set(self.shared.idle.start_search());
        }
        let found = self.idling.searching.get() && self.search();
        if found {
            self.mark(State::Steal, State::Steal);
            return;
        }
        if !self.spin() {
            self.park();
        }
        self.idling
            .spinner
            .borrow_mut()
            .learn(self.now.get() - began);
    }

    /// Work was found, so this worker no longer counts as searching.
    pub(super) fn end_search(&self) {
        self.idling.searching.set(false);
        // While this worker searched, pushing threads woke no other worker. This one will look at
        // the injection queues again soon; if its polls tend to be long, another one should.
        if self.shared.idle.stop_search()
            && self.backlog.poll_length() >= self.bounds.long / 4
            && self.shared.has_injected()
        {
            self.shared.wake_one();
        }
    }

    /// Looks for work at each other seat once, beginning at a random one.
    fn search(&self) -> bool {
        let seats = &self.shared.seats;
        let start = self.idling.next_random() as usize;
        (0..seats.len())
            .map(|offset| (start + offset) % seats.len())
            .filter(|&victim| victim != self.index)
            .any(|victim| self.steal_from(&seats[victim]))
    }

    fn steal_from(&self, victim: &Seat) -> bool {
        let desk = self.shared.desk_of(victim);
        if let Some((class, count)) = desk.run_queues.steal_any_into(&self.desk.run_queues) {
            self.accounts().steals.add(count as u64);
            self.note_ready(class);
            return true;
        }
        let since = desk.tenure().polling_since();
        if since == 0 || self.now.get().saturating_sub(since) < self.bounds.stuck {
            return false;
        }
        // The victim is in a long poll, so its next task had better run here.
        if let Some(task) = desk.take_next() {
            self.accounts().steals.add(1);
            self.enqueue(Rank::Woken, task);
            return true;
        }
        if self.fire_timers(victim) || self.sweep(victim) {
            return true;
        }
        victim.driver.has_descriptors()
            && self.now.get().saturating_sub(victim.checked_at.load()) > 2 * self.bounds.check
            && self.check(victim, CheckOrigin::Visit)
    }

    /// Busy-waits for as long as the level allows. Returns whether there may be work.
    fn spin(&self) -> bool {
        let (level, config) = (self.shared.live.busy_wait(), &self.shared.config);
        self.idling.follow(level, config, self.clock());
        let limit = self.idling.spinner.borrow().limit();
        let seat = self.seat();
        if limit == 0 || seat.timers.is_behind() || seat.driver.sweep_due() == 0 {
            return false;
        }
        let began = self.mark(State::Steal, State::Spin);
        let (mut check_at, mut now) = (began, began);
        let found = loop {
            let mut found = seat.parker.take_notification() || self.shared.has_injected();
            if !found && now >= check_at && seat.driver.has_descriptors() {
                found = self.check(seat, CheckOrigin::Spin);
                // A check costs about 300 ns; one in a microsecond is plenty.
                check_at = now + self.bounds.check / 100;
            }
            if found || now.saturating_sub(began) >= limit {
                break found;
            }
            // Not before the first look: a busy worker finds most of its events there.
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            // Timers and the sweep can wait: spinning ends within a tick.
            now = self.clock().cycles();
        };
        let accounts = self.accounts();
        let count = if found {
            &accounts.hits
        } else {
            &accounts.misses
        };
        count.add(1);
        self.mark(State::Spin, State::Steal);
        found
    }

    /// Sleeps until an event, a timer, or a wake-up by another thread.
    fn park(&self) {
        if self.passes_time() {
            return;
        }
        self.retire();
        let config = &self.shared.config;
        config.on_thread_park.iter().for_each(Hook::run);
        // The hook may have spawned tasks, which are here.
        if self.desk.is_clear() {
            self.sleep(State::Park, None);
            // A worker that sleeps has no task in its run queues.
            self.accounts().note_waiting(0, 0, self.now.get());
        }
        config.on_thread_unpark.iter().for_each(Hook::run);
    }

    pub(super) fn sleep(&self, state: State, limit: Option<Duration>) {
        let (seat, idle) = (self.seat(), &self.shared.idle);
        debug_assert!(self.holds_seat(), "the seat's holder alone parks");
        let searching = self.idling.searching.take();
        idle.park(self.index, searching);
        let work = self.shared.has_injected()
            || self.shared.is_stopping()
            || (searching && self.others_have_work());
        if work {
            self.idling.searching.set(idle.unpark(self.index));
            // The monitor may have gone to sleep when it saw this worker parked.
            if idle.rouses_monitor() {
                self.shared.monitor.rouse();
            }
            self.check_due.set(self.now.get());
            self.mark(State::Steal, State::Steal);
            return;
        }
        self.note_pressure(true);
        let wakes_at = [seat.timers.before_park(), seat.driver.before_park()];
        let wakes_at = wakes_at.into_iter().flatten().min();
        let timeout = wakes_at.map(|tick| self.clock().until_tick(tick));
        let timeout = timeout.into_iter().chain(limit).min();
        let mut wakers = self.wakers.take();
        self.mark(State::Steal, state);
        let sleeps = seat.parker.prepare();
        if sleeps {
            let pool = &self.shared.heavy_pool;
            self.real_time
                .before_sleep(&self.desk, pool, self.now.get());
        }
        let timeout = if sleeps {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        let checked = seat.driver.check(timeout, &mut wakers);
        if sleeps {
            seat.parker.finish();
        }
        let slept_since = self.now.get();
        let now = self.mark(state, State::Check);
        if state == State::Park {
            self.note_sleep(now - slept_since);
        }
        self.real_time.after_sleep(&self.desk, now);
        self.note_pressure(false);
        seat.checked_at.put(now);
        seat.timers.after_park();
        self.accounts().count_park();
        self.accounts()
            .count_check(CheckOrigin::Idle, checked.events, checked.deliveries);
        self.idling.searching.set(idle.unpark(self.index));
        if idle.rouses_monitor() {
            self.shared.monitor.rouse();
        }
        self.dispatch(wakers);
        self.fire_timers(seat);
        self.sweep(seat);
        let now = self.mark(State::Check, State::Steal);
        let due = if self.shared.is_stopping() {
            now
        } else {
            now + self.bounds.check
        };
        self.check_due.set(due);
    }

    fn others_have_work(&self) -> bool {
        let seats = self.shared.seats.iter().enumerate();
        let mut others = seats.filter(|&(index, _)| index != self.index);
        others.any(|(_, seat)| !self.shared.desk_of(seat).run_queues.is_empty())
    }
}
