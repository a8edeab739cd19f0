//! What is written is read back by the library, and by the tables alone.

use std::sync::Arc;
use std::time::Duration;

use mp4_atom::{Any, DecodeMaybe, Moof, Moov};
use proptest::prelude::*;

use super::merge::{Merged, describe};
use super::rewrite::{Shift, shift};
use super::*;
use crate::media::{Codec, Sample, Track};
use crate::testing::{PICTURE, aac, g711, sample, second, video};

/// All boxes of a file, as the library reads them.
fn boxes(mut bytes: &[u8]) -> Vec<Any> {
    let mut boxes = Vec::new();
    while let Some(any) = Any::decode_maybe(&mut bytes).unwrap() {
        boxes.push(any);
    }
    assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
    boxes
}

fn moov(bytes: &[u8]) -> Moov {
    let found = boxes(bytes).into_iter().find_map(|any| match any {
        Any::Moov(moov) => Some(moov),
        _ => None,
    });
    found.unwrap()
}

fn moof(bytes: &[u8]) -> Moof {
    match boxes(bytes).remove(0) {
        Any::Moof(moof) => moof,
        other => panic!("{other:?}"),
    }
}

fn fragment(tracks: &[Track], samples: &[Sample], origin: Origin) -> Fragment {
    Fragment::of(7, tracks, samples, origin, Duration::from_secs(1)).unwrap()
}

/// The bytes of each sample of a fragment, by what its tables say: track and bytes.
fn by_tables(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    for traf in moof(bytes).traf {
        let run = &traf.trun[0];
        let mut at = usize::try_from(run.data_offset.unwrap()).unwrap();
        for entry in &run.samples {
            let size = entry.size.unwrap() as usize;
            found.push((traf.tfhd.track_id, bytes[at..at + size].to_vec()));
            at += size;
        }
    }
    found
}

#[test]
fn tracks_are_described_as_they_are() {
    let tracks = [video(0), aac(1), g711(2)];
    let init = Init::of(&tracks).unwrap();
    let read = moov(&init.bytes);
    let visual = read.trak[0].mdia.minf.stbl.stsd.codecs[0].visual().unwrap();
    assert_eq!((visual.width, visual.height), (320, 240));
    let rates: Vec<_> = read
        .trak
        .iter()
        .map(|trak| trak.mdia.mdhd.timescale)
        .collect();
    assert_eq!(rates, [90_000, 48_000, 8_000]);
    assert!(init.bytes.windows(4).any(|four| four == b"alaw"));
    assert!(!init.bytes.windows(4).any(|four| four == b"twos"));
    let names: Vec<_> = tracks.iter().map(entry::rfc6381).collect();
    let known = |name: &str| Some(name.to_owned());
    assert_eq!(names, [known("avc1.64000D"), known("mp4a.40.2"), None]);
    assert!(matches!(
        Init::of(&[]),
        Err(Mp4Error::NoTracks { tracks: 0 })
    ));
}

#[test]
fn parameters_that_cannot_be_read_are_an_error_that_says_so() {
    for sps in [&[][..], &[0x67], &[0x67, 0x64, 0, 0x0d]] {
        let mut track = video(0);
        track.codec = Codec::H264 {
            sps: sps.to_vec().into(),
            pps: vec![0x68].into(),
        };
        let error = Init::of(&[track]).unwrap_err();
        assert!(matches!(error, Mp4Error::Parameters { .. }), "{error}");
        assert!(error.to_string().contains("H.264"), "{error}");
    }
}

#[test]
fn times_count_from_1970_on_whatever_the_session_began_with() {
    let origin = Origin {
        us: 1_764_162_300_123_456,
    };
    let samples = [sample(0, -900, true, 4), sample(0, 2_700, false, 4)];
    let read = moof(&fragment(&[video(0)], &samples, origin).joined());
    let begins = read.traf[0].tfdt.as_ref().unwrap().base_media_decode_time;
    assert_eq!(begins, 1_764_162_300_123_456 * 9 / 100 - 900);
    let lasts: Vec<_> = (read.traf[0].trun[0].samples.iter())
        .map(|it| it.duration)
        .collect();
    assert_eq!(lasts, [Some(3_600), Some(3_600)]);
    let alone = moof(&fragment(&[video(0)], &samples[..1], origin).joined());
    assert_eq!(
        alone.traf[0].trun[0].samples.get(0).unwrap().duration,
        Some(90_000)
    );
}

