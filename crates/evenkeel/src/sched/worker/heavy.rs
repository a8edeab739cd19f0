//! A worker's thread without a seat: how one is lost and taken over, and what a thread does in the
//! heavy lane.

use crate::class::Class;
use crate::sched::hog;
use crate::sched::shared::Shared;
use crate::stats::accounts::State;
use crate::sync::Arc;
use crate::sys::thread::{self, Usage};
use crate::task::cell::{Header, Ran, Runnable};

use super::Worker;

impl Worker {
    /// Takes a seat from the thread that is at the poll which began there at `since`. `None` if
    /// that poll is over, or the lane has no room for the thread.
    pub(crate) fn take_over(
        shared: &Arc<Shared>,
        index: usize,
        since: u64,
    ) -> Option<(Worker, usize)> {
        let seat = &shared.seats[index];
        let left = seat.desk();
        if !shared.lane.reserve() {
            shared.lane.refuse();
            return None;
        }
        let Some(own) = shared.desks.take() else {
            // A thread that has left the lane has not given its desk back yet.
            shared.lane.give_up_thread();
            shared.lane.refuse();
            return None;
        };
        let behind = shared.desks.get(left);
        // What these say is about the poll that is claimed, or it is not claimed.
        let (place, name) = (behind.last_running(), behind.running_name());
        let Some(claim) = behind.tenure().claim(since) else {
            shared.lane.give_up_thread();
            shared.desks.give_back(own);
            return None;
        };
        shared.desks.get(own).sit();
        let worker = Worker::new(Arc::clone(shared), index, own);
        seat.set_desk(own);
        let now = worker.now.get();
        match seat.accounts.take_over(now) {
            Some((since, class)) => {
                shared
                    .lane
                    .adopt(&shared.ledger, &shared.desks, left, class, since);
                shared
                    .lane
                    .prioritise(&shared.ledger, &shared.desks, left, class);
                let length = now.saturating_sub(since);
                worker.charge_class(class, length);
                if let Some(place) = place {
                    hog::note(shared, place, name, class, length, true);
                    shared.places.judge(place, true);
                }
            }
            // A poll under way is charged to a class, so this does not happen.
            None => shared.lane.give_up_thread(),
        }
        // From now on the thread may come back, and finds itself in the lane and its hog known.
        drop(claim);
        worker.inherit(behind);
        Some((worker, own))
    }

    /// Moves what the former holder of the seat left at its desk to this one's.
    fn inherit(&self, behind: &crate::sched::desk::Desk) {
        behind.lines.drain_into(&self.desk.lines);
        for class in self.classes() {
            if self.desk.lines.len_of(class) > 0 {
                self.has_lined_up(class);
            }
        }
        if let Some(task) = behind.take_next() {
            self.line_up(super::Line::Woken, task);
        }
    }

    /// The poll that is over cost this thread its seat.
    #[cold]
    pub(super) fn lose_seat(&self, ran: Ran, began: u64) {
        self.lost.set(true);
        let length = self.clock().cycles().saturating_sub(began);
        if let Some(place) = self.desk.last_running() {
            self.shared.places.ended(place, length);
        }
        if let Ran::Again(task) = ran {
            hog::mark(task.header());
            self.shared.push_heavy(task);
        }
        self.clear_desk();
    }

    /// A task that came here is for the heavy lane. To hand it over takes time as a poll does, if
    /// less: time that counts for the next check, and is none of the next poll's.
    pub(super) fn pass_on(&self, task: Runnable) {
        self.shared.push_heavy(task);
        self.mark(State::Steal, State::Steal);
    }

    /// Others see to what lies here: this thread will not.
    fn clear_desk(&self) {
        while let Some(task) = self.desk.take_any() {
            self.shared.push_outside(task);
        }
    }

    /// Runs tasks of the heavy lane until there have been none for a while, or the runtime stops.
    pub(crate) fn serve_lane(&self) {
        let shared = &self.shared;
        shared
            .lane
            .end(&shared.ledger, self.desk_index, thread::usage().cpu);
        while let Some(task) = shared.lane.next(&shared.ledger, self.desk_index) {
            self.poll_heavy(task);
        }
        self.clear_desk();
    }

    fn poll_heavy(&self, task: Runnable) {
        let (shared, class) = (&self.shared, task.header().class());
        let (ledger, desk) = (&shared.ledger, self.desk_index);
        shared.lane.prioritise(ledger, &shared.desks, desk, class);
        let before = thread::usage();
        let began = self.clock().cycles();
        self.now.set(began);
        shared.lane.begin(ledger, desk, class, began, before.cpu);
        self.desk.begin_poll(task.header(), began);
        self.begin_task(task.header(), began);
        let ran = task.run(
            |task| {
                self.judge(task.header(), before, began, false);
                self.note_cut_short(task.header());
                shared.registry.insert(task, self.index)
            },
            |header| {
                self.judge(header, before, began, true);
                shared.registry.remove(header);
            },
        );
        self.end_task();
        let _ = self.desk.tenure().end_poll();
        shared.lane.end(ledger, desk, thread::usage().cpu);
        let Ran::Again(task) = ran else { return };
        if hog::is_heavy(task.header()) {
            shared.push_heavy(task);
        } else {
            shared.push_outside(task);
        }
    }

