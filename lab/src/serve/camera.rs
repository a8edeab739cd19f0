//! The camera service: every connection is a camera whose frames are recorded, and passed on to
//! whoever watches it.

mod delays;
mod recorder;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::delays::Delays;
pub(crate) use self::delays::bucket_end_us;
pub(crate) use self::recorder::RING_LEN;
use self::recorder::Recorder;
use super::args::{Deliveries, ServeArgs};
use super::platform::Platform;
use super::sink::SinkCounters;
use super::stats::Count;
use super::work::compute;
use crate::error::{Error, Result};
use crate::frames::{Follower, Seen, now_ns};

/// Bytes of one read: as much as a delivery can bring, as for the sink.
const BUFFER_LEN: usize = 64 * 1024;
/// Viewers that may wait for their camera.
const WAITING_MAX: usize = 16_384;

/// What all cameras share.
pub(crate) struct Cameras<P: Platform> {
    args: &'static ServeArgs,
    /// Those of the sink among them.
    pub(super) deliveries: SinkCounters,
    counts: Counts,
    /// For each way of delivery that connections take in turn.
    delays: Vec<Delays>,
    /// Viewers that wait for their camera.
    waiting: Mutex<HashMap<u32, P::Stream>>,
}

#[derive(Default)]
struct Counts {
    connections: Count,
    open: Count,
    frames: Count,
    lost: Count,
    broken: Count,
    recorded: Count,
    unrecorded: Count,
    watched: Count,
    /// Viewers that ever came: a camera looks for its own when this has grown.
    viewers: AtomicU64,
}

/// The answer of `GET /camera`: everything since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CameraStats {
    /// Cameras at the moment.
    pub(crate) cameras: u64,
    pub(crate) deliveries: u64,
    pub(crate) bytes: u64,
    /// Frames that came whole.
    pub(crate) frames: u64,
    /// Frames that their cameras counted and that never came.
    pub(crate) lost: u64,
    /// Connections that sent what is no frame, or frames of another camera.
    pub(crate) broken: u64,
    /// Bytes that were written to disk, and recordings that failed.
    pub(crate) recorded: u64,
    pub(crate) unrecorded: u64,
    /// Bytes that viewers were sent.
    pub(crate) watched: u64,
    /// Of each delivery's first frame: buckets, as in `delays`, with how many it took so long.
    pub(crate) delays: Vec<(usize, u64)>,
    /// The same for each way of delivery, where connections take several in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) delays_in_turn: Vec<Vec<(usize, u64)>>,
}

impl<P: Platform> Cameras<P> {
    /// # Errors
    /// When recordings cannot be written, as there is no such directory, and none can be made.
    pub(crate) fn new(args: &'static ServeArgs) -> Result<Self> {
        if let Some(path) = &args.record {
            std::fs::create_dir_all(path).map_err(Error::write(path))?;
        }
        let turns = args.delivery.as_ref().map_or(1, Deliveries::count);
        Ok(Cameras {
            args,
            deliveries: SinkCounters::default(),
            counts: Counts::default(),
            delays: (0..turns).map(|_| Delays::default()).collect(),
            waiting: Mutex::default(),
        })
    }

    pub(crate) fn stats(&self) -> CameraStats {
        let counts = &self.counts;
        let (deliveries, bytes) = self.deliveries.read();
        let mut delays_in_turn: Vec<_> = self.delays.iter().map(Delays::read).collect();
        let delays = delays::sum(&delays_in_turn);
        if delays_in_turn.len() == 1 {
            delays_in_turn.clear();
        }
        CameraStats {
            cameras: counts.open.read(),
            deliveries,
            bytes,
            frames: counts.frames.read(),
            lost: counts.lost.read(),
            broken: counts.broken.read(),
            recorded: counts.recorded.read(),
            unrecorded: counts.unrecorded.read(),
            watched: counts.watched.read(),
            delays,
            delays_in_turn,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, P::Stream>> {
        // Every change is one insertion or removal: there is no half-made state to fear.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, seen: &Seen, turn: usize) {
        self.counts.frames.add(seen.frames);
        if seen.lost > 0 {
            self.counts.lost.add(seen.lost);
        }
        if let Some(sent_ns) = seen.sent_ns {
            self.delays[turn].count(now_ns().saturating_sub(sent_ns) / 1_000);
        }
    }
}

/// Cameras are numbered as they are accepted.
pub(crate) fn connection<P: Platform>(
    stream: P::Stream,
    cameras: &'static Cameras<P>,
) -> impl Future<Output = ()> + Send {
    let number = cameras.counts.connections.next();
    async move {
        cameras.counts.open.add(1);
        camera(stream, number, cameras).await;
        cameras.counts.open.less(1);
    }
}

/// A viewer says by four bytes, least first, which camera it wants, and is sent all it sends.
pub(crate) async fn viewer<P: Platform>(mut stream: P::Stream, cameras: &'static Cameras<P>) {
    let mut camera = [0; 4];
    if stream.read_exact(&mut camera).await.is_err() {
        return;
    }
    let mut waiting = cameras.waiting();
    if waiting.len() < WAITING_MAX {
        waiting.insert(u32::from_le_bytes(camera), stream);
    }
    drop(waiting);
    cameras.counts.viewers.fetch_add(1, Ordering::Release);
}

async fn camera<P: Platform>(mut stream: P::Stream, number: u64, cameras: &Cameras<P>) {
    let mut turn = 0;
    if let Some(deliveries) = &cameras.args.delivery {
        let delivery;
        (turn, delivery) = deliveries.of(number);
        if let Err(error) = P::set_delivery(&stream, delivery) {
            eprintln!("camera: its delivery cannot be set: {error}");
            return;
        }
    }
    let mut follower = Follower::from_first();
    let mut recorder = Recorder::<P>::begin(cameras, number).await;
    let mut viewer = Viewer::<P>(None, 0);
    let mut buffer = vec![0; BUFFER_LEN];
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        let bytes = &buffer[..len];
        cameras.deliveries.delivered(len);
        match follower.take(bytes) {
            Ok(seen) => cameras.count(&seen, turn),
            Err(_) => {
                cameras.counts.broken.add(1);
                return;
            }
        }
        compute(cameras.args.work_us);
        recorder.keep(bytes).await;
        viewer.pass(bytes, follower.camera, cameras).await;
    }
    recorder.flush().await;
}

/// Who watches a camera, if anybody does, and how many viewers had come when it was last looked
/// for.
struct Viewer<P: Platform>(Option<P::Stream>, u64);

impl<P: Platform> Viewer<P> {
    /// Passes on what a camera sent. A viewer that is slow slows its camera; one that is gone is
    /// forgotten.
    async fn pass(&mut self, bytes: &[u8], camera: Option<u32>, cameras: &Cameras<P>) {
        // Pairs with the release in `viewer`, after the viewer was put there.
        let viewers = cameras.counts.viewers.load(Ordering::Acquire);
        let Viewer(stream, looked_at) = self;
        if stream.is_none() && *looked_at != viewers {
            *looked_at = viewers;
            *stream = camera.and_then(|camera| cameras.waiting().remove(&camera));
        }
        let Some(viewer) = stream else {
            return;
        };
        match viewer.write_all(bytes).await {
            Ok(()) => cameras.counts.watched.add(bytes.len() as u64),
            Err(_) => *stream = None,
        }
    }
}
