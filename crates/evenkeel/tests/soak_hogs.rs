//! Hogs of all sorts at random, for as long as one likes: every task is accounted for, the workers'
//! times add up, and nothing is left behind.
//!
//! It takes 8 seconds, or as many as `EVENKEEL_SOAK_SECONDS` says. One test in a process of its
//! own, as it counts the descriptors of the process.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::Stats;
use evenkeel::task::{JoinHandle, yield_now};
use evenkeel::{Class, ClassConfig};
use hang::{until, watched};
use hogs::{compute, threads_named};
use nix::time::{ClockId, clock_gettime};
use support::descriptors;
use tokio::sync::Notify;

/// How long each runtime is kept busy.
const ROUND: Duration = Duration::from_millis(1_200);
/// The most tasks that have not ended at any time.
const LIVE_MAX: usize = 96;
/// The name of the runtimes' threads.
const NAME: &str = "hogging";

/// Pseudo-random numbers: Marsaglia's xorshift with 64 bits.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    /// Up to `most`, and usually much less.
    fn micros(&mut self, most: u64) -> Duration {
        let limit = 100 + self.below(most - 99);
        Duration::from_micros(100 + self.below(limit - 99))
    }
}

/// State that the tasks of one runtime share.
struct World {
    live: AtomicUsize,
    begun: AtomicUsize,
    dropped: AtomicUsize,
    classes: Vec<Class>,
    bells: Vec<Notify>,
    handles: mpsc::Sender<JoinHandle<()>>,
}

/// Counts a task's future, and its end, in whatever way it ends.
struct Life(Arc<World>);

impl Life {
    fn new(world: &Arc<World>) -> Self {
        world.live.fetch_add(1, SeqCst);
        world.begun.fetch_add(1, SeqCst);
        Self(Arc::clone(world))
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, SeqCst);
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

/// Does a few random things.
async fn live(life: Life, seed: u64, depth: u32) {
    let (world, mut random) = (Arc::clone(&life.0), Random::new(seed));
    for _ in 0..1 + random.below(6) {
        match random.below(16) {
            0 | 1 => compute(random.micros(20_000)),
            2 | 3 => thread::sleep(random.micros(20_000)),
            4 | 5 if depth > 0 => spawn(&world, &mut random, depth - 1),
            6 => evenkeel::time::sleep(random.micros(5_000)).await,
            7 => ring(&world, &mut random),
            8 | 9 => {
                let bell = random.below(world.bells.len() as u64) as usize;
                let wait = world.bells[bell].notified();
                // No task may come to release it.
                let _ = evenkeel::time::timeout(random.micros(5_000), wait).await;
            }
            10 => change_a_class(&world, &mut random),
            11 if random.below(4) == 0 => resume_unwind(Box::new("on purpose")),
            // Some of these make the runtime take a task out of the pool again.
            12 => {
                for _ in 0..10 {
                    yield_now().await;
                }
            }
            _ => yield_now().await,
        }
    }
}

fn ring(world: &World, random: &mut Random) {
    let bell = random.below(world.bells.len() as u64) as usize;
    world.bells[bell].notify_one();
}

fn change_a_class(world: &World, random: &mut Random) {
    let class = world.classes[random.below(world.classes.len() as u64) as usize];
    let config = ClassConfig::new()
        .share(1 + random.below(100) as u32)
        .latency_target(random.micros(20_000));
    Handle::current().set_class(class, config).unwrap();
}

/// Spawns from a task, on whatever thread it runs.
fn spawn(world: &Arc<World>, random: &mut Random, depth: u32) {
    if world.live.load(SeqCst) >= LIVE_MAX {
        return;
    }
    let task = live(Life::new(world), random.below(u64::MAX), depth);
    let class = random.below(2 * world.classes.len() as u64) as usize;
    let handle = match world.classes.get(class) {
        Some(class) => evenkeel::spawn_in(*class, task),
        None => evenkeel::spawn(task),
    };
    if random.below(8) == 0 {
        handle.abort();
    }
    world.handles.send(handle).unwrap();
}

/// How tasks ended.
#[derive(Debug, Default)]
struct Ends {
    completed: usize,
    panicked: usize,
    cancelled: usize,
}

impl Ends {
    fn all(&self) -> usize {
        self.completed + self.panicked + self.cancelled
    }

