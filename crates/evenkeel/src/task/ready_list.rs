//! A list of the futures that are to be polled, so that not all have to be.
//!
//! Each future is polled with a waker of its own, a [`Notice`], which puts the future's index on
//! the list and wakes the task that waits for the list. So a wake-up costs the same however many
//! futures there are.
//!
//! ```text
//!   unlisted ── list ──▶ listed, index on the list ── pop, unlist, then poll ──▶ unlisted
//!                          │    ▲
//!                          └────┘ list (nothing to do: the poll is still to come)
//! ```
//!
//! An index on the list means "poll this future". A superfluous one, which an old notice may leave
//! when its index has a new future, only costs a poll. A notice is on the list at most once, so the
//! list is bounded by their number.
//!
//! `list` sets the flag with Release and `unlist` clears it with Acquire, as a swap: whatever
//! happened before a wake-up that finds the notice listed is seen by the poll to come, and any
//! later wake-up lists it again. With a plain store instead of the swap, the poll could read before
//! the flag is cleared, and a wake-up in between would be lost.

use std::collections::VecDeque;
use std::task::Waker;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};

pub(super) struct ReadyList(Mutex<State>);

struct State {
    indices: VecDeque<usize>,
    /// The task that waits for the list. Taken by a wake-up, so that each wait is woken once.
    waiter: Option<Waker>,
}

/// The waker of a future, which lists its index.
pub(super) struct Notice {
    index: usize,
    list: Arc<ReadyList>,
    /// Whether this notice has put its index on the list, or is about to.
    listed: AtomicBool,
}

impl ReadyList {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            indices: VecDeque::new(),
            waiter: None,
        })))
    }

    #[cfg(not(evenkeel_loom))] // the model only asks while it waits
    pub(super) fn len(&self) -> usize {
        self.0.lock().indices.len()
    }

    /// Takes the index that has been on the list for longest.
    pub(super) fn pop(&self) -> Option<usize> {
        self.0.lock().indices.pop_front()
    }

    /// Sets the waiting task, and returns how many indices are on the list at that moment. Each
    /// later one wakes the task.
    pub(super) fn wait(&self, waiter: Waker) -> usize {
        let mut state = self.0.lock();
        let before = state.waiter.replace(waiter);
        let len = state.indices.len();
        // Dropped outside the lock, as a waker's drop may run any code.
        drop(state);
        drop(before);
        len
    }

    pub(super) fn cease(&self) {
        let before = self.0.lock().waiter.take();
        drop(before);
    }
}

impl Notice {
    /// Makes the notice of a new future, and lists it: the first poll gives the future its waker.
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

    /// Lists the index, unless it is listed, and wakes the waiting task.
    pub(super) fn list(&self) {
        // Release pairs with the Acquire in `unlist`; see the module.
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

    /// Called between taking the index from the list and polling the future.
    pub(super) fn unlist(&self) {
        // Acquire pairs with the Release in `list`; see the module.
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
mod models {
    use std::task::Wake;

    use super::*;
    use crate::sync::thread::{self, Thread};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Waits until a poll has seen each of the futures, which are flags, to be done.
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
            // If a completion is missed, this thread stays asleep: loom reports a deadlock.
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
