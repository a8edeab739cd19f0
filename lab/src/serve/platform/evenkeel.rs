//! Evenkeel as a platform: with its defaults, but for what the flags ask.

mod classes;
mod log;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use evenkeel::fs::File;
use evenkeel::net::{self, TcpStream};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::{DeliveryStats, Stats, WorkerStats};
use hyper::rt::Executor;

use super::{BACKLOG, Platform, Settings, micros};
use crate::error::{Error, Result};
use crate::serve::args::{ClassName, Delivery};
use crate::serve::stats::{Checks, ClassTimes, Delivered, RuntimeStats, Waits, WorkerTimes};

/// The runtime of this project.
pub(crate) struct Evenkeel {
    runtime: Runtime,
    started: Instant,
}

impl Platform for Evenkeel {
    const NAME: &'static str = "evenkeel";
    type HyperStream = TcpStream;
    type File = File;
    type Class = evenkeel::Class;
    const HAS_CLASSES: bool = true;
    const HAS_DELIVERY: bool = true;

    same_names!(evenkeel);

    fn start(settings: Settings<'_>) -> Result<Self> {
        let mut builder = Builder::new();
        builder.workers(settings.workers);
        builder.real_time_workers(settings.real_time);
        if let Some(level) = settings.busy_wait {
            builder.busy_wait(level);
        }
        if let Some(events) = settings.io_check_events {
            builder.io_check_events(events);
        }
        if let Some(bound) = settings.io_check {
            builder.io_check_bound(bound);
        }
        classes::configure(&mut builder, &settings);
        let runtime = builder.build();
        let runtime = runtime.map_err(|error| Error::Runtime {
            runtime: Self::NAME,
            reason: error.to_string(),
        })?;
        Ok(Evenkeel {
            runtime,
            started: Instant::now(),
        })
    }

    fn stats((handle, started): &Self::Observer) -> RuntimeStats {
        let wall_us = micros(started.elapsed());
        let stats = handle.stats();
        let classes = classes::times(&stats);
        RuntimeStats {
            runtime: Self::NAME.to_owned(),
            wall_us,
            workers: stats.workers.iter().map(worker).collect(),
            heavy: Some(classes::heavy(&stats)),
            hogs: classes::hogs(&stats),
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

    fn class((handle, _): &Self::Observer, name: &ClassName) -> Option<evenkeel::Class> {
        classes::find(handle, name)
    }

    fn execute(future: impl Future<Output = ()> + Send + 'static) {
        evenkeel::hyper::Executor.execute(future);
    }

    #[track_caller]
    fn spawn_in(
        class: Option<evenkeel::Class>,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        classes::spawn(class, name, future);
    }

    async fn checkpoint() {
        evenkeel::task::checkpoint().await;
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

    async fn create(path: PathBuf) -> io::Result<File> {
        File::create(path).await
    }

    async fn open(path: PathBuf) -> io::Result<File> {
        File::open(path).await
    }

    async fn write_at(file: &File, bytes: Vec<u8>, offset: u64) -> io::Result<Vec<u8>> {
        file.write_all_at(bytes, offset).await
    }

    async fn sync_data(file: &File) -> io::Result<()> {
        file.sync_data().await
    }

    async fn sync_all(file: &File) -> io::Result<()> {
        file.sync_all().await
    }

    async fn stat(path: PathBuf) -> io::Result<u64> {
        Ok(evenkeel::fs::metadata(path).await?.len())
    }

    async fn serve_log(address: SocketAddr, directory: PathBuf) -> Result<SocketAddr> {
        log::serve(address, directory).await
    }

    /// The stream itself: it has hyper's traits.
    fn hyper_stream(stream: TcpStream) -> TcpStream {
        stream
    }
}

fn worker(worker: &WorkerStats) -> WorkerTimes {
    WorkerTimes {
        run_us: micros(worker.run()),
        check_us: Some(micros(worker.check)),
        spin_us: Some(micros(worker.spin)),
        park_us: Some(micros(worker.park)),
        steal_us: Some(micros(worker.steal)),
        lend_us: Some(micros(worker.lend)),
        parks: Some(worker.parks),
    }
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
    let origins = [
        ("due", checks.due),
        ("idle", checks.idle),
        ("spin", checks.spin),
        ("monitor", checks.monitor),
    ];
    let counts = origins.map(|(origin, counts)| {
        let (total, empty) = (counts.total(), counts.empty);
        (origin.to_owned(), Checks { total, empty })
    });
    counts.into()
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