#[test]
fn a_fragment_is_moved_without_being_read() {
    let origin = Origin { us: 10_000_000 };
    let samples = [
        sample(0, 0, true, 5),
        sample(1, 480, true, 6),
        sample(0, PICTURE, false, 7),
    ];
    let tracks = [video(0), aac(1)];
    let mut bytes = fragment(&tracks, &samples, origin).joined().to_vec();
    let before = by_tables(&bytes);
    let to = Shift {
        number: 3,
        earlier_us: 9_000_000,
        description: 2,
    };
    shift(&mut bytes, &[90_000, 48_000], to).unwrap();
    let read = moof(&bytes);
    assert_eq!(read.mfhd.sequence_number, 3);
    let times: Vec<_> = (read.traf.iter())
        .map(|traf| traf.tfdt.as_ref().unwrap().base_media_decode_time)
        .collect();
    assert_eq!(times, [90_000, 48_480]);
    let described: Vec<_> = read
        .traf
        .iter()
        .map(|it| it.tfhd.sample_description_index)
        .collect();
    assert_eq!(described, [Some(2), Some(2)]);
    assert_eq!(by_tables(&bytes), before);
    // The sound is hidden, and nothing else moves.
    shift(&mut bytes, &[90_000, 0], to).unwrap();
    assert_eq!(moof(&bytes).traf.len(), 1);
    assert_eq!(by_tables(&bytes)[..], before[..2]);
}

#[test]
fn descriptions_are_put_together_if_their_tracks_are_the_same() {
    let mut other = video(0);
    if let Codec::H264 { pps, .. } = &mut other.codec {
        *pps = vec![0x68, 0xee].into();
    }
    let describe_tracks = |tracks: &[Track]| describe(&Init::of(tracks).unwrap().bytes).unwrap();
    let (first, second) = (
        describe_tracks(&[video(0), g711(1)]),
        describe_tracks(&[other, g711(1)]),
    );
    let mut merged = Merged::begin(&first);
    let numbers: Vec<_> = [&first, &second, &first].map(|it| merged.add(it)).into();
    assert_eq!(numbers, [Some(1), Some(2), Some(1)]);
    assert_eq!(merged.add(&describe_tracks(&[video(0)])), None);
    let bytes = merged.bytes(Duration::from_millis(1_500)).unwrap();
    let laws = bytes.windows(4).filter(|four| four == b"alaw").count();
    assert_eq!(laws, 2);
    let read = describe(&bytes).unwrap();
    assert_eq!(read.rates(), [90_000, 8_000]);
    let again = moov(&bytes);
    assert_eq!(again.mvex.unwrap().mehd.unwrap().fragment_duration, 1_500);
    assert_eq!(again.trak[0].mdia.minf.stbl.stsd.codecs.len(), 2);
    let (shown, kind) = first.for_browsers().unwrap();
    assert_eq!(kind, "video/mp4; codecs=\"avc1.64000D\"");
    assert_eq!(shown.rates(), [90_000]);
    assert!(describe_tracks(&[g711(0)]).for_browsers().is_none());
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    let gop = second(0, crate::testing::moment(), &crate::testing::pictures());
    let fragment = fragment(&gop.tracks, &gop.samples, Origin { us: 0 });
    let head = fragment.head;
    let to = Shift {
        number: 1,
        earlier_us: 0,
        description: 1,
    };
    let whole = fragment.joined();
    for cut in 0..head - 8 {
        assert!(
            shift(&mut whole[..cut].to_vec(), &[90_000], to).is_err(),
            "{cut}"
        );
    }
    for place in 0..head {
        let mut bytes = whole.to_vec();
        bytes[place] = 0xff;
        // Whether it is noticed depends on the place.
        let _ = shift(&mut bytes, &[90_000], to);
    }
}

proptest! {
    /// Any samples come back by the tables, whatever their order and slices.
    #[test]
    fn what_is_written_is_found_by_the_tables(
        steps in prop::collection::vec((0..2_u8, 1..9_000_i64, 0..50_usize, 0..4_u32), 1..60),
        us in 0..4_000_000_000_000_000_i64,
    ) {
        let tracks: Arc<[Track]> = vec![video(0), aac(1)].into();
        let (mut times, mut samples) = ([0, 0], Vec::new());
        for (track, ticks, bytes, offset) in steps {
            let mut sample = sample(track, times[usize::from(track)], track == 1, bytes);
            sample.pts_offset = offset;
            times[usize::from(track)] += ticks;
            samples.push(sample);
        }
        let written = fragment(&tracks, &samples, Origin { us });
        let bytes = written.joined();
        prop_assert_eq!(bytes.len(), written.len);
        prop_assert_eq!(written.checksum(), crc32fast::hash(&bytes));
        let expected: Vec<_> = [0, 1].iter().flat_map(|track| {
            let of_track = samples.iter().filter(move |it| it.track == *track);
            of_track.map(|it| (u32::from(*track) + 1, it.data.joined().to_vec()))
        }).collect();
        prop_assert_eq!(by_tables(&bytes), expected);
    }
}
