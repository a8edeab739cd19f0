//! Models of taking a seat from a thread in a poll: each runs once for every interleaving.
//!
//! The later ones have real tasks and run queues. They repeat in a few lines what `sched::worker`
//! and `runtime::shutdown` do with them, as loom cannot compile those modules.
//!
//! Without effect: `claim` and `polling_since` load `since` Relaxed, as fences and the lock order
//! what follows; and a claim that was withdrawn leaves `contested` set, for which the thread asks
//! under the lock after each poll.
#![allow(
    unsafe_code,
    reason = "the model's cells are touched through their pointers"
)]

use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize as Untracked, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use super::*;
use crate::class::Class;
use crate::sched::run_queues::{Rank, RunQueues};
use crate::sched::task::cell::{Attributes, Ran, Runnable, Schedule, new_task};
use crate::sched::task::error::JoinError;
use crate::sched::task::join::JoinHandle;
use crate::sched::task::registry::Registry;
use crate::sync::cell::UnsafeCell;
use crate::sync::models::{Role, model, model_with_twins, role, roles};
use crate::sync::{Arc, Mutex};

/// A seat with a value that belongs to its holder: loom reports it if two threads touch the value
/// without order between them.
struct Seat {
    tenure: Tenure,
    belongings: UnsafeCell<u32>,
}

// SAFETY: the models check that only the seat's holder touches the cell.
unsafe impl Sync for Seat {}
// SAFETY: a number may change threads.
unsafe impl Send for Seat {}

impl Seat {
    /// A seat whose thread is in a poll that began at 1.
    fn new() -> Arc<Self> {
        let seat = Self {
            tenure: Tenure::new(Fences::of_system()),
            belongings: UnsafeCell::new(0),
        };
        seat.tenure.begin_poll(1);
        Arc::new(seat)
    }

    fn use_belongings(&self) {
        // SAFETY: as above.
        self.belongings.with_mut(|number| unsafe { *number += 1 });
    }

    /// The thread ends its poll, works in its seat, and polls again. Returns whether it still has
    /// the seat.
    fn poll_on(&self, polls: u64) -> bool {
        for since in 2..2 + polls {
            if !self.tenure.end_poll() {
                return false;
            }
            self.use_belongings();
            self.tenure.begin_poll(since);
        }
        self.tenure.end_poll()
    }

    /// An heir claims the seat for the poll that began at `since`, and works there if it gets it.
    fn inherit(&self, since: u64) -> bool {
        let claimed = self.tenure.claim(since).is_some();
        if claimed {
            self.use_belongings();
        }
        claimed
    }
}

/// A thread polls on while an heir claims its seat: one of them has the seat, and they never both
/// touch what belongs to it.
#[test]
fn a_seat_has_one_holder() {
    model(|| {
        let seat = Seat::new();
        let heir = Arc::clone(&seat);
        roles(
            [role(move || seat.poll_on(1)), role(move || heir.inherit(1))],
            |[kept, claimed]| assert_ne!(kept, claimed),
        )
    });
}

/// The monitor sees the thread in any of its polls, and an heir claims the seat for that poll: the
/// heir comes after all that the thread did in its seat before the poll.
#[test]
fn an_heir_comes_after_what_was_done_before_the_poll() {
    model(|| {
        let seat = Seat::new();
        let heir = Arc::clone(&seat);
        roles(
            [
                role(move || seat.poll_on(2)),
                role(move || heir.inherit(heir.tenure.polling_since())),
            ],
            |[kept, claimed]| assert_ne!(kept, claimed),
        )
    });
}

/// Two heirs claim the same seat, as happens when the first is slow to start.
#[test]
fn a_seat_has_one_heir() {
    model_with_twins(|| {
        let seat = Seat::new();
        let (first, second) = (Arc::clone(&seat), Arc::clone(&seat));
        roles(
            [
                role(move || first.inherit(1)),
                role(move || second.inherit(1)),
                role(move || seat.poll_on(0)),
            ],
            |held| {
                let holders = held.iter().filter(|&&held| held).count();
                assert_eq!(holders, 1, "{held:?}");
            },
        )
    });
}

