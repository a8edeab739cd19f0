//! AAC in packets (RFC 3640): several access units in a payload, or one in several payloads.

use bytes::Bytes;

use super::depacketizer::{Malformed, Unit, check_size};
use super::order::Ordered;
use crate::media::aac::AudioConfig;
use crate::media::{Bits, Codec, Data};

const NAME: &str = "AAC";

/// The largest access unit. Of 48 channels, the most there are, each has 768 bytes at most.
const ACCESS_UNIT_MAX: usize = 48 * 768;

/// The most access units of a payload: ten seconds of sound. Each costs some hundred bytes, and may
/// have one.
const ACCESS_UNITS_MAX: usize = 512;

/// Makes access units.
#[derive(Debug)]
pub(super) struct Aac {
    config: Bytes,
    channels: u16,
    /// Of the size, the first index, and the differences of those that follow.
    bits: [u32; 3],
    frame: u32,
    /// An access unit whose end has not come.
    fragments: Option<Fragments>,
    /// The time of an access unit of which a part was lost, and whose rest is of no use.
    damaged: Option<u32>,
}

#[derive(Debug)]
struct Fragments {
    timestamp: u32,
    size: usize,
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl Aac {
    pub(super) fn new(config: Bytes, channels: u16, bits: [u32; 3]) -> Self {
        let frame = AudioConfig::parse(&config).map_or(1_024, |config| config.frame);
        Self {
            config,
            channels,
            bits,
            frame,
            fragments: None,
            damaged: None,
        }
    }

    pub(super) fn codec(&self) -> Codec {
        Codec::Aac {
            config: self.config.clone(),
            channels: self.channels,
        }
    }

    pub(super) fn push(
        &mut self,
        ordered: &Ordered,
        dropped: &mut u64,
        out: &mut Vec<Unit>,
    ) -> Result<(), Malformed> {
        if ordered.after_loss
            && let Some(fragments) = self.fragments.take()
        {
            *dropped += 1;
            self.damaged = Some(fragments.timestamp);
        }
        let packet = &ordered.packet;
        let (sizes, mut rest) = self.sizes(&packet.payload)?;
        if let [size] = sizes[..]
            && (size > rest.len() || self.fragments.is_some())
        {
            return self.fragment(ordered, size, rest, dropped, out);
        }
        if self.fragments.take().is_some() {
            *dropped += 1;
        }
        let mut timestamp = packet.timestamp;
        for size in sizes {
            if size > rest.len() {
                return Err(short(packet.payload.len(), "access units"));
            }
            let unit = rest.split_to(size);
            if !unit.is_empty() {
                out.push(self.unit(timestamp, vec![unit]));
            }
            timestamp = timestamp.wrapping_add(self.frame);
        }
        Ok(())
    }

    /// Reads the sizes of the access units, and leaves these.
    fn sizes(&self, payload: &Bytes) -> Result<(Vec<usize>, Bytes), Malformed> {
        let len = payload.len();
        let bits = payload.first_chunk::<2>().ok_or(short(len, "heads"))?;
        let mut left = u32::from(u16::from_be_bytes(*bits));
        let heads = (left as usize).div_ceil(8);
        let heads = payload.get(2..2 + heads).ok_or(short(len, "heads"))?;
        let mut read = Bits::new(heads);
        let mut sizes = Vec::new();
        let [size_bits, mut index_bits, delta_bits] = self.bits;
        while left > 0 && left >= size_bits + index_bits {
            let size = read.number(size_bits).ok_or(short(len, "heads"))?;
            let index = read.number(index_bits).ok_or(short(len, "heads"))?;
            if index != 0 {
                return Err(Malformed::Nonsense {
                    codec: NAME,
                    what: "interleaved access units are not supported",
                });
            }
            if sizes.len() == ACCESS_UNITS_MAX {
                return Err(Malformed::Large {
                    codec: NAME,
                    max: ACCESS_UNITS_MAX,
                    what: "access units in a payload",
                });
            }
            sizes.push(size as usize);
            left -= size_bits + index_bits;
            index_bits = delta_bits;
        }
        if sizes.is_empty() {
            return Err(short(len, "heads"));
        }
        Ok((sizes, payload.slice(2 + heads.len()..)))
    }

    fn fragment(
        &mut self,
        ordered: &Ordered,
        size: usize,
        piece: Bytes,
        dropped: &mut u64,
        out: &mut Vec<Unit>,
    ) -> Result<(), Malformed> {
        let packet = &ordered.packet;
        if self.damaged == Some(packet.timestamp) {
            return Ok(());
        }
        let fragments = self.fragments.get_or_insert_with(|| Fragments {
            timestamp: packet.timestamp,
            size,
            pieces: Vec::new(),
            bytes: 0,
        });
        let is_empty = piece.is_empty();
        fragments.bytes += piece.len();
        fragments.pieces.push(piece);
        let is_good = !is_empty
            && fragments.timestamp == packet.timestamp
            && fragments.size == size
            && fragments.bytes <= size
            && check_size(
                NAME,
                size,
                ACCESS_UNIT_MAX,
                fragments.pieces.len(),
                "pieces",
            )
            .is_ok()
            && (!packet.marker || fragments.bytes == size);
        if !is_good {
            self.fragments = None;
            self.damaged = Some(packet.timestamp);
            *dropped += 1;
            return Err(Malformed::Nonsense {
                codec: NAME,
                what: "fragments of an access unit do not fit together",
            });
        }
        if packet.marker
            && let Some(fragments) = self.fragments.take()
        {
            out.push(self.unit(fragments.timestamp, fragments.pieces));
        }
        Ok(())
    }

    fn unit(&self, timestamp: u32, pieces: Vec<Bytes>) -> Unit {
        Unit {
            timestamp,
            duration: Some(self.frame),
            is_key: true,
            codec: None,
            data: Data::new(pieces),
        }
    }
}

fn short(len: usize, part: &'static str) -> Malformed {
    Malformed::Short {
        codec: NAME,
        len,
        part,
    }
}
