//! The accounts show where the time went: all of it, and under the right heading.
//!
//! Numbers of one reading are compared with each other, never with an expected duration.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::{Duration, Instant};

use evenkeel::net::UnixStream;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::{Stats, WorkerStats};
use evenkeel::{BusyWait, Class};
use hang::{until, watched};
use support::within;
use tokio::io::AsyncReadExt;

/// The classes of every runtime.
const ALL: [Class; 3] = [Class::URGENT, Class::NORMAL, Class::BULK];

fn runtime(workers: usize, level: BusyWait) -> Runtime {
    Builder::new()
        .workers(workers)
        .busy_wait(level)
        .build()
        .unwrap()
}

#[track_caller]
fn assert_worker_adds_up(worker: &WorkerStats) {
    let sum = worker.run() + worker.check + worker.spin + worker.park + worker.steal + worker.lend;
    // Each number is rounded to whole nanoseconds separately.
    let slack = worker.wall / 1_000 + Duration::from_micros(1);
    assert!(
        sum.abs_diff(worker.wall) <= slack,
        "{sum:?} of {:?}: {worker:?}",
        worker.wall
    );
    assert!((0.0..=1.0).contains(&worker.utilisation()), "{worker:?}");
}

/// Every worker's states add up to its time, and its fractions are fractions.
#[track_caller]
fn assert_adds_up(stats: &Stats) {
    stats.workers.iter().for_each(assert_worker_adds_up);
    assert!((0.0..=1.0).contains(&stats.utilisation()));
    let by_class: Duration = stats.classes.iter().map(|class| class.run).sum();
    let by_worker: Duration = stats.workers.iter().map(|worker| worker.run()).sum();
    // A poll that lost its thread the seat ended in the heavy pool, whose time no worker has.
    if stats.heavy.hand_offs == 0 {
        assert_eq!(by_class, by_worker, "run time by class and by worker");
    }
    for class in &stats.classes {
        assert_eq!(
            class.waits.count(),
            class.polls,
            "a wait for each poll of {}",
            class.class
        );
    }
}

/// Polls and waits are read one after the other, so the runtime has to be idle. A thread that the
/// kernel has not scheduled looks idle, too; so this waits for longer than that is likely to last.
fn settled(runtime: &Runtime) -> Stats {
    let mut before = runtime.stats();
    until("at rest", || {
        std::thread::sleep(Duration::from_millis(20));
        let now = runtime.stats();
        let since = now.since(&before);
        before = now;
        let polls: u64 = since.classes.iter().map(|class| class.polls).sum();
        let parks: u64 = since.workers.iter().map(|worker| worker.parks).sum();
        polls == 0 && parks == 0
    });
    before
}

fn busy_for(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Echoes over a socket pair, `count` times.
async fn talk(count: usize) {
    let (mut one, mut other) = UnixStream::pair().unwrap();
    let echo = evenkeel::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while let Ok(byte) = other.read_u8().await {
            if other.write_u8(byte).await.is_err() {
                break;
            }
        }
    });
    for _ in 0..count {
        use tokio::io::AsyncWriteExt;
        one.write_u8(1).await.unwrap();
        one.read_u8().await.unwrap();
    }
    drop(one);
    echo.await.unwrap();
}

