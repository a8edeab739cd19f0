//! What all parts speak of: tracks, samples and groups of pictures. No I/O, no clock.
//!
//! A [`Sample`] is one picture or one packet of sound, whose bytes are slices of what was received:
//! nothing is copied between a camera and a file or a viewer. A [`Gop`] begins with a key frame and
//! ends before the next one. It is the unit of recording, of dropping, and of catching up.
//!
//! Times of a track are counted in its own clock, from the beginning of the session on. They are
//! 64 bits wide and do not wrap. All tracks of a session share that beginning.

pub mod aac;
mod bits;
pub mod h264;
pub mod h265;

pub use bits::{Bits, without_emulation};

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

/// How a track is encoded, with what a decoder has to know before the first sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// H.264. Samples are NAL units, each behind its length in four bytes (as in `avc1`).
    H264 {
        /// The sequence parameter set, a NAL unit.
        sps: Bytes,
        /// The picture parameter set, a NAL unit.
        pps: Bytes,
    },
    /// H.265. Samples are NAL units, each behind its length in four bytes (as in `hvc1`).
    H265 {
        /// The video parameter set, a NAL unit.
        vps: Bytes,
        /// The sequence parameter set, a NAL unit.
        sps: Bytes,
        /// The picture parameter set, a NAL unit.
        pps: Bytes,
    },
    /// AAC. Samples are raw access units, without ADTS.
    Aac {
        /// The `AudioSpecificConfig`.
        config: Bytes,
        /// How many channels.
        channels: u16,
    },
    /// Opus. Samples are packets; the clock always has 48 000 Hz.
    Opus {
        /// How many channels.
        channels: u16,
    },
    /// G.711: a byte for each channel at each tick of the clock.
    G711 {
        /// Which of the two laws.
        law: Law,
        /// How many channels.
        channels: u16,
    },
    /// JPEG pictures. Samples are whole files of JPEG, with tables.
    Mjpeg {
        /// Pixels from left to right.
        width: u16,
        /// Pixels from top to bottom.
        height: u16,
    },
}

/// The laws of G.711.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// A-law, PCMA, of most of the world.
    A,
    /// Mu-law, PCMU, of North America and Japan.
    Mu,
}

impl Codec {
    /// Whether it is of pictures.
    pub fn is_video(&self) -> bool {
        matches!(
            self,
            Self::H264 { .. } | Self::H265 { .. } | Self::Mjpeg { .. }
        )
    }

    /// Its name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::H264 { .. } => "H.264",
            Self::H265 { .. } => "H.265",
            Self::Aac { .. } => "AAC",
            Self::Opus { .. } => "Opus",
            Self::G711 { law: Law::A, .. } => "G.711 A-law",
            Self::G711 { law: Law::Mu, .. } => "G.711 mu-law",
            Self::Mjpeg { .. } => "MJPEG",
        }
    }

    /// Width and height in pixels, as they are shown. `None` of sound, and of parameter sets that
    /// cannot be read.
    pub fn size(&self) -> Option<(u16, u16)> {
        match self {
            Self::H264 { sps, .. } => h264::Sps::parse(sps).map(|sps| (sps.width, sps.height)),
            Self::H265 { sps, .. } => h265::Sps::parse(sps).map(|sps| (sps.width, sps.height)),
            Self::Mjpeg { width, height } => Some((*width, *height)),
            _ => None,
        }
    }
}

/// One stream of a camera: pictures, or sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its number, from 0 on; its place in the session's list of tracks.
    pub id: u8,
    /// How it is encoded.
    pub codec: Codec,
    /// Ticks a second, in which its times are counted.
    pub clock_rate: u32,
}

impl Track {
    /// This many ticks as a time; negative ones as none.
    pub fn time_of(&self, ticks: i64) -> Duration {
        let ticks = u64::try_from(ticks).unwrap_or_default();
        let rate = u64::from(self.clock_rate.max(1));
        let rest_ns = (ticks % rate) * 1_000_000_000 / rate;
        Duration::from_secs(ticks / rate) + Duration::from_nanos(rest_ns)
    }

    /// A time in ticks.
    pub fn ticks_of(&self, time: Duration) -> i64 {
        let ticks = time.as_nanos() * u128::from(self.clock_rate) / 1_000_000_000;
        i64::try_from(ticks).unwrap_or(i64::MAX)
    }
}

/// One picture, or one packet of sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The track.
    pub track: u8,
    /// When it is decoded, in ticks of the track. In a track each sample has a greater one than the
    /// sample before.
    pub dts: i64,
    /// How much later it is shown than decoded, in ticks; never negative.
    pub pts_offset: u32,
    /// How long it lasts, in ticks, where that is known by itself, as of sound. Otherwise it lasts
    /// until the next one.
    pub duration: Option<u32>,
    /// Whether decoding can begin with it. Every sample of sound is one.
    pub is_key: bool,
    /// Its bytes.
    pub data: Data,
}

/// The bytes of a sample, in slices of what was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    slices: Arc<[Bytes]>,
    len: usize,
}

impl Data {
    /// These slices, one after the other.
    pub fn new(slices: Vec<Bytes>) -> Self {
        let len = slices.iter().map(Bytes::len).sum();
        Self {
            slices: slices.into(),
            len,
        }
    }

    /// Its slices, in order.
    pub fn slices(&self) -> &[Bytes] {
        &self.slices
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it occupies in memory, with what each slice costs.
    pub fn footprint(&self) -> usize {
        self.len + self.slices.len() * size_of::<Bytes>() + SAMPLE_COST
    }

    /// All its bytes in one piece, which are copied unless there is one slice.
    pub fn joined(&self) -> Bytes {
        match &*self.slices {
            [] => Bytes::new(),
            [one] => one.clone(),
            slices => slices.concat().into(),
        }
    }
}

/// What a sample costs besides its bytes: itself, and the counters of its list of slices.
const SAMPLE_COST: usize = size_of::<Sample>() + 2 * size_of::<usize>();

/// A moment, by both clocks. They disagree when somebody sets the clock of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the clock of the system, which may be set.
    pub wall: SystemTime,
    /// Since the process began, by a clock that is never set.
    pub monotonic: Duration,
}

/// A group of pictures: what comes from one key frame up to the next one, with the sound between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gop {
    /// Its number in the camera's life in this process. They have no holes.
    pub number: u64,
    /// The tracks of the session, as they were when it began.
    pub tracks: Arc<[Track]>,
    /// Changes with the tracks or their parameters, and with every new session, whose times begin
    /// anew. Samples of two generations share no file part.
    pub generation: u64,
    /// When its first sample came.
    pub start: Moment,
    /// When the sample came that ended it, or the end of the session.
    pub end: Moment,
    /// Its samples, of all tracks, in the order in which they came.
    pub samples: Vec<Sample>,
    /// Whether decoding can begin with it. One that a limit has cut in two goes on without.
    pub begins_with_key: bool,
    /// What it occupies in memory.
    pub footprint: usize,
}

impl Gop {
    /// How long it lasted when it came.
    pub fn duration(&self) -> Duration {
        self.end.monotonic.saturating_sub(self.start.monotonic)
    }

    /// The bytes of its samples.
    pub fn bytes(&self) -> usize {
        self.samples.iter().map(|sample| sample.data.len()).sum()
    }
}

#[cfg(test)]
mod tests;
