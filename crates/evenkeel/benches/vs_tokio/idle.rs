//! The process whose memory is measured: it holds very many idle tasks or connections.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::hold::Holder;
use crate::memory::{Runtime, Subject};
use crate::peer::{Evenkeel, Peer, Tokio};
use crate::server::{self, Service};

pub(crate) const TASKS: usize = 100_000;
pub(crate) const CONNECTIONS: usize = 1_000;

const WORKERS: usize = 2;
/// Held before the first look, so that what a runtime makes once is not counted. They stay, else
/// those counted would live in what these leave behind.
const WARM_UP: usize = 50;
/// So many tasks are spawned at a time, and then awaited until all were polled: what is measured
/// are the tasks, not a queue that has grown with them.
const BATCH: usize = 1_000;
/// A connection's buffer is the application's matter, so the measured one is small.
const BUFFER_BYTES: usize = 64;
/// What is under way when everything was polled or answered ends within it.
const SETTLE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures, and prints the bytes of one.
pub(crate) fn measure(runtime: Runtime, subject: Subject) -> io::Result<()> {
    // Huge pages would be counted whole as soon as one byte of them is used.
    rustix::thread::disable_transparent_huge_pages(true)?;
    let bytes = match (runtime, subject) {
        (Runtime::Evenkeel, Subject::Tasks) => bytes_per_task::<Evenkeel>(),
        (Runtime::Evenkeel, Subject::Connections) => bytes_per_connection::<Evenkeel>(),
        (Runtime::Tokio, Subject::Tasks) => bytes_per_task::<Tokio>(),
        (Runtime::Tokio, Subject::Connections) => bytes_per_connection::<Tokio>(),
    }?;
    println!("{bytes:.1}");
    Ok(())
}

fn bytes_per_task<P: Peer>() -> io::Result<f64> {
    let peer = P::new(WORKERS);
    spawn_idle(&peer, WARM_UP)?;
    let before = settled_resident_bytes()?;
    for _ in 0..TASKS / BATCH {
        spawn_idle(&peer, BATCH)?;
    }
    let after = settled_resident_bytes()?;
    match ENDED.load(Relaxed) {
        0 => Ok((after - before) / TASKS as f64),
        ended => Err(io::Error::other(format!(
            "{ended} tasks ended that await forever"
        ))),
    }
}

fn bytes_per_connection<P: Peer>() -> io::Result<f64> {
    let peer = P::new(WORKERS);
    let service = Service::Echo {
        buffer_bytes: BUFFER_BYTES,
    };
    let mut holder = Holder::start(server::start(&peer, service))?;
    holder.open(WARM_UP)?;
    let before = settled_resident_bytes()?;
    holder.open(CONNECTIONS)?;
    let after = settled_resident_bytes()?;
    Ok((after - before) / CONNECTIONS as f64)
}

/// Counts polls; no memory is passed on by it, so it needs no ordering.
static POLLED: AtomicUsize = AtomicUsize::new(0);
/// Counts tasks that were dropped, likewise.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Awaits forever. It has no size, so a task of it is all the runtime's.
struct Idle;

impl Future for Idle {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        POLLED.fetch_add(1, Relaxed);
        Poll::Pending
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Relaxed);
    }
}

/// Spawns idle tasks, and waits until each was polled.
fn spawn_idle<P: Peer>(peer: &P, count: usize) -> io::Result<()> {
    let wanted = POLLED.load(Relaxed) + count;
    for _ in 0..count {
        drop(peer.spawn(Idle));
    }
    let began = Instant::now();
    while POLLED.load(Relaxed) < wanted {
        if began.elapsed() > PATIENCE {
            let polled = POLLED.load(Relaxed);
            let problem = format!("only {polled} of {wanted} tasks were polled in {PATIENCE:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// The memory of this process that is resident and no file's. `smaps_rollup` counts the pages
/// themselves, where `RssAnon` in `status` may lag behind by some of each thread's.
fn settled_resident_bytes() -> io::Result<f64> {
    std::thread::sleep(SETTLE);
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let anonymous = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"));
    anonymous
        .and_then(|size| size.trim().strip_suffix("kB")?.trim().parse().ok())
        .map(|kib: f64| kib * 1024.0)
        .ok_or_else(|| io::Error::other("/proc/self/smaps_rollup has no line `Anonymous:`"))
}
