//! Times and bytes.

use super::*;

#[test]
fn ticks_and_times_are_each_other() {
    let track = Track {
        id: 0,
        codec: Codec::Opus { channels: 2 },
        clock_rate: 48_000,
    };
    assert_eq!(track.time_of(72_000), Duration::from_millis(1_500));
    assert_eq!(track.ticks_of(Duration::from_millis(1_500)), 72_000);
    assert_eq!(track.time_of(-5), Duration::ZERO);
    let year = 365 * 24 * 3_600;
    assert_eq!(
        track.time_of(48_000 * year),
        Duration::from_secs(year as u64)
    );
}

#[test]
fn data_know_their_length_and_cost() {
    let data = Data::new(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"cde")]);
    assert_eq!(data.len(), 5);
    assert_eq!(data.joined(), "abcde");
    assert!(data.footprint() > 5);
    let one = Bytes::from_static(b"one");
    assert_eq!(Data::new(vec![one.clone()]).joined().as_ptr(), one.as_ptr());
}
