//! Evenkeel as a platform: with its defaults, but for what the flags ask.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::net::{self, TcpStream};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::{CheckCounts, DeliveryStats, Stats, WorkerStats};
use evenkeel::{Class, ClassConfig, task};
use hyper::rt::Executor;
use serde_json::{Value, json};
use txlog::log::{LocalDisk, Log, LogConfig};
use txlog::server::{Server, ServerConfig};

use super::{BACKLOG, Platform, failed, micros, named};
use crate::error::{Error, Result};
use crate::serve::args::{ClassName, Delivery, RuntimeArgs};
use crate::serve::lifetime;
use crate::serve::stats::{Checks, ClassTimes, Delivered, RuntimeStats, Waits, WorkerTimes};

/// As many connections of the log server as the process may have.
const LOG_CONNECTIONS_MAX: usize = 20_000;
/// Each of them counts with 64 KiB, and there has to be room for records.
const LOG_MEMORY_BYTES: usize = 2 << 30;

/// The runtime of this project.
#[derive(Clone)]
pub(crate) struct Evenkeel {
    runtime: Arc<Runtime>,
    started: Instant,
}

impl Platform for Evenkeel {
    const NAME: &'static str = "evenkeel";
    type HyperStream = TcpStream;
    type Class = Class;
    const HAS_CLASSES: bool = true;
    const HAS_DELIVERY: bool = true;

    same_names!(evenkeel);

    fn start(args: &RuntimeArgs) -> Result<Self> {
        let mut builder = Builder::new();
        builder.workers(args.workers());
        builder.real_time_workers(args.real_time_workers);
        if let Some(level) = args.busy_wait {
            builder.busy_wait(level);
        }
        if let Some(events) = args.io_check_events {
            builder.io_check_events(events);
        }
        if let Some(us) = args.io_check_us {
            builder.io_check_bound(Duration::from_micros(us));
        }
        for (name, share) in args.shares.iter().flat_map(|shares| &shares.0) {
            builder.class(name.as_str(), ClassConfig::new().share(*share));
        }
        if let Some(hand_off) = args.handoff_us {
            builder.hand_off_after(hand_off);
        }
        let runtime = builder.build().map_err(failed(Self::NAME))?;
        if let Some(address) = args.admin_page {
            let address = address.to_string();
            let admin = runtime.block_on(evenkeel_admin::listen(&address));
            let admin = admin.map_err(|error| Error::new(error.to_string()))?;
            lifetime::print_line(&format!("admin-page {}", admin.address()));
        }
        Ok(Evenkeel {
            runtime: Arc::new(runtime),
            started: Instant::now(),
        })
    }

    fn stats(&self) -> RuntimeStats {
        let wall_us = micros(self.started.elapsed());
        let handle = self.runtime.handle();
        let stats = handle.stats();
        let classes = classes(&stats);
        RuntimeStats {
            runtime: Self::NAME.to_owned(),
            wall_us,
            workers: stats.workers.iter().map(worker).collect(),
            heavy: Some(heavy(&stats)),
            hogs: hogs(&stats),
            tasks_active: Some(waiting(handle)),
            tasks: Some(stats.tasks_waiting as u64),
            checks: checks(&stats),
            polls: Some(classes.iter().map(|class| class.polls).sum()),
            deliveries: Some(stats.readiness.deliveries),
            delivery: Some(delivery(&stats.delivery)),
            waits: waits(&classes),
            classes,
        }
    }

    fn class(&self, name: &ClassName) -> Option<Class> {
        self.runtime.handle().class(name.as_str())
    }

    fn execute(future: impl Future<Output = ()> + Send + 'static) {
        evenkeel::hyper::Executor.execute(future);
    }

    #[track_caller]
    fn spawn_in(
        class: Option<Class>,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let builder = task::Builder::new().name(name);
        let builder = match class {
            Some(class) => builder.class(class),
            None => builder,
        };
        // Dropping the handle lets the task run on by itself.
        drop(builder.spawn(future));
    }

    async fn checkpoint() {
        task::checkpoint().await;
    }

    fn set_delivery(stream: &TcpStream, delivery: Delivery) -> io::Result<()> {
        let millis = |ms: u32| Duration::from_millis(ms.into());
        stream.set_delivery(match delivery {
            Delivery::Immediate => net::Delivery::Immediate,
            Delivery::Coalesce { bytes, ms } => net::Delivery::Coalesce {
                bytes: bytes as usize,
                delay: millis(ms),
            },
            Delivery::Adaptive { ms } => net::Delivery::Adaptive {
                max_delay: millis(ms),
            },
        })
    }

    async fn write_at(file: &Self::File, bytes: Vec<u8>, offset: u64) -> io::Result<Vec<u8>> {
        file.write_all_at(bytes, offset).await
    }

