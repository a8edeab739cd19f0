//! `block_in_place`: a task blocks on purpose, and its worker goes on with other tasks.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use evenkeel::block_in_place;
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::task::yield_now;
use evenkeel::time::sleep;
use hang::{until, watched};
use hogs::{Gate, Hold, compute};

const LIMIT: Duration = Duration::from_secs(60);

/// In which no monitor takes a seat from a thread.
fn without_hand_off(workers: usize) -> Runtime {
    let mut builder = Builder::new();
    builder.workers(workers).hand_off_after(None);
    builder.build().unwrap()
}

#[test]
fn the_only_worker_goes_on() {
    watched("the only worker", || {
        let runtime = without_hand_off(1);
        let (tell, told) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        let before = tell.clone();
        let blocks = runtime.spawn(async move {
            // One that this poll has woken before, and one that it wakes meanwhile.
            drop(evenkeel::spawn(async move { before.send(1).unwrap() }));
            block_in_place(|| {
                let meanwhile = tell.clone();
                drop(evenkeel::spawn(async move { meanwhile.send(2).unwrap() }));
                let mut all = [told.recv().unwrap(), told.recv().unwrap()];
                all.sort_unstable();
                sender.send(all).unwrap();
            });
            yield_now().await;
            sleep(Duration::from_millis(1)).await;
            "went on"
        });
        assert_eq!(receiver.recv().unwrap(), [1, 2]);
        assert_eq!(runtime.block_on(blocks).unwrap(), "went on");
        assert_eq!(runtime.stats().heavy.given_up, 1);
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn block_on_inside_waits_for_tasks_timers_and_long_computations() {
    watched("block_on inside", || {
        let runtime = without_hand_off(1);
        let task = runtime.spawn(async {
            block_in_place(|| {
                Handle::current().block_on(async {
                    // Longer than a slice, after which a task's futures yield.
                    compute(Duration::from_millis(1));
                    sleep(Duration::from_millis(1)).await;
                    let inner = evenkeel::spawn(async {
                        block_in_place(|| Handle::current().block_on(async { yield_now().await }));
                        6
                    });
                    7 * inner.await.unwrap()
                })
            })
        });
        assert_eq!(runtime.block_on(task).unwrap(), 42);
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn one_call_in_another_and_one_outside_of_a_task_only_run_the_function() {
    watched("nested", || {
        assert_eq!(block_in_place(|| 1), 1);
        let runtime = without_hand_off(1);
        assert_eq!(runtime.block_on(async { block_in_place(|| 2) }), 2);
        let nested = runtime.spawn(async {
            block_in_place(|| {
                let inner = block_in_place(|| 3);
                // The outer one is not over.
                let outer =
                    Handle::current().block_on(async { evenkeel::spawn(async { 4 }).await });
                (inner, outer.unwrap())
            })
        });
        assert_eq!(runtime.block_on(nested).unwrap(), (3, 4));
        let refused = runtime.spawn(async {
            block_in_place(|| ());
            Handle::current().block_on(async {});
        });
        let error = runtime.block_on(refused).unwrap_err();
        assert!(error.to_string().contains("on a worker"), "{error}");
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn a_panic_inside_ends_it() {
    watched("panic", || {
        let runtime = without_hand_off(1);
        let caught = runtime.spawn(async {
            let panics = || block_in_place(|| panic!("on purpose"));
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            let blocks = || Handle::current().block_on(async {});
            catch_unwind(AssertUnwindSafe(blocks)).is_err()
        });
        assert!(runtime.block_on(caught).unwrap(), "a task must not block");
        let panics = runtime.spawn(async { block_in_place(|| panic!("on purpose")) });
        assert!(runtime.block_on(panics).unwrap_err().is_panic());
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn many_block_at_once_and_wait_for_each_other() {
    const MANY: usize = 40;
    watched("many", || {
        let runtime = without_hand_off(2);
        for _ in 0..3 {
            let barrier = Arc::new(Barrier::new(MANY));
            let tasks = [(); MANY].map(|()| {
                let barrier = Arc::clone(&barrier);
                runtime.spawn(async move { block_in_place(|| barrier.wait().is_leader()) })
            });
            let leaders = tasks.map(|task| usize::from(runtime.block_on(task).unwrap()));
            assert_eq!(leaders.iter().sum::<usize>(), 1);
        }
        // All but the last of each worker. While threads come and go, the statistics are those of a
        // moment before.
        until("all are counted", || {
            runtime.stats().heavy.given_up >= 3 * (MANY as u64 - 2)
        });
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn without_room_the_function_runs_and_other_workers_take_over_the_tasks() {
    watched("no room", || {
        let mut builder = Builder::new();
        builder.workers(2).blocked_threads(0).hand_off_after(None);
        let runtime = builder.build().unwrap();
        let task = runtime.spawn(async {
            let (tell, told) = mpsc::channel();
            let before = tell.clone();
            drop(evenkeel::spawn(async move { before.send(1).unwrap() }));
            block_in_place(move || {
                drop(evenkeel::spawn(async move { tell.send(2).unwrap() }));
                told.recv().unwrap() + told.recv().unwrap()
            })
        });
        assert_eq!(runtime.block_on(task).unwrap(), 3);
        let heavy = runtime.stats().heavy;
        assert_eq!((heavy.given_up, heavy.refused > 0), (0, true));
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn the_poll_is_no_hogs_and_its_task_returns_to_a_worker() {
    watched("no hog", || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let task = runtime.spawn(async {
            let handle = Handle::current();
            for round in 1..=3 {
                block_in_place(|| {
                    // A pause of the preemption harness may take the seat before.
                    let is_given_up = || handle.stats().heavy.given_up == round;
                    until("it is given up", || is_given_up() || cfg!(evenkeel_preempt));
                    std::thread::sleep(Duration::from_millis(10));
                    compute(Duration::from_millis(10));
                });
                yield_now().await;
            }
            handle.stats()
        });
        let stats = runtime.block_on(task).unwrap();
        if !cfg!(evenkeel_preempt) {
            assert_eq!(stats.hogs.len(), 0, "{:?}", stats.hogs);
            assert_eq!(stats.heavy.given_up, 3, "once in each poll");
        }
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn a_runtime_that_ends_meanwhile_names_the_task() {
    watched("shutdown", || {
        let runtime = without_hand_off(1);
        let mut gate = Gate::closed();
        let entrance = gate.entrance();
        let task = runtime.spawn(async move {
            block_in_place(|| entrance.wait(Hold::Locks));
            // The end came first.
            std::future::pending::<()>().await;
        });
        until("it blocks", || gate.arrived() == 1);
        let error = runtime.shutdown(Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("runtime_in_place.rs"), "{error}");
        gate.open();
        until("its task is dropped", || task.is_finished());
    });
}
