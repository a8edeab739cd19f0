//! The worker: a thread in a seat that runs tasks and checks I/O.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────────┐
//!        ▼                                                                  │
//!   check due? ──yes──▶ look around: I/O check, timers, injection queue     │
//!        │no                    │                                           │
//!        ▼                      ▼                                           │
//!   next task: slot, queue of woken tasks,                                  │
//!              injection queue, queue of yielded tasks ──▶ poll ──▶ charge ─┤
//!        │none                                                              │
//!        ▼                                                                  │
//!   idle: search (injection queues, other seats) ──▶ spin ──▶ park ─────────┘
//! ```
//!
//! The clock is read once for each poll: the end of one poll is the beginning of the next. That
//! reading, and not a count of polls, keeps the bound on the time between I/O checks.
//!
//! A thread that is stuck in a poll can lose its seat to another thread (`heavy`). It finds out
//! when the poll returns, and continues in the heavy pool.

mod backlog;
mod bounds;
mod charge;
mod choose;
mod coping;
mod heavy;
mod idle;
mod in_place;
mod lend;
mod look;
mod real_time;
mod run;
mod slice;
mod stand;

use std::cell::{Cell, RefCell};

use crate::clock::Clock;
use crate::counters::accounts::{Accounts, State};
use crate::io::readiness::WakeList;
use crate::sync::Arc;

use super::desk::Desk;
use super::run_queues::received;
use super::shared::{Seat, Shared};
use super::shares::Shares;
use backlog::Backlog;
use bounds::Bounds;
use choose::{Choosing, WokenTo};
use coping::Coping;
use idle::Idling;
pub(crate) use in_place::Begun;
use lend::Lending;
use look::Neighbour;
use real_time::RealTime;
use run::Running;
use slice::Slice;

/// The part of a worker that belongs to its thread. It is made of `Cell`s because tasks reach it
/// through the thread's context while they are polled.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    seat: Arc<Seat>,
    desk: Arc<Desk>,
    desk_index: usize,
    bounds: Bounds,
    /// The time after the last poll or check, in cycles.
    now: Cell<u64>,
    check_due: Cell<u64>,
    /// The seat has passed to another thread.
    lost: Cell<bool>,
    shares: RefCell<Shares>,
    choosing: Choosing,
    backlog: Backlog,
    coping: RefCell<Coping>,
    running: Running,
    slice: Slice,
    lending: Lending,
    idling: Idling,
    neighbour: Neighbour,
    /// Where a task goes that is woken on this thread.
    woken_to: Cell<WokenTo>,
    /// Kept so that checks allocate nothing.
    wakers: Cell<WakeList>,
    real_time: RealTime,
}

impl Worker {
    /// A worker for the seat `index`, with the thread's own desk.
    pub(crate) fn new(shared: Arc<Shared>, index: usize, desk_index: usize) -> Self {
        let (config, clock) = (&shared.config, shared.clock);
        let bounds = Bounds::new(config, &clock);
        let now = clock.cycles();
        let desk = Arc::clone(shared.desks.get(desk_index));
        desk.tenure().begin();
        Self {
            index,
            seat: Arc::clone(&shared.seats[index]),
            desk,
            desk_index,
            bounds,
            now: Cell::new(now),
            check_due: Cell::new(0),
            lost: Cell::new(false),
            shares: RefCell::new(shared.ledger.view()),
            choosing: Choosing::new(),
            // Unknown polls count as long, so that a new worker asks for help early.
            backlog: Backlog::new(bounds.long),
            coping: RefCell::new(Coping::new(&clock, now)),
            running: Running::nothing(),
            slice: Slice::new(),
            lending: Lending::default(),
            idling: Idling::new(config, &clock, index),
            neighbour: Neighbour::new(index),
            woken_to: Cell::new(WokenTo::Slot),
            wakers: Cell::new(WakeList::new()),
            real_time: RealTime::new(config.real_time, &clock),
            shared,
        }
    }

    /// Opens the seat's accounts. For the seat's first thread.
    pub(crate) fn begin(&self) {
        self.coping.borrow_mut().begin();
        self.accounts().begin(self.now.get());
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    fn accounts(&self) -> &Accounts {
        &self.seat().accounts
    }

    /// Whether this thread holds the seat. Exact between polls.
    fn holds_seat(&self) -> bool {
        !self.lost.get() && self.seat.desk() == self.desk_index
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Charges the time since the last poll or mark to `done`, and begins to charge `next`. For the
    /// seat's holder.
    #[inline]
    fn mark(&self, done: State, next: State) -> u64 {
        let since = self.now.get();
        let now = self.move_on(self.clock().cycles());
        self.accounts().charge(since, now, done, next);
        now
    }

    /// Takes a reading of the clock for the present. For the seat's holder.
    #[inline]
    fn move_on(&self, now: u64) -> u64 {
        debug_assert!(
            self.holds_seat(),
            "the accounts belong to the seat's holder"
        );
        // The processors' counters may differ a little, and no difference may wrap.
        let now = now.max(self.now.get());
        self.now.set(now);
        now
    }

    /// A thread that was started for the heavy pool. Its timers and descriptors go to the worker
    /// `index`.
    pub(crate) fn without_seat(shared: Arc<Shared>, index: usize, desk_index: usize) -> Self {
        let worker = Self::new(shared, index, desk_index);
        worker.desk.tenure().begin_without_seat();
        worker.lost.set(true);
        worker
    }

    /// Works until the runtime stops, or the seat is lost.
    pub(crate) fn run(&self) {
        while !self.lost.get() {
            if self.now.get() >= self.check_due.get() {
                if self.shared.is_stopping() {
                    break;
                }
                self.look_around();
            }
            match self.next_task() {
                Some(task) => self.poll(task),
                None => match self.lending.asked() {
                    Some(class) => self.lend(class),
                    None => self.idle(),
                },
            }
        }
        if self.lost.get() {
            self.serve_heavy_pool();
        } else {
            self.real_time.give_up(&self.desk, self.now.get());
            self.wind_up();
        }
    }

    /// The runtime stops: cancels the tasks that are queued here.
    fn wind_up(&self) {
        if self.idling.stops_searching() {
            let _ = self.shared.idle.stop_search();
        }
        while let Some(task) = self.desk.take_any() {
            self.shared.cancel(task);
        }
        for queue in &self.shared.injection_queues {
            let mut tasks = Vec::new();
            queue.take(usize::MAX, |entry| tasks.push(received(entry)));
            tasks.into_iter().for_each(|task| self.shared.cancel(task));
        }
        self.mark(State::Steal, State::Park);
    }
}
