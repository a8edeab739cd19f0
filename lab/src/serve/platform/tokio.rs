//! Tokio as a platform: its multi-threaded runtime with its defaults.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::io::pwrite;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::{BACKLOG, Platform, failed, micros, named};
use crate::error::Result;
use crate::serve::args::{BusyWait, RuntimeArgs};
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
    type Class = ();

    same_names!(tokio);

    fn start(args: &RuntimeArgs) -> Result<Self> {
        let spins = args.busy_wait.is_some_and(|level| level != BusyWait::None);
        #[rustfmt::skip]
        let ignored = [
            ("busy-wait", spins, "has no busy wait: its workers always park"),
            ("io-check-events", args.io_check_events.is_some(), "keeps its own number of them"),
            ("io-check-us", args.io_check_us.is_some(), "checks by a count of polls, not by time"),
            ("handoff-us", args.handoff_us.is_some(), "leaves a worker that is stuck where it is"),
            ("admin-page", args.admin_page.is_some(), "has none"),
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
            named([
                ("run_us", micros(run)),
                ("park_us", micros(wall.saturating_sub(run))),
                ("parks", metrics.worker_park_count(worker)),
            ])
        };
        RuntimeStats {
            runtime: Self::NAME.to_owned(),
            wall_us: micros(wall),
            tasks: Some(metrics.num_alive_tasks() as u64),
            workers: (0..metrics.num_workers()).map(worker).collect(),
            ..RuntimeStats::default()
        }
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

    /// One function at once on a thread that may block: what `tokio::fs` makes of its calls,
    /// without its buffer in between.
    async fn write_at(file: &Self::File, bytes: Vec<u8>, offset: u64) -> io::Result<Vec<u8>> {
        let file = Arc::clone(file);
        let write = move || {
            let mut written = 0;
            while written < bytes.len() {
                let (rest, at) = (&bytes[written..], offset + written as u64);
                match rustix::io::retry_on_intr(|| pwrite(&file, rest, at))? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    len => written += len,
                }
            }
            Ok(bytes)
        };
        tokio::task::spawn_blocking(write)
            .await
            .map_err(io::Error::other)?
    }

    fn hyper_stream(stream: TcpStream) -> TokioIo<TcpStream> {
        TokioIo::new(stream)
    }
}
