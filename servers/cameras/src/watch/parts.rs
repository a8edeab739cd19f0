//! Samples cut into parts, which browsers take one after the other. Pure.
//!
//! A part begins with a key frame, or goes on from the part before. It ends before the next key
//! frame, or when it is long enough. The last sample of each track stays behind until the next one
//! comes: browsers have to be told how long each lasts, and one that is told too little stops.

use bytes::Bytes;

use crate::media::{Sample, Track};
use crate::mp4::entry::rfc6381;
use crate::mp4::{Fragment, Init, Mp4Error, Origin, Piece};

/// How long a part is, about, or one picture if that lasts longer. A live picture waits that long
/// at most for its part to be complete.
pub const PART_US: i64 = 100_000;
/// How many samples wait for the one after them; more are an error of the stream's times.
const SAMPLES_MAX: usize = 4_096;

/// How the parts that follow are to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What is in front of them.
    pub init: Bytes,
    /// Their type, as browsers are asked whether they play it.
    pub kind: String,
    /// The codecs alone, as playlists name them.
    pub codecs: String,
}

/// Samples of a short time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The fragment.
    pub bytes: Bytes,
    /// When it begins, by the calendar.
    pub start_us: i64,
    /// How long it lasts.
    pub duration_us: i64,
    /// Whether decoding can begin with it.
    pub is_key: bool,
}

/// Cuts the samples of a session.
#[derive(Debug)]
pub struct Cutter {
    tracks: Vec<Track>,
    leading: u8,
    origin: Origin,
    waiting: Vec<Sample>,
    number: u32,
    /// A part begins with a key frame, until one has come.
    has_begun: bool,
}

impl Cutter {
    /// Begins a session, with those of its tracks that browsers play. `None` if there is none.
    ///
    /// # Errors
    ///
    /// Their parameters cannot be read.
    pub fn begin(tracks: &[Track], origin: Origin) -> Result<Option<(Self, Head)>, Mp4Error> {
        let playable = |track: &&Track| rfc6381(track).is_some();
        let tracks: Vec<Track> = tracks.iter().filter(playable).cloned().collect();
        let leading = tracks.iter().find(|track| track.codec.is_video());
        let Some(leading) = leading.or(tracks.first()) else {
            return Ok(None);
        };
        let codecs: Vec<String> = tracks.iter().filter_map(rfc6381).collect();
        let codecs = codecs.join(",");
        let kind = if leading.codec.is_video() {
            "video"
        } else {
            "audio"
        };
        let head = Head {
            init: Init::of(&tracks)?.bytes,
            kind: format!("{kind}/mp4; codecs=\"{codecs}\""),
            codecs,
        };
        let cutter = Self {
            leading: leading.id,
            tracks,
            origin,
            waiting: Vec::new(),
            number: 0,
            has_begun: false,
        };
        Ok(Some((cutter, head)))
    }

    /// Takes a sample. Returns a part if one is complete.
    ///
    /// # Errors
    ///
    /// It cannot be put into a fragment.
    pub fn push(&mut self, sample: Sample) -> Result<Option<Part>, Mp4Error> {
        if !self.tracks.iter().any(|track| track.id == sample.track) {
            return Ok(None);
        }
        let leads = sample.track == self.leading;
        if !self.has_begun {
            if !leads || !sample.is_key {
                return Ok(None);
            }
            self.has_begun = true;
        }
        let ends = leads && (sample.is_key || self.lasts_us(sample.dts) >= PART_US);
        let is_full = self.waiting.len() >= SAMPLES_MAX;
        self.waiting.push(sample);
        if ends || is_full {
            self.cut()
        } else {
            Ok(None)
        }
    }

    /// Samples are missing here: the next part begins with a key frame.
    pub fn skip(&mut self) {
        self.waiting.clear();
        self.has_begun = false;
    }

    /// How long the part is, if it ends before a sample of the leading track with this time.
    fn lasts_us(&self, until: i64) -> i64 {
        let first = self
            .waiting
            .iter()
            .find(|sample| sample.track == self.leading);
        let track = self.tracks.iter().find(|track| track.id == self.leading);
        match (first, track) {
            (Some(first), Some(track)) => {
                self.origin.us_of(track, until) - self.origin.us_of(track, first.dts)
            }
            _ => 0,
        }
    }

    /// Takes all samples whose next one is there, or whose duration is known by itself.
    fn cut(&mut self) -> Result<Option<Part>, Mp4Error> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut pieces = Vec::with_capacity(waiting.len());
        for (place, sample) in waiting.iter().enumerate() {
            let next = waiting[place + 1..]
                .iter()
                .find(|it| it.track == sample.track);
            let until = next.map(|next| u32::try_from(next.dts - sample.dts).unwrap_or(0));
            match until.or(sample.duration.filter(|_| sample.track != self.leading)) {
                Some(duration) => pieces.push(Piece { sample, duration }),
                None => self.waiting.push(sample.clone()),
            }
        }
        let leads = |piece: &&Piece<'_>| piece.sample.track == self.leading;
        let track = self.tracks.iter().find(|track| track.id == self.leading);
        let (Some(first), Some(track)) = (pieces.iter().find(leads), track) else {
            // Sound alone waits for the picture that it belongs to.
            self.waiting = waiting;
            return Ok(None);
        };
        let ticks = pieces
            .iter()
            .filter(leads)
            .map(|piece| i64::from(piece.duration))
            .sum();
        self.number = self.number.wrapping_add(1);
        let fragment = Fragment::of_pieces(self.number, &self.tracks, &pieces, self.origin)?;
        let start_us = self.origin.us_of(track, first.sample.dts);
        Ok(Some(Part {
            bytes: fragment.joined(),
            start_us,
            duration_us: crate::mp4::origin::us_of(track.time_of(ticks)),
            is_key: first.sample.is_key,
        }))
    }
}

#[cfg(test)]
mod tests;
