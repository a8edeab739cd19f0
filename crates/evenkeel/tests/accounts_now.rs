//! What the accounts say of the moment, while something does not get on: tasks that nobody polls,
//! and polls that do not return.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::ClassStats;
use hang::{until, watched};

fn class(runtime: &Runtime, class: Class) -> ClassStats {
    runtime.stats().classes[class.index()].clone()
}

/// A poll of the class normal that lasts until it is told to end, and spawns bulk tasks first.
struct Held {
    go_on: Arc<AtomicBool>,
    poll: evenkeel::task::JoinHandle<()>,
}

impl Held {
    fn begin(runtime: &Runtime, bulk: usize) -> Self {
        let (arrived, go_on) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let (arrives, waits) = (Arc::clone(&arrived), Arc::clone(&go_on));
        let poll = runtime.spawn(async move {
            (0..bulk).for_each(|_| drop(evenkeel::spawn_in(Class::BULK, async {})));
            arrives.wait();
            while !waits.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        arrived.wait();
        Self { go_on, poll }
    }

    fn end(self, runtime: &Runtime) {
        self.go_on.store(true, SeqCst);
        runtime.block_on(self.poll).unwrap();
    }
}

/// The histogram of waits has nothing of tasks that nobody polls.
#[test]
fn tasks_that_are_never_polled_have_an_age() {
    watched("age", || {
        for inside in [true, false] {
            let built = Instant::now();
            let mut builder = Builder::new();
            let runtime = builder.workers(1).hand_off_after(None).build().unwrap();
            let held = Held::begin(&runtime, if inside { 2 } else { 0 });
            let spawn = || drop(runtime.spawn_in(Class::BULK, async {}));
            if !inside {
                spawn();
            }
            let began = Instant::now();
            std::thread::sleep(Duration::from_millis(30));
            if !inside {
                // One that comes later makes the first no younger.
                spawn();
            }
            let waited = began.elapsed();
            let bulk = class(&runtime, Class::BULK);
            assert_eq!(bulk.waits.count(), 0);
            assert!(bulk.ready > 0, "{bulk:?}");
            // Clocks differ a little.
            assert!(bulk.oldest_ready >= waited / 2, "{inside}: {bulk:?}");
            assert!(bulk.oldest_ready <= 2 * built.elapsed(), "{bulk:?}");
            held.end(&runtime);
            until("all are polled", || class(&runtime, Class::BULK).ready == 0);
            assert_eq!(class(&runtime, Class::BULK).oldest_ready, Duration::ZERO);
        }
    });
}

/// With hand-off the poll goes on in the heavy pool; without, at its worker.
#[test]
fn polls_that_do_not_return_are_counted_with_their_age() {
    watched("hogging", || {
        for hand_off in [Some(Duration::from_millis(1)), None] {
            let mut builder = Builder::new();
            let runtime = builder.workers(2).hand_off_after(hand_off).build().unwrap();
            let held = Held::begin(&runtime, 0);
            let long = Duration::from_millis(50);
            until("the poll is long", || {
                let normal = class(&runtime, Class::NORMAL);
                normal.hogging == 1 && normal.oldest_hog >= long
            });
            let urgent = class(&runtime, Class::URGENT);
            assert_eq!((urgent.hogging, urgent.oldest_hog), (0, Duration::ZERO));
            let text = runtime.stats().to_string();
            assert!(text.contains("hogging     1 poll of normal"), "{text}");
            held.end(&runtime);
            let is_over = || class(&runtime, Class::NORMAL).hogging == 0;
            until("it is over", is_over);
            let oldest = class(&runtime, Class::NORMAL).oldest_hog;
            assert_eq!(oldest, Duration::ZERO);
        }
    });
}

/// Such a poll has said that it blocks.
#[test]
fn a_poll_that_gives_up_its_seat_does_not_hog() {
    watched("in place", || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let (inside, go_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (is_inside, waits) = (Arc::clone(&inside), Arc::clone(&go_on));
        let blocks = runtime.spawn(async move {
            evenkeel::block_in_place(|| {
                is_inside.wait();
                waits.wait();
            });
        });
        inside.wait();
        std::thread::sleep(Duration::from_millis(30));
        let stats = runtime.stats();
        let hogging: usize = stats.classes.iter().map(|class| class.hogging).sum();
        assert_eq!(hogging, 0, "{stats}");
        go_on.wait();
        runtime.block_on(blocks).unwrap();
    });
}
