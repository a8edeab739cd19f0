//! `load cameras`: cameras that send numbered frames at a steady rate, in an open loop, and viewers
//! that watch some of them.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::Events;
use serde::{Deserialize, Serialize};

use super::args::CamerasArgs;
use super::latency::Latencies;
use super::pace::Pace;
use super::queue::{Queue, Socket, slots};
use crate::error::{Error, Result};
use crate::frames::{FRAME_LEN, Follower, HEAD_LEN, Head, now_ns};

/// Bytes that a camera keeps while its connection takes none; of what is due beyond, it drops
/// whole frames, as cameras do.
const KEPT_MAX: usize = 256 * 1024;

/// What cameras and viewers saw.
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

struct Viewer {
    socket: Socket,
    follower: Follower,
}

struct Scene {
    cameras: Vec<Camera>,
    viewers: Vec<Viewer>,
    queue: Queue,
    events: Events,
    summary: CameraSummary,
    late: Latencies,
    /// To send no more frames.
    told: Arc<AtomicBool>,
}

pub(crate) fn run(args: &CamerasArgs) -> Result<CameraSummary> {
    let mut scene = Scene::open(args)?;
    if args.until_told {
        let told = Arc::clone(&scene.told);
        std::thread::spawn(move || wait_for_end_of_input(&told));
    }
    if args.say_ready {
        println!("ready");
    }
    let frames_per_s = args.mbit * 1e6 / 8.0 / FRAME_LEN as f64;
    let pace = Pace::new(frames_per_s / f64::from(args.burst), args.seconds);
    scene
        .play(pace, args.burst, args.drain)
        .map_err(Error::system("the cameras' readiness queue failed"))?;
    Ok(scene.sum_up())
}

fn wait_for_end_of_input(told: &AtomicBool) {
    // What is said does not matter; an error says as well as the end that nobody will say more.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    // Relaxed: it orders nothing else.
    told.store(true, Ordering::Relaxed);
}

impl Scene {
    /// Viewers first, so that they are there when their cameras come.
    fn open(args: &CamerasArgs) -> Result<Scene> {
        let failed = || Error::system("the viewers' readiness queue failed");
        let queue = Queue::new().map_err(failed())?;
        let watched = args.watch.map_or(0, |_| {
            let tenth = (args.connections / 10).max(1);
            args.watched.unwrap_or(tenth).min(args.connections)
        });
        let mut viewers = Vec::new();
        for (camera, target) in (0..watched).zip(args.watch.into_iter().cycle()) {
            let mut socket = Socket::connect(target)?;
            // A viewer that cannot ask for its camera is lost, and misses all that it sends.
            socket.write(&camera.to_le_bytes());
            let added = queue.add(&mut socket.stream, camera as usize);
            added.map_err(failed())?;
            let follower = Follower::joining();
            viewers.push(Viewer { socket, follower });
        }
        let cameras = (0..args.connections).map(|_| {
            Ok(Camera {
                socket: Socket::connect(args.target)?,
                number: 0,
                kept: Vec::new(),
                dropped: 0,
            })
        });
        Ok(Scene {
            cameras: cameras.collect::<Result<_>>()?,
            viewers,
            queue,
            events: Events::with_capacity(256),
            summary: CameraSummary::default(),
            late: Latencies::new(),
            told: Arc::default(),
        })
    }

    /// Turn `i` belongs to camera `i mod cameras`, so that cameras are evenly spread over time; in
    /// each turn a camera sends a burst.
    fn play(&mut self, pace: Pace, burst: u32, drain: Duration) -> io::Result<()> {
        let start = Instant::now();
        self.queue.tick(pace.tick())?;
        let mut turns = 0;
        while turns < pace.total() && !self.is_over() {
            let due = pace.due_by(start.elapsed());
            for turn in turns..due {
                let due_at = pace.due_at(turn);
                self.late.record(start.elapsed().saturating_sub(due_at));
                let index = (turn % self.cameras.len() as u64) as usize;
                let sent_ns = now_ns();
                for _ in 0..burst {
                    self.cameras[index].send(index as u32, sent_ns);
                    self.summary.frames += 1;
                }
            }
            turns = due;
            self.flush();
            self.wait(None)?;
        }
        self.summary.seconds = start.elapsed().as_secs_f64();
        self.drain(drain)
    }

    /// Whether there is no reason to send any more.
    fn is_over(&self) -> bool {
        // Relaxed: as where it is set.
        self.told.load(Ordering::Relaxed) || self.cameras.iter().all(|camera| camera.socket.lost)
    }

    /// Lets the server take what is kept, then ends every camera and waits until viewers are told.
    fn drain(&mut self, drain: Duration) -> io::Result<()> {
        let end = Instant::now() + drain;
        while Instant::now() < end && self.flush() {
            self.wait(None)?;
        }
        for camera in &self.cameras {
            // One that is gone has nothing to end.
            let _ = camera.socket.stream.shutdown(Shutdown::Write);
        }
        while Instant::now() < end && self.viewers.iter().any(|viewer| !viewer.socket.lost) {
            self.wait(Some(Duration::from_millis(10)))?;
        }
        Ok(())
    }

    /// Offers what was kept again; whether anything still is.
    fn flush(&mut self) -> bool {
        let mut left = false;
        for camera in &mut self.cameras {
            if !camera.kept.is_empty() {
                camera.flush();
                left |= !camera.kept.is_empty();
            }
        }
        left
    }

    /// Until the next tick, or until a viewer has something to read.
    fn wait(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.queue.wait(&mut self.events, most)?;
        for viewer in slots(&self.events) {
            self.summary.watched += self.viewers[viewer].watch();
        }
        Ok(())
    }

    fn sum_up(mut self) -> CameraSummary {
        let late = self.late.summary();
        let summary = &mut self.summary;
        (summary.late_p50_us, summary.late_p99_us) = (late.p50_us, late.p99_us);
        summary.dropped = self.cameras.iter().map(|camera| camera.dropped).sum();
        summary.cameras_lost = self
            .cameras
            .iter()
            .filter(|camera| camera.socket.lost)
            .count() as u64;
        let pairs = self.viewers.iter().zip(&self.cameras);
        let missed = pairs.map(|(viewer, camera)| viewer.missed(camera.number));
        summary.missed = missed.sum();
        self.summary
    }
}

impl Camera {
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

    fn flush(&mut self) {
        let taken = self.socket.write(&self.kept);
        self.kept.drain(..taken);
    }
}

impl Viewer {
    /// Reads all there is; how many frames ended in it.
    fn watch(&mut self) -> u64 {
        let mut frames = 0;
        let mut buffer = [0; 64 * 1024];
        loop {
            let len = self.socket.read(&mut buffer);
            match self.follower.take(&buffer[..len]) {
                Ok(_) if len == 0 => return frames,
                Ok(seen) => frames += seen.frames,
                Err(_) => self.socket.lost = true,
            }
        }
    }

    /// Frames that it was not sent, of the `numbered` ones of its camera: from its first on.
    fn missed(&self, numbered: u64) -> u64 {
        self.follower.lost() + numbered.saturating_sub(self.follower.next())
    }
}
