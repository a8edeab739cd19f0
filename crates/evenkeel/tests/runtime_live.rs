//! Settings that are changed while the runtime works: they take effect, or nothing changes.

#[path = "support/hang.rs"]
mod hang;

use std::time::{Duration, Instant};

use evenkeel::net::{Delivery, TcpListener, TcpStream, UnixStream};
use evenkeel::runtime::{Builder, ChangeError, Handle, Runtime};
use evenkeel::stats::Stats;
use evenkeel::{BusyWait, Class};
use hang::{until, watched};

fn runtime(workers: usize, hand_off: Option<Duration>) -> Runtime {
    let mut builder = Builder::new();
    builder.workers(workers).busy_wait(BusyWait::None);
    builder.hand_off_after(hand_off).build().unwrap()
}

fn millis(number: u64) -> Option<Duration> {
    Some(Duration::from_millis(number))
}

/// Computes in one poll, until a condition holds.
fn compute_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "still not: {what}"
        );
        std::hint::spin_loop();
    }
}

fn hand_offs(handle: &Handle) -> u64 {
    handle.stats().heavy.hand_offs
}

#[test]
fn a_shorter_hand_off_threshold_ends_a_poll_that_was_not_too_long() {
    watched("shorter", || {
        let runtime = runtime(2, Some(Duration::from_secs(60)));
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move {
            let handle = Handle::current();
            let changes = || {
                handle.set_hand_off_after(millis(1)).unwrap();
                hand_offs(&handle) > 0
            };
            compute_until("handed off", changes);
        });
        runtime.block_on(task).unwrap();
        assert_eq!(handle.hand_off_after(), millis(1));
        // The pool judges by the same threshold: it was a hog's poll.
        until("counted", || {
            handle.stats().hogs.iter().any(|hog| hog.count > 0)
        });
    });
}

#[test]
fn hand_off_is_switched_off_and_on_again() {
    watched("off", || {
        let runtime = runtime(2, millis(1));
        let handle = runtime.handle().clone();
        handle.set_hand_off_after(None).unwrap();
        assert_eq!(handle.hand_off_after(), None);
        let compute = |length| async move {
            let began = Instant::now();
            while began.elapsed() < length {
                std::hint::spin_loop();
            }
        };
        let long = Duration::from_millis(100);
        runtime.block_on(runtime.spawn(compute(long))).unwrap();
        assert_eq!(hand_offs(&handle), 0);
        assert!(handle.stats().hogs.is_empty(), "nobody is a hog");

        handle.set_hand_off_after(millis(1)).unwrap();
        let again = handle.clone();
        let task = runtime.spawn(async move {
            compute_until("handed off", || hand_offs(&again) > 0);
        });
        runtime.block_on(task).unwrap();
    });
}

/// What hogged before goes back to the workers when there are no hogs any more.
#[test]
fn tasks_leave_the_heavy_pool_when_hand_off_is_switched_off() {
    watched("leaves", || {
        let runtime = runtime(2, millis(1));
        let handle = runtime.handle().clone();
        let in_pool = |stats: &Stats| stats.classes[Class::BULK.index()].heavy;
        let hog = runtime.spawn_in(Class::BULK, async {
            loop {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
                evenkeel::task::yield_now().await;
            }
        });
        until("in the pool", || !in_pool(&handle.stats()).is_zero());
        handle.set_hand_off_after(None).unwrap();
        until("out of the pool", || {
            let before = handle.stats();
            std::thread::sleep(Duration::from_millis(50));
            let since = handle.stats().since(&before);
            let bulk = &since.classes[Class::BULK.index()];
            bulk.polls > 0 && in_pool(&since).is_zero()
        });
        hog.abort();
        assert!(runtime.block_on(hog).unwrap_err().is_cancelled());
    });
}

#[test]
fn a_hand_off_that_cannot_be_is_refused_and_nothing_changes() {
    let runtime = runtime(2, millis(1));
    let handle = runtime.handle();
    for after in [
        Duration::ZERO,
        Duration::from_micros(199),
        Duration::from_secs(61),
    ] {
        let error = handle.set_hand_off_after(Some(after)).unwrap_err();
        assert_eq!(error, ChangeError::HandOff { after });
        assert!(error.to_string().contains("200µs to 60s"), "{error}");
    }
    assert_eq!(handle.hand_off_after(), millis(1));
    drop(runtime);

    // Nobody watches this one.
    let alone = self::runtime(1, None);
    let error = alone.handle().set_hand_off_after(millis(1)).unwrap_err();
    assert_eq!(error, ChangeError::NoMonitor);
    assert!(error.to_string().contains("no thread watches"), "{error}");
    assert_eq!(alone.handle().hand_off_after(), None);
    alone.handle().set_hand_off_after(None).unwrap();
}

#[test]
fn workers_go_by_another_level_of_busy_waiting() {
    watched("busy wait", || {
        let runtime = runtime(1, millis(1));
        let handle = runtime.handle();
        let spins = |level| {
            handle.set_busy_wait(level);
            assert_eq!(handle.busy_wait(), level);
            // The worker may be in a spin of before; it goes by the level after the next.
            let before = handle.stats();
            let mut counts = Vec::new();
            for _ in 0..20 {
                runtime.block_on(runtime.spawn(async {})).unwrap();
                std::thread::sleep(Duration::from_millis(3));
                let worker = &handle.stats().since(&before).workers[0];
                counts.push(worker.spin_hits + worker.spin_misses);
            }
            counts[19] - counts[0]
        };
        assert_eq!(spins(BusyWait::None), 0);
        assert!(spins(BusyWait::VeryLong) > 0);
        assert_eq!(spins(BusyWait::None), 0);
    });
}

#[test]
fn streams_begin_with_the_delivery_that_is_set() {
    let runtime = runtime(2, millis(1));
    runtime.block_on(async {
        let handle = Handle::current();
        let early = UnixStream::pair().unwrap();
        let bytes = 4096;
        let delay = Duration::from_millis(20);
        let mode = Delivery::Coalesce { bytes, delay };
        handle.set_delivery(mode).unwrap();
        assert_eq!(handle.delivery(), mode);
        let too_long = Delivery::Adaptive {
            max_delay: Delivery::DELAY_MAX * 2,
        };
        let error = handle.set_delivery(too_long).unwrap_err();
        assert!(matches!(error, ChangeError::Delivery(_)), "{error}");
        assert_eq!(handle.delivery(), mode, "nothing has changed");

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let there = TcpStream::connect(address).await.unwrap();
        let (here, _) = listener.accept().await.unwrap();
        let pair = UnixStream::pair().unwrap();
        for delivery in [there.delivery(), here.delivery(), pair.0.delivery()] {
            assert_eq!(delivery, mode);
        }
        assert_eq!(early.0.delivery(), Delivery::Immediate, "it was there");
        handle.set_delivery(Delivery::Immediate).unwrap();
        let later = UnixStream::pair().unwrap();
        assert_eq!(later.0.delivery(), Delivery::Immediate);
        assert_eq!(here.delivery(), mode, "it keeps what it has");
    });
}
