//! Pictures of NAL units: what H.264 and H.265 have in common.
//!
//! A picture ends with the marker or before the next timestamp. Its NAL units come whole, several
//! in a payload, or in fragments. A loss damages the picture that was under way, and the one after
//! it unless that begins with its first slice.

mod h264;
mod h265;

pub(super) use h264::H264;
pub(super) use h265::H265;

use bytes::{BufMut, Bytes, BytesMut};

use super::depacketizer::{Malformed, SAMPLE_MAX, Unit, check_size};
use super::order::Ordered;
use crate::media::{Codec, Data};

/// Room for as many fragments as most NAL units have.
const PIECES: usize = 16;

/// A length and the longest head, and bytes that are allocated for such at a time. They go with the
/// last of the pictures that have some.
const PREFIX_MAX: usize = 6;
const PREFIXES: usize = 1_024;

/// What a payload holds.
#[derive(Debug)]
pub(super) enum Part {
    /// A whole NAL unit.
    Whole(Bytes),
    /// The beginning of one: its head, and what follows.
    Begin(HeadBytes, Bytes),
    /// More of it.
    Go(Bytes),
    /// The rest of it.
    End(Bytes),
}

/// The head of a NAL unit that came in fragments: one byte, or two.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadBytes {
    pub(super) bytes: [u8; 2],
    pub(super) len: usize,
}

/// What a NAL unit is for the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A slice of a picture.
    Slice {
        /// Decoding can begin with it.
        is_key: bool,
        /// It is the first one of its picture.
        is_first: bool,
    },
    /// A parameter set, by its place among the codec's sets.
    Set(usize),
    /// Of no use outside of packets.
    Delimiter,
    /// Anything else.
    Other,
}

/// What differs between the codecs.
pub(super) trait Format {
    const NAME: &'static str;

    /// Takes a payload apart.
    fn parts(&self, payload: &Bytes, out: &mut Vec<Part>) -> Result<(), Malformed>;

    /// What the NAL unit is that begins with these bytes.
    fn role(nal: &[u8]) -> Role;

    /// The parameter sets, if all are known.
    fn codec(&self) -> Option<Codec>;

    /// One of the sets.
    fn set(&mut self, place: usize) -> &mut Option<Bytes>;
}

/// Makes pictures.
#[derive(Debug)]
pub(super) struct Video<F> {
    format: F,
    picture: Option<Picture>,
    /// Packets were lost since the last picture that was complete.
    lost_before: bool,
    /// Sets have changed, and no picture has told so.
    has_changed: bool,
    parts: Vec<Part>,
    /// Where lengths and heads of NAL units are written, many in one allocation.
    prefixes: BytesMut,
}

/// A picture under way.
#[derive(Debug, Default)]
struct Picture {
    timestamp: u32,
    slices: Vec<Bytes>,
    bytes: usize,
    units: usize,
    has_slice: bool,
    is_key: bool,
    is_damaged: bool,
    /// A NAL unit whose end has not come.
    fragments: Option<Fragments>,
    /// The first set of each sort.
    sets: Vec<(usize, Bytes)>,
}

#[derive(Debug)]
struct Fragments {
    head: HeadBytes,
    pieces: Vec<Bytes>,
}

impl<F: Format> Video<F> {
    pub(super) fn new(format: F) -> Self {
        Self {
            format,
            picture: None,
            lost_before: false,
            has_changed: false,
            parts: Vec::new(),
            prefixes: BytesMut::new(),
        }
    }

    pub(super) fn codec(&self) -> Option<Codec> {
        self.format.codec()
    }

    pub(super) fn push(
        &mut self,
        ordered: &Ordered,
        dropped: &mut u64,
        out: &mut Vec<Unit>,
    ) -> Result<(), Malformed> {
        let packet = &ordered.packet;
        if ordered.after_loss
            && let Some(picture) = &mut self.picture
        {
            picture.is_damaged = true;
        }
        if self
            .picture
            .as_ref()
            .is_some_and(|picture| picture.timestamp != packet.timestamp)
        {
            self.complete(dropped, out);
        }
        // After the picture before is done with: what was lost may have been of both.
        self.lost_before |= ordered.after_loss;
        let lost_before = self.lost_before;
        let picture = self.picture.get_or_insert_with(|| Picture {
            timestamp: packet.timestamp,
            ..Picture::default()
        });
        let mut parts = std::mem::take(&mut self.parts);
        let mut outcome = self.format.parts(&packet.payload, &mut parts);
        for part in parts.drain(..) {
            if outcome.is_ok() {
                outcome = picture.take::<F>(part, lost_before, &mut self.prefixes);
            }
        }
        self.parts = parts;
        picture.is_damaged |= outcome.is_err();
        if packet.marker {
            self.complete(dropped, out);
        }
        outcome
    }