#[test]
fn states_add_up_under_every_load() {
    watched("adds up", || {
        for level in BusyWait::ALL {
            for workers in [1, 2] {
                let runtime = runtime(workers, level);
                // Idle.
                std::thread::sleep(Duration::from_millis(10));
                assert_adds_up(&settled(&runtime));
                // Busy, and read meanwhile.
                let stop = Arc::new(AtomicBool::new(false));
                let hogs: Vec<_> = ALL
                    .into_iter()
                    .map(|class| {
                        let stop = Arc::clone(&stop);
                        runtime.spawn_in(class, async move {
                            while !stop.load(SeqCst) {
                                busy_for(Duration::from_micros(50));
                                evenkeel::task::yield_now().await;
                            }
                        })
                    })
                    .collect();
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_micros(500));
                    for worker in runtime.stats().workers {
                        assert_worker_adds_up(&worker);
                    }
                }
                stop.store(true, SeqCst);
                hogs.into_iter()
                    .for_each(|hog| runtime.block_on(hog).unwrap());
                assert_adds_up(&settled(&runtime));
                // Talking, which is a mixture of work, checks, spinning and sleep.
                runtime.block_on(runtime.spawn(within(talk(200)))).unwrap();
                let stats = settled(&runtime);
                assert_adds_up(&stats);
                for class in &stats.classes {
                    assert!(class.polls > 0 && !class.run.is_zero(), "{class:?}");
                }
            }
        }
    });
}

/// Polls in the heavy pool are counted with the wait before them, as others are.
#[test]
fn polls_in_the_heavy_pool_have_waited_too() {
    watched("heavy waits", || {
        let runtime = runtime(1, BusyWait::None);
        let hogs: Vec<_> = (0..4)
            .map(|_| {
                runtime.spawn(async {
                    for _ in 0..5 {
                        busy_for(Duration::from_millis(10));
                        evenkeel::task::yield_now().await;
                    }
                })
            })
            .collect();
        hogs.into_iter()
            .for_each(|hog| runtime.block_on(hog).unwrap());
        let stats = settled(&runtime);
        let normal = &stats.classes[Class::NORMAL.index()];
        assert!(
            !normal.heavy.is_zero(),
            "nothing ran in the lane: {stats:?}"
        );
        assert_adds_up(&stats);
    });
}

/// What the heavy pool computes is no part of the workers' utilisation. A service that does its
/// work there would seem to have nothing to do.
#[test]
fn occupancy_has_the_heavy_pool() {
    watched("occupancy", || {
        let runtime = runtime(1, BusyWait::None);
        let stop = Arc::new(AtomicBool::new(false));
        let hog = {
            let stop = Arc::clone(&stop);
            runtime.spawn(async move {
                while !stop.load(SeqCst) {
                    busy_for(Duration::from_millis(5));
                }
            })
        };
        let before = runtime.stats();
        let heavy = |stats: &Stats| stats.classes[Class::NORMAL.index()].heavy;
        until("it computes in the pool", || {
            std::thread::sleep(Duration::from_millis(1));
            heavy(&runtime.stats().since(&before)) > Duration::from_millis(100)
        });
        let since = runtime.stats().since(&before);
        let worker = &since.workers[0];
        assert!(since.processors > 0.0, "{since:?}");
        let ran = since.occupancy() * since.processors * worker.wall.as_secs_f64();
        let expected = (heavy(&since) + worker.run()).as_secs_f64();
        assert!((ran / expected - 1.0).abs() < 1e-6, "{ran} of {expected}");
        assert!(since.occupancy() * since.processors > since.utilisation());
        stop.store(true, SeqCst);
        runtime.block_on(hog).unwrap();
    });
}

/// A worker that spins between events spends its time spinning, not running.
#[test]
fn spinning_is_not_running() {
    watched("spin", || {
        let spins = runtime(1, BusyWait::VeryLong);
        let before = settled(&spins);
        for _ in 0..20 {
            spins.block_on(spins.spawn(async {})).unwrap();
            std::thread::sleep(Duration::from_micros(300));
        }
        let spun = settled(&spins).since(&before);
        let worker = &spun.workers[0];
        // Pauses of the preemption harness lengthen polls more than busy-waits.
        let is_right = worker.spin > worker.run() || cfg!(evenkeel_preempt);
        assert!(is_right, "{worker:?}");
        assert!(worker.spin_hits + worker.spin_misses > 0);
        let polls: u64 = spun.classes.iter().map(|class| class.polls).sum();
        assert_eq!(polls, 20);

        let sleeps = runtime(1, BusyWait::None);
        let before = settled(&sleeps);
        for _ in 0..20 {
            sleeps.block_on(sleeps.spawn(async {})).unwrap();
            std::thread::sleep(Duration::from_micros(300));
        }
        let slept = settled(&sleeps).since(&before);
        assert_eq!(slept.workers[0].spin_hits + slept.workers[0].spin_misses, 0);
        assert!(slept.workers[0].parks > 0);
    });
}

