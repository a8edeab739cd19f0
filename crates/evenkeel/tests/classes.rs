//! Classes as users see them: created by the builder, changed while the runtime works, inherited,
//! and given CPU time by their shares.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{BuildError, Builder, Handle, Runtime};
use evenkeel::stats::Load;
use evenkeel::task::{self, JoinHandle, JoinSet, yield_now};
use evenkeel::{Class, ClassConfig, ClassError};
use hang::{until, watched};
use hogs::{Gate, Hold, compute, compute_until_handed_off, cpu};
use support::within;

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

// ---- Creating and changing them ----

#[test]
fn a_class_that_makes_no_sense_is_an_error_that_says_what_would() {
    let config = ClassConfig::new();
    let too_long = "x".repeat(33);
    let refused: [(&str, ClassConfig, &[&str]); 9] = [
        ("", config, &["\"\" is no name", "1 to 32 letters"]),
        ("two words", config, &["\"two words\" is no name", "`_`"]),
        ("nul\0", config, &["\"nul\\0\" is no name"]),
        (&too_long, config, &["1 to 32 letters, digits, `-`, `_`"]),
        ("bulk", config.share(0), &["share of 0", "1 to 10000"]),
        ("own", config.share(10_001), &["share of 10001", "10000"]),
        (
            "own",
            config.latency_target(Duration::ZERO),
            &["target of 0ns", "10 microseconds"],
        ),
        (
            "urgent",
            config.latency_target(micros(9)),
            &["target of 9µs", "10 microseconds"],
        ),
        (
            "own",
            config.latency_target(Duration::from_secs(11)),
            &["target of 11s", "10 seconds"],
        ),
    ];
    for (name, config, says) in refused {
        let error = Builder::new().class(name, config).build().expect_err(name);
        assert!(matches!(error, BuildError::Class(_)), "{error:?}");
        assert!(
            error
                .source()
                .is_some_and(|source| source.is::<ClassError>())
        );
        let text = error.to_string();
        for part in says.iter().chain(&["`Builder::class` was refused"]) {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    }
}

#[test]
fn the_first_mistake_is_reported_and_not_mended_by_what_follows() {
    let mut builder = Builder::new();
    builder.class("bulk", ClassConfig::new().share(0));
    builder.class("", ClassConfig::new());
    builder.class("bulk", ClassConfig::new().share(1));
    let error = builder.build().unwrap_err();
    assert!(matches!(error, BuildError::Class(ClassError::Share(0))));
}

#[test]
fn sixty_one_classes_can_be_added_and_each_is_used() {
    watched("sixty-one", || {
        let mut builder = Builder::new();
        builder.workers(1);
        for number in 0..61 {
            builder.class(&format!("own_{number}"), ClassConfig::new());
        }
        let runtime = builder.build().unwrap();
        let handle = runtime.handle();
        assert_eq!(handle.classes().len(), 64);
        assert_eq!(runtime.stats().classes.len(), 64);
        assert_eq!(runtime.stats().workers[0].run_by_class.len(), 64);
        for info in handle.classes() {
            assert_eq!(handle.class(&info.name), Some(info.class));
            let task = runtime.spawn_in(info.class, async { 1 });
            assert_eq!(runtime.block_on(within(task)).unwrap(), 1);
            let stats = &runtime.stats().classes[info.class.index()];
            assert_eq!((stats.class, &stats.name), (info.class, &info.name));
            assert_eq!(stats.polls, 1, "{}", info.name);
        }

        let error = builder.class("own_61", ClassConfig::new()).build();
        let text = error.unwrap_err().to_string();
        let says = "class `own_61` is one too many: a runtime has at most 64 classes";
        assert!(text.contains(says), "{text}");
    });
}

#[test]
fn classes_have_the_stated_defaults_and_keep_what_is_not_set() {
    watched("defaults", || {
        let runtime = Builder::new()
            .workers(1)
            .class("bulk", ClassConfig::new().share(7))
            .class("video", ClassConfig::new().latency_target(micros(700)))
            .class("video", ClassConfig::new().share(9))
            .class("audio", ClassConfig::new())
            .build()
            .unwrap();
        let handle = runtime.handle();
        let said: Vec<_> = handle
            .classes()
            .into_iter()
            .map(|info| {
                (
                    info.name,
                    info.class.index(),
                    info.share,
                    info.latency_target,
                )
            })
            .collect();
        let expected = [
            ("urgent", 0, 30, micros(200)),
            ("normal", 1, 50, micros(2_000)),
            ("bulk", 2, 7, micros(20_000)),
            ("video", 3, 9, micros(700)),
            ("audio", 4, 50, micros(2_000)),
        ]
        .map(|(name, index, share, target)| (name.to_owned(), index, share, target));
        assert_eq!(said, expected);
        for (name, class) in [
            ("urgent", Class::URGENT),
            ("normal", Class::NORMAL),
            ("bulk", Class::BULK),
        ] {
            assert_eq!(handle.class(name), Some(class));
            assert_eq!(
                (class.to_string(), format!("{class:?}")),
                (name.into(), name.into())
            );
        }
        for unknown in ["", "Urgent", "vide", "class 3"] {
            assert_eq!(handle.class(unknown), None);
        }
        assert_eq!(handle.class("video").unwrap().to_string(), "class 3");
        assert_eq!(Class::default(), Class::NORMAL);
    });
}

/// Two runtimes, of which the first has one class more, and that class.
fn two_runtimes() -> (Runtime, Runtime, Class) {
    let first = Builder::new()
        .workers(1)
        .class("video", ClassConfig::new())
        .build()
        .unwrap();
    let second = Builder::new().workers(1).build().unwrap();
    let video = first.handle().class("video").unwrap();
    (first, second, video)
}

#[test]
fn a_class_is_changed_while_the_runtime_runs_and_nonsense_changes_nothing() {
    watched("live", || {
        let (runtime, other, video) = two_runtimes();
        let handle = runtime.handle();
        let terms = |class: Class| {
            let info = handle.classes().swap_remove(class.index());
            (info.share, info.latency_target)
        };
        let config = ClassConfig::new();
        handle.set_class(video, config.share(10_000)).unwrap();
        assert_eq!(terms(video), (10_000, micros(2_000)));
        handle
            .set_class(video, config.latency_target(micros(10)))
            .unwrap();
        assert_eq!(terms(video), (10_000, micros(10)));
        let longest = Duration::from_secs(10);
        let both = config.share(1).latency_target(longest);
        handle.set_class(Class::URGENT, both).unwrap();
        assert_eq!(terms(Class::URGENT), (1, longest));
        handle.set_class(Class::URGENT, config).unwrap();
        assert_eq!(terms(Class::URGENT), (1, longest), "nothing was set");
        assert_eq!(runtime.stats().classes[video.index()].share, 10_000);

        let before = handle.classes();
        let refused = handle.set_class(video, config.share(0));
        assert_eq!(refused, Err(ClassError::Share(0)));
        let refused = handle.set_class(video, config.share(5).latency_target(micros(1)));
        assert_eq!(refused, Err(ClassError::LatencyTarget(micros(1))));
        assert_eq!(handle.classes(), before);
        let before = other.handle().classes();
        let refused = other.handle().set_class(video, config.share(5));
        assert_eq!(refused, Err(ClassError::Unknown(video)));
        assert_eq!(other.handle().classes(), before);
    });
}

// ---- The class of a task ----

/// How often tasks of each class have been polled.
fn polls(runtime: &Runtime) -> Vec<u64> {
    let classes = runtime.stats().classes;
    classes.into_iter().map(|class| class.polls).collect()
}

async fn told(tell: mpsc::Sender<()>) {
    tell.send(()).unwrap();
}

/// A way to spawn a task whose only poll notifies the sender.
type Spawn = fn(mpsc::Sender<()>);

/// Every way to spawn a task without a class, from a task.
const INHERITING: [Spawn; 6] = [
    |tell| drop(evenkeel::spawn(told(tell))),
    |tell| drop(task::spawn(told(tell))),
    |tell| drop(Handle::current().spawn(told(tell))),
    |tell| drop(task::Builder::new().name("named").spawn(told(tell))),
    |tell| drop(task::Builder::new().spawn_on(told(tell), &Handle::current())),
    |tell| {
        let mut set = JoinSet::new();
        set.spawn(told(tell));
        set.detach_all();
    },
];

/// Every way to spawn a task in a class.
const CHOOSING: [Spawn; 4] = [
    |tell| drop(evenkeel::spawn_in(Class::BULK, told(tell))),
    |tell| drop(Handle::current().spawn_in(Class::BULK, told(tell))),
    |tell| drop(task::Builder::new().class(Class::BULK).spawn(told(tell))),
    |tell| {
        let mut set = JoinSet::new();
        set.spawn_in(Class::BULK, told(tell));
        set.detach_all();
    },
];

/// Spawns from a task of `parent`; if that has to hog first, in its second poll, which is in the
/// heavy pool. Returns how often tasks of each class were polled.
fn polled(runtime: &Runtime, parent: Class, hogs: bool, spawn: Spawn) -> Vec<u64> {
    let before = polls(runtime);
    let (tell, told) = mpsc::channel();
    let task = runtime.spawn_in(parent, async move {
        if hogs {
            compute_until_handed_off();
            yield_now().await;
        }
        spawn(tell);
    });
    runtime.block_on(within(task)).unwrap();
    told.recv_timeout(LIMIT).unwrap();
    let since = || -> Vec<u64> {
        let after = polls(runtime);
        after
            .iter()
            .zip(&before)
            .map(|(now, was)| now - was)
            .collect()
    };
    // Polls are counted when they end: the child's, and one more that was in the heavy pool.
    until("all are counted", || {
        since().iter().sum::<u64>() >= 2 + u64::from(hogs)
    });
    since()
}

#[test]
fn a_task_is_of_its_spawners_class_or_of_the_one_it_is_given() {
    watched("inherited", || {
        let (runtime, _, video) = two_runtimes();
        for spawn in INHERITING {
            assert_eq!(polled(&runtime, video, false, spawn), [0, 0, 0, 2]);
            assert_eq!(polled(&runtime, Class::URGENT, false, spawn), [2, 0, 0, 0]);
        }
        for spawn in CHOOSING {
            assert_eq!(polled(&runtime, video, false, spawn), [0, 0, 1, 1]);
        }
    });
}

#[test]
fn a_hog_in_the_heavy_pool_spawns_into_its_own_class_all_the_same() {
    watched("inherited in the lane", || {
        for (spawn, expected) in [
            (INHERITING.as_slice(), [0, 0, 0, 3]),
            (CHOOSING.as_slice(), [0, 0, 1, 2]),
        ] {
            for spawn in spawn {
                // A runtime each, so that no spawn site is known for its hogs.
                let (runtime, _, video) = two_runtimes();
                assert_eq!(polled(&runtime, video, true, *spawn), expected);
                assert!(!runtime.stats().classes[video.index()].heavy.is_zero());
            }
        }
    });
}

#[test]
fn what_is_spawned_from_outside_every_task_is_normal() {
    watched("outside", || {
        let (runtime, other, video) = two_runtimes();
        runtime.block_on(async {
            evenkeel::spawn(async {}).await.unwrap();
            Handle::current().spawn(async {}).await.unwrap();
        });
        runtime.block_on(runtime.spawn(async {})).unwrap();
        assert_eq!(polls(&runtime), [0, 3, 0, 0]);

        // The class of another runtime's task means nothing if this runtime does not have it.
        let handle = other.handle().clone();
        let task = runtime.spawn_in(video, async move { handle.spawn(async {}).await });
        runtime.block_on(task).unwrap().unwrap();
        assert_eq!(polls(&other), [0, 1, 0]);
    });
}

/// Changes its class, and waits before it looks: true if it is in the new one then, and what it
/// spawns is as well.
async fn changes_to(class: Class) -> bool {
    let before = task::class().unwrap();
    assert_ne!(before, class);
    assert_eq!(task::change_class(class), Ok(before));
    let is_there = move || async move { task::class() == Some(class) };
    let at_once = is_there().await && evenkeel::spawn(is_there()).await.unwrap();
    yield_now().await;
    at_once && is_there().await && evenkeel::spawn(is_there()).await.unwrap()
}

#[test]
fn a_task_changes_its_class_from_its_next_poll_on() {
    watched("changed", || {
        let (runtime, _, video) = two_runtimes();
        let task = runtime.spawn(changes_to(video));
        assert!(runtime.block_on(within(task)).unwrap());
        // The poll in which it changed counts as it began.
        let polls = polls(&runtime);
        assert_eq!(polls[..3], [0, 1, 0]);
        assert!(polls[3] > 3, "{polls:?}");

        let there_and_back = runtime.spawn_in(Class::URGENT, async move {
            changes_to(video).await && changes_to(Class::URGENT).await
        });
        assert!(runtime.block_on(within(there_and_back)).unwrap());
    });
}

#[test]
fn a_task_changes_its_class_in_the_heavy_pool_as_well() {
    watched("changed in the pool", || {
        let (runtime, _, video) = two_runtimes();
        let hog = runtime.spawn(async move {
            compute_until_handed_off();
            yield_now().await;
            // This poll is in the pool, and so is the next.
            assert_eq!(task::change_class(video), Ok(Class::NORMAL));
            compute(Duration::from_millis(3));
            yield_now().await;
            compute(Duration::from_millis(3));
            task::class() == Some(video)
        });
        assert!(runtime.block_on(within(hog)).unwrap());
        // A poll in the pool is charged after it has ended.
        until("the last poll is charged", || {
            !runtime.stats().classes[video.index()].heavy.is_zero()
        });
    });
}

#[test]
fn only_a_task_changes_its_class() {
    watched("no task", || {
        let (runtime, _, video) = two_runtimes();
        let outside = move || (task::class(), task::change_class(video).is_ok());
        assert_eq!(outside(), (None, false));
        assert_eq!(runtime.block_on(async { outside() }), (None, false));
        let work = runtime.spawn_blocking(outside);
        // Blocking work has the class of who asked for it, and keeps it.
        let normal = Some(Class::NORMAL);
        assert_eq!(runtime.block_on(work).unwrap(), (normal, false));
        let error = task::change_class(video).unwrap_err();
        assert!(error.to_string().contains("no task"), "{error}");
    });
}

/// The message of a panic in `body`.
fn panic_of(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("it panics");
    panic.downcast_ref::<String>().expect("a message").clone()
}

#[test]
fn a_class_of_another_runtime_panics_with_what_to_do() {
    watched("another's", || {
        let (first, other, video) = two_runtimes();
        let says = "`class 3` is no class of this runtime; ask its handle for the class by name";
        let handle = other.handle();
        let from_outside = [
            panic_of(|| drop(other.spawn_in(video, async {}))),
            panic_of(|| drop(handle.spawn_in(video, async {}))),
            panic_of(|| drop(task::Builder::new().class(video).spawn_on(async {}, handle))),
            panic_of(|| {
                other.block_on(async { drop(evenkeel::spawn_in(video, async {})) });
            }),
            panic_of(|| {
                handle.load(video);
            }),
        ];
        assert_eq!(from_outside, [says; 5]);

        let from_a_task: [fn(Class); 5] = [
            |video| drop(evenkeel::spawn_in(video, async {})),
            |video| drop(Handle::current().spawn_in(video, async {})),
            |video| drop(task::Builder::new().class(video).spawn(async {})),
            |video| drop(JoinSet::new().spawn_in(video, async {})),
            |video| _ = task::change_class(video),
        ];
        for spawn in from_a_task {
            let task = other.spawn(async move { panic_of(|| spawn(video)) });
            assert_eq!(other.block_on(within(task)).unwrap(), says);
        }
        assert_eq!(other.block_on(other.spawn(async { 5 })).unwrap(), 5);
        drop(first);
    });
}

// ---- Sharing CPU time ----

/// Tasks of one class that always have work, and the processor time they have used.
struct Backlog {
    used: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Backlog {
    fn new(runtime: &Runtime, class: Class, poll: Duration, stop: &Arc<AtomicBool>) -> Self {
        let used = Arc::new(AtomicU64::new(0));
        let tasks = (0..4)
            .map(|_| {
                let (used, stop) = (Arc::clone(&used), Arc::clone(stop));
                runtime.spawn_in(class, async move {
                    while !stop.load(SeqCst) {
                        let before = cpu();
                        compute(poll);
                        used.fetch_add((cpu() - before).as_nanos() as u64, SeqCst);
                        yield_now().await;
                    }
                })
            })
            .collect();
        Self { used, tasks }
    }

    fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(SeqCst))
    }
}

