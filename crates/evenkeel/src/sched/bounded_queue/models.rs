//! Models of the bounded queue: each runs once for every interleaving of its threads.
//!
//! Every entry carries a cell that its pusher writes and its taker reads, so a model also fails
//! when an entry is visible before the writes that came before its push.
//!
//! Not seen: `push` loads `head` Relaxed, and `take` swaps Relaxed. Both would let a slot be
//! written before the taker has read it, which takes a load that sees a later store (load
//! buffering). Loom does not explore that.
#![allow(
    unsafe_code,
    reason = "the model's entries are touched through their pointers"
)]

use super::*;
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::models::{model, role, roles};

/// An entry.
struct Item {
    number: usize,
    /// Zero before the item is pushed, its number plus one afterwards.
    written: UnsafeCell<usize>,
}

// SAFETY: the thread that pushes the item touches `written`, and then the thread that takes it; the
// models check that this is never at the same time.
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

/// Queues, and the items that travel through them.
struct World {
    items: Vec<Item>,
    /// The first is the owner's, the others are the stealers'.
    queues: Vec<BoundedQueue<Item>>,
}

impl World {
    fn new(items: usize, queues: usize) -> Arc<Self> {
        let item = |number| Item {
            number,
            written: UnsafeCell::new(0),
        };
        Arc::new(Self {
            items: (0..items).map(item).collect(),
            queues: (0..queues).map(|_| BoundedQueue::new()).collect(),
        })
    }

    fn owners(&self) -> &BoundedQueue<Item> {
        &self.queues[0]
    }

    /// Returns whether there was room.
    fn push(&self, number: usize) -> bool {
        let item = &self.items[number];
        // SAFETY: the item is in no queue yet, so it is this thread's.
        item.written
            .with_mut(|written| unsafe { *written = number + 1 });
        match self.owners().push(NonNull::from(item)) {
            Ok(()) => true,
            Err(back) => {
                assert_eq!(
                    back,
                    NonNull::from(item),
                    "the entry that found no room comes back"
                );
                false
            }
        }
    }

    fn pop(&self, queue: usize) -> Option<usize> {
        let entry = self.queues[queue].pop()?;
        // SAFETY: items live as long as the world.
        let item = unsafe { entry.as_ref() };
        // SAFETY: the item was taken, so it is this thread's; loom reports it if not.
        let written = item.written.with(|written| unsafe { *written });
        assert_eq!(
            written,
            item.number + 1,
            "an entry came without what was written to it"
        );
        Some(item.number)
    }

    fn drain(&self, queue: usize) -> Vec<usize> {
        std::iter::from_fn(|| self.pop(queue)).collect()
    }

    /// Steals from the owner into a queue of this thread's, and empties that.
    fn steal(&self, thief: usize) -> Vec<usize> {
        let count = self.owners().steal_into(&self.queues[thief], usize::MAX);
        let taken = self.drain(thief);
        assert_eq!(taken.len(), count, "a steal says how much it took");
        taken
    }
}

/// Entries are pushed in the order of their numbers, and each taker gets its own in that order.
fn assert_each_once<const N: usize>(takers: [Vec<usize>; N], pushed: usize) {
    for taken in &takers {
        assert!(taken.is_sorted(), "out of order: {taken:?}");
    }
    let mut all = takers.concat();
    all.sort_unstable();
    assert!(
        all.iter().copied().eq(0..pushed),
        "pushed {pushed}, taken {takers:?}"
    );
}

#[test]
fn an_owner_and_a_stealer() {
    model(|| {
        let world = World::new(4, 2);
        let (owner, stealer) = (Arc::clone(&world), Arc::clone(&world));
        roles(
            [
                role(move || {
                    let mut taken = Vec::new();
                    for number in 0..4 {
                        assert!(owner.push(number), "four entries fit");
                        if number % 2 == 1 {
                            taken.extend(owner.pop(0));
                        }
                    }
                    taken
                }),
                role(move || [stealer.steal(1), stealer.steal(1)].concat()),
            ],
            move |[popped, stolen]| {
                assert_each_once([[popped, world.drain(0)].concat(), stolen], 4);
            },
        )
    });
}

#[test]
fn an_owner_and_two_stealers() {
    model(|| {
        let world = World::new(3, 3);
        assert!(world.push(0) && world.push(1));
        let [owner, first, second] = [(); 3].map(|()| Arc::clone(&world));
        roles(
            [
                role(move || {
                    assert!(owner.push(2));
                    owner.pop(0).into_iter().collect()
                }),
                role(move || first.steal(1)),
                role(move || second.steal(2)),
            ],
            move |[popped, first, second]| {
                assert_each_once([[popped, world.drain(0)].concat(), first, second], 3);
            },
        )
    });
}