    fn count(&mut self, outside: &Runtime, handles: impl Iterator<Item = JoinHandle<()>>) {
        for handle in handles {
            match outside.block_on(support::within(handle)) {
                Ok(()) => self.completed += 1,
                Err(error) if error.is_panic() => self.panicked += 1,
                Err(error) => {
                    assert!(error.is_cancelled(), "{error}");
                    self.cancelled += 1;
                }
            }
        }
    }
}

/// A runtime whose heavy pool may have few threads or many, and the state that its tasks share.
fn begin(random: &mut Random) -> (Runtime, Arc<World>, mpsc::Receiver<JoinHandle<()>>) {
    let limit = [1, 2, 4, 16][random.below(4) as usize];
    let runtime = Builder::new()
        .workers(1 + random.below(3) as usize)
        .heavy_threads(limit)
        .hand_off_after(Some(Duration::from_micros(200 + random.below(2_000))))
        .class("own", ClassConfig::new().share(40))
        .thread_name(NAME)
        .build()
        .unwrap();
    let classes = runtime.handle().classes();
    let (handles, spawned) = mpsc::channel();
    let world = World {
        live: AtomicUsize::new(0),
        begun: AtomicUsize::new(0),
        dropped: AtomicUsize::new(0),
        classes: classes.iter().map(|info| info.class).collect(),
        bells: (0..8).map(|_| Notify::new()).collect(),
        handles,
    };
    (runtime, Arc::new(world), spawned)
}

/// The life of one runtime, which ends by itself or in the middle. Returns how its tasks ended, and
/// its statistics.
fn round(outside: &Runtime, seed: u64, length: Duration, ends_by_itself: bool) -> (Ends, Stats) {
    let mut random = Random::new(seed);
    let (runtime, world, spawned) = begin(&mut random);
    let mut ends = Ends::default();
    let mut handles = Vec::new();
    let began = Instant::now();
    while began.elapsed() < length {
        if world.live.load(SeqCst) < LIVE_MAX / 2 {
            let class = world.classes[random.below(world.classes.len() as u64) as usize];
            let task = live(Life::new(&world), random.below(u64::MAX), 3);
            handles.push(runtime.spawn_in(class, task));
        } else {
            thread::sleep(random.micros(2_000));
        }
        handles.extend(spawned.try_iter());
        if random.below(8) == 0 && !handles.is_empty() {
            handles[random.below(handles.len() as u64) as usize].abort();
        }
        ring(&world, &mut random);
        let ended = handles.extract_if(.., |handle| handle.is_finished());
        ends.count(outside, ended);
    }
    if ends_by_itself {
        until("no task is left", || world.live.load(SeqCst) == 0);
        until("the pool has nothing to do", || {
            let stats = runtime.stats();
            let heavy = (stats.heavy.running, stats.heavy.queued, stats.heavy.threads);
            (heavy, stats.tasks_waiting) == ((0, 0, 0), 0)
        });
    }
    let stats = runtime.stats();
    runtime.shutdown(Duration::from_secs(60)).unwrap();
    ends.count(outside, handles.into_iter().chain(spawned.try_iter()));
    let begun = world.begun.load(SeqCst);
    assert_eq!(ends.all(), begun, "every task has an end: {ends:?}");
    assert_eq!(world.dropped.load(SeqCst), begun, "every future is dropped");
    (ends, stats)
}

/// The runtime's own figures agree with each other and with the process's.
fn check(stats: &Stats, used: Duration) {
    for worker in &stats.workers {
        let sum =
            worker.run() + worker.check + worker.spin + worker.park + worker.steal + worker.lend;
        let rounding = Duration::from_micros(1);
        assert!(
            sum.abs_diff(worker.wall) <= worker.wall / 100 + rounding,
            "{sum:?} {worker:?}"
        );
    }
    let heavy: Duration = stats.classes.iter().map(|class| class.heavy).sum();
    assert!(heavy <= used, "{heavy:?} of {used:?} used");
    let heavy = &stats.heavy;
    assert!(heavy.threads <= heavy.limit + heavy.blocked_limit);
    let hogs: u64 = stats.hogs.iter().map(|hogs| hogs.count).sum();
    assert!(
        hogs + heavy.early >= heavy.hand_offs,
        "each hand-off has a hog, or was made on guard: {stats:?}"
    );
}

/// Processor time that this process has used.
fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .unwrap()
        .into()
}

fn seconds() -> u64 {
    let Some(given) = std::env::var_os("EVENKEEL_SOAK_SECONDS") else {
        return 8;
    };
    let seconds = given.to_str().and_then(|given| given.parse().ok());
    seconds.unwrap_or_else(|| panic!("EVENKEEL_SOAK_SECONDS is {given:?}, which is no number"))
}

#[test]
fn whatever_hogs_do_every_task_is_accounted_for_and_nothing_is_left() {
    let outside = Builder::new().workers(1).build().unwrap();
    let before = descriptors();
    let began = Instant::now();
    let length = Duration::from_secs(seconds());
    let (mut all, mut hand_offs) = (Ends::default(), 0);
    let mut seed = 0;
    // Beside pauses of the preemption harness a few rounds may pass without a hand-off.
    let lacks = |hand_offs| hand_offs == 0 && began.elapsed() < Duration::from_secs(60);
    while began.elapsed() < length || lacks(hand_offs) {
        seed += 1;
        let ends_by_itself = seed % 2 == 1;
        watched(&format!("round {seed}"), || {
            let used_before = used();
            let (ends, stats) = round(&outside, seed, ROUND, ends_by_itself);
            check(&stats, used() - used_before);
            hand_offs += stats.heavy.hand_offs;
            all.completed += ends.completed;
            all.panicked += ends.panicked;
            all.cancelled += ends.cancelled;
            until("the threads have ended", || threads_named(NAME) == 0);
            assert_eq!(descriptors(), before);
        });
    }
    eprintln!("{seed} rounds, {hand_offs} hand-offs, {all:?}");
    assert!(hand_offs > 0 && all.completed > 0 && all.panicked > 0 && all.cancelled > 0);
}
