//! Sound that needs no unpacking: Opus (RFC 7587) and G.711 (RFC 3551).

use super::depacketizer::{Malformed, Unit};
use super::packet::Packet;
use crate::media::{Codec, Data, Law};

/// Opus: each payload is a packet of it.
#[derive(Debug)]
pub(super) struct Opus {
    channels: u16,
}

impl Opus {
    pub(super) fn new(channels: u16) -> Self {
        Self { channels }
    }

    pub(super) fn codec(&self) -> Codec {
        Codec::Opus {
            channels: self.channels,
        }
    }

    pub(super) fn push(&mut self, packet: &Packet, out: &mut Vec<Unit>) -> Result<(), Malformed> {
        let duration = opus_ticks(&packet.payload).ok_or(Malformed::Short {
            codec: "Opus",
            len: packet.payload.len(),
            part: "head",
        })?;
        out.push(sound(packet, duration));
        Ok(())
    }
}

/// How long an Opus packet lasts, in ticks of 48 kHz (RFC 6716, section 3.1).
fn opus_ticks(packet: &[u8]) -> Option<u32> {
    let &head = packet.first()?;
    // Frames of each configuration, in parts of 2.5 ms.
    let frame = match head >> 3 {
        config @ 0..12 => [4, 8, 16, 24][usize::from(config % 4)],
        config @ 12..16 => [4, 8][usize::from(config % 2)],
        config => [1, 2, 4, 8][usize::from(config % 4)],
    };
    let frames = match head & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    // No packet lasts longer than 120 ms.
    Some(frame * frames * 120).filter(|ticks| (1..=5_760).contains(ticks))
}

/// G.711: each byte is a sample of one channel.
#[derive(Debug)]
pub(super) struct G711 {
    law: Law,
    channels: u16,
}

impl G711 {
    pub(super) fn new(law: Law, channels: u16) -> Self {
        Self { law, channels }
    }

    pub(super) fn codec(&self) -> Codec {
        Codec::G711 {
            law: self.law,
            channels: self.channels,
        }
    }

    pub(super) fn push(&mut self, packet: &Packet, out: &mut Vec<Unit>) -> Result<(), Malformed> {
        let ticks = packet.payload.len() / usize::from(self.channels.max(1));
        match u32::try_from(ticks) {
            Ok(ticks @ 1..) => out.push(sound(packet, ticks)),
            _ => {
                return Err(Malformed::Short {
                    codec: "G.711",
                    len: packet.payload.len(),
                    part: "first sample",
                });
            }
        }
        Ok(())
    }
}

fn sound(packet: &Packet, duration: u32) -> Unit {
    Unit {
        timestamp: packet.timestamp,
        duration: Some(duration),
        is_key: true,
        codec: None,
        data: Data::new(vec![packet.payload.clone()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_opus_say_how_long_they_last() {
        for (packet, ticks) in [
            (&[0b1111_1000_u8][..], Some(960)),
            (&[0b1111_1001], Some(1_920)),
            (&[0b1000_0000], Some(120)),
            (&[0b0001_1000], Some(2_880)),
            (&[0b0110_1000], Some(960)),
            (&[0b1111_1011, 0b1000_0011], Some(2_880)),
            (&[0b1111_1011, 0b0000_0111], None),
            (&[0b1111_1011], None),
            (&[0b1111_1011, 0], None),
            (&[], None),
        ] {
            assert_eq!(opus_ticks(packet), ticks, "{packet:?}");
        }
    }
}
