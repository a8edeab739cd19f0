//! Reports of senders and receivers (RFC 3550, section 6.4).
//!
//! Cameras end sessions of receivers who never report, and players place sound beside pictures by
//! the reports of the sender.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds from 1900, where NTP begins, to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;

/// What a sender says of its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The source.
    pub ssrc: u32,
    /// The time of day, in NTP's format.
    pub ntp: u64,
    /// The same moment by the track's clock.
    pub timestamp: u32,
    /// Packets so far.
    pub packets: u32,
    /// Bytes of payload so far.
    pub bytes: u32,
}

/// What a receiver says of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverReport {
    /// Its own number.
    pub ssrc: u32,
    /// The source.
    pub source: u32,
    /// Packets that were lost since the last report, in parts of 256.
    pub fraction_lost: u8,
    /// Packets that were lost in all.
    pub lost: u32,
    /// The highest sequence number, with its wraps.
    pub highest: u32,
}

impl SenderReport {
    /// Reads the first report of a compound packet. `None` if there is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        while let Some((head, _)) = rest.split_first_chunk::<4>() {
            if head[0] >> 6 != 2 {
                return None;
            }
            let len = 4 + 4 * usize::from(u16::from_be_bytes([head[2], head[3]]));
            let part = rest.get(..len)?;
            if head[1] == 200 {
                let word = |at: usize| {
                    let bytes = part.get(at..at + 4)?;
                    Some(u32::from_be_bytes(*bytes.first_chunk()?))
                };
                return Some(Self {
                    ssrc: word(4)?,
                    ntp: u64::from(word(8)?) << 32 | u64::from(word(12)?),
                    timestamp: word(16)?,
                    packets: word(20)?,
                    bytes: word(24)?,
                });
            }
            rest = &rest[len..];
        }
        None
    }

    /// The report and the sender's name, as one packet.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, 200, 0, 6];
        bytes.extend(self.ssrc.to_be_bytes());
        bytes.extend(self.ntp.to_be_bytes());
        for word in [self.timestamp, self.packets, self.bytes] {
            bytes.extend(word.to_be_bytes());
        }
        description(self.ssrc, &mut bytes);
        bytes
    }
}

impl ReceiverReport {
    /// The report and the receiver's name, as one packet.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = vec![0x81, 201, 0, 7];
        bytes.extend(self.ssrc.to_be_bytes());
        bytes.extend(self.source.to_be_bytes());
        // 24 bits; more losses than that are said as that many.
        let lost = self.lost.min(0x7f_ffff) | u32::from(self.fraction_lost) << 24;
        bytes.extend(lost.to_be_bytes());
        bytes.extend(self.highest.to_be_bytes());
        // No jitter is measured, and no report of the sender is referred to.
        bytes.extend([0; 12]);
        description(self.ssrc, &mut bytes);
        bytes
    }
}

/// Each compound packet has to name its source.
fn description(ssrc: u32, bytes: &mut Vec<u8>) {
    let name = b"evenkeel";
    // The source, the item with its length, the end of the list, up to whole words.
    let words = (4 + 2 + name.len() + 1).div_ceil(4);
    bytes.extend([0x81, 202, 0, words as u8]);
    let end = bytes.len() + 4 * words;
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend([1, name.len() as u8]);
    bytes.extend(name);
    bytes.resize(end, 0);
}

/// The time of day in NTP's format.
pub fn ntp(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let fraction = (u64::from(since.subsec_nanos()) << 32) / 1_000_000_000;
    (since.as_secs() + NTP_EPOCH) << 32 | fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_a_sender_is_read_as_it_was_written() {
        let report = SenderReport {
            ssrc: 1,
            ntp: ntp(UNIX_EPOCH + Duration::from_millis(500)),
            timestamp: 2,
            packets: 3,
            bytes: 4,
        };
        assert_eq!(report.ntp, NTP_EPOCH << 32 | 1 << 31);
        let bytes = report.write();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(SenderReport::parse(&bytes), Some(report));
        // Behind another packet it is found too.
        let other = ReceiverReport {
            ssrc: 1,
            source: 2,
            fraction_lost: 3,
            lost: u32::MAX,
            highest: 5,
        };
        let both = [other.write(), bytes.clone()].concat();
        assert_eq!(SenderReport::parse(&both), Some(report));
        for len in 0..28 {
            assert_eq!(SenderReport::parse(&bytes[..len]), None);
        }
    }

    #[test]
    fn losses_beyond_24_bits_are_not_said_as_few() {
        let report = ReceiverReport {
            ssrc: 1,
            source: 2,
            fraction_lost: 255,
            lost: 1 << 30,
            highest: 9,
        };
        assert_eq!(report.write()[12..16], [255, 0x7f, 0xff, 0xff]);
    }
}
