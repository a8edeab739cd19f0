//! The cameras there are: added and removed while the server runs, and what each of them does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::Class;
use evenkeel::task::AbortHandle;

use crate::config::{self, Camera, name_problem};
use crate::hub::{self, ChannelStatus, Hub};
use crate::ingest::{Ingest, State, Status, Watched};
use crate::media::Moment;

/// Why a camera cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// Its name.
    #[error("{0}")]
    Name(String),
    /// There is one of this name.
    #[error(transparent)]
    Taken(#[from] hub::AddError),
    /// There are as many as there may be.
    #[error("there are {CAMERAS_MAX} cameras, as many as there may be")]
    Full,
}

/// The most cameras of one process. Memory and descriptors are for far fewer.
pub const CAMERAS_MAX: usize = 10_000;

/// The cameras.
#[derive(Debug)]
pub struct Cameras {
    hub: Arc<Hub>,
    ingest: Arc<Ingest>,
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    pulls: bool,
    /// Where its streams are, without a password.
    url: Option<String>,
    status: Arc<Status>,
    task: Option<AbortHandle>,
}

impl Known {
    fn status(&self, channel: ChannelStatus, now: Moment) -> CameraStatus {
        let silent = channel
            .last_seen
            .map(|seen| now.monotonic.saturating_sub(seen.monotonic));
        let tracks = channel.tracks.as_deref().unwrap_or_default();
        CameraStatus {
            name: channel.name,
            url: self.url.clone(),
            is_live: channel.tracks.is_some(),
            ingest: self.status.watched(),
            tracks: tracks.iter().map(track).collect(),
            silent_ms: silent.map(|silent| silent.as_millis() as u64),
            viewers: channel.viewers,
            memory: channel.footprint,
            samples: channel.samples,
            bytes: channel.bytes,
            gops: channel.gops,
            dropped: channel.dropped,
            lags: channel.lags,
            sessions: channel.sessions,
        }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// What a camera is, does, and has done.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct CameraStatus {
    /// Its name.
    pub name: String,
    /// Where its streams are, or where it is asked for that, without a password; `None` if it
    /// publishes by itself.
    pub url: Option<String>,
    /// Whether samples come.
    pub is_live: bool,
    /// What its task does.
    pub ingest: Watched,
    /// Its tracks, while it is live.
    pub tracks: Vec<TrackStatus>,
    /// How long ago its last sample came, in milliseconds.
    pub silent_ms: Option<u64>,
    /// Those who watch it.
    pub viewers: usize,
    /// Bytes of it in memory.
    pub memory: usize,
    /// Samples that came.
    pub samples: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Groups of pictures that were completed.
    pub gops: u64,
    /// Samples that were dropped for want of memory.
    pub dropped: u64,
    /// How often a viewer was too slow, and was moved to the newest key frame.
    pub lags: u64,
    /// Sessions that began.
    pub sessions: u64,
}

/// A track of a camera.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TrackStatus {
    /// How it is encoded.
    pub codec: &'static str,
    /// Pixels from left to right, of pictures.
    pub width: Option<u16>,
    /// Pixels from top to bottom.
    pub height: Option<u16>,
    /// Ticks a second.
    pub clock_rate: u32,
}

impl Cameras {
    /// None yet.
    pub fn new(hub: &Arc<Hub>, settings: config::Ingest) -> Arc<Self> {
        Arc::new(Self {
            hub: Arc::clone(hub),
            ingest: Ingest::new(hub, settings),
            known: Mutex::default(),
        })
    }

    /// Adds a camera, and begins to receive it.
    ///
    /// # Errors
    ///
    /// [`AddError`].
    pub fn add(&self, name: &str, camera: Camera) -> Result<(), AddError> {
        if let Some(problem) = name_problem(name) {
            return Err(AddError::Name(problem));
        }
        let mut known = self.known();
        if known.len() >= CAMERAS_MAX {
            return Err(AddError::Full);
        }
        self.hub.add(name)?;
        known.insert(name.to_owned(), self.begin(name, camera));
        Ok(())
    }

    /// Receives a camera in another way. Its recording and its viewers stay; its session ends.
    /// Whether there was one.
    pub fn change(&self, name: &str, camera: Camera) -> bool {
        let mut known = self.known();
        let Some(place) = known.get_mut(name) else {
            return false;
        };
        *place = self.begin(name, camera);
        true
    }

    fn begin(&self, name: &str, camera: Camera) -> Known {
        let pulls = camera.is_asked();
        let status = Status::new(if pulls {
            State::Waiting
        } else {
            State::Expecting
        });
        let url = camera.url.as_ref().or(camera.onvif.as_ref());
        let url = url.map(|url| shown(url.get_ref()));
        let task = pulls.then(|| {
            let ingest = Arc::clone(&self.ingest);
            let run = ingest.run(name.to_owned(), camera, Arc::clone(&status));
            evenkeel::spawn_in(Class::NORMAL, run).abort_handle()
        });
        Known {
            pulls,
            url,
            status,
            task,
        }
    }

    /// Removes a camera, and ends its session and its viewers. Whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let removed = self.known().remove(name);
        self.hub.remove(name);
        removed.is_some()
    }

    /// Its status, if it is one that publishes by itself.
    pub fn publisher(&self, name: &str) -> Option<Arc<Status>> {
        let known = self.known();
        let camera = known.get(name).filter(|known| !known.pulls)?;
        Some(Arc::clone(&camera.status))
    }

    /// What each of them is and does, by name.
    pub fn status(&self) -> Vec<CameraStatus> {
        let now = self.hub.now();
        let channels = self.hub.status();
        let known = self.known();
        let of = |channel: ChannelStatus| {
            let camera = known.get(&channel.name)?;
            Some(camera.status(channel, now))
        };
        channels.into_iter().filter_map(of).collect()
    }

    /// What this camera is and does; `None` if there is none of this name.
    pub fn status_of(&self, name: &str) -> Option<CameraStatus> {
        let channel = self.hub.status_of(name)?;
        let now = self.hub.now();
        let known = self.known();
        Some(known.get(name)?.status(channel, now))
    }

    /// The hub of these cameras.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        // A map, which no panic can leave half-changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn track(track: &crate::media::Track) -> TrackStatus {
    let (width, height) = track.codec.size().unzip();
    TrackStatus {
        codec: track.codec.name(),
        width,
        height,
        clock_rate: track.clock_rate,
    }
}

/// An address without the name and the password in it.
fn shown(url: &rtsp_types::Url) -> String {
    let mut url = url.clone();
    // Fails for addresses without a host, which are not taken.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.to_string()
}
