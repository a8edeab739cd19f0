//! A camera's ring with the tasks around it.
//!
//! The ring is behind a lock, which is held for the copying of one sample's references at most.
//! Those who wait are woken outside of it. Subscribers of groups wait apart from those of samples,
//! so that a recorder is woken once for each group.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::time::Instant;
use servers_common::counters::Counter;
use tokio::sync::Notify;

use super::event::{Event, Grain, Limits};
use super::ring::{Pushed, Ring};
use super::{PublishError, Shared, SubscribeError, now};
use crate::media::{Moment, Sample, Track};

/// A camera in the hub.
#[derive(Debug)]
pub(super) struct Channel {
    name: String,
    limits: Limits,
    began: Instant,
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// Wakes subscribers of samples.
    samples: Notify,
    /// Wakes subscribers of groups.
    gops: Notify,
    counters: Counters,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    has_publisher: bool,
    is_removed: bool,
}

#[derive(Debug, Default)]
struct Counters {
    samples: Counter,
    bytes: Counter,
    gops: Counter,
    dropped: Counter,
    lags: Counter,
    sessions: Counter,
}

/// What a camera does, and has done since it was added.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChannelStatus {
    /// Its name.
    pub name: String,
    /// Its session's tracks; `None` between sessions.
    pub tracks: Option<Arc<[Track]>>,
    /// When its last sample came.
    pub last_seen: Option<Moment>,
    /// Subscribers of samples.
    pub viewers: usize,
    /// Bytes in its ring.
    pub footprint: usize,
    /// Samples that came.
    pub samples: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Groups that were completed.
    pub gops: u64,
    /// Samples that were dropped, since there was no memory for them.
    pub dropped: u64,
    /// How often a subscriber was too slow.
    pub lags: u64,
    /// Sessions that began.
    pub sessions: u64,
}

