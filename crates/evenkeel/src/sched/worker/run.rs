//! Polling a task, and what is done with it afterwards.

use std::cell::Cell;
use std::panic::Location;
use std::ptr;

use super::Worker;
use crate::class::Class;
use crate::counters::accounts::State;
use crate::sched::hog::{self, Profile};
use crate::sched::kinds::Verdict;
use crate::sched::run_queues::Rank;
use crate::sched::shared::Shared;
use crate::sched::task::Id;
use crate::sched::task::cell::{Header, Ran, Runnable};

/// The task that is polled now, if any.
pub(super) struct Running {
    /// Only compared; null between polls.
    task: Cell<*const Header>,
    /// Of what it spawns. The task itself gets into it when the poll ends.
    class: Cell<Option<Class>>,
    /// The task has changed its class in this poll; or one before it did, and completed in that
    /// poll.
    changed: Cell<bool>,
    /// When the poll returned pending, in cycles; 0 if it has not, or the clock is to be read again
    /// as something else has taken time since.
    ended: Cell<u64>,
}

impl Running {
    pub(super) fn nothing() -> Self {
        Self {
            task: Cell::new(ptr::null()),
            class: Cell::new(None),
            changed: Cell::new(false),
            ended: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn class(&self) -> Option<Class> {
        self.class.get()
    }

    #[inline]
    fn begin(&self, task: &Header, class: Class) {
        debug_assert!(self.task.get().is_null(), "one task at a time");
        self.task.set(task);
        self.class.set(Some(class));
        self.ended.set(0);
    }

    fn change_class(&self, class: Class) {
        self.class.set(Some(class));
        self.changed.set(true);
    }

    /// The poll is about to return pending: the task may have changed its class, or others want it
    /// to be in another one.
    #[inline]
    pub(super) fn keep_class(&self, task: &Header, shared: &Shared) {
        debug_assert!(ptr::eq(self.task.get(), task), "it is the task that runs");
        if self.changed.get() {
            self.changed.set(false);
            if let Some(class) = self.class.get() {
                shared.registry.change_class(task, class);
            }
        }
        shared.settle_class(task);
    }

    #[inline]
    fn end(&self) {
        debug_assert!(!self.task.get().is_null(), "no poll is under way");
        self.task.set(ptr::null());
        self.class.set(None);
    }
}

impl Worker {
    pub(super) fn poll(&self, task: Runnable) {
        debug_assert!(
            !self.lost.get(),
            "a thread without a seat polls in the heavy pool"
        );
        if self.shared.settle_class(task.header()) {
            return self.queue_anew(task);
        }
        let profile = self.profile(task.header());
        let is_plain = profile.is_plain();
        if !is_plain && self.is_for_pool(profile) && !task.is_aborted() {
            return self.pass_on(task);
        }
        if self.idling.is_searching() {
            self.end_search();
        }
        self.ask_for_help(profile.is_guarded());
        if !is_plain {
            self.prepare(profile);
        }
        let (now, class) = (self.now.get(), task.header().class());
        self.begin_poll(task.header(), class, now);

        let registry = &self.shared.registry;
        let ran = task.run(
            |task| {
                self.learn_from_pending(task.header(), now, is_plain);
                self.running.keep_class(task.header(), &self.shared);
                let kept = registry.insert(task, self.index);
                if kept {
                    self.end_pending(task.header(), now);
                }
                kept
            },
            |header| {
                self.learn_from_last(header, now);
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

    /// Queues a task that was taken out of the queue of the class that it has left. Many may follow
    /// each other: the time counts towards the next check, and is not charged to the next poll.
    #[cold]
    fn queue_anew(&self, task: Runnable) {
        self.enqueue(Rank::Woken, task);
        self.mark(State::Steal, State::Steal);
    }

    /// The task's profile. A task that has not been polled gets the one of its kind: now and not at
    /// the spawn, so that of many tasks spawned at once the first ones teach about the rest.
    #[inline]
    fn profile(&self, task: &Header) -> Profile {
        let kinds = &self.shared.kinds;
        if kinds.is_known() {
            if task.is_unseen() {
                let known = kinds.look_up(&task.kind());
                hog::begin(task, known);
            }
            if kinds.surges(self.now.get()) {
                self.suspect(task);
            }
        }
        Profile::of(task)
    }

    /// A poll begins: publishes it, and records how long the task was ready.
    #[inline]
    fn begin_poll(&self, task: &Header, class: Class, now: u64) {
        let accounts = self.accounts();
        accounts.begin_poll(now, class);
        let waited = now.saturating_sub(task.since.load());
        task.since.put(now);
        accounts.of(class).count_poll(waited);
        if self.choosing.took_woken() {
            self.backlog.note_wait(waited);
        }
        self.desk.begin_poll(task, now);
        self.begin_task(task, class, now);
        if self.choosing.took_woken() {
            // Tasks that yielded ran a moment ago, so they are still in the cache.
            self.desk.run_queues.prefetch_next(class, Rank::Woken);
        }
    }

    /// Sets the running task and its slice.
    #[inline]
    pub(super) fn begin_task(&self, task: &Header, class: Class, now: u64) {
        self.running.begin(task, class);
        self.choosing.runs(class);
        let end = now + self.bounds.slice;
        let random = || self.idling.next_random();
        self.slice.begin(end, task.cut_short.load(), random);
    }

    #[inline]
    pub(super) fn end_task(&self) {
        self.running.end();
    }

    /// A poll that began at `began` returned pending. For the task's runner.
    #[inline]
    fn learn_from_pending(&self, task: &Header, began: u64, is_plain: bool) {
        if self.desk.tenure().has_lost() {
            self.mark_lost(task, began);
        } else if !self.was_kept(task, began) && !is_plain {
            self.note_short(task, began);
        }
        self.slice.note_cuts(task);
    }

    /// A poll that began at `began` has returned pending, and its task goes on. For the task's
    /// runner: later, others may run the task. `charge_poll` uses the reading of the clock.
    #[inline]
    pub(super) fn end_pending(&self, task: &Header, began: u64) {
        let now = self.clock().cycles();
        // In this order: otherwise the poll would be counted twice by who looks in between.
        task.since.put(now);
        task.polls.count(now.saturating_sub(began));
        self.running.ended.set(now);
        if task.mark.has_begun() {
            self.shared.dumps.deliver(task);
            self.running.ended.set(0);
        }
    }

    /// A poll that began at `began` completed its task. For the task's runner.
    #[inline]
    fn learn_from_last(&self, task: &Header, began: u64) {
        if !self.desk.tenure().has_lost() {
            self.was_kept(task, began);
        }
        if hog::acquit(task) && !self.is_long_since(began) {
            let kinds = &self.shared.kinds;
            kinds.judge(&task.kind(), Verdict::Behaved);
        }
    }

    /// Whether a poll kept its seat because no thread could take it over, and was a hog's.
    #[inline]
    fn was_kept(&self, task: &Header, began: u64) -> bool {
        let kept = self.desk.was_kept(began);
        kept.is_some_and(|blocked| self.note_kept(task, began, blocked))
    }

    /// Charges a poll that began at `began` and kept its seat.
    #[inline]
    fn charge_poll(&self, class: Class, began: u64) {
        let ended = match self.running.ended.get() {
            0 => self.clock().cycles(),
            ended => ended,
        };
        let length = self.move_on(ended).saturating_sub(began);
        self.accounts().of(class).count_length(length);
        self.charge_class(class, length);
        self.choosing.ran(class, length);
        self.backlog.note_poll(length);
    }

    /// Queues a task that was woken while it ran.
    #[inline]
    fn queue_behind(&self, task: Runnable) {
        task.header().since.put(self.now.get());
        let rank = if self.slice.has_yielded() {
            Rank::Yielded
        } else {
            Rank::Woken
        };
        self.enqueue(rank, task);
    }

    pub(crate) fn current_class(&self) -> Class {
        self.running_class().unwrap_or_default()
    }

    /// That of the task that runs, if one does.
    pub(crate) fn running_class(&self) -> Option<Class> {
        self.running.class()
    }

    pub(crate) fn running_id(&self) -> Option<Id> {
        Id::of(self.running.task.get())
    }

    pub(crate) fn running_name(&self) -> Option<&'static str> {
        self.running_id().and_then(|_| self.desk.running_name())
    }

    /// Puts the running task into another class, and says which it was in. `None` if no task runs.
    pub(crate) fn change_class(&self, class: Class) -> Option<Class> {
        let before = self.running.class()?;
        self.shared.check_class(class);
        self.running.change_class(class);
        Some(before)
    }

    pub(crate) fn current_spawned_at(&self) -> Option<&'static Location<'static>> {
        self.running.class()?;
        self.desk.last_running()
    }

    pub(crate) fn is_running(&self, task: &Header) -> bool {
        ptr::eq(self.running.task.get(), task)
    }
}
