//! Hand-off and kinds of tasks: if one line of source spawns tasks of all sorts none is harmed, and
//! tasks that block use up nothing that others need.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::{HeavyStats, HogStats};
use evenkeel::task::{self, JoinHandle, yield_now};
use evenkeel::{Class, HogReport};
use hang::{until, watched};
use hogs::{Entrance, Gate, Hold, LONG, compute};
use support::within;

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

fn heavy(runtime: &Runtime) -> HeavyStats {
    runtime.stats().heavy
}

fn in_pool(runtime: &Runtime) -> Vec<HogStats> {
    let hogs = runtime.stats().hogs.into_iter();
    hogs.filter(|hogs| hogs.in_pool).collect()
}

/// A new task that has one poll. All are of one kind except for the class and the name.
fn one_shot(
    runtime: &Runtime,
    (class, name): (Class, &'static str),
    length: Duration,
) -> JoinHandle<()> {
    let builder = task::Builder::new().class(class).name(name);
    builder.spawn_on(async move { compute(length) }, runtime.handle())
}

fn wait_for(runtime: &Runtime, task: JoinHandle<()>) {
    runtime.block_on(within(task)).unwrap();
}

// ---- Which tasks are expected to hog ----

/// Short polls teach nothing here: what the spawner says is enough, also for the first of a kind.
#[test]
fn a_task_that_is_to_compute_begins_in_the_pool_unless_it_is_urgent() {
    watched("computes", || {
        let runtime = runtime(1);
        let thread_of = |class, computes| {
            let builder = task::Builder::new().class(class).computes(computes);
            let task = builder.spawn_on(async { thread::current().id() }, runtime.handle());
            runtime.block_on(within(task)).unwrap()
        };
        let worker = thread_of(Class::NORMAL, false);
        for class in [Class::NORMAL, Class::BULK] {
            assert_ne!(thread_of(class, true), worker, "{class}");
        }
        assert_eq!(thread_of(Class::URGENT, true), worker);
        assert_eq!(
            thread_of(Class::NORMAL, false),
            worker,
            "one of the same kind"
        );
    });
}

#[test]
fn a_line_of_which_a_part_hogs_sends_no_fresh_task_to_the_pool() {
    watched("shared line", || {
        let runtime = runtime(2);
        for round in 0..60 {
            // Three in four, so that long rows of hogs come only from the order in which they end.
            let length = if round % 4 == 3 { Duration::ZERO } else { LONG };
            wait_for(&runtime, one_shot(&runtime, (Class::NORMAL, "all"), length));
            if round > 16 {
                assert_eq!(in_pool(&runtime), [], "after {round}");
            }
        }
        let hogs = runtime.stats().hogs;
        // Beside pauses of the preemption harness the monitor comes too late for some.
        let most = if cfg!(evenkeel_preempt) { 15 } else { 30 };
        assert!(hogs[0].count > most, "hogs were noticed: {hogs:?}");
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn names_and_classes_of_one_line_are_told_apart() {
    watched("names", || {
        let runtime = runtime(2);
        for _ in 0..8 {
            wait_for(&runtime, one_shot(&runtime, (Class::NORMAL, "parse"), LONG));
            let healthy = one_shot(&runtime, (Class::NORMAL, "health"), Duration::ZERO);
            wait_for(&runtime, healthy);
            wait_for(&runtime, one_shot(&runtime, (Class::BULK, "parse"), LONG));
        }
        let rows = runtime.stats().hogs;
        let of = |class| {
            let rows = rows.iter().filter(move |row| row.class == class);
            rows.map(|row| (row.name.as_deref(), row.in_pool))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Class::NORMAL), [(Some("parse"), true)]);
        assert_eq!(of(Class::BULK), [(Some("parse"), true)]);
        assert!(
            rows.iter().all(|row| row.future.contains("one_shot")),
            "{rows:?}"
        );
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn an_urgent_task_does_not_wait_in_the_pool_whatever_its_kind_is_known_for() {
    watched("urgent", || {
        let runtime = Builder::new().workers(1).heavy_threads(1).build().unwrap();
        let urgent = (Class::URGENT, "urgent");
        for _ in 0..20 {
            wait_for(&runtime, one_shot(&runtime, urgent, LONG));
        }
        let hogged = runtime.stats().hogs[0].count;
        assert!(hogged >= 4, "{hogged} of 20 were noticed");
        assert_eq!(in_pool(&runtime), []);
        // The pool is full, so a task that was sent there would wait.
        let gate = Gate::closed();
        let before = heavy(&runtime).hand_offs;
        drop(stuck(&runtime, gate.entrance(), Hold::Spins));
        until("the pool is full", || heavy(&runtime).hand_offs > before);
        wait_for(&runtime, one_shot(&runtime, urgent, Duration::ZERO));
        drop(gate);
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn one_task_that_hogs_all_its_life_says_nothing_of_others_of_its_kind() {
    watched("one", || {
        let runtime = runtime(2);
        let polls = |polls: usize, length| async move {
            for _ in 0..polls {
                compute(length);
                yield_now().await;
            }
        };
        let spawn = |count, length| runtime.spawn(polls(count, length));
        // More well-behaved tasks than are remembered, after one has hogged.
        wait_for(&runtime, spawn(2, LONG));
        for _ in 0..20 {
            wait_for(&runtime, spawn(1, Duration::ZERO));
        }
        let mut tasks: Vec<_> = (0..4).map(|_| spawn(1, Duration::ZERO)).collect();
        tasks.push(spawn(40, LONG));
        for task in tasks {
            wait_for(&runtime, task);
        }
        assert!(runtime.stats().hogs[0].count > 30);
        assert_eq!(in_pool(&runtime), []);
        runtime.shutdown(LIMIT).unwrap();
    });
}

// ---- Tasks that block ----

/// Holds its thread until the gate opens. All are of one kind.
fn stuck(runtime: &Runtime, entrance: Entrance, hold: Hold) -> JoinHandle<()> {
    runtime.spawn(async move { entrance.wait(hold) })
}

/// New tasks are run.
fn goes_on(runtime: &Runtime) {
    for _ in 0..20 {
        wait_for(runtime, runtime.spawn(async {}));
    }
}

fn many_that_block_take_threads_and_nothing_else(hold: Hold) {
    const MANY: usize = 60;
    let runtime = Builder::new().workers(2).heavy_threads(2).build().unwrap();
    let mut gate = Gate::closed();
    let tasks: Vec<_> = (0..MANY)
        .map(|_| stuck(&runtime, gate.entrance(), hold))
        .collect();
    until("all are in their polls", || gate.arrived() == MANY);
    goes_on(&runtime);
    until("all are found blocked", || heavy(&runtime).blocked == MANY);
    assert_eq!(heavy(&runtime).queued, 0);
    goes_on(&runtime);
    // Tasks that compute find room beside them, as blocked ones take no room of theirs.
    wait_for(
        &runtime,
        one_shot(&runtime, (Class::NORMAL, "beside"), 4 * LONG),
    );
    gate.open();
    for task in tasks {
        wait_for(&runtime, task);
    }
    until("none is blocked", || heavy(&runtime).blocked == 0);
    let rows = runtime.stats().hogs;
    let blocked = rows.iter().find(|row| row.name.is_none()).unwrap();
    assert_eq!((blocked.count, blocked.blocked), (MANY as u64, MANY as u64));
    let computed = rows
        .iter()
        .find(|row| row.name.as_deref() == Some("beside"));
    // A pause of the preemption harness is a sleep.
    let is_right = computed.is_none_or(|row| row.blocked == 0) || cfg!(evenkeel_preempt);
    assert!(is_right, "{rows:?}");
    until("the threads end", || heavy(&runtime).threads <= 2);
    goes_on(&runtime);
    runtime.shutdown(LIMIT).unwrap();
}

#[test]
fn many_that_sleep_take_threads_and_nothing_else() {
    watched("sleep", || {
        many_that_block_take_threads_and_nothing_else(Hold::Sleeps);
    });
}

#[test]
fn many_that_wait_for_a_lock_take_threads_and_nothing_else() {
    watched("locks", || {
        many_that_block_take_threads_and_nothing_else(Hold::Locks);
    });
}

#[test]
fn threads_that_are_blocked_have_a_bound_and_when_it_is_reached_it_is_said() {
    watched("bound", || {
        let mut builder = Builder::new();
        builder.workers(1).heavy_threads(1).blocked_threads(3);
        let runtime = builder.build().unwrap();
        let mut gate = Gate::closed();
        let tasks: Vec<_> = (0..3)
            .map(|_| stuck(&runtime, gate.entrance(), Hold::Locks))
            .collect();
        until("three are blocked", || heavy(&runtime).blocked == 3);
        goes_on(&runtime);
        let stats = heavy(&runtime);
        assert_eq!((stats.blocked_limit, stats.limit), (3, 1));

        // A fourth, of another kind, keeps its worker. None naps, as there is room for one that
        // computes between two naps.
        let entrance = gate.entrance();
        let fourth = runtime.spawn(async move { entrance.wait(Hold::Locks) });
        until("it is refused", || heavy(&runtime).refused > stats.refused);
        let waits = runtime.spawn(async {});
        thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished(), "nobody is left who could run it");
        gate.open();
        for task in tasks.into_iter().chain([fourth, waits]) {
            wait_for(&runtime, task);
        }
        goes_on(&runtime);
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn tasks_that_are_trusted_to_block_and_compute_take_few_threads() {
    watched("trust", || {
        let runtime = Builder::new().workers(1).heavy_threads(4).build().unwrap();
        let spawn = |hold, entrance: Entrance| runtime.spawn(async move { entrance.wait(hold) });
        let mut gate = Gate::closed();
        let blocked: Vec<_> = (0..12)
            .map(|_| spawn(Hold::Sleeps, gate.entrance()))
            .collect();
        until("they are blocked", || heavy(&runtime).blocked == 12);
        assert_eq!(in_pool(&runtime).len(), 1, "the kind is known");
        gate.open();
        for task in blocked {
            wait_for(&runtime, task);
        }
        until("their threads end", || heavy(&runtime).threads <= 1);
        let mut gate = Gate::closed();
        let computing: Vec<_> = (0..40)
            .map(|_| spawn(Hold::Spins, gate.entrance()))
            .collect();
        until("they are in the pool", || heavy(&runtime).queued > 20);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(200) {
            let threads = heavy(&runtime).threads;
            assert!(threads <= 4 + 2, "{threads} threads");
            goes_on(&runtime);
        }
        gate.open();
        for task in computing {
            wait_for(&runtime, task);
        }
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn a_task_that_blocks_and_then_computes_is_one_that_computes() {
    watched("both", || {
        let runtime = runtime(1);
        let (go_on, wait) = mpsc::channel::<()>();
        let ended = Arc::new(AtomicUsize::new(0));
        let end = Arc::clone(&ended);
        let task = runtime.spawn(async move {
            wait.recv().unwrap();
            while end.load(SeqCst) == 0 {
                compute(Duration::from_micros(100));
            }
        });
        until("it is blocked", || heavy(&runtime).blocked == 1);
        go_on.send(()).unwrap();
        until("it computes", || heavy(&runtime).blocked == 0);
        until("it is charged", || {
            runtime.stats().classes[Class::NORMAL.index()].heavy >= LONG
        });
        assert_eq!(heavy(&runtime).threads, 1);
        ended.store(1, SeqCst);
        wait_for(&runtime, task);
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn a_report_says_whether_a_hog_was_blocked_and_the_type_of_its_future() {
    watched("report", || {
        let reports = Arc::<Mutex<Vec<HogReport>>>::default();
        let sink = Arc::clone(&reports);
        let hook = move |report: &HogReport| sink.lock().unwrap().push(report.clone());
        let runtime = Builder::new().workers(1).on_hog(hook).build().unwrap();
        let mut gate = Gate::closed();
        let task = stuck(&runtime, gate.entrance(), Hold::Sleeps);
        until("it is reported", || !reports.lock().unwrap().is_empty());
        let report = reports.lock().unwrap()[0].clone();
        assert!(report.blocked && report.running, "{report:?}");
        assert!(report.future.contains("stuck"), "{report:?}");
        assert!(report.to_string().contains(", blocked"), "{report}");
        gate.open();
        wait_for(&runtime, task);
        runtime.shutdown(LIMIT).unwrap();
    });
}