/// The ratio of the times that two classes got.
#[derive(Debug)]
struct Ratio {
    /// By the runtime's accounts, which charge a poll's length to its class.
    charged: f64,
    /// By the tasks' own measurement, in processor time.
    used: f64,
    /// The part of the workers' time during which the tasks had a processor.
    let_run: f64,
}

impl Ratio {
    /// Time that the machine took from the workers in the middle of polls, for other programs, is
    /// charged like time that the polls used, so the two agree only if that was little.
    fn is_within(&self, least: f64, most: f64) -> bool {
        let bounds = least..=most;
        bounds.contains(&self.charged) && (self.was_disturbed() || bounds.contains(&self.used))
    }

    fn was_disturbed(&self) -> bool {
        self.let_run < 0.85
    }
}

/// Measures once, and again if the machine took much time from the workers: a second is short
/// compared with the time that may then be charged to one poll.
fn assert_within(measure: impl Fn() -> Ratio, least: f64, most: f64) {
    for left in (0..10).rev() {
        let ratio = measure();
        if ratio.is_within(least, most) {
            return;
        }
        assert!(ratio.was_disturbed() && left > 0, "{ratio:?}");
    }
}

/// Lets both use a second of processor time. Returns the ratio of the times that they got.
fn ratio(runtime: &Runtime, backlogs: [&Backlog; 2], classes: [Class; 2]) -> Ratio {
    let used = || backlogs.map(Backlog::used);
    let spend = |length: Duration| {
        let end = used().iter().sum::<Duration>() + length;
        until("they used the time", || {
            used().iter().sum::<Duration>() >= end
        });
    };
    // By now the time that was owed before is settled.
    spend(Duration::from_millis(300));
    let before = (used(), runtime.stats());
    spend(Duration::from_secs(1));
    let (after, stats) = (used(), runtime.stats().since(&before.1));
    let used = [0, 1].map(|at| (after[at] - before.0[at]).as_secs_f64());
    let run = classes.map(|class| stats.classes[class.index()].run.as_secs_f64());
    let wall: Duration = stats.workers.iter().map(|worker| worker.wall).sum();
    Ratio {
        charged: run[0] / run[1],
        used: used[0] / used[1],
        let_run: (used[0] + used[1]) / wall.as_secs_f64(),
    }
}