    /// Learns from a poll in the lane. For the task's runner, while it has the task to itself.
    fn judge(&self, task: &Header, before: Usage, began: u64, complete: bool) {
        let places = &self.shared.places;
        let length = self.clock().cycles().saturating_sub(began);
        if self.was_long(before, length) {
            let (place, class) = (task.spawned_at(), task.class());
            hog::note(&self.shared, place, task.name(), class, length, false);
            places.ended(place, length);
            if hog::mark(task) {
                places.judge(place, true);
            }
        } else if (hog::behaved(task) || complete) && hog::acquit(task) {
            places.judge(task.spawned_at(), false);
        }
    }

    /// Whether a poll computed for too long, or blocked and took too long. One that was merely not
    /// let, as threads of the lane often are not, was neither.
    fn was_long(&self, before: Usage, length: u64) -> bool {
        let after = thread::usage();
        let limit = self.bounds.hog;
        let computed = after.cpu.saturating_sub(before.cpu);
        let blocked = after.blocked > before.blocked;
        self.clock().cycles_of(computed) >= limit || (blocked && length >= limit)
    }

    pub(super) fn classes(&self) -> impl Iterator<Item = Class> + use<> {
        (0..self.shared.config.classes.len()).map(Class::at)
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::future::{Future, poll_fn};
    use std::panic::Location;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Poll;
    use std::thread;
    use std::time::{Duration, Instant};

    use crate::class::Class;
    use crate::net::UdpSocket;
    use crate::runtime::{Builder, Handle, context};
    use crate::sync::Arc;
    use crate::task::yield_now;

    /// Has a future begin to wait, and gives it up.
    async fn poll_and_drop(future: impl Future) {
        let mut future = pin!(future);
        poll_fn(|cx| {
            assert!(future.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    /// Computes until something holds, for a minute at most. Returns whether it does.
    fn compute_until(holds: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        while !holds() && began.elapsed() < Duration::from_secs(60) {
            (0..1_000).for_each(|_| std::hint::spin_loop());
        }
        holds()
    }

    /// What it passes on takes time as well, however short each is.
    #[test]
    fn a_worker_that_passes_on_many_hogs_makes_its_checks() {
        const HOGS: u64 = 20_000;
        let mut builder = Builder::new();
        builder.workers(1).io_check_bound(Duration::from_micros(10));
        // The poll that spawns them all is not to be taken for a hog.
        builder.hand_off_after(Some(Duration::from_secs(60)));
        let runtime = builder.build().unwrap();
        let place = Location::caller();
        for _ in 0..8 {
            let places = &runtime.handle().shared().places;
            let _ = places.hogged(place, Class::NORMAL, None, 0, 0);
            places.judge(place, true);
        }
        let due = |handle: &Handle| {
            let due = handle.stats().checks.due;
            due.found + due.empty
        };
        let passing = runtime.spawn(async move {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let handle = Handle::current();
            // Waited for once, it is registered, and there is something to check from now on.
            while handle.stats().readiness.descriptors == 0 {
                poll_and_drop(socket.recv_from(&mut [0])).await;
                yield_now().await;
            }
            for _ in 0..HOGS {
                drop(handle.spawn_at(None, None, place, async {}));
            }
            let before = due(&handle);
            let behind = crate::spawn(async move { due(&Handle::current()) });
            // Takes the other one out of the slot, and behind the hogs.
            drop(handle.spawn_at(None, None, place, async {}));
            behind.await.unwrap() - before
        });
        let checks = runtime.block_on(passing).unwrap();
        assert!(checks > 10, "{checks} checks");
        runtime.shutdown(Duration::from_secs(60)).unwrap();
    }

    /// The poll that an heir came for is over, and the next is no hog for that.
    #[test]
    fn a_claim_that_comes_late_makes_no_hog_of_the_poll_it_meets() {
        let mut builder = Builder::new();
        builder.workers(1);
        // The polls that wait for the other thread are not to be taken for hogs.
        builder.hand_off_after(Some(Duration::from_secs(60)));
        let runtime = builder.build().unwrap();
        let polls = runtime.spawn(async {
            for _ in 0..3 {
                let desk = context::with_worker(|worker| {
                    let desk = worker.unwrap().desk_index;
                    Arc::clone(worker.unwrap().shared.desks.get(desk))
                });
                let (tell, told) = mpsc::channel();
                let heir = thread::spawn(move || {
                    desk.tenure().claim_in_vain(|| {
                        tell.send(()).unwrap();
                        // So long the poll has to come to its end.
                        thread::sleep(Duration::from_millis(50));
                    });
                });
                told.recv().unwrap();
                yield_now().await;
                let in_lane = context::with_worker(|worker| worker.unwrap().lost.get());
                assert!(!in_lane, "it runs where hogs do");
                heir.join().unwrap();
            }
        });
        runtime.block_on(polls).unwrap();
        runtime.shutdown(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_seat_that_was_handed_over_leaves_no_class_that_seems_to_have_work() {
        let runtime = Builder::new().workers(1).build().unwrap();
        let hog = runtime.spawn(async {
            // Long enough for the other workers to be told that there is work of its class.
            let began = Instant::now();
            compute_until(|| began.elapsed() > Duration::from_micros(300));
            yield_now().await;
            let handle = Handle::current();
            compute_until(|| handle.stats().heavy.hand_offs > 0)
        });
        assert!(runtime.block_on(hog).unwrap(), "the seat was handed over");
        let ledger = &runtime.handle().shared().ledger;
        let began = Instant::now();
        while ledger.read().active != 0 && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ledger.read().active, 0);
        runtime.shutdown(Duration::from_secs(60)).unwrap();
    }
}
