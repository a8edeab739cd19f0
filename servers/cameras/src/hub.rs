//! Passes samples from the task that receives them on to all that want them.
//!
//! Each camera has a ring of groups of pictures in memory. A [`Publisher`] puts samples in
//! and never waits. Each [`Subscriber`] has a cursor in the ring, and takes the next sample or the
//! next whole group when it likes. One that falls behind what the ring keeps goes on at the newest
//! key frame, and is told so. Nothing it does or omits holds up the publisher or other subscribers.
//!
//! ```text
//!  camera ──▶ Publisher::push ──▶ │ gop 7 │ gop 8 │ gop 9, open ...│ ──▶ Subscriber::next
//!                                    ▲ oldest goes first: by age, by bytes, by what all may have
//! ```
//!
//! A group that is complete stays in the ring only while a subscriber has not taken it, so that a
//! camera without slow viewers occupies one group.

mod channel;
mod event;
mod ring;

pub use channel::{ChannelStatus, Publisher, Subscriber};
pub use event::{Event, From, Limits};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel::time::Instant;

use crate::media::{Moment, Track};
use channel::Channel;
use event::Grain;

/// Why nothing can be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// There is no such camera.
    #[error("there is no camera named {0:?}; add it to the configuration first")]
    Unknown(String),
    /// It has a publisher already.
    #[error("camera {0:?} has a publisher already; end that one first, or use another name")]
    Busy(String),
    /// It would have no tracks, or too many.
    #[error("a session of camera {camera:?} has {tracks} tracks; between 1 and {max} are taken")]
    Tracks {
        /// The camera.
        camera: String,
        /// How many it has.
        tracks: usize,
        /// How many there may be.
        max: usize,
    },
}

/// Why there is no subscription.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// There is no such camera.
    #[error("there is no camera named {0:?}")]
    Unknown(String),
    /// There are as many subscribers as there may be.
    #[error("{0} viewers watch already, as many as there may be (limits.viewers_max)")]
    Full(usize),
}

/// Why a camera cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is a camera named {0:?} already")]
pub struct AddError(pub String);

/// The largest number of tracks of a session.
pub const TRACKS_MAX: usize = 8;

/// All cameras with their rings.
#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    began: Instant,
    channels: Mutex<BTreeMap<String, Arc<Channel>>>,
    shared: Arc<Shared>,
}

/// What all rings have together.
#[derive(Debug, Default)]
struct Shared {
    /// Bytes in all rings. Each ring adds and takes away its own, under its lock.
    footprint: AtomicUsize,
    /// How many cameras there are. Set under the lock of the channels.
    cameras: AtomicUsize,
    /// Live subscribers of all cameras.
    subscribers: AtomicUsize,
}

impl Hub {
    /// Without cameras.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            began: Instant::now(),
            channels: Mutex::default(),
            shared: Arc::default(),
        })
    }

    /// Adds a camera.
    ///
    /// # Errors
    ///
    /// [`AddError`]: there is one of this name.
    pub fn add(&self, camera: &str) -> Result<(), AddError> {
        let mut channels = self.channels();
        if channels.contains_key(camera) {
            return Err(AddError(camera.to_owned()));
        }
        let channel = Channel::new(camera, self.limits, self.began, Arc::clone(&self.shared));
        channels.insert(camera.to_owned(), Arc::new(channel));
        self.count(&channels);
        Ok(())
    }

    /// Removes a camera; its subscribers get [`Event::Removed`]. Whether there was one.
    pub fn remove(&self, camera: &str) -> bool {
        let removed = {
            let mut channels = self.channels();
            let removed = channels.remove(camera);
            self.count(&channels);
            removed
        };
        removed.is_some_and(|channel| {
            channel.remove();
            true
        })
    }

    /// Begins a session of this camera with these tracks, whose `id` is their place in the list.
    ///
    /// # Errors
    ///
    /// [`PublishError`].
    pub fn publish(&self, camera: &str, tracks: Vec<Track>) -> Result<Publisher, PublishError> {
        if tracks.is_empty() || tracks.len() > TRACKS_MAX {
            return Err(PublishError::Tracks {
                camera: camera.to_owned(),
                tracks: tracks.len(),
                max: TRACKS_MAX,
            });
        }
        let channel = self.channel(camera);
        let channel = channel.ok_or_else(|| PublishError::Unknown(camera.to_owned()))?;
        Publisher::begin(channel, tracks.into())
    }

    /// Subscribes to a camera's samples, whether or not a session is under way.
    ///
    /// # Errors
    ///
    /// [`SubscribeError`].
    pub fn subscribe(&self, camera: &str, from: From) -> Result<Subscriber, SubscribeError> {
        self.subscriber(camera, Grain::Samples(from))
    }

    /// Subscribes to a camera's whole groups, from the next one that is completed.
    ///
    /// # Errors
    ///
    /// [`SubscribeError::Unknown`].
    pub fn subscribe_gops(&self, camera: &str) -> Result<Subscriber, SubscribeError> {
        self.subscriber(camera, Grain::Gops)
    }

    /// What each camera does, by name.
    pub fn status(&self) -> Vec<ChannelStatus> {
        let channels: Vec<_> = self.channels().values().map(Arc::clone).collect();
        channels.iter().map(|channel| channel.status()).collect()
    }

    /// What this camera does; `None` if there is none of this name.
    pub fn status_of(&self, camera: &str) -> Option<ChannelStatus> {
        self.channel(camera).map(|channel| channel.status())
    }

    /// What all rings occupy.
    pub fn footprint(&self) -> usize {
        // Pairs with nothing: a number to show.
        self.shared.footprint.load(Ordering::Relaxed)
    }

    /// This moment by both clocks.
    pub fn now(&self) -> Moment {
        now(self.began)
    }

    /// How long ago the monotonic clock of its moments began.
    pub fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    fn subscriber(&self, camera: &str, grain: Grain) -> Result<Subscriber, SubscribeError> {
        let channel = self.channel(camera);
        let channel = channel.ok_or_else(|| SubscribeError::Unknown(camera.to_owned()))?;
        Subscriber::begin(channel, grain, self.limits.subscribers_max)
    }

    fn channel(&self, camera: &str) -> Option<Arc<Channel>> {
        self.channels().get(camera).map(Arc::clone)
    }

    fn count(&self, channels: &BTreeMap<String, Arc<Channel>>) {
        // Pairs with nothing: rings that see an older number share by it a little longer.
        self.shared.cameras.store(channels.len(), Ordering::Relaxed);
    }

    fn channels(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Channel>>> {
        // A map, which no panic can leave half-changed.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now(began: Instant) -> Moment {
    Moment {
        wall: SystemTime::now(),
        monotonic: began.elapsed(),
    }
}

#[cfg(test)]
mod tests;