fn follows_the_shares(workers: usize) {
    let config = ClassConfig::new();
    let runtime = Builder::new()
        .workers(workers)
        .class("gold", config.share(75))
        .class("iron", config.share(25))
        .build()
        .unwrap();
    let handle = runtime.handle();
    let classes = ["gold", "iron"].map(|name| handle.class(name).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    // The polls of one are twice as long, which must make no difference.
    let gold = Backlog::new(&runtime, classes[0], micros(200), &stop);
    let iron = Backlog::new(&runtime, classes[1], micros(400), &stop);
    let measure = || ratio(&runtime, [&gold, &iron], classes);
    assert_within(measure, 2.0, 4.5);
    handle.set_class(classes[0], config.share(25)).unwrap();
    handle.set_class(classes[1], config.share(75)).unwrap();
    assert_within(measure, 1.0 / 4.5, 0.5);
    stop.store(true, SeqCst);
    for task in gold.tasks.into_iter().chain(iron.tasks) {
        runtime.block_on(within(task)).unwrap();
    }
    runtime.shutdown(LIMIT).unwrap();
}

#[test]
fn classes_with_work_at_all_times_get_cpu_time_by_their_shares_on_one_worker() {
    watched("shares, 1", || follows_the_shares(1));
}

#[test]
fn classes_with_work_at_all_times_get_cpu_time_by_their_shares_on_two_workers() {
    watched("shares, 2", || follows_the_shares(2));
}

// ---- Load ----

#[test]
fn load_grows_with_what_waits_and_is_nothing_when_idle() {
    watched("load", || {
        let runtime = Builder::new()
            .workers(1)
            .hand_off_after(None)
            .build()
            .unwrap();
        let handle = runtime.handle();
        let idle = Load::default();
        assert_eq!((idle.wait, idle.queued), (Duration::ZERO, 0));
        for info in handle.classes() {
            assert_eq!(handle.load(info.class), idle);
        }
        let mut before = idle;
        for count in [10, 100, 1_000] {
            let mut gate = Gate::closed();
            let entrance = gate.entrance();
            let keeper = runtime.spawn_in(Class::BULK, async move {
                for _ in 0..count {
                    drop(evenkeel::spawn(async {}));
                }
                entrance.wait(Hold::Sleeps);
            });
            until("they wait", || gate.arrived() == 1);
            let first = handle.load(Class::BULK);
            // One is in the next-task slot.
            assert!((count - 1..=count).contains(&first.queued), "{first:?}");
            assert!(first.queued > before.queued);
            thread::sleep(Duration::from_millis(30));
            let second = handle.load(Class::BULK);
            assert_eq!(second.queued, first.queued);
            let grown = second.wait.saturating_sub(first.wait);
            assert!(grown >= Duration::from_millis(20), "{first:?} {second:?}");
            assert_eq!(handle.load(Class::NORMAL), idle, "another class");
            gate.open();
            runtime.block_on(within(keeper)).unwrap();
            until("none waits", || handle.load(Class::BULK) == idle);
            before = first;
        }
        runtime.shutdown(LIMIT).unwrap();
    });
}

#[test]
fn the_time_in_which_a_class_had_nothing_to_do_is_no_wait() {
    watched("rest", || {
        let mut builder = Builder::new();
        let runtime = builder.workers(1).hand_off_after(None).build().unwrap();
        // Long enough to be published to the other workers, and noted.
        let busy = async { compute(Duration::from_millis(2)) };
        runtime
            .block_on(within(runtime.spawn_in(Class::BULK, busy)))
            .unwrap();
        let rest = Duration::from_secs(5);
        thread::sleep(rest);
        let burst = runtime.spawn_in(Class::BULK, async {
            for _ in 0..10 {
                drop(evenkeel::spawn(async {}));
            }
            Handle::current().load(Class::BULK)
        });
        let load = runtime.block_on(within(burst)).unwrap();
        assert!(load.queued > 0 && load.wait < rest / 2, "{load:?}");
        runtime.shutdown(LIMIT).unwrap();
    });
}
