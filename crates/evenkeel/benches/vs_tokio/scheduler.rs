//! The seven benchmarks by which Tokio judges changes to its own scheduler: the same loads, with
//! the same numbers (its `benches/rt_multi_threaded.rs`).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::Better;
use tokio::sync::oneshot;

use crate::CONTENDERS;
use crate::options::Options;
use crate::peer::{Evenkeel, Peer, Tokio};

pub(crate) const PART: &str = "scheduler";

const WORKERS: usize = 4;
const SPAWNS: usize = 10_000;
/// With workers that are kept busy by spawning, a tenth, as there.
const SPAWNS_BUSY: usize = 1_000;
const STALL: Duration = Duration::from_micros(10);

/// One benchmark: makes its runtime, and gives a function that runs one iteration.
type Make = fn() -> Box<dyn FnMut()>;

pub(crate) fn compare(options: &Options) -> io::Result<Vec<Comparison>> {
    let title = "scheduler: time for one iteration";
    let mut table = Comparison::new(title, "us", Better::Less, &CONTENDERS);
    let pairs = all::<Evenkeel>().into_iter().zip(all::<Tokio>());
    for ((name, evenkeel), (_, tokio)) in pairs.filter(|((name, _), _)| options.wants(PART, name)) {
        let measure = |make: &Make| Ok::<_, io::Error>(iteration_us(*make, options.sample()));
        let figures = alternate_aloud(name, options.rounds(), &[evenkeel, tokio], measure)?;
        table.add(name, &figures);
    }
    Ok(vec![table])
}

