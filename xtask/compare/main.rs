//! Two versions of the runtime in one process, which alternate in the scheduler's benchmarks and
//! beneath two servers.
//!
//! `cargo xtask compare` builds it with one version as `before` and the other as `after`. In two
//! processes the machine's mood would weigh more than a change of some per cent does. With
//! `--accounts` the former is this tree without accounts.

mod network;

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use clap::Parser;
use evenkeel_measure::options::JsonOption;
use evenkeel_measure::rounds::alternate;
use evenkeel_measure::statistics::{Spread, median};
use evenkeel_measure::table::{Cell, Table};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use network::{GREETING, Load};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runtimes' threads, as in Tokio's own benchmarks of its scheduler.
const WORKERS: usize = 4;
/// The rounds are made in so many parts, whose spread tells noise from a difference. For each, both
/// runtimes are made anew: where the memory of tasks and counters lies may weigh more than a
/// change. In half of the parts one version's is made first, in half the other's.
const PARTS: usize = 10;
/// What the accounts may cost: a hundredth.
const RATIO_MAX: f64 = 1.01;

/// The benchmarks, for one version of the runtime.
macro_rules! version {
    ($version:ident) => {
        mod $version {
            use super::*;
            use ::$version as evenkeel;
            use evenkeel::net::{TcpListener, TcpStream};

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

                /// Connections to a server that sends back what it gets.
                pub fn echo(&self) -> RefCell<Load> {
                    RefCell::new(Load::echo(self.serve(echo)))
                }

                /// Connections to an HTTP server that greets.
                pub fn http_hello(&self) -> RefCell<Load> {
                    RefCell::new(Load::hello(self.serve(hello)))
                }

                /// Starts a server, and returns its port.
                fn serve<F>(&self, serve: fn(TcpStream) -> F) -> u16
                where
                    F: Future<Output = ()> + Send + 'static,
                {
                    let bound = self.0.block_on(TcpListener::bind("127.0.0.1:0"));
                    let listener = bound.expect("the loopback has a port");
                    let address = listener.local_addr().expect("it is bound");
                    drop(self.0.spawn(async move {
                        while let Ok((stream, _)) = listener.accept().await {
                            stream.set_nodelay(true).expect("it is connected");
                            drop(evenkeel::spawn(serve(stream)));
                        }
                    }));
                    address.port()
                }
            }

            async fn echo(mut stream: TcpStream) {
                let mut buffer = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    let written = stream.write_all(&buffer[..length]).await;
                    written.expect("the load reads");
                }
            }

            async fn hello(stream: TcpStream) {
                let greet = service_fn(async |_: Request<Incoming>| {
                    Ok::<_, Infallible>(Response::new(GREETING.to_owned()))
                });
                let server = hyper::server::conn::http1::Builder::new();
                // A connection that breaks is how the load ends.
                let _ = server.serve_connection(stream, greet).await;
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

/// How the two compare in one benchmark.
struct Compared {
    name: String,
    before_us: f64,
    after_us: f64,
    /// The median of all pairs' after/before.
    ratio: f64,
    /// That of each part of the rounds.
    parts: Spread,
}

impl Compared {
    fn cells(&self) -> Vec<Cell> {
        vec![
            self.name.as_str().into(),
            Cell::number(self.before_us, "us", 1),
            Cell::number(self.after_us, "us", 1),
            Cell::number(self.ratio, "", 3),
            format!("{:.3}", self.parts).into(),
        ]
    }
}

/// Alternates two works, A B B A, and returns how long each took each time.
fn times(rounds: usize, before: &dyn Fn(), after: &dyn Fn()) -> Vec<Vec<f64>> {
    for _ in 0..rounds.div_ceil(20) {
        before();
        after();
    }
    let run = |work: &&dyn Fn()| Ok::<_, Infallible>(micros(work));
    let Ok(times) = alternate(rounds, &[before, after], run);
    times
}

/// Says how two versions compare, by how long each took in each part.
fn compared(name: &str, parts: &[Vec<Vec<f64>>]) -> Compared {
    let middle = |of: &[f64]| median(of.iter().copied()).expect("there is a round");
    let of = |version: usize| -> Vec<f64> {
        let times = parts.iter().flat_map(|times| &times[version]);
        times.copied().collect()
    };
    let ratios_in = |times: &Vec<Vec<f64>>| -> Vec<f64> {
        let pairs = times[0].iter().zip(&times[1]);
        pairs.map(|(before, after)| after / before).collect()
    };
    let ratios: Vec<Vec<f64>> = parts.iter().map(ratios_in).collect();
    let of_parts = ratios.iter().map(|ratios| middle(ratios));
    Compared {
        name: name.to_owned(),
        before_us: middle(&of(0)),
        after_us: middle(&of(1)),
        ratio: middle(&ratios.concat()),
        parts: Spread::of(of_parts).expect("there is a part"),
    }
}

#[derive(Parser)]
struct Arguments {
    /// Rounds, in each of which both versions run once.
    rounds: usize,
    /// The former is this tree without accounts.
    #[arg(long)]
    accounts: bool,
    #[command(flatten)]
    json: JsonOption,
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let mut results = arguments.json.begin("compare")?;
    let compared = compare_all(arguments.rounds);
    let (what, columns) = if arguments.accounts {
        ("with/without", ["without accounts", "with them"])
    } else {
        ("after/before", ["before", "after"])
    };
    let title = format!(
        "{WORKERS} workers, {} rounds: medians; the ratio is the median of all pairs' {what}, and \
         beside it that of each part of them",
        arguments.rounds
    );
    let columns = ["benchmark", columns[0], columns[1], "ratio", "parts"];
    let rows: Vec<_> = compared.iter().map(Compared::cells).collect();
    let table = Table::new(title, &columns, rows);
    println!("{table}");
    if arguments.accounts {
        println!("{}", verdict(&compared));
    }
    results.add(table, Vec::new())
}

/// Whether the accounts cost more than they may, by the ratios and by how far these are certain.
fn verdict(compared: &[Compared]) -> String {
    let names = |is: &dyn Fn(&Compared) -> bool| {
        let those = compared.iter().filter(|one| is(one));
        let names: Vec<_> = those.map(|one| one.name.as_str()).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    };
    format!(
        "Dearer with accounts by {:.0} % at most in every part: {}.\n\
         Dearer by more in every part: {}.\nUndecided: {}.",
        (RATIO_MAX - 1.0) * 100.0,
        names(&|one| one.parts.greatest <= RATIO_MAX),
        names(&|one| one.parts.least > RATIO_MAX),
        names(&|one| one.parts.least <= RATIO_MAX && one.parts.greatest > RATIO_MAX),
    )
}

fn compare_all(rounds: usize) -> Vec<Compared> {
    /// All parts: both runtimes are made, in one order or in the other.
    macro_rules! in_parts {
        ($name:expr, |$a:ident, $b:ident| $times:expr) => {{
            eprintln!("{}", $name);
            let part = |part: usize| match part % 2 {
                0 => {
                    let $a = before::Runtime::new();
                    let $b = after::Runtime::new();
                    $times
                }
                _ => {
                    let $b = after::Runtime::new();
                    let $a = before::Runtime::new();
                    $times
                }
            };
            compared($name, &(0..PARTS).map(part).collect::<Vec<_>>())
        }};
    }
    macro_rules! row {
        ($benchmark:ident, $rounds:expr) => {
            in_parts!(stringify!($benchmark), |a, b| {
                times($rounds / PARTS, &|| a.$benchmark(), &|| b.$benchmark())
            })
        };
    }
    macro_rules! served {
        ($server:ident) => {
            in_parts!(stringify!($server), |a, b| {
                let (a, b) = (a.$server(), b.$server());
                let rounds = rounds / 4 / PARTS;
                times(rounds, &|| a.borrow_mut().run(), &|| b.borrow_mut().run())
            })
        };
    }
    vec![
        row!(chained_spawn, rounds),
        row!(ping_pong, rounds),
        row!(yield_many, rounds / 8),
        row!(spawn_many_local, rounds / 4),
        row!(spawn_many_remote, rounds / 4),
        served!(echo),
        served!(http_hello),
    ]
}
