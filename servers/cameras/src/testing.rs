//! Groups of pictures for tests.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::media::{Codec, Data, Gop, Law, Moment, Sample, Track};

/// Parameter sets of 320 by 240 pixels.
pub(crate) const SPS: &[u8] = &[
    0x67, 0x64, 0x00, 0x0d, 0xac, 0xd9, 0x41, 0x41, 0xfa, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0x99, 0x60,
];
pub(crate) const PPS: &[u8] = &[0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0];

/// Ticks of a picture, of which there are 25 a second.
pub(crate) const PICTURE: i64 = 3_600;

/// Pictures.
pub(crate) fn video(id: u8) -> Track {
    Track {
        id,
        codec: Codec::H264 {
            sps: Bytes::from_static(SPS),
            pps: Bytes::from_static(PPS),
        },
        clock_rate: 90_000,
    }
}

/// Sound that browsers play.
pub(crate) fn aac(id: u8) -> Track {
    Track {
        id,
        codec: Codec::Aac {
            config: Bytes::from_static(&[0x11, 0x90]),
            channels: 2,
        },
        clock_rate: 48_000,
    }
}

/// Sound that they do not.
pub(crate) fn g711(id: u8) -> Track {
    Track {
        id,
        codec: Codec::G711 {
            law: Law::A,
            channels: 1,
        },
        clock_rate: 8_000,
    }
}

/// A sample with some bytes.
pub(crate) fn sample(track: u8, dts: i64, is_key: bool, bytes: usize) -> Sample {
    let fill = u8::try_from(dts.rem_euclid(251)).unwrap_or(0);
    Sample {
        track,
        dts,
        pts_offset: 0,
        duration: None,
        is_key,
        data: Data::new(vec![Bytes::from(vec![fill; bytes])]),
    }
}

/// A second of pictures, the `number`th of a session that began at this time.
pub(crate) fn second(number: u64, began: Moment, tracks: &Arc<[Track]>) -> Arc<Gop> {
    let began_dts = i64::try_from(number).unwrap_or(0) * 25 * PICTURE;
    let samples: Vec<Sample> = (0..25)
        .map(|place| sample(0, began_dts + place * PICTURE, place == 0, 40))
        .collect();
    let after = |seconds| Moment {
        wall: began.wall + Duration::from_secs(seconds),
        monotonic: began.monotonic + Duration::from_secs(seconds),
    };
    Arc::new(Gop {
        number,
        tracks: Arc::clone(tracks),
        generation: 1,
        start: after(number),
        end: after(number + 1),
        footprint: samples.iter().map(|sample| sample.data.footprint()).sum(),
        samples,
        begins_with_key: true,
    })
}

/// A quiet moment of 2025.
pub(crate) fn moment() -> Moment {
    Moment {
        wall: SystemTime::UNIX_EPOCH + Duration::from_millis(1_764_162_300_000),
        monotonic: Duration::from_secs(77),
    }
}

/// Pictures alone.
pub(crate) fn pictures() -> Arc<[Track]> {
    vec![video(0)].into()
}
