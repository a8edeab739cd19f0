//! What H.265 says in the heads of its NAL units and in its sequence parameter set (ITU-T H.265,
//! clause 7.3).

use super::bits::{Bits, without_emulation};

/// A video parameter set.
pub const VPS: u8 = 32;
/// A sequence parameter set.
pub const SPS: u8 = 33;
/// A picture parameter set.
pub const PPS: u8 = 34;
/// Marks the beginning of an access unit.
pub const DELIMITER: u8 = 35;
/// Supplemental information before a picture.
pub const SEI: u8 = 39;
/// Supplemental information after a picture.
pub const SEI_SUFFIX: u8 = 40;

/// The type of a NAL unit, by its first byte.
pub fn kind(head: u8) -> u8 {
    head >> 1 & 0x3f
}

/// Whether units of this type are slices of a picture.
pub fn is_slice(kind: u8) -> bool {
    kind < 32
}

/// Whether decoding can begin with a picture of this type (BLA, IDR and CRA).
pub fn is_key(kind: u8) -> bool {
    (16..=21).contains(&kind)
}

/// Whether a slice, by its bytes, is the first one of its picture.
pub fn begins_picture(nal: &[u8]) -> bool {
    nal.get(2).is_some_and(|byte| byte & 0x80 != 0)
}

/// What of a sequence parameter set matters to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sps {
    /// Space, tier and profile, in one byte, as in `hvcC`.
    pub profile: u8,
    /// Flags of compatibility.
    pub compatibility: u32,
    /// Flags of constraints, 48 bits.
    pub constraints: u64,
    /// The level, in thirtieths.
    pub level: u8,
    /// The format of chroma.
    pub chroma: u8,
    /// Bits of a sample of luma.
    pub luma_bits: u8,
    /// Bits of a sample of chroma.
    pub chroma_bits: u8,
    /// How many temporal layers.
    pub layers: u8,
    /// Whether these are nested.
    pub layers_nested: bool,
    /// Pixels from left to right, as they are shown.
    pub width: u16,
    /// Pixels from top to bottom, as they are shown.
    pub height: u16,
    /// By how many pictures the order of showing is behind that of decoding.
    pub reorder: u8,
}

impl Sps {
    /// Reads a NAL unit of the type [`SPS`]. `None` if it is none that can be read.
    pub fn parse(nal: &[u8]) -> Option<Self> {
        if nal.len() < 2 || kind(nal[0]) != SPS {
            return None;
        }
        let plain = without_emulation(nal);
        let mut bits = Bits::new(plain.get(2..)?);
        bits.skip(4)?;
        let layers_less_one = bits.number(3)?;
        let layers_nested = bits.bit()?;
        let profile = bits.number(8)?;
        let compatibility = bits.number(32)?;
        let constraints = u64::from(bits.number(32)?) << 16 | u64::from(bits.number(16)?);
        let level = bits.number(8)?;
        skip_layers(&mut bits, layers_less_one)?;
        bits.ue()?;
        let chroma = bits.ue()?;
        if chroma == 3 {
            bits.skip(1)?;
        }
        let (mut width, mut height) = (bits.ue()?, bits.ue()?);
        if bits.bit()? {
            let unit_x = if matches!(chroma, 1 | 2) { 2 } else { 1 };
            let unit_y = if chroma == 1 { 2 } else { 1 };
            let (left, right) = (bits.ue()?, bits.ue()?);
            let (top, bottom) = (bits.ue()?, bits.ue()?);
            width = width.checked_sub(left.checked_add(right)?.checked_mul(unit_x)?)?;
            height = height.checked_sub(top.checked_add(bottom)?.checked_mul(unit_y)?)?;
        }
        let luma_bits = bits.ue()?.checked_add(8)?;
        let chroma_bits = bits.ue()?.checked_add(8)?;
        bits.ue()?;
        let each_layer = bits.bit()?;
        let mut reorder = 0;
        for _ in 0..if each_layer { layers_less_one + 1 } else { 1 } {
            bits.ue()?;
            // That of the highest layer counts, which is the last one.
            reorder = bits.ue()?;
            bits.ue()?;
        }
        Some(Self {
            profile: u8::try_from(profile).ok()?,
            compatibility,
            constraints,
            level: u8::try_from(level).ok()?,
            chroma: u8::try_from(chroma).ok().filter(|&chroma| chroma <= 3)?,
            luma_bits: u8::try_from(luma_bits).ok().filter(|&bits| bits <= 16)?,
            chroma_bits: u8::try_from(chroma_bits).ok().filter(|&bits| bits <= 16)?,
            layers: u8::try_from(layers_less_one + 1).ok()?,
            layers_nested,
            width: u16::try_from(width).ok().filter(|&width| width > 0)?,
            height: u16::try_from(height).ok().filter(|&height| height > 0)?,
            reorder: u8::try_from(reorder).ok().filter(|&frames| frames <= 16)?,
        })
    }
}

/// Profiles and levels of the lower layers.
fn skip_layers(bits: &mut Bits<'_>, layers_less_one: u32) -> Option<()> {
    let mut present = Vec::new();
    for _ in 0..layers_less_one {
        present.push((bits.bit()?, bits.bit()?));
    }
    if layers_less_one > 0 {
        bits.skip(2 * (8 - layers_less_one as usize))?;
    }
    for (profile, level) in present {
        bits.skip(if profile { 88 } else { 0 } + if level { 8 } else { 0 })?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