/// The kernel's count of how often each of the runtime's threads went to sleep, by name.
fn switches(prefix: &str) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let Ok(status) = std::fs::read_to_string(thread.unwrap().path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace()
                .nth(1)
                .unwrap_or_default()
                .to_owned()
        };
        let name = field("Name:");
        if name.starts_with(prefix) {
            all.push((name, field("voluntary_ctxt_switches:").parse().unwrap()));
        }
    }
    all.sort();
    all
}

/// Nothing wakes an idle runtime: its threads do not run, and its queues are not checked.
#[test]
fn an_idle_runtime_does_nothing() {
    watched("idle", || {
        for (number, level) in BusyWait::ALL.into_iter().enumerate() {
            let name = format!("idle{number}");
            let runtime = Builder::new()
                .workers(3)
                .busy_wait(level)
                .thread_name(&name)
                .build()
                .unwrap();
            // It has been used, has sockets and tasks that wait, and had timers.
            let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let reader =
                runtime.spawn(async move { UnixStream::from_std(here).unwrap().read_u8().await });
            let nap = evenkeel::time::sleep(Duration::from_millis(1));
            runtime.block_on(runtime.spawn(nap)).unwrap();
            runtime.block_on(runtime.spawn(talk(10))).unwrap();

            // After settling, two readings apart are equal.
            let mut before = (switches(&name), settled(&runtime));
            until(&format!("quiet for 300 ms with {level}"), || {
                std::thread::sleep(Duration::from_millis(300));
                let now = (switches(&name), runtime.stats());
                let since = now.1.since(&before.1);
                // Three workers and the monitor are left.
                let quiet = now.0 == before.0 && since.checks.total() == 0 && now.0.len() == 4;
                if !quiet {
                    eprintln!(
                        "{level}: {:?}, then {:?}; {:?}",
                        before.0, now.0, since.checks
                    );
                }
                before = now;
                quiet
            });
            assert!(!reader.is_finished());
            assert_adds_up(&before.1);
        }
    });
}

/// A wake-up that comes after another worker has done the work ends one busy-wait and no
/// more.
#[test]
fn a_worker_that_was_woken_in_vain_does_not_spin_for_ever() {
    watched("woken in vain", || {
        // None of these workers has a descriptor, so that no I/O check ends it either.
        let runtime = runtime(3, BusyWait::Short);
        for round in 0..3_000 {
            let tasks: Vec<_> = (0..4).map(|_| runtime.spawn(async {})).collect();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
            if round % 100 == 0 {
                // As long as a few busy-waits; then all sleep.
                std::thread::sleep(Duration::from_millis(1));
                until(&format!("all sleep after round {round}"), || {
                    let before = runtime.stats();
                    std::thread::sleep(Duration::from_millis(2));
                    let since = runtime.stats().since(&before);
                    since.workers.iter().all(|worker| worker.spin.is_zero())
                });
            }
        }
    });
}

