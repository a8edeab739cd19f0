//! The parts in front of several files as one, so that their fragments can follow each other.

use std::time::Duration;

use bytes::Bytes;
use mp4_atom::{Any, Atom, DecodeMaybe, Encode, FourCC, Mehd, Moov, Trak, Twos};

use super::init::{self, TIMESCALE};
use super::{Mp4Error, entry};

/// Names of G.711's entries, which the library does not know. They have the shape of `twos`.
const G711: [[u8; 4]; 2] = [*b"alaw", *b"ulaw"];

/// What is in front of a file's fragments.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    moov: Moov,
    /// Names of entries that the library was told are `twos`, in their order.
    renamed: Vec<[u8; 4]>,
}

impl Description {
    /// Ticks a second of each track, by its number less 1.
    pub fn rates(&self) -> Vec<u32> {
        let mut rates = Vec::new();
        for trak in &self.moov.trak {
            let place = trak.tkhd.track_id.saturating_sub(1) as usize;
            // A file of ours has no more tracks than a session.
            if place < crate::hub::TRACKS_MAX {
                rates.resize(rates.len().max(place + 1), 0);
                rates[place] = trak.mdia.mdhd.timescale;
            }
        }
        rates
    }
}

impl Description {
    /// The part of it that browsers play, with its type as they are asked for it. `None` if they
    /// play nothing of it.
    pub fn for_browsers(&self) -> Option<(Self, String)> {
        let mut moov = self.moov.clone();
        let mut codecs = Vec::new();
        let mut is_video = false;
        moov.trak.retain(|trak| {
            let entry = trak.mdia.minf.stbl.stsd.codecs.first();
            let name = entry.and_then(entry::rfc6381_of);
            is_video |= name.is_some() && trak.mdia.minf.vmhd.is_some();
            codecs.extend(name.clone());
            name.is_some()
        });
        if codecs.is_empty() {
            return None;
        }
        let numbers: Vec<u32> = moov.trak.iter().map(|trak| trak.tkhd.track_id).collect();
        if let Some(mvex) = &mut moov.mvex {
            mvex.trex.retain(|trex| numbers.contains(&trex.track_id));
        }
        let kind = if is_video { "video" } else { "audio" };
        let kind = format!("{kind}/mp4; codecs=\"{}\"", codecs.join(","));
        let renamed = Vec::new();
        Some((Self { moov, renamed }, kind))
    }
}

/// Reads what is in front of a file's fragments.
///
/// # Errors
///
/// It cannot be read.
pub fn describe(init: &[u8]) -> Result<Description, Mp4Error> {
    let mut bytes = init.to_vec();
    let mut renamed = Vec::new();
    let mut at = 0;
    while at + 4 <= bytes.len() {
        let four = &mut bytes[at..at + 4];
        match G711.iter().find(|name| name.as_slice() == four) {
            Some(name) => {
                renamed.push(*name);
                four.copy_from_slice(&<[u8; 4]>::from(Twos::KIND));
                at += 4;
            }
            None => at += 1,
        }
    }
    let mut rest = bytes.as_slice();
    while let Some(any) = Any::decode_maybe(&mut rest)? {
        if let Any::Moov(moov) = any {
            return Ok(Description { moov, renamed });
        }
    }
    Err(Mp4Error::Damaged(
        "a file does not say how its tracks are encoded",
    ))
}

/// Descriptions that are being put together.
#[derive(Clone, Debug)]
pub struct Merged {
    moov: Moov,
    renamed: Vec<[u8; 4]>,
    /// Those that are in it, by the number that fragments name.
    added: Vec<Description>,
}

impl Merged {
    /// Begins with the first one, which still has to be added.
    pub fn begin(first: &Description) -> Self {
        let mut moov = first.moov.clone();
        for trak in &mut moov.trak {
            trak.mdia.minf.stbl.stsd.codecs.clear();
        }
        Self {
            moov,
            renamed: Vec::new(),
            added: Vec::new(),
        }
    }

    /// Adds one, and returns the number by which its fragments name it. `None` if its tracks are
    /// others than those of the first one.
    pub fn add(&mut self, other: &Description) -> Option<u32> {
        if let Some(place) = self.added.iter().position(|it| it == other) {
            return u32::try_from(place + 1).ok();
        }
        let tracks = |moov: &Moov| moov.trak.iter().map(track).collect::<Vec<_>>();
        if tracks(&self.moov) != tracks(&other.moov) {
            return None;
        }
        for (trak, more) in self.moov.trak.iter_mut().zip(&other.moov.trak) {
            let codecs = &more.mdia.minf.stbl.stsd.codecs;
            trak.mdia
                .minf
                .stbl
                .stsd
                .codecs
                .extend(codecs.iter().cloned());
        }
        // In a track entries stand in the order in which they were added, and laws do not change
        // within a session's track; so those of a track are alike.
        self.renamed.extend(&other.renamed);
        self.added.push(other.clone());
        u32::try_from(self.added.len()).ok()
    }

    /// All as one, with the duration of what follows.
    ///
    /// # Errors
    ///
    /// The library's.
    pub fn bytes(mut self, lasts: Duration) -> Result<Bytes, Mp4Error> {
        let milliseconds = lasts.as_millis() * u128::from(TIMESCALE) / 1000;
        if let Some(mvex) = &mut self.moov.mvex {
            mvex.mehd = Some(Mehd {
                fragment_duration: u64::try_from(milliseconds).unwrap_or(u64::MAX),
            });
        }
        let mut bytes = Vec::new();
        init::ftyp().encode(&mut bytes)?;
        self.moov.encode(&mut bytes)?;
        let names = self.renamed.iter().map(FourCC::from);
        init::rename(&mut bytes, names);
        Ok(bytes.into())
    }
}

/// What tracks that follow each other have in common.
fn track(trak: &Trak) -> (u32, FourCC, u32) {
    let mdia = &trak.mdia;
    (trak.tkhd.track_id, mdia.hdlr.handler, mdia.mdhd.timescale)
}
