//! Durable appends per second over TCP, by a server that is a process of its own.

use std::collections::VecDeque;
use std::error::Error;
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use evenkeel::net::TcpStream;
use evenkeel::runtime::Runtime;
use evenkeel::task::JoinSet;
use evenkeel_measure::latency::{Latencies, SharedLatencies};
use tokio::io::AsyncWriteExt;
use txlog_client::frame::{Request, Response, VERSION};
use txlog_client::wire::FrameReader;
use txlog_client::{Connect, Session, SessionOptions};

use super::SHUTDOWN_MAX;
use super::process::{Process, own_cpu};

/// Why there is no result.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// A directory on the disk to measure. Each turn removes what it has made there.
    pub directory: PathBuf,
    /// A server that runs already; otherwise each turn starts one.
    pub server: Option<String>,
    /// How many clients there are.
    pub clients: usize,
    /// How many records of each client are pending.
    pub pipelined: usize,
    /// How many records there are in a frame of [`batches`].
    pub batched: usize,
    /// The size of a record.
    pub record_bytes: usize,
    /// How long a turn takes.
    pub length: Duration,
}

/// What one turn came to.
#[derive(Debug)]
pub struct TcpTurn {
    /// Records that were acknowledged.
    pub appends: u64,
    /// How long that took.
    pub seconds: f64,
    /// How long each append took.
    pub latencies: Latencies,
    /// The server's processor time.
    pub server_cpu: Option<Duration>,
    /// The processor time of this program, which makes the load.
    pub load_cpu: Option<Duration>,
}

impl TcpTurn {
    /// Durable appends per second.
    pub fn per_second(&self) -> f64 {
        self.appends as f64 / self.seconds
    }

    /// The server's processor time for each record, in microseconds.
    pub fn server_us(&self) -> Option<f64> {
        let cpu = self.server_cpu?;
        (self.appends > 0).then(|| cpu.as_secs_f64() * 1e6 / self.appends as f64)
    }

    /// How many processors this program kept busy.
    pub fn load_share(&self) -> Option<f64> {
        Some(self.load_cpu?.as_secs_f64() / self.seconds)
    }
}

/// The clocks of one turn.
pub(super) struct Meter<'a> {
    process: Option<&'a Process>,
    began: Instant,
    server: Option<Duration>,
    own: Option<Duration>,
}

impl<'a> Meter<'a> {
    pub(super) fn start(process: Option<&'a Process>) -> Self {
        Self {
            process,
            server: process.and_then(Process::cpu),
            own: own_cpu(),
            began: Instant::now(),
        }
    }

    pub(super) fn stop(self, latencies: Latencies) -> TcpTurn {
        let since =
            |before: Option<Duration>, now: Option<Duration>| Some(now?.saturating_sub(before?));
        TcpTurn {
            seconds: self.began.elapsed().as_secs_f64(),
            appends: latencies.len(),
            latencies,
            server_cpu: since(self.server, self.process.and_then(Process::cpu)),
            load_cpu: since(self.own, own_cpu()),
        }
    }
}

/// Connections that append one record after the other, each with one frame.
///
/// # Errors
///
/// Those of the server and of the connections.
pub fn singles(bench: &Tcp) -> Result<TcpTurn, Failure> {
    let payload = Bytes::from(vec![b'x'; bench.record_bytes]);
    frame_by_frame(bench, &Request::Append { id: 1, payload })
}

/// Connections that append one batch after the other, each with one frame. An append takes as long
/// as its batch.
///
/// # Errors
///
/// Those of the server and of the connections.
pub fn batches(bench: &Tcp) -> Result<TcpTurn, Failure> {
    let record = vec![b'x'; bench.record_bytes];
    let batch = Request::Batch {
        id: 1,
        expected: None,
        producer: None,
        not_before: None,
        records: (0..bench.batched).map(|_| &record).collect(),
    };
    let frames = frame_by_frame(bench, &batch)?;
    let appends = frames.appends * bench.batched as u64;
    Ok(TcpTurn { appends, ..frames })
}