    /// As the log server's own program has it.
    async fn serve_log(address: SocketAddr, directory: PathBuf) -> Result<SocketAddr> {
        let disk = LocalDisk::hold(&directory).await;
        let disk = disk.map_err(Error::log(&directory))?;
        let log = Log::open(disk, LogConfig::default()).await;
        let (log, _) = log.map_err(Error::log(&directory))?;
        let config = ServerConfig {
            connections_max: LOG_CONNECTIONS_MAX,
            memory_bytes: LOG_MEMORY_BYTES,
            ..ServerConfig::default()
        };
        let refused = Error::listen("log", address);
        let server = Server::bind(address, log, config).await;
        let server = server.map_err(|error| refused(io::Error::other(error)))?;
        let bound = server.local_addr().map_err(&refused)?;
        drop(evenkeel::spawn(async move {
            if let Err(error) = server.run(pending()).await {
                eprintln!("log: {error}");
            }
        }));
        Ok(bound)
    }

    /// The stream itself: it has hyper's traits.
    fn hyper_stream(stream: TcpStream) -> TcpStream {
        stream
    }
}

fn worker(worker: &WorkerStats) -> WorkerTimes {
    named([
        ("run_us", micros(worker.run())),
        ("check_us", micros(worker.check)),
        ("spin_us", micros(worker.spin)),
        ("park_us", micros(worker.park)),
        ("steal_us", micros(worker.steal)),
        ("lend_us", micros(worker.lend)),
        ("parks", worker.parks),
    ])
}

fn delivery(delivery: &DeliveryStats) -> Delivered {
    Delivered {
        deliveries: delivery.deliveries,
        bytes: delivery.bytes,
        reads: delivery.reads,
        empty_reads: delivery.empty_reads,
        held_back: in_micros(delivery.added_delay.buckets()),
        longest_us: delivery.longest_delay.as_secs_f64() * 1e6,
    }
}

/// Buckets whose upper ends are in microseconds.
fn in_micros(buckets: impl Iterator<Item = (Duration, u64)>) -> Waits {
    let micros = |(upper, count): (Duration, u64)| (upper.as_secs_f64() * 1e6, count);
    buckets.map(micros).collect()
}

/// Ready tasks of all classes.
fn waiting(handle: &Handle) -> u64 {
    let classes = handle.classes();
    let queued = classes.iter().map(|info| handle.load(info.class).queued);
    queued.sum::<usize>() as u64
}

/// I/O checks by what made them due.
fn checks(Stats { checks, .. }: &Stats) -> BTreeMap<String, Checks> {
    let counts = |of: &CheckCounts| Checks {
        total: of.total(),
        empty: of.empty,
    };
    named([
        ("due", counts(&checks.due)),
        ("idle", counts(&checks.idle)),
        ("spin", counts(&checks.spin)),
        ("monitor", counts(&checks.monitor)),
    ])
}

/// Ready-to-run delays of all classes; each class has the same buckets.
fn waits(classes: &[ClassTimes]) -> Waits {
    let mut sums = Waits::new();
    for class in classes {
        sums.resize(class.waits.len(), (0.0, 0));
        for (sum, &(upper, count)) in sums.iter_mut().zip(&class.waits) {
            *sum = (upper, sum.1 + count);
        }
    }
    sums
}

/// What each class had.
fn classes(stats: &Stats) -> Vec<ClassTimes> {
    let times = stats.classes.iter().map(|class| ClassTimes {
        name: class.name.clone(),
        share: Some(class.share),
        run_us: micros(class.run),
        heavy_us: Some(micros(class.heavy)),
        polls: class.polls,
        waits: in_micros(class.waits.buckets()),
    });
    times.collect()
}

/// The heavy pool, and the thread that looks for stuck workers.
fn heavy(stats: &Stats) -> Value {
    let heavy = &stats.heavy;
    json!({
        "threads": heavy.threads,
        "limit": heavy.limit,
        "queued": heavy.queued,
        "running": heavy.running,
        "hand_offs": heavy.hand_offs,
        "refused": heavy.refused,
        "monitor_us": micros(heavy.monitor),
        "priority": format!("{:?}", heavy.priority).to_lowercase(),
    })
}

/// Whose polls were too long, by the place that spawned them.
fn hogs(stats: &Stats) -> Vec<Value> {
    let places = stats.hogs.iter().map(|hog| {
        let mut place = json!({
            "spawned_at": hog.spawned_at.to_string(),
            "count": hog.count,
            "longest_us": micros(hog.longest),
            "in_pool": hog.in_pool,
        });
        if let Some(name) = hog.name.as_deref() {
            place["name"] = name.into();
        }
        place
    });
    places.collect()
}
