//! Closed-loop HTTP: so many requests, so many at once. What `ab` does, for where `ab` is not
//! installed.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::args::HttpArgs;
use super::exchange::{exchange, request, until_closed};
use super::{Latencies, LatencySummary, net};
use crate::error::{Error, Result};

/// What a closed loop of requests found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HttpSummary {
    /// Requests that were answered with 200.
    pub(crate) requests: u64,
    /// Requests that were not: refused, broken off, answered otherwise, or never.
    pub(crate) failed: u64,
    /// Why the last of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// From connecting (short connections) or sending (kept alive) to the end of the answer.
    pub(crate) latency: LatencySummary,
}

/// Failures in a row after which a server is taken for gone.
pub(super) const FAILURES_MAX: u32 = 1_000;

pub(crate) fn run(args: &HttpArgs) -> Result<HttpSummary> {
    let all = Rc::new(Requests {
        args: args.clone(),
        request: request("GET", &args.path, args.target, args.keep_alive, ""),
        begun: Cell::new(0),
        failures: Cell::new(0),
        failure: RefCell::new(None),
        latencies: RefCell::new(Latencies::new()),
    });
    let at_once = u64::from(args.concurrency).min(args.requests);
    let found = net::run(async {
        let start = Instant::now();
        net::at_once((0..at_once).map(|_| Rc::clone(&all).client())).await;
        Ok(HttpSummary::of(&all.latencies.borrow(), start))
    })?;
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let failure = match all.failure.take() {
        Some(source) if found.requests == 0 && refused(&source) => {
            return Err(Error::connect(args.target)(source));
        }
        failure => failure.map(|error| error.to_string()),
    };
    Ok(HttpSummary {
        failed: args.requests - found.requests,
        failure,
        ..found
    })
}

impl HttpSummary {
    /// Of requests that were all answered, from `start` until now.
    pub(super) fn of(latencies: &Latencies, start: Instant) -> Self {
        let (requests, seconds) = (latencies.len(), start.elapsed().as_secs_f64());
        HttpSummary {
            requests,
            seconds,
            per_second: requests as f64 / seconds.max(f64::EPSILON),
            latency: latencies.summary(),
            ..HttpSummary::default()
        }
    }
}

struct Requests {
    args: HttpArgs,
    request: Vec<u8>,
    /// Requests that were begun; those that came to a good end have a latency.
    begun: Cell<u64>,
    failures: Cell<u32>,
    failure: RefCell<Option<io::Error>>,
    latencies: RefCell<Latencies>,
}

impl Requests {
    /// One request after another, as long as there are any to make.
    async fn client(self: Rc<Self>) {
        let mut kept = None;
        while self.begun.get() < self.args.requests && self.failures.get() < FAILURES_MAX {
            self.begun.update(|begun| begun + 1);
            let begun = Instant::now();
            match timeout(self.args.patience, self.ask(&mut kept)).await {
                Ok(Ok(())) => {
                    self.latencies.borrow_mut().record(begun.elapsed());
                    self.failures.set(0);
                }
                Ok(Err(error)) => {
                    self.failures.update(|failures| failures + 1);
                    *self.failure.borrow_mut() = Some(error);
                }
                Err(_) => return,
            }
        }
    }

    async fn ask(&self, kept: &mut Option<TcpStream>) -> io::Result<()> {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => net::open(self.args.target, None).await?,
        };
        exchange(&mut stream, &self.request, |_| ()).await?;
        if self.args.keep_alive {
            *kept = Some(stream);
            return Ok(());
        }
        // A short connection is over when the server has closed it, as for `ab`.
        until_closed(stream).await
    }
}
