//! Live parts of the cameras that are watched. A camera has one task however many watch it, and
//! none while nobody does.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel::time::{Instant, timeout};
use tokio::sync::Notify;

use super::parts::Cutter;
use super::window::{Next, Window};
use crate::hub::{Event, From, Hub, SubscribeError, Subscriber};
use crate::media::Track;
use crate::mp4::{Mp4Error, Origin};

/// How long parts are kept ready after somebody has asked for one.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// How often that is looked at while the camera is silent.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Bytes of one camera's parts.
const CAMERA_BYTES_MAX: usize = 24 << 20;
/// Bytes of one camera's parts while all together have too many.
const CAMERA_BYTES_TIGHT: usize = 2 << 20;
/// How far a viewer may be behind, in parts: some three seconds.
pub const BEHIND_MAX: u64 = 25;

/// The cameras that are watched.
#[derive(Debug)]
pub struct Lives {
    hub: Arc<Hub>,
    bytes_max: usize,
    bytes: Arc<AtomicUsize>,
    lives: Mutex<BTreeMap<String, Arc<Live>>>,
}

/// A camera that is watched.
#[derive(Debug)]
pub struct Live {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    window: Window,
    asked: Instant,
    /// Somebody watches by a WebSocket.
    viewers: usize,
    /// Why there are no parts, if the camera sends something that cannot be shown.
    trouble: Option<String>,
    has_ended: bool,
}

/// A viewer, until this is dropped.
#[derive(Debug)]
pub struct Viewing {
    live: Arc<Live>,
}