/// Each check is counted under its origin, with its events and deliveries.
#[test]
fn checks_are_counted_by_origin() {
    watched("origins", || {
        let runtime = runtime(1, BusyWait::None);
        let before = settled(&runtime);
        let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let read = Arc::new(AtomicUsize::new(0));
        let reader = {
            let read = Arc::clone(&read);
            runtime.spawn(async move {
                let mut stream = UnixStream::from_std(here).unwrap();
                while stream.read_u8().await.is_ok() {
                    read.fetch_add(1, SeqCst);
                }
            })
        };
        until("registered", || runtime.stats().readiness.descriptors == 1);
        settled(&runtime);
        for number in 1..=10 {
            there.write_all(&[1]).unwrap();
            until("read", || read.load(SeqCst) == number);
            settled(&runtime);
        }
        let since = settled(&runtime).since(&before);
        // The worker may still be awake when an event comes, and find it when a check is due.
        let found = since.checks.idle.found + since.checks.due.found;
        assert!(
            found >= 10 && since.checks.idle.found > 0,
            "{:?}",
            since.checks
        );
        assert_eq!(since.checks.spin.total(), 0, "this level does not spin");
        assert_eq!(
            since.checks.monitor.total(),
            0,
            "nobody else is there to visit"
        );
        assert!(since.readiness.deliveries >= 10, "{:?}", since.readiness);
        assert!(
            since.readiness.events >= since.readiness.deliveries,
            "{:?}",
            since.readiness
        );
        let total = since.checks.due.total() + since.checks.idle.total();
        assert_eq!(since.checks.total(), total);
        drop(there);
        runtime.block_on(reader).unwrap();
        assert_eq!(runtime.stats().readiness.descriptors, 0);

        let spins = crate::runtime(1, BusyWait::VeryLong);
        spins.block_on(spins.spawn(within(talk(50)))).unwrap();
        assert!(settled(&spins).checks.spin.total() > 0);
    });
}

/// With every worker busy in polls of a millisecond, and without hand-off, its queue is checked
/// once for each poll.
#[test]
fn checks_keep_coming_beside_hogs() {
    watched("hogs", || {
        for workers in [1, 2] {
            let mut builder = Builder::new();
            let runtime = builder
                .workers(workers)
                .hand_off_after(None)
                .build()
                .unwrap();
            let descriptors = one_for_each_queue(&runtime, workers);
            let stop = Arc::new(AtomicBool::new(false));
            let begun = Arc::new(AtomicUsize::new(0));
            let hogs: Vec<_> = (0..2 * workers)
                .map(|_| {
                    let (stop, begun) = (Arc::clone(&stop), Arc::clone(&begun));
                    runtime.spawn(async move {
                        begun.fetch_add(1, SeqCst);
                        while !stop.load(SeqCst) {
                            busy_for(Duration::from_millis(1));
                            evenkeel::task::yield_now().await;
                        }
                    })
                })
                .collect();
            until("all at it", || begun.load(SeqCst) == 2 * workers);
            // Checks first here and last below: between two readings only checks are added.
            let before_checks = runtime.stats();
            let before = runtime.stats();
            let polls_since = |before: &Stats| -> u64 {
                runtime
                    .stats()
                    .since(before)
                    .classes
                    .iter()
                    .map(|class| class.polls)
                    .sum()
            };
            until("a hundred polls", || polls_since(&before) >= 100);
            let polls = polls_since(&before);
            let checks = runtime.stats().since(&before_checks).checks;
            let most_on_their_way = workers as u64;
            assert!(
                checks.due.total() + most_on_their_way >= polls,
                "{workers} workers, {polls} polls, {checks:?}"
            );
            stop.store(true, SeqCst);
            hogs.into_iter()
                .for_each(|hog| runtime.block_on(hog).unwrap());
            drop(descriptors);
        }
    });
}

/// Registers a descriptor at each worker: a queue without descriptors needs no checks.
fn one_for_each_queue(runtime: &Runtime, workers: usize) -> Vec<(UnixStream, UnixStream)> {
    loop {
        // Tasks that wait for each other within a poll are on different workers.
        let all_here = Arc::new(Barrier::new(workers));
        let tasks: Vec<_> = (0..workers)
            .map(|_| runtime.spawn(register_and_meet(Arc::clone(&all_here))))
            .collect();
        let tasks = tasks.into_iter();
        let pairs = tasks.map(|task| runtime.block_on(task).unwrap()).collect();
        // A worker whose slice passed while its thread was not scheduled has only yielded.
        if runtime.stats().readiness.descriptors == workers {
            return pairs;
        }
    }
}