impl Channel {
    pub(super) fn new(name: &str, limits: Limits, began: Instant, shared: Arc<Shared>) -> Self {
        Self {
            name: name.to_owned(),
            limits,
            began,
            shared,
            state: Mutex::new(State {
                ring: Ring::new(limits),
                has_publisher: false,
                is_removed: false,
            }),
            samples: Notify::new(),
            gops: Notify::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn remove(&self) {
        self.state().is_removed = true;
        self.samples.notify_waiters();
        self.gops.notify_waiters();
    }

    pub(super) fn status(&self) -> ChannelStatus {
        let state = self.state();
        ChannelStatus {
            name: self.name.clone(),
            tracks: state.ring.session().map(|(tracks, _)| Arc::clone(tracks)),
            last_seen: state.ring.last_seen(),
            viewers: state.ring.viewers(),
            footprint: state.ring.footprint(),
            samples: self.counters.samples.total(),
            bytes: self.counters.bytes.total(),
            gops: self.counters.gops.total(),
            dropped: self.counters.dropped.total(),
            lags: self.counters.lags.total(),
            sessions: self.counters.sessions.total(),
        }
    }

    /// Changes the ring, and tells the hub what it occupies since.
    fn change<T>(&self, change: impl FnOnce(&mut Ring) -> T) -> T {
        let mut state = self.state();
        let before = state.ring.footprint();
        let outcome = change(&mut state.ring);
        let after = state.ring.footprint();
        // Pair with nothing: a sum, of which each part changes under its own lock.
        let all = &self.shared.footprint;
        if after >= before {
            all.fetch_add(after - before, Ordering::Relaxed);
        } else {
            all.fetch_sub(before - after, Ordering::Relaxed);
        }
        outcome
    }

    /// What this camera may occupy, while all together have too much.
    fn share(&self) -> Option<usize> {
        // Pair with nothing: rings that see older numbers drop a sample sooner or later.
        let used = self.shared.footprint.load(Ordering::Relaxed);
        let cameras = self.shared.cameras.load(Ordering::Relaxed).max(1);
        (used > self.limits.all_bytes_max).then(|| self.limits.all_bytes_max / cameras)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in the ring would be a bug of ours; what it left is still within its types.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let footprint = self.state().ring.footprint();
        // Pairs with nothing, as in `change`.
        self.shared
            .footprint
            .fetch_sub(footprint, Ordering::Relaxed);
    }
}

/// The session of a camera, which ends when this is dropped.
#[derive(Debug)]
pub struct Publisher {
    channel: Arc<Channel>,
}

impl Publisher {
    pub(super) fn begin(channel: Arc<Channel>, tracks: Arc<[Track]>) -> Result<Self, PublishError> {
        {
            let mut state = channel.state();
            if state.is_removed {
                return Err(PublishError::Unknown(channel.name.clone()));
            }
            if state.has_publisher {
                return Err(PublishError::Busy(channel.name.clone()));
            }
            state.has_publisher = true;
        }
        channel.counters.sessions.one();
        let publisher = Self { channel };
        publisher.parameters(tracks);
        Ok(publisher)
    }

    /// Passes a sample on. Never waits.
    pub fn push(&mut self, sample: Sample) {
        let channel = &*self.channel;
        channel.counters.samples.one();
        channel.counters.bytes.add(sample.data.len() as u64);
        let (at, share) = (now(channel.began), channel.share());
        let Pushed { closed, dropped } = channel.change(|ring| ring.push(sample, at, share));
        channel.counters.dropped.add(dropped);
        channel.samples.notify_waiters();
        if closed {
            channel.counters.gops.one();
            channel.gops.notify_waiters();
        }
    }

    /// The samples that follow have these tracks or parameters.
    pub fn parameters(&self, tracks: Arc<[Track]>) {
        let at = now(self.channel.began);
        if self.channel.change(|ring| ring.begin(tracks, at)) {
            self.channel.counters.gops.one();
            self.channel.gops.notify_waiters();
        }
    }

    /// Whether somebody takes samples, and not only whole groups.
    pub fn is_watched(&self) -> bool {
        self.channel.state().ring.viewers() > 0
    }

    /// Whether the camera was removed, so that nobody gets what is pushed.
    pub fn is_removed(&self) -> bool {
        self.channel.state().is_removed
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let at = now(self.channel.began);
        if self.channel.change(|ring| ring.end(at)) {
            self.channel.counters.gops.one();
        }
        self.channel.state().has_publisher = false;
        self.channel.samples.notify_waiters();
        self.channel.gops.notify_waiters();
    }
}

/// A subscription, which ends when this is dropped.
pub struct Subscriber {
    channel: Arc<Channel>,
    key: usize,
    takes_gops: bool,
}

impl Subscriber {
    pub(super) fn begin(
        channel: Arc<Channel>,
        grain: Grain,
        subscribers_max: usize,
    ) -> Result<Self, SubscribeError> {
        let takes_gops = grain == Grain::Gops;
        // Pair with each other: a count that nothing else goes by.
        let count = &channel.shared.subscribers;
        if !takes_gops && count.fetch_add(1, Ordering::Relaxed) >= subscribers_max {
            count.fetch_sub(1, Ordering::Relaxed);
            return Err(SubscribeError::Full(subscribers_max));
        }
        let key = channel.state().ring.subscribe(grain);
        Ok(Self {
            channel,
            key,
            takes_gops,
        })
    }

    /// Waits for what comes next.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, nothing is lost.
    pub async fn next(&mut self) -> Event {
        let channel = Arc::clone(&self.channel);
        let notify = if self.takes_gops {
            &channel.gops
        } else {
            &channel.samples
        };
        loop {
            let mut woken = std::pin::pin!(notify.notified());
            // From here on a wake-up is not missed.
            woken.as_mut().enable();
            if let Some(event) = self.try_next() {
                return event;
            }
            woken.await;
        }
    }

    /// What comes next, if it is there.
    pub fn try_next(&mut self) -> Option<Event> {
        let key = self.key;
        let event = self.channel.change(|ring| ring.next(key));
        if let Some(Event::Lagged { .. }) = event {
            self.channel.counters.lags.one();
        }
        if event.is_none() && self.channel.state().is_removed {
            return Some(Event::Removed);
        }
        event
    }

    /// What is there for a subscriber of groups that wants no more: whole groups, and lastly the
    /// incomplete one, as far as it has come.
    pub fn rest(&mut self) -> Option<Event> {
        let (key, at) = (self.key, now(self.channel.began));
        self.channel.change(|ring| ring.rest(key, at))
    }

    /// The camera's name.
    pub fn camera(&self) -> &str {
        &self.channel.name
    }

    /// How long ago the camera's last sample came.
    pub fn silence(&self) -> Option<Duration> {
        let last_seen = self.channel.state().ring.last_seen()?;
        Some(
            self.channel
                .began
                .elapsed()
                .saturating_sub(last_seen.monotonic),
        )
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("camera", &self.channel.name)
            .field("takes_gops", &self.takes_gops)
            .finish_non_exhaustive()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let key = self.key;
        self.channel.change(|ring| ring.unsubscribe(key));
        if !self.takes_gops {
            // Pairs with the count in `begin`.
            self.channel
                .shared
                .subscribers
                .fetch_sub(1, Ordering::Relaxed);
        }
    }
}
