//! Parameter sets of real encoders, and what is none.

use super::*;
use proptest::prelude::*;

/// By x265: main profile, level 3.1, 1280 by 720.
const X265: [u8; 41] = [
    0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03,
    0x00, 0x5d, 0xa0, 0x02, 0x80, 0x80, 0x2d, 0x16, 0x59, 0x59, 0xa4, 0x93, 0x2b, 0x80, 0x40, 0x00,
    0x00, 0x03, 0x00, 0x40, 0x00, 0x00, 0x07, 0x82, 0x00,
];

#[test]
fn a_set_of_x265_is_read() {
    let read = Sps::parse(&X265).unwrap();
    assert_eq!((read.width, read.height), (1_280, 720));
    assert_eq!((read.profile, read.level), (1, 93));
    assert_eq!((read.chroma, read.luma_bits, read.chroma_bits), (1, 8, 8));
    assert_eq!(read.compatibility, 0x6000_0000);
}

#[test]
fn what_is_cut_off_is_none() {
    for len in 0..24 {
        assert_eq!(Sps::parse(&X265[..len]), None, "{len}");
    }
}

proptest! {
    #[test]
    fn nonsense_does_no_harm(rest: Vec<u8>) {
        let _ = Sps::parse(&[&[0x42, 1], &rest[..]].concat());
    }
}
