//! H.264 made in code: grey pictures that every decoder shows, of any size in bytes.
//!
//! Key frames have macroblocks that are predicted from nothing and have no residue, 8 bits each.
//! The other pictures skip all macroblocks. What is missing to the wanted size is supplemental
//! information, which decoders pass over. It begins with room for a stamp.

use super::stamp::{DIGITS, MARK};
use super::writer::Writer;

/// A parameter set and pictures of one size.
#[derive(Clone, Debug)]
pub struct Pictures {
    /// The sequence parameter set.
    pub sps: Vec<u8>,
    /// The picture parameter set.
    pub pps: Vec<u8>,
    macroblocks: u32,
}

impl Pictures {
    /// Of this many macroblocks, of 16 by 16 pixels, across and down.
    pub fn new(across: u32, down: u32) -> Self {
        // Baseline, level 4.0.
        let mut sps = Writer::new(&[0x67, 66, 0xc0, 40]);
        // Identifier, frame numbers of 4 bits, order of showing is that of decoding, one reference.
        for value in [0, 0, 2, 1] {
            sps.ue(value);
        }
        sps.bits(0, 1);
        sps.ue(across - 1);
        sps.ue(down - 1);
        // Whole frames, direct inference, no cropping, no usability information.
        sps.bits(0b1100, 4);
        let mut pps = Writer::new(&[0x68]);
        pps.ue(0);
        pps.ue(0);
        // CAVLC, no order in the stream, one group of slices, one reference.
        pps.bits(0, 2);
        for value in [0, 0, 0] {
            pps.ue(value);
        }
        // No weights; initial quantizers and the chroma offset are 0.
        pps.bits(0, 3);
        for _ in 0..3 {
            pps.ue(0);
        }
        // Filters are controlled in slices; neither constrained prediction nor redundancy.
        pps.bits(0b100, 3);
        Self {
            sps: sps.finish(),
            pps: pps.finish(),
            macroblocks: across * down,
        }
    }

    /// The NAL units of a picture that have about this many bytes together. `number` is its place
    /// behind the last key frame, which has 0.
    pub fn picture(&self, number: u32, bytes: usize, seed: u64) -> Vec<Vec<u8>> {
        let slice = if number == 0 {
            self.key()
        } else {
            self.skipping(number)
        };
        let mut units = Vec::new();
        // The head, the identifier, the length and the end take some bytes.
        if let Some(padding) = bytes.checked_sub(slice.len() + 40) {
            units.push(information(padding, seed));
        }
        units.push(slice);
        units
    }

    fn key(&self) -> Vec<u8> {
        let mut slice = key_slice();
        for _ in 0..self.macroblocks {
            // Intra 16x16 by DC; chroma by DC; quantizer as before; no coefficients.
            slice.bits(0b0010_0111, 8);
        }
        slice.finish()
    }

    fn skipping(&self, number: u32) -> Vec<u8> {
        let mut slice = other_slice(number);
        slice.ue(self.macroblocks);
        slice.finish()
    }
}

/// The head of a key frame's slice, which is all of it.
pub(super) fn key_slice() -> Writer {
    let mut slice = Writer::new(&[0x65]);
    // The first macroblock, a slice of I, the set, frame 0, its identifier.
    slice.ue(0);
    slice.ue(7);
    slice.ue(0);
    slice.bits(0, 4);
    slice.ue(0);
    // Not kept for long; quantizer; filter off.
    slice.bits(0, 2);
    slice.ue(0);
    slice.ue(1);
    slice
}

/// The same of a picture that refers to the one before, so many behind the key frame.
pub(super) fn other_slice(number: u32) -> Writer {
    let mut slice = Writer::new(&[0x41]);
    slice.ue(0);
    slice.ue(5);
    slice.ue(0);
    slice.bits(number % 16, 4);
    // References as usual, not marked; quantizer; filter off.
    slice.bits(0, 3);
    slice.ue(0);
    slice.ue(1);
    slice
}

/// Supplemental information of this length behind its identifier: room for a stamp, and what means
/// nothing to anybody.
fn information(len: usize, seed: u64) -> Vec<u8> {
    let mut unit = vec![0x06, 5];
    let len = len + 16;
    unit.extend(std::iter::repeat_n(255, len / 255));
    unit.push((len % 255) as u8);
    unit.extend(MARK);
    let room = DIGITS.min(len - MARK.len());
    unit.extend(std::iter::repeat_n(b'0', room));
    // Bytes from 1 on: there are no start codes in them.
    let mut state = seed | 1;
    unit.extend((MARK.len() + room..len).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8 | 1
    }));
    unit.push(0x80);
    unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::h264;

    #[test]
    fn the_sets_say_what_the_pictures_are() {
        let pictures = Pictures::new(40, 30);
        let sps = h264::Sps::parse(&pictures.sps).unwrap();
        assert_eq!((sps.width, sps.height), (640, 480));
        assert_eq!((sps.profile, sps.level, sps.reorder), (66, 40, Some(0)));
        for (number, kind) in [(0, h264::IDR), (1, h264::SLICE)] {
            let units = pictures.picture(number, 5_000, 1);
            let bytes: usize = units.iter().map(Vec::len).sum();
            assert!((4_900..5_100).contains(&bytes), "{bytes}");
            assert_eq!(h264::kind(units[0][0]), h264::SEI);
            assert_eq!(h264::kind(units[1][0]), kind);
            assert!(h264::begins_picture(&units[1]));
        }
    }
}
