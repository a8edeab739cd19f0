//! JPEG pictures in packets (RFC 2435): the coded data without the head of the file, which is made
//! again here.

mod tables;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::depacketizer::{Malformed, SAMPLE_MAX, Unit, check_size};
use super::order::Ordered;
use crate::media::{Codec, Data};
use tables::Head;

const NAME: &str = "MJPEG";

/// The end of a file.
const END: [u8; 2] = [0xff, 0xd9];

/// Makes files.
#[derive(Debug, Default)]
pub(super) struct Jpeg {
    picture: Option<Picture>,
    /// Width and height of the last picture.
    size: Option<(u16, u16)>,
    /// Tables that pictures refer to by a quality from 128 on.
    known: BTreeMap<u8, Bytes>,
}

#[derive(Debug)]
struct Picture {
    timestamp: u32,
    kind: u8,
    size: (u16, u16),
    restart: u16,
    tables: Bytes,
    pieces: Vec<Bytes>,
    bytes: usize,
}

/// The head of a payload.
struct Part {
    offset: usize,
    kind: u8,
    quality: u8,
    size: (u16, u16),
    restart: u16,
    /// Where the rest begins.
    len: usize,
}

impl Jpeg {
    pub(super) fn codec(&self) -> Option<Codec> {
        let (width, height) = self.size?;
        Some(Codec::Mjpeg { width, height })
    }

    pub(super) fn push(
        &mut self,
        ordered: &Ordered,
        dropped: &mut u64,
        out: &mut Vec<Unit>,
    ) -> Result<(), Malformed> {
        let packet = &ordered.packet;
        if ordered.after_loss && self.picture.take().is_some() {
            *dropped += 1;
        }
        let part = part(&packet.payload)?;
        let mut rest = packet.payload.slice(part.len..);
        if part.offset == 0 {
            if self.picture.take().is_some() {
                *dropped += 1;
            }
            let tables = self.tables(part.quality, &mut rest)?;
            self.picture = Some(Picture {
                timestamp: packet.timestamp,
                kind: part.kind,
                size: part.size,
                restart: part.restart,
                tables,
                pieces: Vec::new(),
                bytes: 0,
            });
        }
        let Some(picture) = &mut self.picture else {
            // Its beginning was lost, and is counted as such.
            return Ok(());
        };
        let fits = picture.timestamp == packet.timestamp && picture.bytes == part.offset;
        if !fits || rest.is_empty() {
            self.picture = None;
            *dropped += 1;
            return Err(Malformed::Nonsense {
                codec: NAME,
                what: "parts of a picture do not fit together",
            });
        }
        picture.bytes += rest.len();
        picture.pieces.push(rest);
        let pieces = picture.pieces.len();
        if let Err(large) = check_size(NAME, picture.bytes, SAMPLE_MAX, pieces, "pieces") {
            self.picture = None;
            *dropped += 1;
            return Err(large);
        }
        if packet.marker
            && let Some(picture) = self.picture.take()
        {
            let changed = self.size.replace(picture.size) != Some(picture.size);
            let codec = if changed { self.codec() } else { None };
            out.push(picture.finish(codec));
        }
        Ok(())
    }

    /// The tables of quantization of a picture that begins.
    fn tables(&mut self, quality: u8, rest: &mut Bytes) -> Result<Bytes, Malformed> {
        if quality < 128 {
            return Ok(tables::of_quality(quality).into());
        }
        let head = rest
            .first_chunk::<4>()
            .ok_or(short(rest, "head of tables"))?;
        let [_, precision, len_high, len_low] = *head;
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        if rest.len() < 4 + len {
            return Err(short(rest, "tables"));
        }
        let tables = rest.split_to(4 + len).slice(4..);
        let nonsense = |what| Malformed::Nonsense { codec: NAME, what };
        if tables.is_empty() {
            let known = self.known.get(&quality).cloned();
            return known.ok_or(nonsense("a picture refers to tables that have not come"));
        }
        if precision != 0 || !matches!(tables.len(), 64 | 128) {
            return Err(nonsense(
                "there are only tables of eight bits, one or two of them",
            ));
        }
        if quality != 255 {
            self.known.insert(quality, Bytes::copy_from_slice(&tables));
        }
        Ok(tables)
    }
}