/// A claim for a poll that is over takes nothing, whatever the thread does meanwhile.
#[test]
fn a_claim_that_comes_late_takes_nothing() {
    model(|| {
        let seat = Seat::new();
        assert!(seat.tenure.end_poll());
        seat.tenure.begin_poll(2);
        let heir = Arc::clone(&seat);
        roles(
            [role(move || seat.poll_on(1)), role(move || heir.inherit(1))],
            |[kept, claimed]| assert!(kept && !claimed),
        )
    });
}

/// Nor does a poll that meets such a claim seem to have lost the seat, which would make a hog of
/// its task.
#[test]
fn a_late_claim_says_nothing_about_the_next_poll() {
    model(|| {
        let seat = Seat::new();
        assert!(seat.tenure.end_poll());
        seat.tenure.begin_poll(2);
        let heir = Arc::clone(&seat);
        let thread = move || seat.tenure.has_lost() || !seat.tenure.end_poll();
        roles(
            [role(thread), role(move || heir.inherit(1))],
            |[lost, claimed]| assert!(!lost && !claimed),
        )
    });
}

/// A poll that finds its seat lost before its end has lost it.
#[test]
fn a_poll_that_says_it_has_lost_the_seat_has() {
    model(|| {
        let seat = Seat::new();
        let heir = Arc::clone(&seat);
        let thread = move || {
            let said = seat.tenure.has_lost();
            let kept = seat.tenure.end_poll();
            assert!(!(said && kept), "it has it still");
            kept
        };
        roles(
            [role(thread), role(move || heir.inherit(1))],
            |[kept, claimed]| assert_ne!(kept, claimed),
        )
    });
}

// ---- Tasks on the way of a seat ----

/// What has happened to a task; the counts are not loom's, as they are no part of the model.
#[derive(Clone, Default)]
struct Fate {
    polls: std::sync::Arc<Untracked>,
    drops: std::sync::Arc<Untracked>,
}

/// Where a future leaves its waker.
type WakerCell = Arc<Mutex<Option<Waker>>>;

/// Waits in its first poll, for which it may wake itself, and is ready in the second.
struct Twice {
    wakes_itself: bool,
    fate: Fate,
    waker: WakerCell,
    touched: UnsafeCell<u32>,
}

// SAFETY: the models check that no two threads poll or drop it at a time.
unsafe impl Send for Twice {}

impl Future for Twice {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: as above.
        self.touched.with_mut(|touched| unsafe { *touched += 1 });
        if self.fate.polls.fetch_add(1, SeqCst) == 1 {
            return Poll::Ready(());
        }
        if self.wakes_itself {
            context.waker().wake_by_ref();
        }
        *self.waker.lock() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Twice {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.touched.with_mut(|touched| unsafe { *touched += 1 });
        self.fate.drops.fetch_add(1, SeqCst);
    }
}

/// A worker with one class, reduced to its queues: the thread's desk, its heir's, a thief's, and
/// the queues of the runtime.
#[derive(Clone)]
struct Worker(Arc<Place>);

struct Place {
    seat: Arc<Seat>,
    left: RunQueues,
    heirs: RunQueues,
    thiefs: RunQueues,
    /// The injection queue.
    outside: Mutex<Vec<Runnable>>,
    /// The heavy pool's queue; none when it has closed.
    heavy_pool: Mutex<Option<Vec<Runnable>>>,
    registry: Registry,
}

/// Tasks are woken by the thread that is, or was, in a poll in the seat.
struct ByThread(Worker);

impl Schedule for ByThread {
    /// As `Worker::wake_here`.
    fn schedule(&self, task: Runnable) {
        if self.0.0.seat.tenure.is_contested() {
            self.0.0.outside.lock().push(task);
        } else {
            self.0.0.left.push(Class::at(0), Rank::Woken, task);
        }
    }
}