/// Connections that send a request again and again, each as soon as the last one is answered.
fn frame_by_frame(bench: &Tcp, request: &Request) -> Result<TcpTurn, Failure> {
    in_turn(bench, async |bench, address, process| {
        let mut connections = Vec::new();
        for _ in 0..bench.clients {
            connections.push(Raw::connect(&address).await?);
        }
        let latencies = Arc::<SharedLatencies>::default();
        let meter = Meter::start(process);
        let (began, length) = (meter.began, bench.length);
        let mut tasks = JoinSet::new();
        for mut connection in connections {
            let (request, latencies) = (request.clone(), Arc::clone(&latencies));
            tasks.spawn(async move {
                let mut at = Instant::now();
                while at.duration_since(began) < length {
                    connection.append(&request).await?;
                    let now = Instant::now();
                    latencies.record(now.duration_since(at));
                    at = now;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(meter.stop(latencies.take()))
    })
}

/// Clients with several records pending each, which their sessions gather into batches.
///
/// # Errors
///
/// Those of the server and of the sessions.
pub fn pipelined(bench: &Tcp) -> Result<TcpTurn, Failure> {
    in_turn(bench, async |bench, address, process| {
        let mut sessions = Vec::new();
        for _ in 0..bench.clients {
            let options = SessionOptions::default();
            let session = Session::open(Connect::new(), [address.as_str()], options)?;
            session.connect().await?;
            sessions.push(session);
        }
        let latencies = Arc::<SharedLatencies>::default();
        let meter = Meter::start(process);
        let (began, length, window) = (meter.began, bench.length, bench.pipelined);
        let record = Bytes::from(vec![b'x'; bench.record_bytes]);
        let mut tasks = JoinSet::new();
        for session in sessions {
            let (record, latencies) = (record.clone(), Arc::clone(&latencies));
            tasks.spawn(async move {
                let mut pending = VecDeque::with_capacity(window);
                let mut now = Instant::now();
                while now.duration_since(began) < length {
                    while pending.len() < window {
                        pending.push_back((now, session.submit(record.clone()).await?));
                    }
                    // Those that are answered together are taken together.
                    let half = pending.len().div_ceil(2);
                    for (at, appending) in pending.drain(..half) {
                        appending.await?;
                        now = Instant::now();
                        latencies.record(now.duration_since(at));
                    }
                }
                for (at, appending) in pending {
                    appending.await?;
                    latencies.record(at.elapsed());
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(meter.stop(latencies.take()))
    })
}

/// Runs a turn with a server and a runtime of its own, and removes what they have made.
fn in_turn<F>(bench: &Tcp, turn: F) -> Result<TcpTurn, Failure>
where
    F: AsyncFnOnce(&Tcp, String, Option<&Process>) -> Result<TcpTurn, Failure>,
{
    let directory = bench.directory.join("served");
    let started = match &bench.server {
        Some(_) => None,
        None => {
            let connections = bench.clients.max(1).to_string();
            let options = ["--connections-max".to_owned(), connections];
            Some(Process::txlog(&directory, &options)?)
        }
    };
    let address = match (&started, &bench.server) {
        (Some(process), _) => process.address.clone(),
        (None, server) => server.clone().unwrap_or_default(),
    };
    let result = in_runtime(turn(bench, address, started.as_ref()));
    let has_started = started.is_some();
    drop(started);
    if has_started {
        fs::remove_dir_all(&directory)?;
    }
    result
}

fn in_runtime(turn: impl Future<Output = Result<TcpTurn, Failure>>) -> Result<TcpTurn, Failure> {
    let runtime = Runtime::new()?;
    let result = runtime.block_on(turn);
    let ended = runtime.shutdown(SHUTDOWN_MAX);
    let result = result?;
    ended?;
    Ok(result)
}

/// The least that a client has to do, so that what is measured is the server.
struct Raw {
    frames: FrameReader<evenkeel::net::tcp::OwnedReadHalf>,
    write: evenkeel::net::tcp::OwnedWriteHalf,
    buffer: BytesMut,
}

impl Raw {
    async fn connect(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let mut raw = Self {
            frames: FrameReader::new(read, 64 * 1024),
            write,
            buffer: BytesMut::new(),
        };
        let (min, max) = (VERSION, VERSION);
        let access = None;
        match raw.ask(&Request::Hello { min, max, access }).await? {
            Response::Welcome { .. } => Ok(raw),
            other => Err(format!("no welcome, but {other:?}").into()),
        }
    }

    async fn append(&mut self, request: &Request) -> Result<(), Failure> {
        match self.ask(request).await? {
            Response::Appended { .. } | Response::Stored { .. } => Ok(()),
            other => Err(format!("an append was answered with {other:?}").into()),
        }
    }

    async fn ask(&mut self, request: &Request) -> Result<Response, Failure> {
        self.buffer.clear();
        request.encode(&mut self.buffer);
        self.write.write_all(&self.buffer).await?;
        let frame = self.frames.next().await?;
        Ok(Response::decode(
            frame.ok_or("the server closed the connection")?,
        )?)
    }
}
