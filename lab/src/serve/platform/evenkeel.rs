//! Evenkeel as a platform: with its defaults, but for what the flags ask.

mod classes;
mod log;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use evenkeel::fs::File;
use evenkeel::net::{self, TcpListener, TcpSocket, TcpStream};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::{CheckCounts, DeliveryStats, Stats, WorkerStats};
use hyper::rt::Executor;

use super::{BACKLOG, Platform, Settings, micros};
use crate::error::{Error, Result};
use crate::serve::args::{BusyWait, ClassName, Delivery};
use crate::serve::stats::{Checks, Delivered, RuntimeStats, WorkerTimes};

/// The runtime of this project.
pub(crate) struct Evenkeel {
    runtime: Runtime,
    started: Instant,
}

impl Platform for Evenkeel {
    const NAME: &'static str = "evenkeel";
    type Listener = TcpListener;
    type Stream = TcpStream;
    type HyperStream = TcpStream;
    type File = File;
    type Observer = (Handle, Instant);
    type Class = evenkeel::Class;
    const HAS_CLASSES: bool = true;
    const HAS_DELIVERY: bool = true;

    fn start(settings: Settings<'_>) -> Result<Self> {
        let mut builder = Builder::new();
        builder.workers(settings.workers);
        builder.real_time_workers(settings.real_time);
        if let Some(level) = settings.busy_wait {
            builder.busy_wait(busy_wait(level));
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

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn observer(&self) -> Self::Observer {
        (self.runtime.handle().clone(), self.started)
    }

    fn stats((handle, started): &Self::Observer) -> RuntimeStats {
        let wall_us = micros(started.elapsed());
        let stats = handle.stats();
        RuntimeStats {
            runtime: Self::NAME.to_owned(),
            wall_us,
            workers: stats.workers.iter().map(worker).collect(),
            classes: classes::times(&stats),
            heavy: Some(classes::heavy(&stats)),
            hogs: classes::hogs(&stats),
            tasks_active: Some(waiting(handle)),
            tasks: Some(stats.tasks_waiting as u64),
            checks: [
                ("due", stats.checks.due),
                ("idle", stats.checks.idle),
                ("spin", stats.checks.spin),
                ("monitor", stats.checks.monitor),
            ]
            .map(|(origin, counts)| (origin.to_owned(), checks(counts)))
            .into(),
            polls: Some(stats.classes.iter().map(|class| class.polls).sum()),
            deliveries: Some(stats.readiness.deliveries),
            delivery: Some(delivery(&stats.delivery)),
            waits: waits(&stats),
        }
    }

    fn class((handle, _): &Self::Observer, name: &ClassName) -> Option<evenkeel::Class> {
        classes::find(handle, name)
    }

    #[track_caller]
    fn spawn(future: impl Future<Output = ()> + Send + 'static) {
        // Dropping the handle lets the task run on by itself.
        drop(evenkeel::spawn(future));
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

    async fn sleep(duration: Duration) {
        evenkeel::time::sleep(duration).await;
    }

    async fn yield_now() {
        evenkeel::task::yield_now().await;
    }

    async fn checkpoint() {
        evenkeel::task::checkpoint().await;
    }

    async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }

    fn local_address(listener: &TcpListener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
        let (stream, _) = listener.accept().await?;
        // As for the peer: the option alone is no reason to fail.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
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

fn busy_wait(level: BusyWait) -> evenkeel::BusyWait {
    match level {
        BusyWait::None => evenkeel::BusyWait::None,
        BusyWait::VeryShort => evenkeel::BusyWait::VeryShort,
        BusyWait::Short => evenkeel::BusyWait::Short,
        BusyWait::Medium => evenkeel::BusyWait::Medium,
        BusyWait::Long => evenkeel::BusyWait::Long,
        BusyWait::VeryLong => evenkeel::BusyWait::VeryLong,
        BusyWait::Adaptive => evenkeel::BusyWait::Adaptive,
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
    let held = delivery.added_delay.buckets();
    Delivered {
        deliveries: delivery.deliveries,
        bytes: delivery.bytes,
        reads: delivery.reads,
        empty_reads: delivery.empty_reads,
        held_back: held
            .map(|(upper, count)| (upper.as_secs_f64() * 1e6, count))
            .collect(),
        longest_us: delivery.longest_delay.as_secs_f64() * 1e6,
    }
}

/// Ready tasks of all classes.
fn waiting(handle: &Handle) -> u64 {
    let classes = handle.classes();
    let queued = classes.iter().map(|info| handle.load(info.class).queued);
    queued.sum::<usize>() as u64
}

fn checks(counts: CheckCounts) -> Checks {
    Checks {
        total: counts.total(),
        empty: counts.empty,
    }
}

/// Ready-to-run delays of all classes; each class has the same buckets.
fn waits(stats: &Stats) -> Vec<(f64, u64)> {
    let mut sums: Vec<(f64, u64)> = Vec::new();
    for class in &stats.classes {
        for (index, (upper, count)) in class.waits.buckets().enumerate() {
            match sums.get_mut(index) {
                Some((_, sum)) => *sum += count,
                None => sums.push((upper.as_secs_f64() * 1e6, count)),
            }
        }
    }
    sums
}