impl Worker {
    fn new() -> Self {
        Self(Arc::new(Place {
            seat: Seat::new(),
            left: RunQueues::new(1),
            heirs: RunQueues::new(1),
            thiefs: RunQueues::new(1),
            outside: Mutex::new(Vec::new()),
            heavy_pool: Mutex::new(Some(Vec::new())),
            registry: Registry::new(1),
        }))
    }

    /// A task, and the place of its waker after its first poll.
    fn task(&self, wakes_itself: bool) -> (Runnable, Fate, JoinHandle<()>, WakerCell) {
        let (fate, waker) = (Fate::default(), Arc::new(Mutex::new(None)));
        let future = Twice {
            wakes_itself,
            fate: fate.clone(),
            waker: Arc::clone(&waker),
            touched: UnsafeCell::new(0),
        };
        let attributes = Attributes {
            class: Class::at(0),
            spawned_at: Location::caller(),
            name: None,
        };
        let (task, join) = new_task(future, ByThread(self.clone()), attributes);
        (task, fate, JoinHandle::new(join), waker)
    }

    /// A task that was polled once, and its waker.
    fn with_waiting_task(&self) -> (Fate, JoinHandle<()>, Waker) {
        let (task, fate, join, waker) = self.task(false);
        let _ = self.run(task);
        let waker = waker.lock().take().expect("the first poll leaves a waker");
        (fate, join, waker)
    }

    fn run(&self, task: Runnable) -> Ran {
        let registry = &self.0.registry;
        task.run(
            |header| registry.insert(header, 0),
            |header| registry.remove(header),
        )
    }

    fn cancel(&self, task: Runnable) {
        task.cancel(|header| self.0.registry.remove(header));
    }

    fn run_all(&self, run_queues: &RunQueues) {
        while let Some(task) = run_queues.take_any() {
            assert!(!matches!(self.run(task), Ran::Again(_)), "it wakes nobody");
        }
    }

    /// As `Worker::lose_seat`.
    fn lose_seat(&self, ran: Ran) {
        if let Ran::Again(task) = ran {
            self.push_heavy(task);
        }
        while let Some(task) = self.0.left.take_any() {
            self.0.outside.lock().push(task);
        }
    }

    /// As `Shared::push_heavy`.
    fn push_heavy(&self, task: Runnable) {
        let mut heavy_pool = self.0.heavy_pool.lock();
        match &mut *heavy_pool {
            Some(queue) => queue.push(task),
            None => {
                drop(heavy_pool);
                self.cancel(task);
            }
        }
    }

    /// As `Worker::take_over`, with the tasks that it inherits.
    fn take_over(&self) -> bool {
        let claimed = self.0.seat.inherit(1);
        if claimed {
            self.0.left.drain_into(&self.0.heirs);
        }
        claimed
    }

    /// As `Shared::stop` and `runtime::shutdown`, step 3.
    fn shut_down(&self) {
        self.0.registry.close();
        let waiting = self.0.heavy_pool.lock().take();
        waiting
            .into_iter()
            .flatten()
            .for_each(|task| self.cancel(task));
        self.drop_waiting();
    }

    fn drop_waiting(&self) {
        for task in self.0.registry.all() {
            task.cancel_waiting(|header| self.0.registry.remove(header));
        }
    }

    /// Takes the tasks that are left in any queue.
    fn rest(&self) -> Vec<Runnable> {
        let mut rest: Vec<_> = self.0.outside.lock().drain(..).collect();
        rest.extend(self.0.heavy_pool.lock().iter_mut().flat_map(std::mem::take));
        for run_queues in [&self.0.left, &self.0.heirs, &self.0.thiefs] {
            rest.extend(std::iter::from_fn(|| run_queues.take_any()));
        }
        rest
    }
}

fn outcome(mut join: JoinHandle<()>) -> Result<(), JoinError> {
    match Pin::new(&mut join).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not completed"),
    }
}

