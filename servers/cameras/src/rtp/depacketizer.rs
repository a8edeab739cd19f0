//! From the payloads of one track to its pictures or packets of sound.
//!
//! What a loss has damaged is dropped and counted, never passed on in part. A [`Unit`] is made of
//! slices of the payloads; only lengths and heads of a few bytes are new.

use bytes::Bytes;

use super::aac::Aac;
use super::jpeg::Jpeg;
use super::order::Ordered;
use super::simple::{G711, Opus};
use super::video::{self, Video};
use crate::media::{Codec, Data, Law};

/// A picture or a packet of sound, by the track's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its timestamp.
    pub timestamp: u32,
    /// How long it lasts, in ticks, where it says so.
    pub duration: Option<u32>,
    /// Whether decoding can begin with it.
    pub is_key: bool,
    /// From it on, the track is encoded like this, if it is not `None`.
    pub codec: Option<Codec>,
    /// Its bytes.
    pub data: Data,
}

/// Why a payload cannot be used. What it belongs to is dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It ends too early.
    #[error("{codec}: a payload of {len} bytes is cut off in its {part}")]
    Short {
        /// Of what.
        codec: &'static str,
        /// How long the payload is.
        len: usize,
        /// What is not all there.
        part: &'static str,
    },
    /// It is of a sort that is not understood.
    #[error("{codec}: payloads of type {kind} are not supported")]
    Kind {
        /// Of what.
        codec: &'static str,
        /// The type.
        kind: u8,
    },
    /// A picture, or a packet of sound, is larger than any should be.
    #[error("{codec}: a sample has more than {max} {what}")]
    Large {
        /// Of what.
        codec: &'static str,
        /// The limit.
        max: usize,
        /// Of what there is too much.
        what: &'static str,
    },
    /// It contradicts itself or what came before.
    #[error("{codec}: {what}")]
    Nonsense {
        /// Of what.
        codec: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}

/// The largest sample. A key frame of 8K pictures has some megabytes.
pub const SAMPLE_MAX: usize = 16 << 20;

/// The most pieces of a sample beside one for each 256 of its bytes. Payloads are no shorter than
/// some hundred bytes but for the last ones, and each piece costs memory that its bytes do not say.
pub(super) const PIECES_MAX: usize = 4_096;

/// Fails if a sample of so many bytes has too many pieces, or if these are too many bytes.
pub(super) fn check_size(
    codec: &'static str,
    bytes: usize,
    bytes_max: usize,
    pieces: usize,
    what: &'static str,
) -> Result<(), Malformed> {
    let large = |max, what| Err(Malformed::Large { codec, max, what });
    if bytes > bytes_max {
        return large(bytes_max, "bytes");
    }
    if pieces > PIECES_MAX + bytes / 256 {
        return large(PIECES_MAX, what);
    }
    Ok(())
}

/// How a track is packed, as its description says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 6184.
    H264 {
        /// From the description, if it has them.
        sets: Option<(Bytes, Bytes)>,
    },
    /// RFC 7798.
    H265 {
        /// From the description, if it has them.
        sets: Option<(Bytes, Bytes, Bytes)>,
        /// Whether payloads have decoding order numbers.
        has_order_numbers: bool,
    },
    /// RFC 3640.
    Aac {
        /// The `AudioSpecificConfig`.
        config: Bytes,
        /// How many channels.
        channels: u16,
        /// Bits of the size of an access unit.
        size_bits: u32,
        /// Bits of the index of the first access unit.
        index_bits: u32,
        /// Bits of the index of those that follow.
        delta_bits: u32,
    },
    /// RFC 7587.
    Opus {
        /// How many channels.
        channels: u16,
    },
    /// RFC 3551.
    G711 {
        /// Which of the two laws.
        law: Law,
        /// How many channels.
        channels: u16,
    },
    /// RFC 2435.
    Mjpeg,
}

/// Makes units of payloads.
#[derive(Debug)]
pub struct Depacketizer {
    inner: Inner,
    /// Units that were dropped for a loss or a malformed payload.
    dropped: u64,
}

#[derive(Debug)]
enum Inner {
    H264(Video<video::H264>),
    H265(Video<video::H265>),
    Aac(Aac),
    Opus(Opus),
    G711(G711),
    Mjpeg(Jpeg),
}

impl Depacketizer {
    /// For a track that is packed like this.
    pub fn new(format: Format) -> Self {
        let inner = match format {
            Format::H264 { sets } => Inner::H264(Video::new(video::H264::new(sets))),
            Format::H265 {
                sets,
                has_order_numbers,
            } => Inner::H265(Video::new(video::H265::new(sets, has_order_numbers))),
            Format::Aac {
                config,
                channels,
                size_bits,
                index_bits,
                delta_bits,
            } => Inner::Aac(Aac::new(
                config,
                channels,
                [size_bits, index_bits, delta_bits],
            )),
            Format::Opus { channels } => Inner::Opus(Opus::new(channels)),
            Format::G711 { law, channels } => Inner::G711(G711::new(law, channels)),
            Format::Mjpeg => Inner::Mjpeg(Jpeg::default()),
        };
        Self { inner, dropped: 0 }
    }

    /// How the track is encoded, once that is known.
    pub fn codec(&self) -> Option<Codec> {
        match &self.inner {
            Inner::H264(video) => video.codec(),
            Inner::H265(video) => video.codec(),
            Inner::Aac(aac) => Some(aac.codec()),
            Inner::Opus(opus) => Some(opus.codec()),
            Inner::G711(g711) => Some(g711.codec()),
            Inner::Mjpeg(jpeg) => jpeg.codec(),
        }
    }

    /// Takes a payload in, and appends the units that it completes.
    ///
    /// # Errors
    ///
    /// [`Malformed`]: the payload, and what it belongs to, are dropped; the next one may be good.
    pub fn push(&mut self, ordered: &Ordered, out: &mut Vec<Unit>) -> Result<(), Malformed> {
        let dropped = &mut self.dropped;
        match &mut self.inner {
            Inner::H264(video) => video.push(ordered, dropped, out),
            Inner::H265(video) => video.push(ordered, dropped, out),
            Inner::Aac(aac) => aac.push(ordered, dropped, out),
            Inner::Opus(opus) => opus.push(&ordered.packet, out),
            Inner::G711(g711) => g711.push(&ordered.packet, out),
            Inner::Mjpeg(jpeg) => jpeg.push(ordered, dropped, out),
        }
    }

    /// Units that were dropped for a loss or a malformed payload, as far as that is known.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests;
