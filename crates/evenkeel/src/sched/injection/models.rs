//! Models of the injection queue: each runs once for every interleaving of its threads.
//!
//! Every entry carries a cell that its pusher writes and its taker reads, so a model also fails
//! when an entry is visible before the writes that came before its push.

use super::*;
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::models::{Role, model, role, roles};

/// An entry.
struct Item {
    number: usize,
    link: AtomicPtr<Item>,
    /// Zero before the item is pushed, its number plus one afterwards.
    written: UnsafeCell<usize>,
}

// SAFETY: always the same field, which nothing else here touches.
unsafe impl Link for Item {
    fn link(&self) -> &AtomicPtr<Item> {
        &self.link
    }
    fn since(&self) -> u64 {
        self.number as u64 + 1
    }
}

// SAFETY: the thread that pushes the item touches `written`, and then the thread that takes it; the
// models check that this is never at the same time.
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

/// An injection queue and the items that travel through it.
struct World {
    injection_queue: InjectionQueue<Item>,
    items: Vec<Item>,
}

impl World {
    fn new(items: usize) -> Arc<Self> {
        let item = |number| Item {
            number,
            link: AtomicPtr::new(ptr::null_mut()),
            written: UnsafeCell::new(0),
        };
        Arc::new(Self {
            injection_queue: InjectionQueue::new(),
            items: (0..items).map(item).collect(),
        })
    }

    /// Returns whether the injection queue took the item.
    fn push(&self, number: usize) -> bool {
        let item = &self.items[number];
        // SAFETY: the item has not been pushed, so it is this thread's.
        item.written
            .with_mut(|written| unsafe { *written = number + 1 });
        // SAFETY: items live as long as the injection queue, and each is pushed once.
        match unsafe { self.injection_queue.push(NonNull::from(item)) } {
            Ok(()) => true,
            Err(back) => {
                assert_eq!(back, NonNull::from(item), "a refused entry comes back");
                false
            }
        }
    }

    fn take(&self, limit: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        let count = self.injection_queue.take(limit, |entry| {
            // SAFETY: items live as long as the injection queue.
            let item = unsafe { entry.as_ref() };
            // SAFETY: the item was taken, so it is this thread's; loom reports it if not.
            let written = item.written.with(|written| unsafe { *written });
            assert_eq!(
                written,
                item.number + 1,
                "an entry came without what was written to it"
            );
            taken.push(item.number);
        });
        assert_eq!(taken.len(), count, "`take` says how many it handed out");
        assert!(count <= limit);
        taken
    }

    /// Tries to push refused items again. Returns whether one was accepted.
    fn push_again(&self, first: &[usize], second: &[usize]) -> bool {
        first.iter().chain(second).any(|&number| self.push(number))
    }
}

/// Pushes items in the order given. Returns those that were refused.
fn pusher<const M: usize>(world: &Arc<World>, numbers: [usize; M]) -> Role<Vec<usize>> {
    let world = Arc::clone(world);
    role(move || {
        numbers
            .into_iter()
            .filter(|&number| !world.push(number))
            .collect()
    })
}

/// Takes, with each of the limits once.
fn taker<const M: usize>(world: &Arc<World>, limits: [usize; M]) -> Role<Vec<usize>> {
    let world = Arc::clone(world);
    role(move || {
        limits
            .into_iter()
            .flat_map(|limit| world.take(limit))
            .collect()
    })
}

fn closer(world: &Arc<World>) -> Role<Vec<usize>> {
    let world = Arc::clone(world);
    role(move || {
        world.injection_queue.close();
        Vec::new()
    })
}

fn assert_each_once<const N: usize>(places: [Vec<usize>; N], items: usize) {
    let mut all = places.concat();
    all.sort_unstable();
    assert!(
        all.iter().copied().eq(0..items),
        "of {items} items: {places:?}"
    );
}

/// Items below `split` come from one pusher, the others from another, each in ascending order.
fn assert_in_order_of_pushing(taken: &[usize], split: usize) {
    let (first, second): (Vec<_>, Vec<_>) =
        taken.iter().copied().partition(|&number| number < split);
    assert!(
        first.is_sorted() && second.is_sorted(),
        "out of order: {taken:?}"
    );
}

/// The limit leaves entries in the backlog, so that later ones are appended to it.
#[test]
fn two_pushers_and_a_taker() {
    model(|| {
        let world = World::new(4);
        let threads = [
            pusher(&world, [0, 1]),
            pusher(&world, [2, 3]),
            taker(&world, [1, 2]),
        ];
        roles(threads, move |[first, second, mut taken]| {
            assert!(
                first.is_empty() && second.is_empty(),
                "an open injection queue refuses nothing"
            );
            taken.extend(world.take(usize::MAX));
            assert!(world.injection_queue.is_empty());
            assert_in_order_of_pushing(&taken, 2);
            assert_each_once([taken], 4);
        })
    });
}

#[test]
fn a_pusher_and_two_takers() {
    model(|| {
        let world = World::new(3);
        assert!(world.push(0));
        let threads = [
            pusher(&world, [1, 2]),
            taker(&world, [1]),
            taker(&world, [2]),
        ];
        roles(threads, move |[_, mut first, second]| {
            first.extend(world.take(usize::MAX));
            assert!(
                first.is_sorted() && second.is_sorted(),
                "{first:?}, {second:?}"
            );
            assert_each_once([first, second], 3);
        })
    });
}

/// Entries pushed before the queue closes are handed out; later ones are given back.
#[test]
fn pushers_and_the_end() {
    model(|| {
        let world = World::new(3);
        let threads = [pusher(&world, [0, 1]), pusher(&world, [2]), closer(&world)];
        roles(threads, move |[first, second, _]| {
            assert!(
                !world.push_again(&first, &second),
                "a closed injection queue stays closed"
            );
            let taken = world.take(usize::MAX);
            assert!(world.injection_queue.is_empty());
            assert_in_order_of_pushing(&taken, 2);
            assert_each_once([taken, first, second], 3);
        })
    });
}

/// The injection queue closes while a thread takes from it: neither undoes the other's work.
#[test]
fn a_pusher_a_taker_and_the_end() {
    model(|| {
        let world = World::new(3);
        let threads = [
            pusher(&world, [0, 1, 2]),
            taker(&world, [1, 1]),
            closer(&world),
        ];
        roles(threads, move |[refused, mut taken, _]| {
            assert!(
                !world.push_again(&refused, &[]),
                "a closed injection queue stays closed"
            );
            taken.extend(world.take(usize::MAX));
            assert!(world.injection_queue.is_empty());
            assert!(taken.is_sorted(), "out of order: {taken:?}");
            assert_each_once([taken, refused], 3);
        })
    });
}

/// Whoever sees that there is an entry knows since when it waits: the queue was empty before, and
/// had an older one.
#[test]
fn the_oldest_is_not_as_old_as_one_that_has_gone() {
    model(|| {
        let world = World::new(3);
        assert!(world.push(0));
        assert_eq!(world.take(1), [0]);
        let looker = role({
            let world = Arc::clone(&world);
            move || {
                let oldest = world.injection_queue.oldest();
                assert_ne!(
                    oldest,
                    Some(1),
                    "since when the one that has gone was ready"
                );
                Vec::new()
            }
        });
        let threads = [pusher(&world, [1]), pusher(&world, [2]), looker];
        roles(threads, move |_| {
            assert!(matches!(world.injection_queue.oldest(), Some(2 | 3)));
        })
    });
}