impl Picture {
    fn finish(mut self, codec: Option<Codec>) -> Unit {
        let head = Head {
            width: self.size.0,
            height: self.size.1,
            is_halved: self.kind & 1 == 1,
            restart: self.restart,
            tables: &self.tables,
        };
        let ends = self
            .pieces
            .last()
            .is_some_and(|piece| piece.ends_with(&END));
        self.pieces.insert(0, head.write().into());
        if !ends {
            self.pieces.push(Bytes::from_static(&END));
        }
        Unit {
            timestamp: self.timestamp,
            duration: None,
            is_key: true,
            codec,
            data: Data::new(self.pieces),
        }
    }
}

fn part(payload: &Bytes) -> Result<Part, Malformed> {
    let head = payload.first_chunk::<8>().ok_or(short(payload, "head"))?;
    let [_, o1, o2, o3, kind, quality, width, height] = *head;
    if !matches!(kind, 0 | 1 | 64 | 65) {
        return Err(Malformed::Kind { codec: NAME, kind });
    }
    if quality == 0 || (100..128).contains(&quality) || width == 0 || height == 0 {
        return Err(Malformed::Nonsense {
            codec: NAME,
            what: "a quality or a size is out of range",
        });
    }
    let mut part = Part {
        offset: u32::from_be_bytes([0, o1, o2, o3]) as usize,
        kind,
        quality,
        size: (u16::from(width) * 8, u16::from(height) * 8),
        restart: 0,
        len: 8,
    };
    if kind >= 64 {
        let restart = payload.get(8..12).ok_or(short(payload, "restart header"))?;
        part.restart = u16::from_be_bytes([restart[0], restart[1]]);
        part.len = 12;
    }
    Ok(part)
}

fn short(payload: &Bytes, part: &'static str) -> Malformed {
    Malformed::Short {
        codec: NAME,
        len: payload.len(),
        part,
    }
}

/// The coded data of a file, with what packets say of it.
pub(super) struct Scan<'a> {
    kind: u8,
    size: (u8, u8),
    restart: u16,
    tables: Vec<u8>,
    pub(super) data: &'a [u8],
}

impl<'a> Scan<'a> {
    /// Of a file with the usual codes and three components, as cameras make them. `None` if it is
    /// another one, for which packets have no words.
    pub(super) fn of(file: &'a [u8]) -> Option<Self> {
        let mut tables = [const { Vec::new() }; 2];
        let (mut restart, mut frame) = (0, None);
        let mut rest = file.strip_prefix(&[0xff, 0xd8])?;
        loop {
            let (&[0xff, marker, high, low], _) = rest.split_first_chunk::<4>()? else {
                return None;
            };
            let len = usize::from(u16::from_be_bytes([high, low]));
            let contents = rest.get(4..2 + len)?;
            rest = &rest[2 + len..];
            match marker {
                0xdb => {
                    for table in contents.chunks_exact(65) {
                        tables.get_mut(usize::from(table[0]))?.extend(&table[1..]);
                    }
                }
                0xdd => restart = u16::from_be_bytes(*contents.first_chunk()?),
                0xc0 => frame = Some(contents.first_chunk::<9>()?),
                0xc1..=0xc3 | 0xc5..=0xcf => return None,
                0xda => break,
                _ => {}
            }
        }
        let &[8, h1, h2, w1, w2, 3, _, sampling, _] = frame? else {
            return None;
        };
        let eighths = |high, low| u8::try_from(u16::from_be_bytes([high, low]).div_ceil(8)).ok();
        let kind = match sampling {
            0x21 => 0,
            0x22 => 1,
            _ => return None,
        };
        Some(Self {
            kind: if restart > 0 { kind | 64 } else { kind },
            size: (eighths(w1, w2)?, eighths(h1, h2)?),
            restart,
            tables: tables.concat(),
            data: rest.strip_suffix(&END).unwrap_or(rest),
        })
    }

    /// The head of the payload that begins at this place of the data.
    pub(super) fn head(&self, offset: usize, is_first: bool) -> Vec<u8> {
        let [_, o1, o2, o3] = (offset as u32).to_be_bytes();
        let mut head = vec![0, o1, o2, o3, self.kind, 255, self.size.0, self.size.1];
        if self.restart > 0 {
            head.extend(self.restart.to_be_bytes());
            // The whole picture counts as one interval.
            head.extend([0xff, 0xff]);
        }
        if is_first {
            head.extend([0, 0]);
            head.extend((self.tables.len() as u16).to_be_bytes());
            head.extend(&self.tables);
        }
        head
    }
}
