//! What a browser is sent: a camera's samples from a cursor of its own, as packets with times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::choice::{Choice, Chosen};
use super::packets::{Kind, PAYLOAD_MAX, Packets};
use super::stamps::{Stamp, Stamps};
use crate::hub::{Event, From, Hub, SubscribeError, Subscriber};
use crate::media::{Codec, Sample, Track};
use crate::rtp::packetizer::Packetizer;

/// How long after a key frame was gone back to none is gone back to again: a browser asks again
/// before what it is sent has come.
const REWIND_EVERY: Duration = Duration::from_secs(1);
/// Samples that are counted at most before a key frame is begun with.
const AHEAD_MAX: usize = 20_000;

/// Why nothing more is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The camera sends something else.
    #[error("the camera sends other encodings than were agreed; ask again")]
    Changed,
    /// Pictures are decoded in another order than shown.
    #[error("the camera's pictures are not in the order in which they are shown (B-frames)")]
    Reordered,
    /// The camera was removed.
    #[error("the camera was removed")]
    Removed,
    /// There are too many viewers.
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// The system has no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

/// What is kept from the newest key frame on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// How many pictures.
    pub pictures: u64,
    /// The time of the newest one.
    pub newest: Option<i64>,
    /// Whether one is shown before another that came earlier.
    pub is_reordered: bool,
}

/// Looks at what of a track is kept from the newest key frame on.
///
/// # Errors
///
/// [`SubscribeError`].
pub fn ahead(hub: &Hub, camera: &str, track: u8) -> Result<Ahead, SubscribeError> {
    let mut subscriber = hub.subscribe(camera, From::NewestKey)?;
    let mut ahead = Ahead::default();
    for _ in 0..AHEAD_MAX {
        match subscriber.try_next() {
            Some(Event::Sample(sample)) if sample.track == track => {
                let time = shown(&sample);
                ahead.pictures += 1;
                ahead.is_reordered |= ahead.newest > Some(time);
                ahead.newest = ahead.newest.max(Some(time));
            }
            // Perhaps another session, whose times begin anew.
            Some(Event::Parameters { .. }) => ahead = Ahead::default(),
            None | Some(Event::Removed) => break,
            Some(_) => {}
        }
    }
    Ok(ahead)
}

fn shown(sample: &Sample) -> i64 {
    sample.dts + i64::from(sample.pts_offset)
}

/// A browser's cursor.
#[derive(Debug)]
pub struct Feed {
    hub: Arc<Hub>,
    camera: String,
    subscriber: Subscriber,
    video: Option<Sent>,
    sound: Option<Sent>,
    /// When the time 0 of what is sent was.
    origin: Option<Instant>,
    /// That of the samples that come; with another one times may begin anew.
    generation: u64,
    /// Another one has just begun.
    is_new: bool,
    rewound: Instant,
    /// What waits to be sent.
    pub packets: Packets,
}

/// A track that is sent.
#[derive(Debug)]
struct Sent {
    track: Track,
    packetizer: Packetizer,
    stamps: Stamps,
}

impl Sent {
    fn new(chosen: &Chosen) -> Result<Self, getrandom::Error> {
        let mut random = [0; 10];
        getrandom::fill(&mut random)?;
        let packetizer = Packetizer::new(&chosen.track, chosen.format.number, random);
        Ok(Self {
            track: chosen.track.clone(),
            packetizer: packetizer.with_payload_max(PAYLOAD_MAX),
            stamps: Stamps::default(),
        })
    }

    /// Goes by what the camera sends from now on, if that is of the same kind.
    fn change(&mut self, tracks: &[Track]) -> Result<(), FeedError> {
        let now = tracks.get(usize::from(self.track.id));
        let now = now.ok_or(FeedError::Changed)?;
        let is_same = match (&now.codec, &self.track.codec) {
            // The second byte is the profile.
            (Codec::H264 { sps, .. }, Codec::H264 { sps: before, .. }) => {
                sps.get(1) == before.get(1)
            }
            (now, before) => now == before,
        };
        if !is_same || now.clock_rate != self.track.clock_rate {
            return Err(FeedError::Changed);
        }
        self.track = now.clone();
        Ok(())
    }
}

impl Feed {
    /// Begins at the newest key frame of a camera.
    ///
    /// # Errors
    ///
    /// [`FeedError`].
    pub fn begin(
        hub: &Arc<Hub>,
        camera: &str,
        choice: &Choice,
        now: Instant,
    ) -> Result<Self, FeedError> {
        let sent = |chosen: &Option<Chosen>| chosen.as_ref().map(Sent::new).transpose();
        let mut feed = Self {
            hub: Arc::clone(hub),
            camera: camera.to_owned(),
            subscriber: hub.subscribe(camera, From::NewestKey)?,
            video: sent(&choice.video)?,
            sound: sent(&choice.sound)?,
            origin: None,
            generation: 0,
            is_new: false,
            rewound: now,
            packets: Packets::default(),
        };
        feed.catch_up(now)?;
        Ok(feed)
    }