async fn register_and_meet(all_here: Arc<Barrier>) -> (UnixStream, UnixStream) {
    // Descriptors gather at a worker with room. One that was busy for so long has none.
    all_here.wait();
    busy_for(Duration::from_millis(20));
    evenkeel::task::yield_now().await;
    let (quiet, end) = UnixStream::pair().unwrap();
    assert!(quiet.try_read(&mut [0]).is_err());
    poll_fn(|cx| {
        assert!(pin!(quiet.readable()).poll(cx).is_pending());
        all_here.wait();
        Poll::Ready(())
    })
    .await;
    (quiet, end)
}

/// Ready tasks wait in the queue, and the histogram says how many did.
#[test]
fn waits_are_counted_and_grow_with_the_queue() {
    watched("waits", || {
        let runtime = runtime(1, BusyWait::None);
        let before = settled(&runtime);
        let tasks: Vec<_> = (0..100)
            .map(|_| runtime.spawn(async { busy_for(Duration::from_micros(200)) }))
            .collect();
        tasks
            .into_iter()
            .for_each(|task| runtime.block_on(task).unwrap());
        let since = settled(&runtime).since(&before);
        let normal = &since.classes[Class::NORMAL.index()];
        assert_eq!((normal.polls, normal.waits.count()), (100, 100));
        let quantiles = [0.0, 0.5, 0.9, 1.0].map(|q| normal.waits.quantile(q).unwrap());
        assert!(quantiles.is_sorted(), "{quantiles:?}");
        let sum: u64 = normal.waits.buckets().map(|(_, count)| count).sum();
        assert_eq!(sum, 100);
        assert_eq!(since.classes[Class::BULK.index()].waits.quantile(0.5), None);
    });
}

/// A waiting task is counted, and no longer counted once it has ended.
#[test]
fn waiting_tasks_are_counted() {
    watched("waiting", || {
        let runtime = runtime(2, BusyWait::Adaptive);
        let tasks: Vec<_> = (0..50)
            .map(|_| runtime.spawn(std::future::pending::<()>()))
            .collect();
        until("all wait", || runtime.stats().tasks_waiting == 50);
        tasks.iter().for_each(|task| task.abort());
        for task in tasks {
            assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        }
        assert_eq!(runtime.stats().tasks_waiting, 0);
    });
}

/// Requires that another worker is asked for help, or comes, in most of ten rounds. In some it
/// would by chance: polls become long if the kernel takes the processor away.
fn has_help_in_most_rounds<F>(round: fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = runtime(2, BusyWait::None);
    let has_help = |_: &usize| {
        let before = runtime.stats();
        runtime.block_on(runtime.spawn(round())).unwrap();
        let workers = runtime.stats().since(&before).workers;
        let was_asked = workers.iter().any(|worker| worker.helps > 0);
        // One that was still awake comes by itself.
        was_asked || (workers.iter()).all(|worker| worker.run() > Duration::from_micros(500))
    };
    let rounds = (0..10).filter(has_help).count();
    assert!(rounds >= 8, "in {rounds} of 10 rounds");
}

/// A worker with tasks for more than half of their latency target wakes another one, however short
/// their polls are.
#[test]
fn another_worker_helps_with_short_polls_when_many_wait() {
    watched("help", || {
        has_help_in_most_rounds(|| async {
            // Two milliseconds of polls that are too short for help otherwise, as are those
            // that spawn.
            let branches = (0..60).map(|_| {
                evenkeel::spawn(async {
                    let leaf = |_| evenkeel::spawn(async { busy_for(Duration::from_micros(2)) });
                    (0..20).map(leaf).collect::<Vec<_>>()
                })
            });
            for branch in branches.collect::<Vec<_>>() {
                for leaf in branch.await.unwrap() {
                    leaf.await.unwrap();
                }
            }
        });
    });
}