/// The queue is full. While a stealer copies its entries, the owner takes some and fills their
/// slots again.
#[test]
fn slots_are_used_again_while_a_stealer_copies_them() {
    model(|| {
        let world = World::new(CAPACITY + 2, 2);
        for number in 0..CAPACITY {
            assert!(world.push(number));
        }
        let (owner, stealer) = (Arc::clone(&world), Arc::clone(&world));
        roles(
            [
                role(move || {
                    let mut taken = Vec::new();
                    for number in CAPACITY..CAPACITY + 2 {
                        taken.extend(owner.pop(0));
                        assert!(owner.push(number), "there is room for what was popped");
                    }
                    taken
                }),
                role(move || stealer.steal(1)),
            ],
            move |[popped, stolen]| {
                assert_each_once([[popped, world.drain(0)].concat(), stolen], CAPACITY + 2);
            },
        )
    });
}

/// A full queue gives the entry back, and no other entry is lost or overwritten.
#[test]
fn a_full_queue_refuses() {
    model(|| {
        let world = World::new(CAPACITY + 1, 1);
        for number in 0..CAPACITY {
            assert!(world.push(number));
        }
        assert!(!world.push(CAPACITY), "nobody has taken anything");
        let (owner, taker) = (Arc::clone(&world), Arc::clone(&world));
        roles(
            [
                role(move || {
                    if owner.push(CAPACITY) {
                        vec![CAPACITY]
                    } else {
                        Vec::new()
                    }
                }),
                role(move || taker.pop(0).into_iter().collect()),
            ],
            move |[late, taken]| {
                assert_eq!(taken, [0], "an entry was there throughout");
                assert_each_once([taken, world.drain(0)], CAPACITY + late.len());
            },
        )
    });
}

/// Another thread takes single entries while they are pushed.
#[test]
fn an_owner_and_a_taker() {
    model(|| {
        let world = World::new(3, 1);
        let (owner, taker) = (Arc::clone(&world), Arc::clone(&world));
        roles(
            [
                role(move || {
                    assert!((0..3).all(|number| owner.push(number)));
                    owner.pop(0).into_iter().collect()
                }),
                role(move || taker.pop(0).into_iter().chain(taker.pop(0)).collect()),
            ],
            move |[popped, taken]| {
                assert_each_once([[popped, world.drain(0)].concat(), taken], 3);
            },
        )
    });
}

/// Stolen entries are visible to a thread that takes them from the stealer.
#[test]
fn a_stealer_is_stolen_from() {
    model(|| {
        let world = World::new(3, 3);
        assert!((0..3).all(|number| world.push(number)));
        let [owner, first, second] = [(); 3].map(|()| Arc::clone(&world));
        roles(
            [
                role(move || owner.pop(0).into_iter().collect()),
                role(move || {
                    first.owners().steal_into(&first.queues[1], usize::MAX);
                    Vec::new()
                }),
                role(move || {
                    second.queues[1].steal_into(&second.queues[2], 1);
                    second.drain(2)
                }),
            ],
            move |[popped, _, second]| {
                let owner = [popped, world.drain(0)].concat();
                assert_each_once([owner, world.drain(1), second], 3);
            },
        )
    });
}

/// A steal takes no more than its destination has room for, even while other threads empty it.
#[test]
fn a_steal_leaves_what_the_destination_has_no_room_for() {
    model(|| {
        let world = World::new(2 * CAPACITY, 2);
        for number in 0..CAPACITY {
            assert!(world.push(number));
        }
        while world.owners().steal_into(&world.queues[1], usize::MAX) > 0 {}
        let before: Vec<_> = world.pop(1).into_iter().collect();
        for number in CAPACITY..2 * CAPACITY {
            assert!(world.push(number));
        }
        let (thief, taker) = (Arc::clone(&world), Arc::clone(&world));
        roles(
            [
                role(move || {
                    let count = thief.owners().steal_into(&thief.queues[1], usize::MAX);
                    assert!(
                        (1..=2).contains(&count),
                        "one slot is free, or two: {count}"
                    );
                    Vec::new()
                }),
                role(move || taker.pop(1).into_iter().collect()),
            ],
            move |[_, taken]| {
                let rest = [before, world.drain(1)].concat();
                assert_each_once([rest, taken, world.drain(0)], 2 * CAPACITY);
            },
        )
    });
}