    /// Waits for what comes next of the camera.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, nothing is lost.
    pub async fn next(&mut self) -> Event {
        self.subscriber.next().await
    }

    /// Goes back to the newest key frame, if there is one and it was not just done. Only when
    /// nothing waits: a picture is not left half-sent.
    ///
    /// # Errors
    ///
    /// [`FeedError`].
    pub fn rewind(&mut self, now: Instant) -> Result<bool, FeedError> {
        let is_behind = self.video.as_ref().is_none_or(|it| it.stamps.is_behind());
        let is_soon = now.saturating_duration_since(self.rewound) < REWIND_EVERY;
        if is_behind || is_soon || !self.packets.is_empty() {
            return Ok(false);
        }
        self.subscriber = self.hub.subscribe(&self.camera, From::NewestKey)?;
        self.rewound = now;
        self.catch_up(now)?;
        Ok(true)
    }

    /// Has the pictures that are there already follow each other quickly.
    fn catch_up(&mut self, now: Instant) -> Result<(), FeedError> {
        let Some(video) = &mut self.video else {
            return Ok(());
        };
        let ahead = ahead(&self.hub, &self.camera, video.track.id)?;
        if ahead.is_reordered {
            return Err(FeedError::Reordered);
        }
        if let Some(newest) = ahead.newest {
            video.stamps.catch_up(ahead.pictures, newest);
            let since = video.track.time_of(newest);
            self.origin
                .get_or_insert_with(|| now.checked_sub(since).unwrap_or(now));
        }
        Ok(())
    }

    /// Takes what has come.
    ///
    /// # Errors
    ///
    /// [`FeedError`].
    pub fn take(&mut self, event: Event, now: Instant) -> Result<(), FeedError> {
        match event {
            Event::Sample(sample) => self.sample(&sample, now),
            Event::Parameters { tracks, generation } => {
                self.is_new = self.generation != 0 && self.generation != generation;
                self.generation = generation;
                let mut sent = [&mut self.video, &mut self.sound].into_iter().flatten();
                sent.try_for_each(|sent| sent.change(&tracks))
            }
            Event::Removed => Err(FeedError::Removed),
            // When a session has ended, the browser waits for the next one.
            Event::Ended | Event::Lagged { .. } | Event::Gop(_) => Ok(()),
        }
    }

    fn sample(&mut self, sample: &Sample, now: Instant) -> Result<(), FeedError> {
        let is_behind = self.video.as_ref().is_some_and(|it| it.stamps.is_behind());
        let is_of = |sent: &Option<Sent>| {
            sent.as_ref()
                .is_some_and(|sent| sent.track.id == sample.track)
        };
        let kind = match (is_of(&self.video), is_of(&self.sound)) {
            (true, _) => Kind::Video,
            // What belongs to old pictures would be heard when they are long over.
            (_, true) if !is_behind => Kind::Sound,
            _ => return Ok(()),
        };
        self.begin_again(sample, now);
        let origin = *self.origin.get_or_insert(now);
        let sent = match kind {
            Kind::Video => &mut self.video,
            Kind::Sound => &mut self.sound,
        };
        let Some(sent) = sent else { return Ok(()) };
        let time = shown(sample);
        let stamp = match kind {
            Kind::Video => sent.stamps.picture(time),
            Kind::Sound => sent.stamps.sound(time),
        };
        let at = match stamp {
            Stamp::At(at) => at,
            Stamp::Passed => return Ok(()),
            Stamp::Reordered => return Err(FeedError::Reordered),
        };
        let (mut into, out) = self.packets.of(kind, origin + sent.track.time_of(at));
        let placed = Sample {
            dts: at,
            pts_offset: 0,
            ..sample.clone()
        };
        if let Codec::H264 { sps, pps } = &sent.track.codec
            && sample.is_key
        {
            for set in [sps, pps] {
                sent.packetizer.write_set(set, &placed, &mut into, out);
            }
        }
        sent.packetizer.write(&placed, &mut into, out);
        Ok(())
    }

    /// Places the first sample of a session of the camera: of the first one, and of one after a
    /// pause, whose times go on as if the clock had not stood still.
    fn begin_again(&mut self, sample: &Sample, now: Instant) {
        let sent = [&mut self.video, &mut self.sound].into_iter().flatten();
        let mut sent: Vec<&mut Sent> = sent.collect();
        let of = sent.iter().find(|sent| sent.track.id == sample.track);
        let Some(of) = of else { return };
        let since = of.track.time_of(shown(sample));
        let is_earlier = of.stamps.is_earlier(shown(sample));
        let Some(origin) = self.origin else {
            self.origin = Some(now.checked_sub(since).unwrap_or(now));
            return;
        };
        // Other parameters within a session leave its times as they are.
        if std::mem::take(&mut self.is_new) && is_earlier {
            let shift = now.saturating_duration_since(origin).saturating_sub(since);
            for sent in &mut sent {
                let ticks = sent.track.ticks_of(shift);
                sent.stamps.restart(ticks);
            }
        }
    }
}

#[cfg(test)]
mod tests;
