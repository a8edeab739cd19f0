//! The bounds of the heavy pool: waiting tasks get their polls although others block beside them,
//! and no thread is started in vain.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::yield_now;
use evenkeel::time::sleep;
use hang::{until, watched};
use hogs::{Gate, Hold, LONG, compute, compute_until_handed_off};
use support::within;

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Becomes a hog, and continues when the flag is set.
async fn hog_until(flag: Arc<AtomicBool>) {
    compute_until_handed_off();
    // One poll and not many: several short ones in a row would make the runtime forget the hog.
    let flagged = evenkeel::spawn_blocking(move || until("the flag", || flag.load(SeqCst)));
    flagged.await.unwrap();
}

fn threads(runtime: &Runtime) -> usize {
    runtime.stats().heavy.threads
}

#[test]
fn a_hog_that_nobody_takes_the_seat_from_is_one_all_the_same() {
    watched("kept", || {
        let mut builder = Builder::new();
        builder.workers(1).heavy_threads(1).blocked_threads(0);
        let runtime = builder.build().unwrap();
        let mut gate = Gate::closed();
        let entrance = gate.entrance();
        let first = runtime.spawn(async move { entrance.wait(Hold::Spins) });
        until("the pool is full", || threads(&runtime) == 1);
        let handle = runtime.handle().clone();
        let refused = move || handle.stats().heavy.refused;
        // Of one kind, one after the other; each ends with a short poll. Fewer than it takes for
        // the next one to wait in the pool.
        for _ in 0..3 {
            let refused = refused.clone();
            let hog = runtime.spawn(async move {
                let before = refused();
                while refused() == before {
                    compute(Duration::from_micros(100));
                }
                compute(Duration::from_millis(2));
                sleep(Duration::from_millis(1)).await;
            });
            runtime.block_on(within(hog)).unwrap();
        }
        let rows = runtime.stats().hogs;
        // A pause of the preemption harness makes a hog of the short poll, too.
        let is_right = |count| count == 3 || (cfg!(evenkeel_preempt) && count > 3);
        assert!(rows.iter().any(|row| is_right(row.count)), "{rows:?}");
        gate.open();
        runtime.block_on(within(first)).unwrap();
    });
}

#[test]
fn a_task_that_blocked_is_polled_again_where_no_thread_may_block() {
    watched("no blocked threads", || {
        let runtime = Builder::new()
            .workers(1)
            .heavy_threads(1)
            .blocked_threads(0)
            .build()
            .unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let task = runtime.spawn(async move {
            compute_until_handed_off();
            yield_now().await;
            // In the pool: its next long polls are expected to block.
            thread::sleep(4 * LONG);
            sleep(Duration::from_millis(1)).await;
            send.send(()).unwrap();
            // For longer than an idle thread of the pool lives.
            sleep(Duration::from_secs(3)).await;
        });
        receive.recv().unwrap();
        until("the pool's threads end", || threads(&runtime) == 0);
        runtime.block_on(within(task)).unwrap();
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn no_thread_is_started_that_finds_no_desk() {
    watched("thread storm", || {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let runtime = Builder::new()
            .workers(1)
            .heavy_threads(1)
            .blocked_threads(0)
            .on_thread_start(move || {
                count.fetch_add(1, SeqCst);
            })
            .build()
            .unwrap();
        // A task that is known to hog, and waits for an event.
        let goes_on = Arc::new(AtomicBool::new(false));
        let hog = runtime.spawn(hog_until(Arc::clone(&goes_on)));
        until("the pool's threads end", || {
            runtime.stats().heavy.hand_offs == 1 && threads(&runtime) == 0
        });
        // A task that computes, and then blocks, in one poll.
        let mut gate = Gate::closed();
        let entrance = gate.entrance();
        let blocked = runtime.spawn(async move {
            compute_until_handed_off();
            entrance.wait(Hold::Locks);
        });
        until("it is found blocked", || runtime.stats().heavy.blocked == 1);
        let before = started.load(SeqCst);
        goes_on.store(true, SeqCst);
        until("the other waits", || runtime.stats().heavy.queued == 1);
        thread::sleep(Duration::from_secs(1));
        let in_vain = started.load(SeqCst) - before;
        gate.open();
        runtime.block_on(within(blocked)).unwrap();
        runtime.block_on(within(hog)).unwrap();
        assert!(in_vain < 10, "{in_vain} threads were started in vain");
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn a_task_that_computes_is_not_starved_by_many_that_block() {
    watched("starved", || {
        let runtime = Builder::new()
            .workers(1)
            .heavy_threads(2)
            .blocked_threads(12)
            .build()
            .unwrap();
        let goes_on = Arc::new(AtomicBool::new(false));
        let hog = runtime.spawn(hog_until(Arc::clone(&goes_on)));
        until("a hog", || runtime.stats().heavy.hand_offs >= 1);
        let stop = Arc::new(AtomicBool::new(false));
        let sleepers: Vec<_> = (0..40_u64)
            .map(|number| {
                let stop = Arc::clone(&stop);
                runtime.spawn(async move {
                    while !stop.load(SeqCst) {
                        thread::sleep(Duration::from_millis(60 + number * 37 % 50));
                        yield_now().await;
                    }
                })
            })
            .collect();
        until("many wait to block", || {
            let heavy = runtime.stats().heavy;
            heavy.blocked >= 10 && heavy.queued >= 20
        });
        thread::sleep(Duration::from_secs(1));
        let threads = threads(&runtime);
        goes_on.store(true, SeqCst);
        let began = std::time::Instant::now();
        while !hog.is_finished() && began.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(10));
        }
        let done = hog.is_finished();
        stop.store(true, SeqCst);
        eprintln!("{threads} threads, {:?}", began.elapsed());
        assert!(done, "it was polled while the others went on");
        runtime.block_on(within(hog)).unwrap();
        for sleeper in sleepers {
            runtime.block_on(within(sleeper)).unwrap();
        }
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn threads_that_compute_and_then_block_stay_within_the_heavy_pools_bounds() {
    const MANY: usize = 12;
    watched("compute and block", || {
        let runtime = Builder::new()
            .workers(1)
            .heavy_threads(2)
            .blocked_threads(2)
            .build()
            .unwrap();
        let mut gate = Gate::closed();
        let tasks: Vec<_> = (0..MANY)
            .map(|_| {
                let entrance = gate.entrance();
                runtime.spawn(async move {
                    compute(LONG);
                    entrance.wait(Hold::Locks);
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(2));
        let heavy = runtime.stats().heavy;
        eprintln!("{heavy:?}");
        gate.open();
        for task in tasks {
            runtime.block_on(within(task)).unwrap();
        }
        assert!(heavy.blocked <= 4, "{heavy:?}");
        runtime.shutdown(LIMIT).unwrap();
    });
}
