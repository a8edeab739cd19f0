//! Parameter sets of real encoders, and what is none.

use super::*;
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// By x264: high profile, 1920 by 1080, which is 1088 with eight lines cut off, and two pictures
/// that are shown later than decoded.
#[test]
fn a_set_of_x264_is_read() {
    let sps = bytes("67640028acd940780227e5c044000003000400000300c83c60c658");
    let read = Sps::parse(&sps).unwrap();
    assert_eq!((read.profile, read.level), (100, 40));
    assert_eq!((read.width, read.height), (1_920, 1_080));
    assert_eq!(read.reorder, Some(2));
}

#[test]
fn what_is_cut_off_is_none() {
    let sps = bytes("67640028acd940780227e5c044000003000400000300c83c60c658");
    for len in 0..8 {
        assert_eq!(Sps::parse(&sps[..len]), None, "{len}");
    }
    assert_eq!(Sps::parse(&[0x68, 100, 0, 40, 0xac]), None);
}

proptest! {
    #[test]
    fn nonsense_does_no_harm(rest: Vec<u8>) {
        let _ = Sps::parse(&[&[0x67], &rest[..]].concat());
    }
}
