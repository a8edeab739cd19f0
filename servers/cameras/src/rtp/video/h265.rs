//! H.265 in packets (RFC 7798).

use bytes::Bytes;

use super::{Format, HeadBytes, Part, Role};
use crate::media::{Codec, h265};
use crate::rtp::depacketizer::Malformed;

/// Several NAL units of one time.
const AGGREGATE: u8 = 48;
/// A fragment.
const FRAGMENT: u8 = 49;

/// The format, with the parameter sets that are in force.
#[derive(Debug)]
pub(in crate::rtp) struct H265 {
    sets: [Option<Bytes>; 3],
    has_order_numbers: bool,
}

impl H265 {
    pub(in crate::rtp) fn new(
        sets: Option<(Bytes, Bytes, Bytes)>,
        has_order_numbers: bool,
    ) -> Self {
        let sets = sets.map_or([None, None, None], |(vps, sps, pps)| {
            [Some(vps), Some(sps), Some(pps)]
        });
        Self {
            sets,
            has_order_numbers,
        }
    }
}

impl Format for H265 {
    const NAME: &'static str = "H.265";

    fn parts(&self, payload: &Bytes, out: &mut Vec<Part>) -> Result<(), Malformed> {
        let len = payload.len();
        let short = |part| Malformed::Short {
            codec: Self::NAME,
            len,
            part,
        };
        let &[first, second, ..] = &payload[..] else {
            return Err(short("head"));
        };
        let order = if self.has_order_numbers { 2 } else { 0 };
        match h265::kind(first) {
            AGGREGATE => {
                let mut at = 2 + order;
                while at < len {
                    let size = payload.get(at..at + 2).ok_or(short("list of NAL units"))?;
                    let size = usize::from(u16::from_be_bytes([size[0], size[1]]));
                    at += 2;
                    if at + size > len {
                        return Err(short("list of NAL units"));
                    }
                    out.push(Part::Whole(payload.slice(at..at + size)));
                    // Each further one has the difference of its number, of one byte.
                    at += size + order / 2;
                }
            }
            FRAGMENT => {
                let &fragment = payload.get(2).ok_or(short("fragment"))?;
                // Only the first fragment has a number.
                let skip = 3 + if fragment & 0x80 != 0 { order } else { 0 };
                if skip > len {
                    return Err(short("fragment"));
                }
                let piece = payload.slice(skip..);
                let head = HeadBytes {
                    bytes: [first & 0x81 | (fragment & 0x3f) << 1, second],
                    len: 2,
                };
                out.extend(super::fragment(fragment, head, piece));
            }
            kind @ 50.. => {
                return Err(Malformed::Kind {
                    codec: Self::NAME,
                    kind,
                });
            }
            _ if self.has_order_numbers => {
                if len < 4 {
                    return Err(short("order number"));
                }
                let head = HeadBytes {
                    bytes: [first, second],
                    len: 2,
                };
                out.push(Part::Begin(head, payload.slice(4..)));
                out.push(Part::End(Bytes::new()));
            }
            _ => out.push(Part::Whole(payload.clone())),
        }
        Ok(())
    }

    fn role(nal: &[u8]) -> Role {
        match h265::kind(nal[0]) {
            h265::VPS => Role::Set(0),
            h265::SPS => Role::Set(1),
            h265::PPS => Role::Set(2),
            h265::DELIMITER => Role::Delimiter,
            kind if h265::is_slice(kind) => Role::Slice {
                is_key: h265::is_key(kind),
                is_first: h265::begins_picture(nal),
            },
            _ => Role::Other,
        }
    }

    fn codec(&self) -> Option<Codec> {
        let [Some(vps), Some(sps), Some(pps)] = &self.sets else {
            return None;
        };
        Some(Codec::H265 {
            vps: vps.clone(),
            sps: sps.clone(),
            pps: pps.clone(),
        })
    }

    fn set(&mut self, place: usize) -> &mut Option<Bytes> {
        &mut self.sets[place]
    }
}