    /// Passes on the picture that is under way, if it is whole.
    fn complete(&mut self, dropped: &mut u64, out: &mut Vec<Unit>) {
        let Some(picture) = self.picture.take() else {
            return;
        };
        self.lost_before = false;
        if picture.is_damaged || picture.fragments.is_some() {
            *dropped += 1;
            return;
        }
        let Picture {
            timestamp,
            mut slices,
            has_slice,
            is_key,
            sets,
            ..
        } = picture;
        if is_key || !has_slice {
            self.learn(sets);
        } else {
            // They are not for those who begin here; decoders find them in the picture.
            let mut known =
                |(place, set): &(usize, Bytes)| self.format.set(*place).as_ref() == Some(set);
            let unknown: Vec<_> = sets.into_iter().filter(|set| !known(set)).collect();
            for (_, set) in unknown {
                slices.splice(0..0, [length(set.len()), set]);
            }
        }
        if !has_slice {
            return;
        }
        let changed = is_key && std::mem::take(&mut self.has_changed);
        out.push(Unit {
            timestamp,
            duration: None,
            is_key,
            codec: if changed { self.format.codec() } else { None },
            data: Data::new(slices),
        });
    }

    /// Takes over sets of a key frame, or those that come by themselves before one.
    fn learn(&mut self, sets: Vec<(usize, Bytes)>) {
        for (place, set) in sets {
            let known = self.format.set(place);
            if known.as_ref() != Some(&set) {
                // A copy: the slice would keep all that came with it.
                *known = Some(Bytes::copy_from_slice(&set));
                self.has_changed = true;
            }
        }
    }
}

impl Picture {
    fn take<F: Format>(
        &mut self,
        part: Part,
        lost_before: bool,
        prefixes: &mut BytesMut,
    ) -> Result<(), Malformed> {
        match part {
            Part::Whole(nal) => {
                self.broken_off::<F>()?;
                self.add::<F>(&[], vec![nal], lost_before, prefixes)
            }
            Part::Begin(head, piece) => {
                self.broken_off::<F>()?;
                self.grow::<F>(piece.len() + head.len)?;
                let mut pieces = Vec::with_capacity(PIECES);
                pieces.push(piece);
                self.fragments = Some(Fragments { head, pieces });
                Ok(())
            }
            Part::Go(piece) => self.go::<F>(piece),
            Part::End(piece) => {
                self.go::<F>(piece)?;
                match self.fragments.take() {
                    Some(Fragments { head, pieces }) => {
                        let head = &head.bytes[..head.len];
                        self.add::<F>(head, pieces, lost_before, prefixes)
                    }
                    None => Ok(()),
                }
            }
        }
    }

    fn go<F: Format>(&mut self, piece: Bytes) -> Result<(), Malformed> {
        self.grow::<F>(piece.len())?;
        let Some(fragments) = &mut self.fragments else {
            return Err(Malformed::Nonsense {
                codec: F::NAME,
                what: "a NAL unit goes on that has not begun",
            });
        };
        fragments.pieces.push(piece);
        Ok(())
    }

    fn broken_off<F: Format>(&mut self) -> Result<(), Malformed> {
        match self.fragments.take() {
            None => Ok(()),
            Some(_) => Err(Malformed::Nonsense {
                codec: F::NAME,
                what: "a NAL unit begins within another one",
            }),
        }
    }

    /// Counts what is kept.
    fn grow<F: Format>(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.bytes += bytes;
        self.units += 1;
        check_size(F::NAME, self.bytes, SAMPLE_MAX, self.units, "NAL units")
    }

    /// Adds a NAL unit: `head` and then these pieces.
    fn add<F: Format>(
        &mut self,
        head: &[u8],
        pieces: Vec<Bytes>,
        lost_before: bool,
        prefixes: &mut BytesMut,
    ) -> Result<(), Malformed> {
        let len = head.len() + pieces.iter().map(Bytes::len).sum::<usize>();
        if len == 0 {
            return Ok(());
        }
        if head.is_empty() {
            self.grow::<F>(len)?;
        }
        let mut start = [0; 4];
        let beginning = head.iter().chain(pieces.iter().flatten()).take(4);
        let known = beginning
            .zip(&mut start)
            .map(|(from, to)| *to = *from)
            .count();
        match F::role(&start[..known]) {
            Role::Delimiter => return Ok(()),
            Role::Set(place) if self.sets.iter().all(|(other, _)| *other != place) => {
                let set = [head, &pieces.concat()].concat();
                self.sets.push((place, set.into()));
                return Ok(());
            }
            Role::Slice { is_key, is_first } => {
                // Its first slices are among what was lost.
                self.is_damaged |= lost_before && !self.has_slice && !is_first;
                self.has_slice = true;
                self.is_key |= is_key;
            }
            Role::Set(_) | Role::Other => {}
        }
        if prefixes.capacity() < PREFIX_MAX {
            prefixes.reserve(PREFIXES);
        }
        prefixes.put_u32(len as u32);
        prefixes.put_slice(head);
        self.slices.push(prefixes.split().freeze());
        self.slices
            .extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
        Ok(())
    }
}

/// A fragment by the flags in its head. One that is the beginning and the end is a whole unit.
fn fragment(flags: u8, head: HeadBytes, piece: Bytes) -> impl IntoIterator<Item = Part> {
    match flags & 0xc0 {
        0xc0 => [
            Some(Part::Begin(head, piece)),
            Some(Part::End(Bytes::new())),
        ],
        0x80 => [Some(Part::Begin(head, piece)), None],
        0x40 => [Some(Part::End(piece)), None],
        _ => [Some(Part::Go(piece)), None],
    }
    .into_iter()
    .flatten()
}

/// The length before a NAL unit. `SAMPLE_MAX` keeps it within its four bytes.
fn length(len: usize) -> Bytes {
    Bytes::copy_from_slice(&(len as u32).to_be_bytes())
}
