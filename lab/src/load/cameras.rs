//! `load cameras`: cameras that send numbered frames at a steady rate, in an open loop, and viewers
//! that watch some of them.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Latencies;
use super::args::CamerasArgs;
use super::net::{self, Socket, at_pace};
use super::pace::Pace;
use crate::error::Result;
use crate::frames::{FRAME_LEN, Follower, HEAD_LEN, Head, now_ns};

/// Bytes that a camera keeps while its connection takes none; of what is due beyond, it drops
/// whole frames, as cameras do.
const KEPT_MAX: usize = 256 * 1024;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct CameraSummary {
    /// Frames that were due, and those of them that their cameras had no room to keep.
    pub(crate) frames: u64,
    pub(crate) dropped: u64,
    /// Cameras whose connection broke.
    pub(crate) cameras_lost: u64,
    /// Frames that viewers were sent whole, and those that they missed since their first.
    pub(crate) watched: u64,
    pub(crate) missed: u64,
    /// From when frames were due to when they were written: the generator's own delay.
    pub(crate) late_p50_us: f64,
    pub(crate) late_p99_us: f64,
    /// From the first frame to the last one.
    pub(crate) seconds: f64,
}

struct Camera {
    socket: Socket,
    number: u64,
    kept: Vec<u8>,
    dropped: u64,
}

pub(crate) fn run(args: &CamerasArgs) -> Result<CameraSummary> {
    net::run(play(args))
}

async fn play(args: &CamerasArgs) -> Result<CameraSummary> {
    // Viewers first, so that they are there when their cameras come.
    let (mut viewers, seen) = watch(args).await?;
    let mut cameras = Camera::connect(args).await?;
    let told = Arc::new(AtomicBool::new(false));
    if args.until_told {
        let told = Arc::clone(&told);
        std::thread::spawn(move || {
            // What is said does not matter; an error, too, says that nobody will say more.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            // Relaxed: it orders nothing else.
            told.store(true, Ordering::Relaxed);
        });
    }
    if args.say_ready {
        println!("ready");
    }
    let frames_per_s = args.mbit * 1e6 / 8.0 / FRAME_LEN as f64;
    let pace = Pace::new(frames_per_s / f64::from(args.burst), args.seconds);
    let mut summary = send(&mut cameras, pace, args.burst, &told).await?;
    // The server has so long to take what is kept; then it is told the end, and tells viewers.
    let last = Instant::now();
    at_pace(last, pace, args.drain, || flush(&mut cameras)).await?;
    for camera in &mut cameras {
        // One that is gone has nothing to end.
        let _ = camera.socket.stream.shutdown().await;
    }
    let left = args.drain.saturating_sub(last.elapsed());
    let _ = timeout(left, async { while viewers.join_next().await.is_some() {} }).await;
    summary.dropped = cameras.iter().map(|camera| camera.dropped).sum();
    summary.cameras_lost = cameras.iter().filter(|camera| camera.socket.lost).count() as u64;
    for (seen, camera) in seen.iter().zip(&cameras) {
        let seen = seen.borrow();
        summary.watched += seen.frames;
        // From its first on.
        let rest = camera.number.saturating_sub(seen.next.unwrap_or(0));
        summary.missed += seen.lost + rest;
    }
    Ok(summary)
}

/// The viewers of the first cameras, and what each of them is sent.
async fn watch(args: &CamerasArgs) -> Result<(JoinSet<()>, Vec<Rc<RefCell<Follower>>>)> {
    let (mut viewers, mut all) = (JoinSet::new(), Vec::new());
    let Some(target) = args.watch else {
        return Ok((viewers, all));
    };
    let tenth = (args.connections / 10).max(1);
    let watched = args.watched.unwrap_or(tenth).min(args.connections);
    for (camera, mut stream) in (0_u32..).zip(net::connect(target, watched).await?) {
        // A viewer that cannot ask for its camera misses all that it sends.
        let _ = stream.write_all(&camera.to_le_bytes()).await;
        let seen = Rc::default();
        viewers.spawn_local(follow(stream, Rc::clone(&seen)));
        all.push(seen);
    }
    Ok((viewers, all))
}

async fn follow(mut stream: TcpStream, seen: Rc<RefCell<Follower>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        if seen.borrow_mut().take(&buffer[..len]).is_err() {
            return;
        }
    }
}

/// Turn `i` belongs to camera `i mod cameras`, so that cameras are evenly spread over time; in each
/// turn a camera sends a burst.
async fn send(
    cameras: &mut [Camera],
    pace: Pace,
    burst: u32,
    told: &AtomicBool,
) -> Result<CameraSummary> {
    let (mut summary, mut late) = (CameraSummary::default(), Latencies::new());
    let (mut turns, start) = (0, Instant::now());
    let elapsed = at_pace(start, pace, Duration::MAX, || {
        let due = pace.due_by(start.elapsed());
        for turn in turns..due {
            late.record(start.elapsed().saturating_sub(pace.due_at(turn)));
            let index = (turn % cameras.len() as u64) as usize;
            let sent_ns = now_ns();
            for _ in 0..burst {
                cameras[index].send(index as u32, sent_ns);
                summary.frames += 1;
            }
        }
        turns = due;
        flush(cameras);
        // Relaxed: as where it is set.
        let is_told = told.load(Ordering::Relaxed);
        turns == pace.total() || is_told || cameras.iter().all(|camera| camera.socket.lost)
    });
    summary.seconds = elapsed.await?.as_secs_f64();
    let late = late.summary();
    (summary.late_p50_us, summary.late_p99_us) = (late.p50_us, late.p99_us);
    Ok(summary)
}

/// Offers what was kept again; whether all is taken.
fn flush(cameras: &mut [Camera]) -> bool {
    let keep = cameras.iter_mut().filter(|camera| !camera.kept.is_empty());
    let left = keep.map(|camera| {
        let taken = camera.socket.write(&camera.kept);
        camera.kept.drain(..taken);
        camera.kept.len()
    });
    left.sum::<usize>() == 0
}

impl Camera {
    async fn connect(args: &CamerasArgs) -> Result<Vec<Self>> {
        let sockets = Socket::connect(args.target, args.connections).await?;
        let cameras = sockets.into_iter().map(|socket| Camera {
            socket,
            number: 0,
            kept: Vec::new(),
            dropped: 0,
        });
        Ok(cameras.collect())
    }

    /// Sends the next frame, keeps it, or drops it; it is numbered in any case.
    fn send(&mut self, camera: u32, sent_ns: u64) {
        let head = Head {
            camera,
            number: self.number,
            sent_ns,
        };
        self.number += 1;
        if self.socket.lost || self.kept.len() + FRAME_LEN > KEPT_MAX {
            self.dropped += 1;
            return;
        }
        let mut frame = [0; FRAME_LEN];
        frame[..HEAD_LEN].copy_from_slice(&head.bytes());
        let taken = match self.kept.is_empty() {
            true => self.socket.write(&frame),
            false => 0,
        };
        self.kept.extend_from_slice(&frame[taken..]);
    }
}