/// A thread wakes a task in a poll that may cost it the seat, while its heir clears its desk and a
/// thief steals there: the task is polled once, by any of them, or waits in a queue that is
/// searched.
#[test]
fn a_task_that_is_woken_while_its_thread_loses_the_seat_is_polled_once() {
    model(|| {
        let worker = Worker::new();
        let (fate, join, waker) = worker.with_waiting_task();
        let (thread, heir, thief) = (worker.clone(), worker.clone(), worker.clone());
        roles(
            [
                role(move || {
                    waker.wake();
                    let kept = thread.0.seat.tenure.end_poll();
                    if kept {
                        thread.run_all(&thread.0.left);
                    } else {
                        thread.lose_seat(Ran::Waiting);
                    }
                    kept
                }),
                role(move || {
                    let claimed = heir.take_over();
                    heir.run_all(&heir.0.heirs);
                    claimed
                }),
                role(move || {
                    thief.0.left.steal_into(Class::at(0), &thief.0.thiefs);
                    thief.run_all(&thief.0.thiefs);
                    false
                }),
            ],
            move |[kept, claimed, _]| {
                assert_ne!(kept, claimed);
                assert!(worker.0.left.is_empty(), "nobody looks there");
                for task in worker.rest() {
                    let _ = worker.run(task);
                }
                outcome(join).expect("it was woken");
                assert_eq!(fate.polls.load(SeqCst), 2);
                assert_eq!(fate.drops.load(SeqCst), 1);
            },
        )
    });
}

/// Polls a task that was taken from the run queue, and goes on as a worker does.
fn poll_in_seat(worker: Worker, task: Runnable) -> Role<bool> {
    role(move || {
        let ran = worker.run(task);
        let kept = worker.0.seat.tenure.end_poll();
        match ran {
            ran if !kept => worker.lose_seat(ran),
            Ran::Again(task) => worker.0.left.push(Class::at(0), Rank::Yielded, task),
            Ran::Waiting | Ran::Complete => {}
        }
        kept
    })
}

/// A task is aborted in a poll that may cost its thread the seat: its future is dropped once, and
/// its join handle reports it.
#[test]
fn an_abort_meets_a_hand_off() {
    model(|| {
        let worker = Worker::new();
        let (task, fate, join, waker) = worker.task(false);
        let (heir, abort) = (worker.clone(), join.abort_handle());
        roles(
            [
                poll_in_seat(worker.clone(), task),
                role(move || heir.take_over()),
                role(move || {
                    abort.abort();
                    false
                }),
            ],
            move |[kept, claimed, _]| {
                assert_ne!(kept, claimed);
                for task in worker.rest() {
                    let _ = worker.run(task);
                }
                drop(waker.lock().take());
                assert!(outcome(join).is_err_and(|error| error.is_cancelled()));
                assert!(fate.polls.load(SeqCst) <= 1);
                assert_eq!(fate.drops.load(SeqCst), 1);
            },
        )
    });
}

/// The runtime shuts down while a task wakes itself in a poll that may cost its thread the seat:
/// its future is dropped once, and its join handle reports it.
#[test]
fn a_shutdown_meets_a_hand_off() {
    model(|| {
        let worker = Worker::new();
        let (task, fate, join, waker) = worker.task(true);
        let (heir, ending) = (worker.clone(), worker.clone());
        roles(
            [
                poll_in_seat(worker.clone(), task),
                role(move || heir.take_over()),
                role(move || {
                    ending.shut_down();
                    false
                }),
            ],
            move |[kept, claimed, _]| {
                assert_ne!(kept, claimed);
                assert!(worker.0.heavy_pool.lock().is_none(), "it has closed");
                worker
                    .rest()
                    .into_iter()
                    .for_each(|task| worker.cancel(task));
                worker.drop_waiting();
                assert_eq!(worker.0.registry.len(), 0);
                drop(waker.lock().take());
                assert!(outcome(join).is_err_and(|error| error.is_cancelled()));
                assert_eq!(fate.drops.load(SeqCst), 1);
            },
        )
    });
}
