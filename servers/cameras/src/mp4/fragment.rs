//! Samples as a fragment: a table of their lengths and times, and then their bytes.

use bytes::Bytes;
use mp4_atom::{Encode, Mfhd, Moof, Tfdt, Tfhd, Traf, Trun, TrunEntry};

use super::{Mp4Error, Origin, entry};
use crate::media::{Sample, Track};

/// Flags of a sample with which decoding can begin, and of one that needs others (ISO/IEC 14496-12,
/// 8.8.3.1).
const KEY: u32 = 0x0200_0000;
const NOT_KEY: u32 = 0x0101_0000;
/// The length and the name of a box.
const HEADER: usize = 8;

/// A fragment, in pieces: the table, and what was received.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// Its bytes, one piece after the other.
    pub pieces: Vec<Bytes>,
    /// How many bytes there are.
    pub len: usize,
    /// How many of them are in front of the samples' bytes.
    pub head: usize,
}

/// A sample with its duration.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The sample.
    pub sample: &'a Sample,
    /// How long it lasts, in ticks.
    pub duration: u32,
}

impl Fragment {
    /// Puts samples of these tracks into a fragment. Each lasts until the next one of its track.
    /// The last one lasts as long as the one before, or a single one this long.
    ///
    /// # Errors
    ///
    /// Too many bytes.
    pub fn of(
        number: u32,
        tracks: &[Track],
        samples: &[Sample],
        origin: Origin,
        alone: std::time::Duration,
    ) -> Result<Self, Mp4Error> {
        let mut pieces = Vec::with_capacity(samples.len());
        for track in tracks {
            let mut of_track = samples.iter().filter(|it| it.track == track.id).peekable();
            let mut last = None;
            while let Some(sample) = of_track.next() {
                let until = of_track.peek().map(|next| narrow(next.dts - sample.dts));
                let known = sample.duration.or(until).or(last);
                let duration = known.unwrap_or_else(|| narrow(track.ticks_of(alone)));
                last = Some(duration);
                pieces.push(Piece { sample, duration });
            }
        }
        Self::of_pieces(number, tracks, &pieces, origin)
    }

    /// The same, where the durations are known. Pieces of a track are in their order.
    ///
    /// # Errors
    ///
    /// Too many bytes.
    pub fn of_pieces(
        number: u32,
        tracks: &[Track],
        pieces: &[Piece<'_>],
        origin: Origin,
    ) -> Result<Self, Mp4Error> {
        let mut moof = Moof {
            mfhd: Mfhd {
                sequence_number: number,
            },
            traf: Vec::with_capacity(tracks.len()),
        };
        let mut data = Vec::with_capacity(pieces.len() * 2 + 1);
        let mut bytes = 0;
        for track in tracks {
            let before = bytes;
            let mut entries = Vec::new();
            let mut first = None;
            for piece in pieces.iter().filter(|it| it.sample.track == track.id) {
                first.get_or_insert(piece.sample.dts);
                entries.push(run_entry(*piece)?);
                bytes += piece.sample.data.len();
                data.extend(piece.sample.data.slices().iter().cloned());
            }
            if let Some(first) = first {
                moof.traf.push(traf(track, first, before, entries, origin)?);
            }
        }
        let too_long = |_| Mp4Error::TooLong { bytes };
        // Its length does not depend on the offsets in it.
        let mut head = Vec::with_capacity(256 + pieces.len() * 16);
        moof.encode(&mut head)?;
        let base = i32::try_from(head.len() + HEADER).map_err(too_long)?;
        for run in moof.traf.iter_mut().flat_map(|traf| &mut traf.trun) {
            run.data_offset = run.data_offset.and_then(|offset| offset.checked_add(base));
        }
        head.clear();
        moof.encode(&mut head)?;
        let mdat = u32::try_from(bytes + HEADER).map_err(too_long)?;
        head.extend(mdat.to_be_bytes());
        head.extend(b"mdat");
        let (len, head_len) = (head.len() + bytes, head.len());
        data.insert(0, head.into());
        Ok(Self {
            pieces: data,
            len,
            head: head_len,
        })
    }

    /// Its checksum.
    pub fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for piece in &self.pieces {
            hasher.update(piece);
        }
        hasher.finalize()
    }

    /// All its bytes in one piece.
    pub fn joined(&self) -> Bytes {
        self.pieces.concat().into()
    }
}

fn run_entry(piece: Piece<'_>) -> Result<TrunEntry, Mp4Error> {
    let bytes = piece.sample.data.len();
    Ok(TrunEntry {
        duration: Some(piece.duration),
        size: Some(u32::try_from(bytes).map_err(|_| Mp4Error::TooLong { bytes })?),
        flags: Some(if piece.sample.is_key { KEY } else { NOT_KEY }),
        cts: Some(i64::from(piece.sample.pts_offset)),
    })
}

fn traf(
    track: &Track,
    first: i64,
    offset: usize,
    entries: Vec<TrunEntry>,
    origin: Origin,
) -> Result<Traf, Mp4Error> {
    let data_offset = i32::try_from(offset).map_err(|_| Mp4Error::TooLong { bytes: offset })?;
    Ok(Traf {
        tfhd: Tfhd {
            track_id: entry::number(track),
            sample_description_index: Some(1),
            default_base_is_moof: true,
            ..Tfhd::default()
        },
        tfdt: Some(Tfdt {
            base_media_decode_time: origin.ticks(track, first),
        }),
        trun: vec![Trun {
            data_offset: Some(data_offset),
            samples: entries.into(),
        }],
        ..Traf::default()
    })
}

fn narrow(ticks: i64) -> u32 {
    u32::try_from(ticks.max(0)).unwrap_or(u32::MAX)
}
