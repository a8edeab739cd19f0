//! What H.264 says in the heads of its NAL units and in its sequence parameter set (ITU-T H.264,
//! clause 7.3 and annex E).

use super::bits::{Bits, without_emulation};

/// A coded slice of a picture that is no key frame.
pub const SLICE: u8 = 1;
/// A coded slice of an IDR picture, with which decoding can begin.
pub const IDR: u8 = 5;
/// Supplemental information.
pub const SEI: u8 = 6;
/// A sequence parameter set.
pub const SPS: u8 = 7;
/// A picture parameter set.
pub const PPS: u8 = 8;
/// Marks the beginning of an access unit.
pub const DELIMITER: u8 = 9;

/// The type of a NAL unit, by its first byte.
pub fn kind(head: u8) -> u8 {
    head & 0x1f
}

/// Whether a slice, by its bytes, is the first one of its picture (`first_mb_in_slice` is 0).
pub fn begins_picture(nal: &[u8]) -> bool {
    nal.get(1).is_some_and(|byte| byte & 0x80 != 0)
}

/// What of a sequence parameter set matters to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sps {
    /// The profile.
    pub profile: u8,
    /// The flags of constraints.
    pub constraints: u8,
    /// The level, in tenths.
    pub level: u8,
    /// Pixels from left to right, as they are shown.
    pub width: u16,
    /// Pixels from top to bottom, as they are shown.
    pub height: u16,
    /// By how many pictures the order of showing is behind that of decoding; `None` if it does not
    /// say.
    pub reorder: Option<u8>,
}

/// Profiles whose sets tell of chroma and scaling.
const HIGH_PROFILES: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

impl Sps {
    /// Reads a NAL unit of the type [`SPS`]. `None` if it is none that can be read.
    pub fn parse(nal: &[u8]) -> Option<Self> {
        if nal.first().copied().map(kind) != Some(SPS) {
            return None;
        }
        let plain = without_emulation(nal);
        let mut bits = Bits::new(&plain[1..]);
        let profile = bits.number(8)?;
        let constraints = bits.number(8)?;
        let level = bits.number(8)?;
        bits.ue()?;
        let mut chroma = 1;
        if HIGH_PROFILES.contains(&profile) {
            chroma = high(&mut bits)?;
        }
        bits.ue()?;
        picture_order(&mut bits)?;
        bits.ue()?;
        bits.skip(1)?;
        let width_mbs = bits.ue()?.checked_add(1)?;
        let map_units = bits.ue()?.checked_add(1)?;
        let frames_only = bits.bit()?;
        if !frames_only {
            bits.skip(1)?;
        }
        bits.skip(1)?;
        let fields = if frames_only { 1 } else { 2 };
        let mut width = width_mbs.checked_mul(16)?;
        let mut height = map_units.checked_mul(16)?.checked_mul(fields)?;
        if bits.bit()? {
            let (unit_x, unit_y) = match chroma {
                1 => (2, 2),
                2 => (2, 1),
                _ => (1, 1),
            };
            let (left, right) = (bits.ue()?, bits.ue()?);
            let (top, bottom) = (bits.ue()?, bits.ue()?);
            let across = left.checked_add(right)?.checked_mul(unit_x)?;
            let down = top.checked_add(bottom)?.checked_mul(unit_y * fields)?;
            width = width.checked_sub(across)?;
            height = height.checked_sub(down)?;
        }
        Some(Self {
            profile: u8::try_from(profile).ok()?,
            constraints: u8::try_from(constraints).ok()?,
            level: u8::try_from(level).ok()?,
            width: u16::try_from(width).ok().filter(|&width| width > 0)?,
            height: u16::try_from(height).ok().filter(|&height| height > 0)?,
            // Baseline has no pictures that are decoded before they are shown.
            reorder: if profile == 66 {
                Some(0)
            } else {
                reorder(&mut bits)
            },
        })
    }
}

/// What high profiles add. Returns the format of chroma.
fn high(bits: &mut Bits<'_>) -> Option<u32> {
    let chroma = bits.ue()?;
    if chroma == 3 {
        bits.skip(1)?;
    }
    bits.ue()?;
    bits.ue()?;
    bits.skip(1)?;
    if bits.bit()? {
        for list in 0..if chroma == 3 { 12 } else { 8 } {
            if bits.bit()? {
                scaling_list(bits, if list < 6 { 16 } else { 64 })?;
            }
        }
    }
    Some(chroma)
}

fn scaling_list(bits: &mut Bits<'_>, size: usize) -> Option<()> {
    let (mut last, mut next) = (8, 8);
    for _ in 0..size {
        if next != 0 {
            next = (last + bits.se()?).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Some(())
}

fn picture_order(bits: &mut Bits<'_>) -> Option<()> {
    match bits.ue()? {
        0 => {
            bits.ue()?;
        }
        1 => {
            bits.skip(1)?;
            bits.se()?;
            bits.se()?;
            let cycle = bits.ue()?;
            if cycle > 255 {
                return None;
            }
            for _ in 0..cycle {
                bits.se()?;
            }
        }
        _ => {}
    }
    Some(())
}

/// `max_num_reorder_frames` of the usability information (annex E).
fn reorder(bits: &mut Bits<'_>) -> Option<u8> {
    if !bits.bit()? {
        return None;
    }
    if bits.bit()? && bits.number(8)? == 255 {
        bits.skip(32)?;
    }
    if bits.bit()? {
        bits.skip(1)?;
    }
    if bits.bit()? {
        bits.skip(4)?;
        if bits.bit()? {
            bits.skip(24)?;
        }
    }
    if bits.bit()? {
        bits.ue()?;
        bits.ue()?;
    }
    if bits.bit()? {
        bits.skip(65)?;
    }
    let nal = bits.bit()?;
    if nal {
        hypothetical_decoder(bits)?;
    }
    let vcl = bits.bit()?;
    if vcl {
        hypothetical_decoder(bits)?;
    }
    if nal || vcl {
        bits.skip(1)?;
    }
    bits.skip(1)?;
    if !bits.bit()? {
        return None;
    }
    bits.skip(1)?;
    for _ in 0..4 {
        bits.ue()?;
    }
    u8::try_from(bits.ue()?).ok().filter(|&frames| frames <= 16)
}

fn hypothetical_decoder(bits: &mut Bits<'_>) -> Option<()> {
    let schedules = bits.ue()?.checked_add(1)?;
    if schedules > 32 {
        return None;
    }
    bits.skip(8)?;
    for _ in 0..schedules {
        bits.ue()?;
        bits.ue()?;
        bits.skip(1)?;
    }
    bits.skip(20)
}

#[cfg(test)]
mod tests;