/// Long polls are divided at once, however few tasks wait: two connections whose requests take 200
/// microseconds are not served one after the other.
#[test]
fn another_worker_helps_at_once_with_long_polls() {
    watched("long", || {
        has_help_in_most_rounds(|| async {
            // Too few for the latency target, and over before the worker counts as saturated.
            let polls = async || {
                for _ in 0..10 {
                    busy_for(Duration::from_micros(200));
                    evenkeel::task::yield_now().await;
                }
            };
            let tasks: Vec<_> = (0..2).map(|_| evenkeel::spawn(polls())).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

/// A worker that never sleeps gets help with the tasks that wait, however few and short they are.
#[test]
fn another_worker_helps_one_that_has_no_time_to_sleep() {
    watched("saturated", || {
        has_help_in_most_rounds(|| async {
            // The polls are known to be short by now.
            for _ in 0..1_000 {
                evenkeel::spawn(async {}).await.unwrap();
            }
            let yields = async || {
                for _ in 0..100_000 {
                    evenkeel::task::yield_now().await;
                }
            };
            let tasks: Vec<_> = (0..4).map(|_| evenkeel::spawn(yields())).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn each_poll_has_a_length_and_they_add_up_to_the_run_time() {
    watched("lengths", || {
        // On one worker, so that polls of two classes follow each other.
        let runtime = runtime(1, BusyWait::None);
        let tasks = [Class::BULK, Class::NORMAL].map(|class| {
            runtime.spawn_in(class, async {
                for _ in 0..100 {
                    busy_for(Duration::from_micros(200));
                    evenkeel::task::yield_now().await;
                }
            })
        });
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        let stats = settled(&runtime);
        for class in &stats.classes {
            assert_eq!(class.poll_lengths.count(), class.polls, "{}", class.class);
            if class.heavy.is_zero() {
                let lengths = class.poll_lengths.total();
                let slack = class.run / 200 + Duration::from_micros(1);
                let difference = lengths.abs_diff(class.run);
                assert!(difference <= slack, "{lengths:?} of {:?}", class.run);
            }
        }
        let bulk = &stats.classes[Class::BULK.index()];
        let median = bulk.poll_lengths.quantile(0.5).unwrap();
        assert!(median >= Duration::from_micros(200), "{median:?}");
        assert!(bulk.waits.total() > Duration::ZERO);
        assert!(bulk.waits.mean() <= bulk.waits.quantile(1.0));
    });
}

#[test]
fn tasks_that_are_ready_are_counted_until_they_are_polled() {
    watched("ready", || {
        let mut builder = Builder::new();
        let runtime = builder.workers(1).hand_off_after(None).build().unwrap();
        let (arrived, go_on) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let (arrives, waits) = (Arc::clone(&arrived), Arc::clone(&go_on));
        let holds = runtime.spawn(async move {
            // Those that wait in the worker's own queue.
            let inside: Vec<_> = (0..3)
                .map(|_| evenkeel::spawn_in(Class::BULK, async {}))
                .collect();
            arrives.wait();
            while !waits.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            inside
        });
        arrived.wait();
        // And those that come from another thread.
        let outside: Vec<_> = (0..4)
            .map(|_| runtime.spawn_in(Class::BULK, async {}))
            .collect();
        let ready = || runtime.stats().classes[Class::BULK.index()].ready;
        // Without the one that the worker polls next.
        assert_eq!(ready(), 6);
        go_on.store(true, SeqCst);
        runtime.block_on(async {
            for task in holds.await.unwrap().into_iter().chain(outside) {
                task.await.unwrap();
            }
        });
        assert_eq!(ready(), 0);
    });
}

#[test]
fn writes_are_counted_with_their_bytes() {
    watched("writes", || {
        let runtime = runtime(2, BusyWait::None);
        // Each side writes a byte each time.
        runtime.block_on(talk(10));
        let output = runtime.stats().output;
        assert_eq!((output.writes, output.bytes), (20, 20));
    });
}
