//! Tokio as a platform: its multi-threaded runtime with its defaults.

use std::fs::File;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::{BACKLOG, Platform, failed, micros, named};
use crate::error::{Error, Result};
use crate::serve::args::{BusyWait, ClassName, Delivery, RuntimeArgs};
use crate::serve::stats::RuntimeStats;

/// The peer. It has no busy wait and no bound on I/O checks in time: asking for either is a
/// warning.
#[derive(Clone)]
pub(crate) struct Tokio {
    runtime: Arc<Runtime>,
    started: Instant,
}

impl Platform for Tokio {
    const NAME: &'static str = "tokio";
    type HyperStream = TokioIo<TcpStream>;
    type File = Arc<File>;
    type Class = ();
    const HAS_CLASSES: bool = false;
    const HAS_DELIVERY: bool = false;

    same_names!(tokio);

    fn start(args: &RuntimeArgs) -> Result<Self> {
        let spins = args.busy_wait.is_some_and(|level| level != BusyWait::None);
        #[rustfmt::skip]
        let ignored = [
            ("busy-wait", spins, "has no busy wait: its workers always park"),
            ("io-check-events", args.io_check_events.is_some(), "keeps its own number of them"),
            ("io-check-us", args.io_check_us.is_some(), "checks by a count of polls, not by time"),
            ("handoff-us", args.handoff_us.is_some(), "leaves a worker that is stuck where it is"),
            ("real-time-workers", args.real_time_workers, "gives its workers no priority"),
        ];
        for (flag, _, why) in ignored.iter().filter(|(_, asked, _)| *asked) {
            eprintln!("warning: --{flag} is ignored: tokio {why}");
        }
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(args.workers()).enable_all().build();
        Ok(Tokio {
            runtime: Arc::new(runtime.map_err(failed(Self::NAME))?),
            started: Instant::now(),
        })
    }

    /// What Tokio's stable metrics give: busy time and parks of each worker. Busy time is all that
    /// is not parked.
    fn stats(&self) -> RuntimeStats {
        let (metrics, wall) = (self.runtime.metrics(), self.started.elapsed());
        let worker = |worker| {
            let run = metrics.worker_total_busy_duration(worker);
            let times = [
                ("run_us", micros(run)),
                ("park_us", micros(wall.saturating_sub(run))),
                ("parks", metrics.worker_park_count(worker)),
            ];
            named(times)
        };
        RuntimeStats {
            runtime: Self::NAME.to_owned(),
            wall_us: micros(wall),
            tasks: Some(metrics.num_alive_tasks() as u64),
            workers: (0..metrics.num_workers()).map(worker).collect(),
            ..RuntimeStats::default()
        }
    }

    fn class(&self, _: &ClassName) -> Option<()> {
        None
    }

    fn execute(future: impl Future<Output = ()> + Send + 'static) {
        TokioExecutor::new().execute(future);
    }

    #[track_caller]
    fn spawn_in(_: Option<()>, _: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(future);
    }

    /// Tokio's own `consume_budget` counts to 128 before it yields, which would be 12.8 ms of
    /// computing here; what its documentation advises for computing is to yield.
    async fn checkpoint() {
        tokio::task::yield_now().await;
    }

    fn set_delivery(_: &TcpStream, delivery: Delivery) -> io::Result<()> {
        match delivery {
            Delivery::Immediate => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    async fn create(path: PathBuf) -> io::Result<Arc<File>> {
        blocking(|| File::create(path).map(Arc::new)).await
    }

    async fn open(path: PathBuf) -> io::Result<Arc<File>> {
        blocking(|| File::open(path).map(Arc::new)).await
    }

    async fn write_at(file: &Arc<File>, bytes: Vec<u8>, offset: u64) -> io::Result<Vec<u8>> {
        blocking_on(file, move |file| {
            file.write_all_at(&bytes, offset).map(|()| bytes)
        })
        .await
    }

    async fn sync_data(file: &Arc<File>) -> io::Result<()> {
        blocking_on(file, File::sync_data).await
    }

    async fn sync_all(file: &Arc<File>) -> io::Result<()> {
        blocking_on(file, File::sync_all).await
    }

    async fn stat(path: PathBuf) -> io::Result<u64> {
        blocking(move || Ok(std::fs::metadata(path)?.len())).await
    }

    async fn serve_log(_: SocketAddr, _: PathBuf) -> Result<SocketAddr> {
        let advice = "has no --log-directory, as `txlog` runs on evenkeel; give --log-path";
        Err(Error::new(format!("{} {advice}", Self::NAME)))
    }

    fn hyper_stream(stream: TcpStream) -> TokioIo<TcpStream> {
        TokioIo::new(stream)
    }
}

/// One function at once: what `tokio::fs` makes of its calls, without its buffer in between.
async fn blocking<T: Send + 'static>(
    function: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let joined = tokio::task::spawn_blocking(function).await;
    joined.map_err(io::Error::other)?
}

async fn blocking_on<T: Send + 'static>(
    file: &Arc<File>,
    function: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let file = Arc::clone(file);
    blocking(move || function(&file)).await
}
