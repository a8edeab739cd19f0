//! Polling a task, and what becomes of it afterwards.

use std::cell::Cell;
use std::panic::Location;
use std::ptr;

use crate::class::Class;
use crate::counters::accounts::State;
use crate::sched::hog::{self, Ways};
use crate::sched::kinds::Verdict;
use crate::sched::run_queues::Rank;
use crate::sched::task::cell::{Header, Ran, Runnable};
use crate::sync::atomic::Ordering;

use super::Worker;

/// The task that is polled now, if any.
pub(super) struct Running {
    /// To be compared with and nothing else; null between polls.
    task: Cell<*const Header>,
    class: Cell<Option<Class>>,
}

impl Running {
    pub(super) fn nothing() -> Self {
        Self {
            task: Cell::new(ptr::null()),
            class: Cell::new(None),
        }
    }

    #[inline]
    pub(super) fn class(&self) -> Option<Class> {
        self.class.get()
    }

    #[inline]
    fn begin(&self, task: &Header) {
        debug_assert!(self.task.get().is_null(), "one task at a time");
        self.task.set(task);
        self.class.set(Some(task.class()));
    }

    #[inline]
    fn end(&self) {
        self.task.set(ptr::null());
        self.class.set(None);
    }
}

impl Worker {
    pub(super) fn poll(&self, task: Runnable) {
        let ways = self.ways(task.header());
        let is_plain = ways.is_plain();
        if !is_plain && self.is_for_pool(ways) && !task.is_aborted() {
            return self.pass_on(task);
        }
        if self.idling.is_searching() {
            self.end_search();
        }
        self.ask_for_help(ways.is_guarded());
        if !is_plain {
            self.prepare(ways);
        }
        let (now, class) = (self.now.get(), task.header().class());
        self.begin_poll(task.header(), now);

        let registry = &self.shared.registry;
        let ran = task.run(
            |task| {
                self.learn_of_wait(task.header(), now, is_plain);
                registry.insert(task, self.index)
            },
            |header| {
                self.learn_of_end(header, now);
                registry.remove(header);
            },
        );

        self.end_task();
        if !is_plain {
            self.desk.mark_poll(false, false);
        }
        if !self.desk.tenure().end_poll() {
            return self.lose_seat(ran, now);
        }
        self.charge_poll(class, now);
        if let Ran::Again(task) = ran {
            self.queue_behind(task);
        }
    }

    /// What is known of a task; at its first poll, what is known of its kind. That is looked up now
    /// and not at the spawn, so that of many tasks spawned at once the first ones teach about the
    /// rest.
    #[inline]
    fn ways(&self, task: &Header) -> Ways {
        if self.shared.kinds.is_known() && task.is_unseen() {
            let known = self.shared.kinds.look_up(&task.kind());
            hog::begin(task, known);
        }
        Ways::of(task)
    }

    /// A poll begins: says so to others, and takes down how long the task had waited for it.
    #[inline]
    fn begin_poll(&self, task: &Header, now: u64) {
        let class = task.class();
        // Relaxed: a statistic.
        let queued_at = task.queued_at.load(Ordering::Relaxed);
        self.accounts().go_on(State::Run(class));
        let waited = now.saturating_sub(queued_at);
        self.accounts().count_poll(class, waited);
        if self.choosing.took_woken() {
            self.backlog.note_wait(waited);
        }
        self.desk.begin_poll(task, now);
        self.begin_task(task, now);
        if self.choosing.took_woken() {
            // Tasks that yielded ran a moment ago, so they are still in the cache.
            self.desk.run_queues.prefetch_next(class, Rank::Woken);
        }
    }

    /// Says what this thread polls, to whatever the poll asks of it.
    #[inline]
    pub(super) fn begin_task(&self, task: &Header, now: u64) {
        self.running.begin(task);
        self.choosing.runs(task.class());
        // Relaxed: the runner alone touches the number.
        let cuts = task.cut_short.load(Ordering::Relaxed);
        let end = now + self.bounds.slice;
        self.slice.begin(end, cuts, || self.idling.next_random());
    }

    #[inline]
    pub(super) fn end_task(&self) {
        self.running.end();
    }

    /// A poll that began at `began` is over, and its task waits. For the task's runner.
    #[inline]
    fn learn_of_wait(&self, task: &Header, began: u64, is_plain: bool) {
        if self.desk.tenure().has_lost() {
            self.mark_lost(task, began);
        } else if !self.was_kept(task, began) && !is_plain {
            self.note_short(task, began);
        }
        self.slice.note_cuts(task);
    }

    /// A poll that began at `began` is over, and its task is complete. For the task's runner.
    #[inline]
    fn learn_of_end(&self, task: &Header, began: u64) {
        if !self.desk.tenure().has_lost() {
            self.was_kept(task, began);
        }
        if hog::acquit(task) && !self.is_long_since(began) {
            let kinds = &self.shared.kinds;
            kinds.judge(&task.kind(), Verdict::Behaved);
        }
    }

    /// Whether a poll that kept its seat, because no thread could take it, was a hog's.
    #[inline]
    fn was_kept(&self, task: &Header, began: u64) -> bool {
        let kept = self.desk.was_kept(began);
        kept.is_some_and(|blocked| self.note_kept(task, began, blocked))
    }

    /// A poll that began at `began` is over, and kept its seat.
    #[inline]
    fn charge_poll(&self, class: Class, began: u64) {
        let now = self.mark(State::Run(class), State::Run(class));
        let length = now.saturating_sub(began);
        self.charge_class(class, length);
        self.choosing.ran(class, length);
        self.backlog.note_poll(length);
    }

    /// Queues a task that was woken while it ran.
    #[inline]
    fn queue_behind(&self, task: Runnable) {
        // Relaxed: a statistic.
        task.header()
            .queued_at
            .store(self.now.get(), Ordering::Relaxed);
        let rank = if self.slice.has_yielded() {
            Rank::Yielded
        } else {
            Rank::Woken
        };
        self.enqueue(rank, task);
    }

    /// The class of the running task.
    pub(crate) fn current_class(&self) -> Class {
        self.running.class().unwrap_or_default()
    }

    /// Where the running task was spawned.
    pub(crate) fn current_spawned_at(&self) -> Option<&'static Location<'static>> {
        self.running.class()?;
        self.desk.last_running()
    }

    pub(crate) fn is_running(&self, task: &Header) -> bool {
        ptr::eq(self.running.task.get(), task)
    }
}
