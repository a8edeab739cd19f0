//! Real H.264 by ffmpeg, where it is installed.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cameras::hub::{Hub, Publisher};
use cameras::media::{Codec, Data, Sample, Track};

use crate::support::{PICTURE, Stops};

/// Four seconds of a test picture, with a key frame each 13 pictures.
#[derive(Clone)]
pub(crate) struct Film {
    sps: Bytes,
    pps: Bytes,
    /// Pictures as NAL units behind their lengths, and whether each is a key frame.
    pictures: Arc<[(bool, Bytes)]>,
}

impl Film {
    /// Makes one. `None` if there is no ffmpeg.
    pub(crate) fn make() -> Option<Self> {
        let made = Command::new("ffmpeg")
            .args([
                "-v",
                "error",
                "-f",
                "lavfi",
                "-i",
                "testsrc=size=320x240:rate=25",
                "-t",
                "4",
            ])
            .args([
                "-c:v",
                "libx264",
                "-profile:v",
                "baseline",
                "-pix_fmt",
                "yuv420p",
            ])
            .args([
                "-g",
                "13",
                "-keyint_min",
                "13",
                "-sc_threshold",
                "0",
                "-f",
                "h264",
                "-",
            ])
            .output();
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                eprintln!("ffmpeg cannot be started, so there is no real picture: {error}");
                return None;
            }
        };
        assert!(made.status.success(), "{made:?}");
        Some(Self::read(&made.stdout))
    }

    fn read(stream: &[u8]) -> Self {
        let (mut sps, mut pps, mut pictures) = (None, None, Vec::new());
        for unit in units(stream) {
            match unit[0] & 0x1f {
                7 => sps = Some(Bytes::copy_from_slice(unit)),
                8 => pps = Some(Bytes::copy_from_slice(unit)),
                kind @ (1 | 5) => {
                    let length = u32::try_from(unit.len()).unwrap().to_be_bytes();
                    pictures.push((kind == 5, [&length, unit].concat().into()));
                }
                _ => {}
            }
        }
        Self {
            sps: sps.unwrap(),
            pps: pps.unwrap(),
            pictures: pictures.into(),
        }
    }

    /// How many pictures it has.
    pub(crate) fn len(&self) -> usize {
        self.pictures.len()
    }

    /// Begins to send it.
    pub(crate) fn publish(&self, hub: &Hub, camera: &str) -> Showing {
        let track = Track {
            id: 0,
            codec: Codec::H264 {
                sps: self.sps.clone(),
                pps: self.pps.clone(),
            },
            clock_rate: 90_000,
        };
        Showing {
            film: self.clone(),
            publisher: hub.publish(camera, vec![track]).unwrap(),
            next: 0,
        }
    }
}

/// A film that is being sent.
pub(crate) struct Showing {
    film: Film,
    publisher: Publisher,
    next: usize,
}

impl Showing {
    /// Sends a picture every so often, until what is returned is dropped.
    pub(crate) fn keep_sending(mut self, every: Duration) -> Stops {
        Stops::when_dropped(every, move || self.send(1))
    }

    /// Sends this many pictures; after the last one the first one follows.
    pub(crate) fn send(&mut self, pictures: usize) {
        for _ in 0..pictures {
            let (is_key, data) = &self.film.pictures[self.next % self.film.len()];
            self.publisher.push(Sample {
                track: 0,
                dts: i64::try_from(self.next).unwrap() * PICTURE,
                pts_offset: 0,
                duration: None,
                is_key: *is_key,
                data: Data::new(vec![data.clone()]),
            });
            self.next += 1;
        }
    }
}

/// NAL units between start codes.
fn units(stream: &[u8]) -> Vec<&[u8]> {
    let is_code = |three: &[u8]| three == [0, 0, 1];
    let starts: Vec<usize> = (stream.windows(3).enumerate())
        .filter(|(_, three)| is_code(three))
        .map(|(at, _)| at + 3)
        .collect();
    let ends = starts
        .iter()
        .skip(1)
        .map(|next| next - 3)
        .chain([stream.len()]);
    let units = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| &stream[start..end]);
    // A code of four bytes begins with a zero, and so may fill up a unit.
    let trimmed = units.map(|unit| {
        let last = unit.iter().rposition(|&byte| byte != 0).unwrap_or(0);
        &unit[..=last]
    });
    trimmed.collect()
}
