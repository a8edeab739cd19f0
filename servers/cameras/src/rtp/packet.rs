//! The header of a packet (RFC 3550, section 5.1).

use bytes::Bytes;

/// A packet, whose payload is a slice of what came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Often the end of a picture; each payload format says what it means.
    pub marker: bool,
    /// The format, by the numbers that SDP gives.
    pub payload_type: u8,
    /// Grows by one with each packet, and wraps.
    pub sequence: u16,
    /// In ticks of the track's clock; wraps.
    pub timestamp: u32,
    /// The source.
    pub ssrc: u32,
    /// What is in it.
    pub payload: Bytes,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// It is shorter than its header says.
    #[error("an RTP packet of {len} bytes is cut off in its {part}")]
    Short {
        /// How long it is.
        len: usize,
        /// What is not all there.
        part: &'static str,
    },
    /// It is of another version.
    #[error("an RTP packet has version {0}; there is only 2")]
    Version(u8),
}

/// The length of a header without contributing sources.
pub const HEADER: usize = 12;

impl Packet {
    /// Reads a packet.
    ///
    /// # Errors
    ///
    /// [`PacketError`].
    pub fn parse(bytes: &Bytes) -> Result<Self, PacketError> {
        let len = bytes.len();
        let short = |part| PacketError::Short { len, part };
        let Some((head, _)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(short("header"));
        };
        let version = head[0] >> 6;
        if version != 2 {
            return Err(PacketError::Version(version));
        }
        let mut start = HEADER + 4 * usize::from(head[0] & 0x0f);
        if head[0] & 0x10 != 0 {
            let extension = bytes.get(start..start + 4).ok_or(short("extension"))?;
            start += 4 + 4 * usize::from(u16::from_be_bytes([extension[2], extension[3]]));
        }
        let mut end = len;
        if head[0] & 0x20 != 0 {
            let padding = usize::from(bytes[len - 1]);
            end = len.checked_sub(padding).ok_or(short("padding"))?;
        }
        if start > end {
            return Err(short("header"));
        }
        Ok(Self {
            marker: head[1] & 0x80 != 0,
            payload_type: head[1] & 0x7f,
            sequence: u16::from_be_bytes([head[2], head[3]]),
            timestamp: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            ssrc: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            payload: bytes.slice(start..end),
        })
    }

    /// Its header, as it goes out.
    pub fn header(&self) -> [u8; HEADER] {
        let mut head = [0; HEADER];
        head[0] = 0x80;
        head[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        head[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        head[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        head[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        head
    }

    /// The whole packet.
    pub fn to_bytes(&self) -> Bytes {
        [&self.header()[..], &self.payload].concat().into()
    }
}

/// Whether a packet on a channel shared with RTP is one of RTCP (RFC 5761, section 4).
pub fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|kind| (192..=223).contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sources_an_extension_and_padding_are_left_out() {
        let mut bytes = vec![0xb2, 0xe0, 0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend([9; 8]);
        bytes.extend([0, 0, 0, 1, 8, 8, 8, 8]);
        bytes.extend([1, 2, 3, 0, 0, 3]);
        let packet = Packet::parse(&bytes.into()).unwrap();
        assert_eq!(*packet.payload, [1, 2, 3]);
        assert!(packet.marker);
        assert_eq!((packet.payload_type, packet.sequence), (0x60, 0x1234));
        assert_eq!((packet.timestamp, packet.ssrc), (1, 2));
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let whole = [
            0xb0, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 8, 8, 8, 8, 7, 1,
        ];
        assert!(Packet::parse(&Bytes::copy_from_slice(&whole)).is_ok());
        for len in 0..20 {
            let cut = Bytes::copy_from_slice(&whole[..len]);
            assert!(Packet::parse(&cut).is_err(), "{len}");
        }
        let padded = Bytes::from_static(&[0xa0, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 4]);
        assert!(Packet::parse(&padded).is_err());
        let old = Bytes::from_static(&[0x40; 12]);
        assert_eq!(Packet::parse(&old), Err(PacketError::Version(1)));
    }

    proptest! {
        #[test]
        fn a_packet_is_read_as_it_was_written(
            marker: bool,
            payload_type in 0..128_u8,
            sequence: u16,
            timestamp: u32,
            ssrc: u32,
            payload: Vec<u8>,
        ) {
            let payload = payload.into();
            let packet = Packet { marker, payload_type, sequence, timestamp, ssrc, payload };
            prop_assert_eq!(Packet::parse(&packet.to_bytes()), Ok(packet));
        }

        #[test]
        fn nonsense_does_no_harm(bytes: Vec<u8>) {
            let _ = Packet::parse(&bytes.into());
        }
    }
}
