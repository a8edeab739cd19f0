//! What every load generator stands on: one thread with Tokio's runtime on it, whose timer has no
//! slack, and connections. What it adds to a latency, it adds to that of every server alike.

use std::cell::RefCell;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::Latencies;
use super::args::{AnswerArgs, Measured};
use super::pace::Pace;
use crate::error::{Error, Result};
use crate::sys;

/// How long a server may take to accept a connection, or to answer over one.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `load` to its end; tasks that it spawned end with it.
pub(super) fn run<T>(load: impl Future<Output = Result<T>>) -> Result<T> {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(LocalOptions::default());
    let started = runtime.map_err(Error::system("the load generator's runtime did not start"));
    started?.block_on(load)
}

/// A connection that does not delay small writes. A `window` is the size of its receive buffer.
pub(super) async fn open(target: SocketAddr, window: Option<u32>) -> io::Result<TcpStream> {
    let socket = match target {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if let Some(window) = window {
        // Before connecting, which is when windows are agreed upon.
        socket.set_recv_buffer_size(window)?;
    }
    let stream = socket.connect(target).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// So many connections, made one after another before the load begins.
pub(super) async fn connect(target: SocketAddr, connections: u32) -> Result<Vec<TcpStream>> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let opened = timeout(PATIENCE, open(target, None)).await;
        let opened = opened.map_err(io::Error::from).flatten();
        streams.push(opened.map_err(Error::connect(target))?);
    }
    Ok(streams)
}

/// A connection that is not waited for, and may get lost.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    /// It was closed by the other side, or broke.
    pub(super) lost: bool,
}

impl Socket {
    pub(super) async fn connect(target: SocketAddr, connections: u32) -> Result<Vec<Self>> {
        let streams = connect(target, connections).await?.into_iter();
        let sockets = streams.map(|stream| Socket {
            stream,
            lost: false,
        });
        Ok(sockets.collect())
    }

    /// Writes as far as the socket takes it; says how far that is.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && !self.lost {
            match self.stream.try_write(&bytes[taken..]) {
                Ok(len) => taken += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.lost = true,
            }
        }
        taken
    }
}

/// Takes a `step` now, at the `start` of the load, and whenever something may be due, until one
/// says that all is over or `end` has come. Says how long that took.
pub(super) async fn at_pace(
    start: Instant,
    pace: Pace,
    end: Duration,
    mut step: impl FnMut() -> bool,
) -> Result<Duration> {
    let failed = || Error::system("the load generator's timer failed");
    let timer = sys::awaited_timer(start, pace.tick()).map_err(failed())?;
    while !step() && start.elapsed() < end {
        let left = end.saturating_sub(start.elapsed());
        if let Ok(ready) = timeout(left, timer.readable()).await {
            // Its count, without which it would not be heard of again; none is no harm.
            let _ = timer.get_ref().read(&mut [0; 8]);
            ready.map_err(failed())?.clear_ready();
        }
    }
    Ok(start.elapsed())
}

/// What the clients of a closed loop found.
#[derive(Default)]
pub(super) struct Closed {
    /// Of the exchanges that ended in the time that is measured.
    pub(super) latencies: Latencies,
    /// Clients whose exchange failed, which ended them.
    pub(super) lost: u64,
}

/// Runs clients at once until all have ended. Each is a task: what Tokio lets a task do before it
/// has to give way, the clients would share in one, and most would wait with their answers there.
pub(super) async fn at_once(clients: impl IntoIterator<Item = impl Future<Output = ()> + 'static>) {
    let mut tasks = JoinSet::new();
    for client in clients {
        tasks.spawn_local(client);
    }
    tasks.join_all().await;
}

/// Lets every client make one `exchange` after another until the time is over, and those under way
/// then come to an end within `drain`. An exchange that says `false` was a greeting and counts not.
pub(super) async fn closed_loop<C: 'static>(
    clients: impl IntoIterator<Item = C>,
    time: Measured,
    drain: Duration,
    exchange: impl AsyncFn(&mut C) -> io::Result<bool> + 'static,
) -> Closed {
    let all = Rc::new((RefCell::<Closed>::default(), exchange));
    let start = Instant::now();
    let (from, end) = (start + time.warmup, start + time.whole());
    let clients = clients.into_iter().map(|mut client| {
        let all = Rc::clone(&all);
        async move {
            let (found, exchange) = &*all;
            while Instant::now() < end {
                let begun = Instant::now();
                let exchanged = exchange(&mut client).await;
                let mut found = found.borrow_mut();
                match exchanged {
                    Ok(true) if Instant::now() >= from => found.latencies.record(begun.elapsed()),
                    Ok(_) => {}
                    Err(_) => return found.lost += 1,
                }
            }
        }
    });
    // Whoever is still under way then has neither succeeded nor failed.
    let _ = timeout(time.whole() + drain, at_once(clients)).await;
    all.0.take()
}

/// Says where it listens, then `ready`, then serves every connection until the process is ended.
pub(super) fn answer<F: Future<Output = io::Result<()>> + 'static>(
    name: &str,
    args: &AnswerArgs,
    serve: impl Fn(TcpStream) -> F,
) -> Result<()> {
    run(async {
        let refused = Error::listen("listen", args.listen);
        let listener = TcpListener::bind(args.listen).await.map_err(&refused)?;
        let address = listener.local_addr().map_err(&refused)?;
        println!("{name} {address}\nready");
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of descriptors: whoever waits is let in when some connection has ended.
                sleep(Duration::from_millis(10)).await;
                continue;
            };
            // The option only saves time.
            let _ = stream.set_nodelay(true);
            spawn_local(serve(stream));
        }
    })
}
