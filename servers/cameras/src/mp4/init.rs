//! The part of a file in front of the fragments, which says how tracks are encoded.

use bytes::Bytes;
use mp4_atom::{Atom, Encode, FourCC, Ftyp, Moov, Mvex, Mvhd, Trex, Twos};

use super::{Mp4Error, entry};
use crate::media::Track;

/// Units of the file's own times a second.
pub(super) const TIMESCALE: u32 = 1000;

/// Tracks as a file describes them. Of equal ones fragments may be put behind each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The boxes `ftyp` and `moov`.
    pub bytes: Bytes,
}

impl Init {
    /// Describes these tracks.
    ///
    /// # Errors
    ///
    /// There are none, or parameters of one cannot be read.
    pub fn of(tracks: &[Track]) -> Result<Self, Mp4Error> {
        if tracks.is_empty() {
            return Err(Mp4Error::NoTracks { tracks: 0 });
        }
        let mut moov = Moov {
            mvhd: Mvhd {
                timescale: TIMESCALE,
                rate: 1.into(),
                volume: 1.into(),
                next_track_id: tracks.iter().map(entry::number).max().unwrap_or(0) + 1,
                ..Mvhd::default()
            },
            mvex: Some(Mvex {
                mehd: None,
                trex: tracks.iter().map(trex).collect(),
            }),
            ..Moov::default()
        };
        for track in tracks {
            moov.trak.push(entry::trak(track, entry::entry(track)?));
        }
        let mut bytes = Vec::with_capacity(1024);
        ftyp().encode(&mut bytes)?;
        moov.encode(&mut bytes)?;
        rename(&mut bytes, tracks.iter().filter_map(entry::renamed));
        Ok(Self {
            bytes: bytes.into(),
        })
    }
}

/// What browsers and recorders know: fragments with times of their own (`iso6`), and CMAF.
pub(super) fn ftyp() -> Ftyp {
    Ftyp {
        major_brand: FourCC::new(b"iso6"),
        minor_version: 0,
        compatible_brands: [b"iso6", b"cmfc", b"mp41"].map(FourCC::new).into(),
    }
}

fn trex(track: &Track) -> Trex {
    Trex {
        track_id: entry::number(track),
        default_sample_description_index: 1,
        default_sample_duration: 0,
        default_sample_size: 0,
        default_sample_flags: 0,
    }
}

/// Gives entries of G.711 their names, in the order of the tracks.
pub(super) fn rename(bytes: &mut [u8], names: impl Iterator<Item = FourCC>) {
    let mut from = 0;
    let written: [u8; 4] = Twos::KIND.into();
    for name in names {
        let rest = &bytes[from..];
        if let Some(at) = rest.windows(4).position(|four| four == written) {
            let at = from + at;
            bytes[at..at + 4].copy_from_slice(&<[u8; 4]>::from(name));
            from = at + 4;
        }
    }
}