/// The names of the rows.
pub(crate) fn rows() -> Vec<&'static str> {
    all::<Evenkeel>()
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// The mean time of an iteration, on a runtime made for it and ended after it.
fn iteration_us(make: Make, sample: Duration) -> f64 {
    let mut iterate = make();
    let warm_up = Instant::now();
    while warm_up.elapsed() < sample / 4 {
        iterate();
    }
    let began = Instant::now();
    let mut iterations = 0u32;
    while began.elapsed() < sample {
        iterate();
        iterations += 1;
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(iterations)
}

/// The benchmarks, by name.
fn all<P: Peer>() -> Vec<(&'static str, Make)> {
    vec![
        ("spawn_many_local", spawn_many_local::<P> as Make),
        ("spawn_many_remote_idle", spawn_many_remote_idle::<P>),
        ("spawn_many_remote_busy1", spawn_many_remote_busy1::<P>),
        ("spawn_many_remote_busy2", spawn_many_remote_busy2::<P>),
        ("yield_many", yield_many::<P>),
        ("ping_pong", ping_pong::<P>),
        ("chained_spawn", chained_spawn::<P>),
    ]
}

/// Spawns many tasks from within; the last one to end says so.
fn spawn_many_local<P: Peer>() -> Box<dyn FnMut()> {
    let peer = P::new(WORKERS);
    let (done, finished) = mpsc::sync_channel(1_000);
    let left = Arc::new(AtomicUsize::new(0));
    Box::new(move || {
        left.store(SPAWNS, Relaxed);
        peer.block_on(async {
            for _ in 0..SPAWNS {
                let (done, left) = (done.clone(), left.clone());
                P::spawn_here(async move {
                    if left.fetch_sub(1, Relaxed) == 1 {
                        done.send(()).expect("the benchmark waits");
                    }
                });
            }
            finished.recv().expect("the last task reports");
        });
    })
}

/// Spawns from outside and awaits each.
fn spawn_and_join<P: Peer>(peer: &P, handles: &mut Vec<P::Join>, count: usize) {
    for _ in 0..count {
        handles.push(peer.spawn(async {}));
    }
    peer.block_on(async {
        for handle in handles.drain(..) {
            handle.await.expect("the task does nothing");
        }
    });
}

fn spawn_many_remote_idle<P: Peer>() -> Box<dyn FnMut()> {
    let peer = P::new(WORKERS);
    let mut handles = Vec::with_capacity(SPAWNS);
    Box::new(move || spawn_and_join(&peer, &mut handles, SPAWNS))
}

/// Lets the tasks that keep a runtime busy end when its benchmark does.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// The workers are busy with tasks that compute and yield.
fn spawn_many_remote_busy1<P: Peer>() -> Box<dyn FnMut()> {
    let peer = P::new(WORKERS);
    let busy = Busy(Arc::new(AtomicBool::new(true)));
    for _ in 0..2 * WORKERS {
        let flag = busy.0.clone();
        drop(peer.spawn(async move {
            while flag.load(Relaxed) {
                P::yield_now().await;
                stall();
            }
        }));
    }
    let mut handles = Vec::with_capacity(SPAWNS);
    Box::new(move || {
        let _busy = &busy;
        spawn_and_join(&peer, &mut handles, SPAWNS);
    })
}

/// The workers are busy with tasks that compute and spawn the next of their kind.
fn spawn_many_remote_busy2<P: Peer>() -> Box<dyn FnMut()> {
    fn again<P: Peer>(flag: Arc<AtomicBool>) {
        P::spawn_here(async move {
            if flag.load(Relaxed) {
                stall();
                again::<P>(flag);
            }
        });
    }
    let peer = P::new(WORKERS);
    let busy = Busy(Arc::new(AtomicBool::new(true)));
    for _ in 0..WORKERS {
        let flag = busy.0.clone();
        drop(peer.spawn(async move { again::<P>(flag) }));
    }
    let mut handles = Vec::with_capacity(SPAWNS_BUSY);
    Box::new(move || {
        let _busy = &busy;
        spawn_and_join(&peer, &mut handles, SPAWNS_BUSY);
    })
}

/// Many tasks that do nothing but yield.
fn yield_many<P: Peer>() -> Box<dyn FnMut()> {
    const YIELDS: usize = 1_000;
    const TASKS: usize = 200;
    let peer = P::new(WORKERS);
    let (done, finished) = mpsc::sync_channel(TASKS);
    Box::new(move || {
        for _ in 0..TASKS {
            let done = done.clone();
            drop(peer.spawn(async move {
                for _ in 0..YIELDS {
                    P::yield_now().await;
                }
                done.send(()).expect("the benchmark waits");
            }));
        }
        for _ in 0..TASKS {
            finished.recv().expect("every task reports");
        }
    })
}

/// Pairs of tasks that wake each other once.
fn ping_pong<P: Peer>() -> Box<dyn FnMut()> {
    const PINGS: usize = 1_000;
    let peer = P::new(WORKERS);
    let (done, finished) = mpsc::sync_channel(1_000);
    let left = Arc::new(AtomicUsize::new(0));
    Box::new(move || {
        left.store(PINGS, Relaxed);
        let (done, left) = (done.clone(), left.clone());
        peer.block_on(async {
            P::spawn_here(async move {
                for _ in 0..PINGS {
                    let (done, left) = (done.clone(), left.clone());
                    P::spawn_here(async move {
                        ping::<P>().await;
                        if left.fetch_sub(1, Relaxed) == 1 {
                            done.send(()).expect("the benchmark waits");
                        }
                    });
                }
            });
            finished.recv().expect("the last pair reports");
        });
    })
}

async fn ping<P: Peer>() {
    let (there, pinged) = oneshot::channel();
    let (back, ponged) = oneshot::channel();
    P::spawn_here(async move {
        pinged.await.expect("the pinger waits");
        back.send(()).expect("the pinger waits");
    });
    there.send(()).expect("the ponger waits");
    ponged.await.expect("the ponger answers");
}

/// Each task spawns the next.
fn chained_spawn<P: Peer>() -> Box<dyn FnMut()> {
    const LINKS: usize = 1_000;
    fn link<P: Peer>(done: mpsc::SyncSender<()>, left: usize) {
        if left == 0 {
            done.send(()).expect("the benchmark waits");
        } else {
            P::spawn_here(async move { link::<P>(done, left - 1) });
        }
    }
    let peer = P::new(WORKERS);
    let (done, finished) = mpsc::sync_channel(1_000);
    Box::new(move || {
        let done = done.clone();
        peer.block_on(async {
            P::spawn_here(async move { link::<P>(done, LINKS) });
            finished.recv().expect("the last link reports");
        });
    })
}

fn stall() {
    let began = Instant::now();
    while began.elapsed() < STALL {
        std::thread::yield_now();
    }
}
