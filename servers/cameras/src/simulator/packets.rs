//! Pictures cut into packets once, for all cameras and rounds.

use super::picture::Pictures;
use super::stamp;
use crate::media::h264;

/// The largest payload, so that a packet in a connection has 1 460 bytes: a TCP segment on
/// Ethernet, as the reports of overloaded servers have it.
pub const PAYLOAD_MAX: usize = 1_444;

/// A stream that is repeated without end.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The sequence parameter set.
    pub sps: Vec<u8>,
    /// The picture parameter set.
    pub pps: Vec<u8>,
    /// The payloads of each picture, of which the last one has the marker.
    pub pictures: Vec<Vec<Vec<u8>>>,
}

/// Why a file is no stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no H.264 with start codes and parameter sets; make one by `ffmpeg -i FILE -c:v \
         libx264 -bf 0 -bsf:v h264_mp4toannexb OUT.h264`"
)]
pub struct NoStream;

impl Stream {
    /// Grey pictures: one key frame, and so many others behind it. A key frame is four times as
    /// large as the others.
    pub fn synthetic(pictures_per_key: u32, bytes_per_picture: usize) -> Self {
        let made = Pictures::new(40, 30);
        let count = pictures_per_key.max(1);
        let small = bytes_per_picture * count as usize / (count as usize + 3);
        let picture = |number: u32| {
            let bytes = if number == 0 { 4 * small } else { small };
            let mut units = made.picture(number, bytes, u64::from(number) + 1);
            if number == 0 {
                units.splice(0..0, [made.sps.clone(), made.pps.clone()]);
            }
            payloads(&units)
        };
        Self {
            pictures: (0..count).map(picture).collect(),
            sps: made.sps,
            pps: made.pps,
        }
    }

    /// A file of H.264 with start codes.
    ///
    /// # Errors
    ///
    /// [`NoStream`].
    pub fn of_file(bytes: &[u8]) -> Result<Self, NoStream> {
        let units = units(bytes);
        let set = |kind| {
            let is = |unit: &&&[u8]| h264::kind(unit[0]) == kind;
            units.iter().find(is).map(|unit| unit.to_vec())
        };
        let (sps, pps) = set(h264::SPS).zip(set(h264::PPS)).ok_or(NoStream)?;
        let mut pictures: Vec<Vec<Vec<u8>>> = Vec::new();
        let mut picture: Vec<Vec<u8>> = Vec::new();
        let mut has_slice = false;
        for unit in units {
            let kind = h264::kind(unit[0]);
            let is_slice = (h264::SLICE..=h264::IDR).contains(&kind);
            let begins = !is_slice || h264::begins_picture(unit);
            if has_slice && begins {
                pictures.push(payloads(&picture));
                picture.clear();
                has_slice = false;
            }
            has_slice |= is_slice;
            if kind != h264::DELIMITER {
                picture.push(unit.to_vec());
            }
        }
        if has_slice {
            pictures.push(payloads(&picture));
        }
        Ok(Self { sps, pps, pictures })
    }

    /// For each picture, where its stamp goes: the payload, and the place in it. Files have none.
    pub(super) fn stamped(&self) -> Vec<Option<(usize, usize)>> {
        let place = |payloads: &Vec<Vec<u8>>| {
            let mut places = payloads.iter().enumerate();
            places.find_map(|(index, payload)| Some((index, stamp::place(payload)?)))
        };
        self.pictures.iter().map(place).collect()
    }

    /// Bytes of a round, as they go over the wire, and packets.
    pub fn size(&self) -> (usize, usize) {
        let payloads = self.pictures.iter().flatten();
        payloads.fold((0, 0), |(bytes, packets), payload| {
            (bytes + payload.len() + 16, packets + 1)
        })
    }
}

/// NAL units behind start codes of three bytes or four.
fn units(bytes: &[u8]) -> Vec<&[u8]> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(3).position(|code| code == [0, 0, 1]) {
        at += found + 3;
        starts.push(at);
    }
    let ends = starts
        .iter()
        .skip(1)
        .map(|next| next - 3)
        .chain([bytes.len()]);
    let unit = |(start, end): (&usize, usize)| {
        // A fourth byte of the code, or zeros behind the unit.
        let mut unit = &bytes[*start..end];
        while let [rest @ .., 0] = unit {
            unit = rest;
        }
        unit
    };
    starts
        .iter()
        .zip(ends)
        .map(unit)
        .filter(|unit| !unit.is_empty())
        .collect()
}

/// The payloads of a picture of these NAL units.
pub(super) fn payloads(units: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    for unit in units {
        if unit.len() <= PAYLOAD_MAX {
            payloads.push(unit.clone());
            continue;
        }
        let parts = unit[1..].chunks(PAYLOAD_MAX - 2);
        let last = parts.len() - 1;
        for (index, part) in parts.enumerate() {
            let begins = if index == 0 { 0x80 } else { 0 };
            let ends = if index == last { 0x40 } else { 0 };
            let head = [unit[0] & 0x60 | 28, begins | ends | unit[0] & 0x1f];
            payloads.push([&head, part].concat());
        }
    }
    payloads
}
