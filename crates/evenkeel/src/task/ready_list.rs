//! Which of many futures are to be polled, found without polling them all.
//!
//! Each future is polled with a waker of its own, a [`Notice`], which puts the future's index on
//! the list and wakes whoever waits for the list. So a wake costs the same however many futures
//! there are.
//!
//! ```text
//!   unlisted ── list ──▶ listed, index on the list ── pop, unlist, then poll ──▶ unlisted
//!                          │    ▲
//!                          └────┘ list (nothing to do: the poll is still to come)
//! ```
//!
//! An index on the list only means "poll this future": one too many, as an old notice may leave
//! when its index has a new future, costs a poll and nothing else. A notice is on the list at most
//! once, so the list is bounded by the notices alive.

use std::collections::VecDeque;
use std::task::Waker;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};

/// The indices of futures that are to be polled. See the [module](self).
pub(super) struct ReadyList(Mutex<State>);

struct State {
    indices: VecDeque<usize>,
    /// Who waits for the list. Taken by the wake, so that each wait is woken once.
    waiter: Option<Waker>,
}

/// What a future's waker does: it lists one index.
pub(super) struct Notice {
    index: usize,
    list: Arc<ReadyList>,
    /// Whether the index is on the list, or about to be, on account of this notice.
    listed: AtomicBool,
}

impl ReadyList {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            indices: VecDeque::new(),
            waiter: None,
        })))
    }

    /// How many indices are on the list.
    #[cfg(not(evenkeel_loom))] // the model only asks while it waits
    pub(super) fn len(&self) -> usize {
        self.0.lock().indices.len()
    }

    /// Takes the index that has been on the list for longest.
    pub(super) fn pop(&self) -> Option<usize> {
        self.0.lock().indices.pop_front()
    }

    /// Sets who waits, and says how many indices are on the list at that moment: each that comes
    /// after wakes the waiter.
    pub(super) fn wait(&self, waiter: Waker) -> usize {
        let mut state = self.0.lock();
        let before = state.waiter.replace(waiter);
        let len = state.indices.len();
        // Dropping a waker may run anything, so it is done outside the lock.
        drop(state);
        drop(before);
        len
    }

    /// Nobody waits any more.
    pub(super) fn cease(&self) {
        let before = self.0.lock().waiter.take();
        drop(before);
    }
}

impl Notice {
    /// Makes the notice of a future that has not been polled, and lists it: its first poll is where
    /// the future learns of its notice.
    pub(super) fn listed(index: usize, list: &Arc<ReadyList>) -> Arc<Self> {
        let listed = AtomicBool::new(false);
        let notice = Self {
            index,
            list: Arc::clone(list),
            listed,
        };
        notice.list();
        Arc::new(notice)
    }

    /// Lists the index, unless it is listed, and wakes who waits.
    pub(super) fn list(&self) {
        // Release, paired with the Acquire in `unlist`: whoever finds `true` here leaves what it
        // did before to the poll that comes after that.
        if self.listed.swap(true, Ordering::Release) {
            return;
        }
        let waiter = {
            let mut state = self.list.0.lock();
            state.indices.push_back(self.index);
            state.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// To be called between taking the index from the list and polling the future.
    pub(super) fn unlist(&self) {
        // Acquire, paired with the Release in `list`: what found the notice listed is seen by the
        // poll that follows, and what comes after this lists it again. A plain store would allow
        // both to be missed, as the poll could read before it is written.
        self.listed.swap(false, Ordering::Acquire);
    }
}

#[cfg(not(evenkeel_loom))]
impl std::task::Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.list();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.list();
    }
}

#[cfg(all(test, evenkeel_loom))]
mod loom_tests {
    use std::task::Wake;

    use super::*;
    use crate::sync::thread::{self, Thread};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Waits until each of the futures, which are flags, has been seen to be done by a poll.
    fn join(list: &ReadyList, members: &[(Arc<Notice>, Arc<AtomicBool>)]) {
        let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
        let mut done = vec![false; members.len()];
        while done.contains(&false) {
            let listed = list.wait(waker.clone());
            for _ in 0..listed {
                let index = list.pop().expect("only this thread pops");
                let (notice, flag) = &members[index];
                notice.unlist();
                // Acquire, as a handle does to read the output.
                done[index] |= flag.load(Ordering::Acquire);
            }
            // A completion that was missed leaves this thread asleep: loom reports a deadlock.
            if listed == 0 {
                thread::park();
            }
        }
        list.cease();
    }

    fn model(members: usize) {
        loom::model(move || {
            let list = ReadyList::new();
            let members: Vec<_> = (0..members)
                .map(|index| {
                    (
                        Notice::listed(index, &list),
                        Arc::new(AtomicBool::new(false)),
                    )
                })
                .collect();
            let threads: Vec<_> = members
                .iter()
                .cloned()
                .map(|(notice, flag)| {
                    thread::spawn(move || {
                        flag.store(true, Ordering::Release);
                        notice.list();
                    })
                })
                .collect();
            join(&list, &members);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn no_completion_is_missed() {
        model(1);
    }

    #[test]
    fn no_completion_of_two_is_missed() {
        model(2);
    }
}
