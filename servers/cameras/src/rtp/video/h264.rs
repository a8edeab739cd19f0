//! H.264 in packets (RFC 6184), in its modes 0 and 1.

use bytes::Bytes;

use super::{Format, HeadBytes, Part, Role};
use crate::media::{Codec, h264};
use crate::rtp::depacketizer::Malformed;

/// Several NAL units of one time.
const AGGREGATE: u8 = 24;
/// A fragment.
const FRAGMENT: u8 = 28;

/// The format, with the parameter sets that are in force.
#[derive(Debug)]
pub(in crate::rtp) struct H264 {
    sets: [Option<Bytes>; 2],
}

impl H264 {
    pub(in crate::rtp) fn new(sets: Option<(Bytes, Bytes)>) -> Self {
        let (sps, pps) = sets.unzip();
        Self { sets: [sps, pps] }
    }
}

impl Format for H264 {
    const NAME: &'static str = "H.264";

    fn parts(&self, payload: &Bytes, out: &mut Vec<Part>) -> Result<(), Malformed> {
        let len = payload.len();
        let short = |part| Malformed::Short {
            codec: Self::NAME,
            len,
            part,
        };
        let &head = payload.first().ok_or(short("head"))?;
        match h264::kind(head) {
            1..=23 => out.push(Part::Whole(payload.clone())),
            AGGREGATE => {
                let mut at = 1;
                while at < len {
                    let size = payload.get(at..at + 2).ok_or(short("list of NAL units"))?;
                    let size = usize::from(u16::from_be_bytes([size[0], size[1]]));
                    at += 2;
                    if at + size > len {
                        return Err(short("list of NAL units"));
                    }
                    out.push(Part::Whole(payload.slice(at..at + size)));
                    at += size;
                }
            }
            FRAGMENT => {
                let &[_, fragment, ..] = &payload[..] else {
                    return Err(short("fragment"));
                };
                let piece = payload.slice(2..);
                let head = HeadBytes {
                    bytes: [head & 0xe0 | fragment & 0x1f, 0],
                    len: 1,
                };
                out.extend(super::fragment(fragment, head, piece));
            }
            kind => {
                return Err(Malformed::Kind {
                    codec: Self::NAME,
                    kind,
                });
            }
        }
        Ok(())
    }

    fn role(nal: &[u8]) -> Role {
        match h264::kind(nal[0]) {
            h264::SPS => Role::Set(0),
            h264::PPS => Role::Set(1),
            h264::DELIMITER => Role::Delimiter,
            kind @ h264::SLICE..=h264::IDR => Role::Slice {
                is_key: kind == h264::IDR,
                is_first: h264::begins_picture(nal),
            },
            _ => Role::Other,
        }
    }

    fn codec(&self) -> Option<Codec> {
        let [Some(sps), Some(pps)] = &self.sets else {
            return None;
        };
        Some(Codec::H264 {
            sps: sps.clone(),
            pps: pps.clone(),
        })
    }

    fn set(&mut self, place: usize) -> &mut Option<Bytes> {
        &mut self.sets[place]
    }
}
