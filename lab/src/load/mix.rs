//! `load mix`: large objects and empty ones at once, in a closed loop, each over a connection of
//! its own.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::args::MixArgs;
use super::exchange::{exchange, request};
use super::http::FAILURES_MAX;
use super::origin::{LARGE_PATH, WINDOW_LEN};
use super::{Latencies, LatencySummary, net};
use crate::error::{Error, Result};

/// What a mix of objects came to, in the time that was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MixSummary {
    pub(crate) seconds: f64,
    /// Connections for an empty object that came to a good end, and how many a second.
    pub(crate) empty: u64,
    pub(crate) empty_per_s: f64,
    /// Large objects that did.
    pub(crate) large: u64,
    /// Bytes of large objects that came in.
    pub(crate) bytes: u64,
    pub(crate) bytes_per_s: f64,
    /// Connections that did not come to a good end, of either kind.
    pub(crate) failed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    /// Of empty objects, from connecting to the end of the answer.
    pub(crate) latency: LatencySummary,
}

struct Mix {
    args: MixArgs,
    failures: Cell<u32>,
    /// Set while the time is measured.
    counts: Cell<bool>,
    summary: RefCell<MixSummary>,
    latencies: RefCell<Latencies>,
}

pub(crate) fn run(args: &MixArgs) -> Result<MixSummary> {
    let mix = Rc::new(Mix {
        args: args.clone(),
        failures: Cell::new(0),
        counts: Cell::new(false),
        summary: RefCell::default(),
        latencies: RefCell::new(Latencies::new()),
    });
    let measured = net::run(Rc::clone(&mix).run())?;
    let mut summary = mix.summary.take();
    summary.seconds = measured.as_secs_f64();
    let seconds = summary.seconds.max(f64::EPSILON);
    summary.empty_per_s = summary.empty as f64 / seconds;
    summary.bytes_per_s = summary.bytes as f64 / seconds;
    summary.latency = mix.latencies.borrow().summary();
    Ok(summary)
}

impl Mix {
    /// Says for how long it counted.
    async fn run(self: Rc<Self>) -> Result<Duration> {
        if self.args.say_ready {
            println!("ready");
        }
        // As tasks, for the reason that `net::at_once` has.
        let mut clients = JoinSet::new();
        for client in 0..self.args.large + self.args.empty {
            clients.spawn_local(Rc::clone(&self).client(client < self.args.large));
        }
        let time = async {
            sleep(self.args.time.warmup).await;
            self.counts.set(true);
            let from = Instant::now();
            sleep(self.args.time.seconds).await;
            from.elapsed()
        };
        tokio::select! {
            Some(Ok(error)) = clients.join_next() => Err(Error::connect(self.args.target)(error)),
            measured = time => Ok(measured),
        }
    }

    /// Always for the same kind of object. It fails when the server is taken for gone.
    async fn client(self: Rc<Self>, is_large: bool) -> io::Error {
        let path = if is_large { LARGE_PATH } else { "/" };
        let request = request("GET", path, self.args.target, false, "");
        loop {
            let begun = Instant::now();
            let fetched = self.fetch(&request, is_large).await;
            let mut summary = self.summary.borrow_mut();
            match fetched {
                Err(error) => {
                    self.failures.update(|failures| failures + 1);
                    summary.failed += 1;
                    summary.failure = Some(error.to_string());
                    if self.failures.get() >= FAILURES_MAX {
                        return error;
                    }
                    continue;
                }
                Ok(()) => self.failures.set(0),
            }
            if self.counts.get() && is_large {
                summary.large += 1;
            } else if self.counts.get() {
                summary.empty += 1;
                self.latencies.borrow_mut().record(begun.elapsed());
            }
        }
    }

    async fn fetch(&self, request: &[u8], is_large: bool) -> io::Result<()> {
        let mut stream = net::open(self.args.target, Some(WINDOW_LEN)).await?;
        exchange(&mut stream, request, |len| {
            if is_large && self.counts.get() {
                self.summary.borrow_mut().bytes += len as u64;
            }
        })
        .await
    }
}
