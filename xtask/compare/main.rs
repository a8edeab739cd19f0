//! Two versions of the runtime in one process, which alternate in the scheduler's benchmarks.
//!
//! `cargo xtask compare` builds it with one version as `before` and the other as `after`. In two
//! processes the machine's mood would weigh more than a change of some per cent does.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use clap::Parser;
use evenkeel_measure::options::JsonOption;
use evenkeel_measure::rounds::alternate;
use evenkeel_measure::statistics::{Spread, median};
use evenkeel_measure::table::{Cell, Table};

/// Runtimes' threads, as in Tokio's own benchmarks of its scheduler.
const WORKERS: usize = 4;
/// The rounds are looked at in so many parts as well, whose spread tells noise from a difference.
const PARTS: usize = 5;

/// The benchmarks, for one version of the runtime.
macro_rules! version {
    ($version:ident) => {
        mod $version {
            use super::*;
            use ::$version as evenkeel;

            pub struct Runtime(evenkeel::runtime::Runtime);

            impl Runtime {
                pub fn new() -> Self {
                    let mut builder = evenkeel::runtime::Builder::new();
                    Self(builder.workers(WORKERS).build().expect("it can be built"))
                }

                /// A task spawns a task that spawns a task, a thousand deep.
                pub fn chained_spawn(&self) {
                    fn link(done: mpsc::SyncSender<()>, left: usize) {
                        if left == 0 {
                            done.send(()).expect("somebody waits");
                        } else {
                            drop(evenkeel::spawn(async move { link(done, left - 1) }));
                        }
                    }
                    let (done, ended) = mpsc::sync_channel(1);
                    self.0.block_on(async {
                        drop(evenkeel::spawn(async move { link(done, 1_000) }));
                        ended.recv().expect("it ends");
                    });
                }

                /// A thousand tasks, each of which spawns one, wakes it, and is woken by it.
                pub fn ping_pong(&self) {
                    async fn one() {
                        let (there, pinged) = tokio::sync::oneshot::channel();
                        let (back, ponged) = tokio::sync::oneshot::channel();
                        drop(evenkeel::spawn(async move {
                            pinged.await.expect("it is sent");
                            back.send(()).expect("somebody waits");
                        }));
                        there.send(()).expect("somebody waits");
                        ponged.await.expect("it is sent");
                    }
                    let (done, ended) = mpsc::sync_channel(1);
                    let left = Arc::new(AtomicUsize::new(1_000));
                    self.0.block_on(async {
                        drop(evenkeel::spawn(async move {
                            for _ in 0..1_000 {
                                let (done, left) = (done.clone(), left.clone());
                                drop(evenkeel::spawn(async move {
                                    one().await;
                                    if left.fetch_sub(1, Relaxed) == 1 {
                                        done.send(()).expect("somebody waits");
                                    }
                                }));
                            }
                        }));
                        ended.recv().expect("it ends");
                    });
                }

                /// Two hundred tasks that yield two hundred times each.
                pub fn yield_many(&self) {
                    let (done, ended) = mpsc::sync_channel(200);
                    self.0.block_on(async {
                        for _ in 0..200 {
                            let done = done.clone();
                            drop(evenkeel::spawn(async move {
                                for _ in 0..200 {
                                    evenkeel::task::yield_now().await;
                                }
                                done.send(()).expect("somebody waits");
                            }));
                        }
                        for _ in 0..200 {
                            ended.recv().expect("it ends");
                        }
                    });
                }

                /// Ten thousand tasks, spawned from a runtime's thread.
                pub fn spawn_many_local(&self) {
                    let (done, ended) = mpsc::sync_channel(1);
                    let left = Arc::new(AtomicUsize::new(10_000));
                    self.0.block_on(async {
                        for _ in 0..10_000 {
                            let (done, left) = (done.clone(), left.clone());
                            drop(evenkeel::spawn(async move {
                                if left.fetch_sub(1, Relaxed) == 1 {
                                    done.send(()).expect("somebody waits");
                                }
                            }));
                        }
                        ended.recv().expect("it ends");
                    });
                }

                /// Ten thousand tasks, spawned from another thread.
                pub fn spawn_many_remote(&self) {
                    let tasks: Vec<_> = (0..10_000).map(|_| self.0.spawn(async {})).collect();
                    self.0.block_on(async {
                        for task in tasks {
                            task.await.expect("it does not panic");
                        }
                    });
                }
            }
        }
    };
}

version!(before);
version!(after);

fn micros(work: &dyn Fn()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}

/// Alternates the two, A B B A, and says how they compare.
fn compare(name: &str, rounds: usize, before: &dyn Fn(), after: &dyn Fn()) -> Vec<Cell> {
    eprintln!("{name}");
    for _ in 0..rounds.div_ceil(20) {
        before();
        after();
    }
    let run = |work: &&dyn Fn()| Ok::<_, Infallible>(micros(work));
    let Ok(times) = alternate(rounds, &[before, after], run);
    let pairs = times[0].iter().zip(&times[1]);
    let ratios: Vec<f64> = pairs.map(|(before, after)| after / before).collect();
    let middle = |of: &[f64]| median(of.iter().copied()).expect("there is a round");
    let fifths = ratios.chunks(rounds.div_ceil(PARTS)).map(middle);
    let spread = Spread::of(fifths).expect("there is a round");
    vec![
        name.into(),
        Cell::number(middle(&times[0]), "us", 1),
        Cell::number(middle(&times[1]), "us", 1),
        Cell::number(middle(&ratios), "", 3),
        format!("{spread:.3}").into(),
    ]
}

#[derive(Parser)]
struct Arguments {
    /// Rounds, in each of which both versions run once.
    rounds: usize,
    #[command(flatten)]
    json: JsonOption,
}

fn main() -> std::io::Result<()> {
    let Arguments { rounds, json } = Arguments::parse();
    let mut results = json.begin("compare")?;
    let (a, b) = (before::Runtime::new(), after::Runtime::new());
    macro_rules! row {
        ($benchmark:ident, $rounds:expr) => {
            compare(stringify!($benchmark), $rounds, &|| a.$benchmark(), &|| {
                b.$benchmark()
            })
        };
    }
    let rows = vec![
        row!(chained_spawn, rounds),
        row!(ping_pong, rounds),
        row!(yield_many, rounds / 8),
        row!(spawn_many_local, rounds / 4),
        row!(spawn_many_remote, rounds / 4),
    ];
    let title = format!(
        "{WORKERS} workers, {rounds} rounds: medians; the ratio is the median of all pairs' \
         after/before, and beside it that of each fifth of them"
    );
    let columns = ["benchmark", "before", "after", "ratio", "fifths"];
    let table = Table::new(title, &columns, rows);
    println!("{table}");
    results.add(table, Vec::new())
}
