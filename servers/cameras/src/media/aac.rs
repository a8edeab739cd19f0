//! What the `AudioSpecificConfig` of AAC says (ISO/IEC 14496-3, clause 1.6).

use super::bits::Bits;

/// A configuration of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioConfig {
    /// The sort of AAC; 2 is AAC-LC.
    pub object_type: u8,
    /// Samples a second.
    pub sample_rate: u32,
    /// How many channels; 0 if the stream itself says so.
    pub channels: u16,
    /// Samples of an access unit, in each channel.
    pub frame: u32,
}

const SAMPLE_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// With spectral band replication, an access unit has twice as many samples.
const REPLICATED: [u8; 2] = [5, 29];

impl AudioConfig {
    /// Reads it. `None` if it is none.
    pub fn parse(config: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(config);
        let object_type = object_type(&mut bits)?;
        let mut sample_rate = rate(&mut bits)?;
        let channels = match bits.number(4)? {
            7 => 8,
            channels @ 0..7 => channels,
            _ => return None,
        };
        let is_replicated = REPLICATED.contains(&object_type);
        if is_replicated {
            sample_rate = rate(&mut bits)?;
            self::object_type(&mut bits)?;
        }
        let frame = if bits.bit()? { 960 } else { 1_024 };
        Some(Self {
            object_type,
            sample_rate,
            channels: u16::try_from(channels).ok()?,
            frame: if is_replicated { 2 * frame } else { frame },
        })
    }
}

fn object_type(bits: &mut Bits<'_>) -> Option<u8> {
    let kind = match bits.number(5)? {
        31 => 32 + bits.number(6)?,
        kind => kind,
    };
    u8::try_from(kind).ok()
}

fn rate(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.number(4)? {
        15 => bits.number(24).filter(|&rate| rate > 0),
        index => SAMPLE_RATES.get(index as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_read() {
        let plain = AudioConfig {
            object_type: 2,
            sample_rate: 48_000,
            channels: 2,
            frame: 1_024,
        };
        assert_eq!(AudioConfig::parse(&[0x11, 0x90]), Some(plain));
        let small = AudioConfig {
            sample_rate: 16_000,
            channels: 1,
            ..plain
        };
        assert_eq!(AudioConfig::parse(&[0x14, 0x08]), Some(small));
        // AAC-LC at 22 050 Hz, of which replication makes 44 100.
        let replicated = AudioConfig {
            object_type: 5,
            sample_rate: 44_100,
            channels: 2,
            frame: 2_048,
        };
        assert_eq!(
            AudioConfig::parse(&[0x2b, 0x92, 0x08, 0x00]),
            Some(replicated)
        );
        for cut in [&[][..], &[0x11], &[0x16, 0xff]] {
            assert_eq!(AudioConfig::parse(cut), None, "{cut:?}");
        }
    }
}