impl Lives {
    /// None is watched.
    pub fn new(hub: Arc<Hub>, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            hub,
            bytes_max,
            bytes: Arc::default(),
            lives: Mutex::default(),
        })
    }

    /// The live parts of a camera, from its newest key frame on.
    ///
    /// # Errors
    ///
    /// There is no such camera, or too many are watched.
    pub fn of(self: &Arc<Self>, camera: &str) -> Result<Arc<Live>, SubscribeError> {
        let mut lives = self.lives();
        if let Some(live) = lives.get(camera) {
            let mut state = live.state();
            if !state.has_ended {
                state.asked = Instant::now();
                drop(state);
                return Ok(Arc::clone(live));
            }
        }
        let samples = self.hub.subscribe(camera, From::NewestKey)?;
        let live = Arc::new(Live {
            state: Mutex::new(State {
                window: Window::default(),
                asked: Instant::now(),
                viewers: 0,
                trouble: None,
                has_ended: false,
            }),
            changed: Notify::new(),
        });
        lives.insert(camera.to_owned(), Arc::clone(&live));
        let packs = Pack {
            lives: Arc::clone(self),
            live: Arc::clone(&live),
            samples,
            cutter: None,
            tracks: None,
        };
        drop(evenkeel::spawn(packs.run()));
        Ok(live)
    }

    /// How many cameras are watched.
    pub fn count(&self) -> usize {
        self.lives().len()
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        // Relaxed: a number to show.
        self.bytes.load(Ordering::Relaxed)
    }

    fn lives(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Live>>> {
        // A map, which no panic leaves half-changed.
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// Looks at the newest parts.
    pub fn look<T>(&self, look: impl FnOnce(&Window) -> T) -> T {
        look(&self.state().window)
    }

    /// Why there are no parts.
    pub fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// Watches until what is returned is dropped.
    pub fn view(self: &Arc<Self>) -> Viewing {
        self.state().viewers += 1;
        Viewing {
            live: Arc::clone(self),
        }
    }

    /// Waits until `found` finds something in the newest parts. `None` if the camera is watched no
    /// longer, or was removed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn until<T>(&self, mut found: impl FnMut(&Window) -> Option<T>) -> Option<T> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on a change is not missed.
            changed.as_mut().enable();
            {
                let state = self.state();
                if let Some(found) = found(&state.window) {
                    return Some(found);
                }
                if state.has_ended {
                    return None;
                }
            }
            changed.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Parts and numbers, which no panic leaves half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Viewing {
    /// Waits for the part after that with this number; 0 asks for the newest key frame. `None` if
    /// the camera is gone.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn after(&self, number: u64) -> Option<Next> {
        let next = |window: &Window| match window.after(number, BEHIND_MAX) {
            Next::Nothing => None,
            next => Some(next),
        };
        self.live.until(next).await
    }

    /// Why there are no parts.
    pub fn trouble(&self) -> Option<String> {
        self.live.trouble()
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let mut state = self.live.state();
        state.viewers -= 1;
        state.asked = Instant::now();
    }
}

/// The task of a camera.
struct Pack {
    lives: Arc<Lives>,
    live: Arc<Live>,
    samples: Subscriber,
    cutter: Option<Cutter>,
    /// Those of a session whose first sample, and with it the time, has not come.
    tracks: Option<Arc<[Track]>>,
}

impl Pack {
    async fn run(mut self) {
        loop {
            match timeout(LOOK_EVERY, self.samples.next()).await {
                Ok(Event::Removed) => break,
                Ok(event) => {
                    if let Err(error) = self.take(event) {
                        // The rest of the session cannot be shown.
                        self.cutter = None;
                        self.live.change(|state| {
                            state.window.end();
                            state.trouble = Some(error.to_string());
                        });
                    }
                }
                Err(_) => {}
            }
            if self.is_idle() {
                break;
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<(), Mp4Error> {
        match event {
            Event::Parameters { tracks, .. } => {
                self.cutter = None;
                self.tracks = Some(tracks);
            }
            Event::Sample(sample) => {
                if let Some(tracks) = self.tracks.take() {
                    let track = tracks.get(usize::from(sample.track));
                    let now = SystemTime::now();
                    if let Some(track) = track {
                        self.begin(&tracks, Origin::by(track, &sample, now))?;
                    }
                }
                let part = match &mut self.cutter {
                    Some(cutter) => cutter.push(sample)?,
                    None => None,
                };
                if let Some(part) = part {
                    let bytes_max = self.bytes_max();
                    self.change_window(|window| window.push(part, bytes_max));
                }
            }
            Event::Lagged { .. } => {
                if let Some(cutter) = &mut self.cutter {
                    cutter.skip();
                }
                self.live.change(|state| state.window.end());
            }
            Event::Ended => {
                self.cutter = None;
                self.live.change(|state| state.window.end());
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, tracks: &[Track], origin: Origin) -> Result<(), Mp4Error> {
        match Cutter::begin(tracks, origin)? {
            Some((cutter, head)) => {
                self.cutter = Some(cutter);
                self.live.change(|state| {
                    state.window.begin(head);
                    state.trouble = None;
                });
            }
            None => self.live.change(|state| {
                let names: Vec<_> = tracks.iter().map(|track| track.codec.name()).collect();
                let codecs = names.join(", ");
                state.trouble = Some(format!("browsers play none of its tracks: {codecs}"));
            }),
        }
        Ok(())
    }

    /// Changes the newest parts, and tells the others what they occupy since.
    fn change_window(&self, change: impl FnOnce(&mut Window)) {
        let mut difference = (0, 0);
        self.live.change(|state| {
            difference.0 = state.window.bytes();
            change(&mut state.window);
            difference.1 = state.window.bytes();
        });
        let (before, after) = difference;
        // Relaxed, both: a sum, of which each task adds and takes away its own part.
        self.lives.bytes.fetch_add(after, Ordering::Relaxed);
        self.lives.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// What this camera's parts may occupy.
    fn bytes_max(&self) -> usize {
        if self.lives.bytes() > self.lives.bytes_max {
            CAMERA_BYTES_TIGHT
        } else {
            CAMERA_BYTES_MAX
        }
    }

    fn is_idle(&self) -> bool {
        let state = self.live.state();
        state.viewers == 0 && state.asked.elapsed() > IDLE_MAX
    }
}

impl Drop for Pack {
    /// Whoever still looks is told; who comes next begins anew.
    fn drop(&mut self) {
        // Relaxed, as in `change_window`.
        let bytes = self.live.look(Window::bytes);
        self.lives.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut lives = self.lives.lives();
        let camera = self.samples.camera();
        if lives
            .get(camera)
            .is_some_and(|live| Arc::ptr_eq(live, &self.live))
        {
            lives.remove(camera);
        }
        drop(lives);
        self.live.change(|state| state.has_ended = true);
    }
}

/// Waits at most so long.
pub async fn within<T>(limit: Duration, wait: impl Future<Output = Option<T>>) -> Option<T> {
    timeout(limit, wait).await.ok().flatten()
}
