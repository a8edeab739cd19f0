//! Parts of any stream.

use mp4_atom::{Any, DecodeMaybe, Moof};
use proptest::prelude::*;

use super::*;
use crate::testing::{PICTURE, aac, g711, sample, video};

fn begin(tracks: &[Track]) -> (Cutter, Head) {
    Cutter::begin(tracks, Origin { us: 5_000_000 })
        .unwrap()
        .unwrap()
}

fn moof(part: &Part) -> Moof {
    match Any::decode_maybe(&mut &part.bytes[..]).unwrap() {
        Some(Any::Moof(moof)) => moof,
        other => panic!("{other:?}"),
    }
}

/// Durations of the samples of a part's first track.
fn durations(part: &Part) -> Vec<u32> {
    let moof = moof(part);
    let samples = &moof.traf[0].trun[0].samples;
    samples
        .iter()
        .map(|entry| entry.duration.unwrap())
        .collect()
}

#[test]
fn parts_begin_with_key_frames_and_say_how_long_each_picture_is() {
    let (mut cutter, head) = begin(&[video(0)]);
    assert_eq!(head.kind, "video/mp4; codecs=\"avc1.64000D\"");
    let mut parts = Vec::new();
    for place in 0..30 {
        parts.extend(
            cutter
                .push(sample(0, place * PICTURE, place % 13 == 0, 10))
                .unwrap(),
        );
    }
    let counts: Vec<_> = parts.iter().map(|part| durations(part).len()).collect();
    assert_eq!(counts, [3, 3, 3, 3, 1, 3, 3, 3, 3, 1, 3]);
    let keys = parts.iter().enumerate().filter(|(_, part)| part.is_key);
    let keys: Vec<_> = keys.map(|(place, _)| place).collect();
    assert_eq!(keys, [0, 5, 10]);
    assert!(
        parts
            .iter()
            .flat_map(durations)
            .all(|it| i64::from(it) == PICTURE)
    );
    assert_eq!(parts[1].start_us, 5_120_000);
    assert_eq!(
        [parts[3].duration_us, parts[4].duration_us],
        [120_000, 40_000]
    );
}

#[test]
fn a_picture_that_is_followed_by_a_pause_lasts_as_long_as_that() {
    let (mut cutter, _) = begin(&[video(0)]);
    assert!(cutter.push(sample(0, 0, true, 10)).unwrap().is_none());
    let part = cutter
        .push(sample(0, 20 * PICTURE, false, 10))
        .unwrap()
        .unwrap();
    assert_eq!(durations(&part), [u32::try_from(20 * PICTURE).unwrap()]);
}

#[test]
fn what_comes_before_the_first_key_frame_and_after_a_hole_is_left_out() {
    let (mut cutter, _) = begin(&[video(0)]);
    let mut push = |place, is_key| cutter.push(sample(0, place * PICTURE, is_key, 10)).unwrap();
    assert!((0..10).all(|place| push(place, false).is_none()));
    assert!(push(10, true).is_none());
    assert!(push(20, false).unwrap().is_key);
    cutter.skip();
    let mut push = |place, is_key| cutter.push(sample(0, place * PICTURE, is_key, 10)).unwrap();
    assert!((21..50).all(|place| push(place, false).is_none()));
    push(50, true);
    assert_eq!(push(60, false).unwrap().start_us, 5_000_000 + 50 * 40_000);
}

#[test]
fn sound_that_browsers_do_not_play_is_left_out() {
    let (mut cutter, head) = begin(&[video(0), g711(1)]);
    assert_eq!(head.codecs, "avc1.64000D");
    cutter.push(sample(0, 0, true, 10)).unwrap();
    cutter.push(sample(1, 0, true, 10)).unwrap();
    let part = cutter
        .push(sample(0, 10 * PICTURE, false, 10))
        .unwrap()
        .unwrap();
    assert_eq!(moof(&part).traf.len(), 1);
    assert!(
        Cutter::begin(&[g711(0)], Origin { us: 0 })
            .unwrap()
            .is_none()
    );
}

proptest! {
    /// However pictures and sound come, no sample is lost or doubled, and times have no holes.
    #[test]
    fn every_sample_is_in_one_part(
        pictures in prop::collection::vec((1..20_000_i64, prop::bool::weighted(0.2)), 2..80),
        sounds in prop::collection::vec(1..3_000_i64, 0..80),
    ) {
        let (mut cutter, _) = begin(&[video(0), aac(1)]);
        let (mut samples, mut time) = (Vec::new(), 0);
        for (place, (ticks, is_key)) in pictures.iter().enumerate() {
            samples.push((time as f64 / 90_000.0, sample(0, time, *is_key || place == 0, 3)));
            time += ticks;
        }
        let mut time = 0;
        for ticks in &sounds {
            samples.push((time as f64 / 48_000.0, sample(1, time, true, 2)));
            time += ticks;
        }
        samples.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut next = [None, None];
        let mut counts = [0, 0];
        for (_, sample) in samples {
            let Some(part) = cutter.push(sample).unwrap() else {
                continue;
            };
            for traf in &moof(&part).traf {
                let track = usize::try_from(traf.tfhd.track_id).unwrap() - 1;
                let begins = traf.tfdt.as_ref().unwrap().base_media_decode_time;
                prop_assert!(next[track].is_none_or(|next| next == begins));
                let entries = &traf.trun[0].samples;
                counts[track] += entries.len();
                let lasts: u64 = entries.iter().map(|it| u64::from(it.duration.unwrap())).sum();
                next[track] = Some(begins + lasts);
            }
        }
        prop_assert!(counts[0] < pictures.len() && counts[1] <= sounds.len());
        // What has not come is what waits.
        let waiting = |track| cutter.waiting.iter().filter(|it| it.track == track).count();
        prop_assert_eq!(counts[0] + waiting(0), pictures.len());
    }
}
