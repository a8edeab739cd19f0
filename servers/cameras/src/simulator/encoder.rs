//! H.264 without loss, by means that need no arithmetic: a block of 16 by 16 pixels that is as it
//! was is skipped, one that goes on like its neighbour is predicted from it, and every other one
//! stands in the stream as it is.
//!
//! For pictures that are drawn, of which little moves. Filters are off, so that a decoder has
//! exactly what was drawn.

use super::picture::{Pictures, key_slice, other_slice};
use super::writer::Writer;

/// The edge of a block in pixels; of colours it is half.
const EDGE: usize = 16;

/// A picture: brightness of each pixel, and two colours of every two by two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) planes: [Plane; 3],
}

/// Samples, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plane {
    pub(super) width: usize,
    pub(super) samples: Vec<u8>,
}

impl Frame {
    /// One of this many blocks, in one colour.
    pub(super) fn new(across: usize, down: usize, colour: [u8; 3]) -> Self {
        let plane = |(place, value): (usize, u8)| {
            let edge = if place == 0 { EDGE } else { EDGE / 2 };
            Plane {
                width: across * edge,
                samples: vec![value; across * edge * down * edge],
            }
        };
        let [y, cb, cr] = colour;
        Self {
            planes: [(0, y), (1, cb), (2, cr)].map(plane),
        }
    }

    /// Paints a rectangle, of which everything is even. What is outside is left out.
    pub(super) fn paint(&mut self, at: [usize; 2], size: [usize; 2], colour: [u8; 3]) {
        for (place, (plane, value)) in self.planes.iter_mut().zip(colour).enumerate() {
            let part = if place == 0 { 1 } else { 2 };
            let from = (at[0] / part).min(plane.width);
            let until = ((at[0] + size[0]) / part).min(plane.width);
            let rows = plane.samples.chunks_exact_mut(plane.width);
            for row in rows.skip(at[1] / part).take(size[1] / part) {
                row[from..until].fill(value);
            }
        }
    }
}

impl Plane {
    /// The rows of a block.
    fn rows(&self, edge: usize, [x, y]: [usize; 2]) -> impl Iterator<Item = &[u8]> {
        let rows = self.samples.chunks_exact(self.width);
        rows.skip(y * edge)
            .take(edge)
            .map(move |row| &row[x * edge..(x + 1) * edge])
    }

    /// Whether a block has in each row what the pixel left of it has.
    fn goes_on_from_left(&self, edge: usize, [x, y]: [usize; 2]) -> bool {
        let mut rows = self
            .samples
            .chunks_exact(self.width)
            .skip(y * edge)
            .take(edge);
        x > 0
            && rows.all(|row| {
                let (before, block) = (row[x * edge - 1], &row[x * edge..(x + 1) * edge]);
                block.iter().all(|&pixel| pixel == before)
            })
    }

    /// Whether all of its rows are as the one above it.
    fn goes_on_from_above(&self, edge: usize, [x, y]: [usize; 2]) -> bool {
        let above = (y * edge).checked_sub(1);
        above.is_some_and(|above| {
            let above = &self.samples[above * self.width..][x * edge..(x + 1) * edge];
            self.rows(edge, [x, y]).all(|row| row == above)
        })
    }
}

/// How a block is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    /// As it was in the picture before.
    Skipped,
    FromLeft,
    FromAbove,
    /// As it is.
    Raw,
}

/// Makes a stream of pictures.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    pub(super) sets: Pictures,
    size: [usize; 2],
    before: Option<Frame>,
}

impl Encoder {
    /// Of pictures of this many blocks.
    pub(super) fn new(across: usize, down: usize) -> Self {
        Self {
            sets: Pictures::new(across as u32, down as u32),
            size: [across, down],
            before: None,
        }
    }

    /// The NAL unit of a picture: so many behind the last key frame, which has 0.
    pub(super) fn encode(&mut self, number: u32, frame: &Frame) -> Vec<u8> {
        let before = self.before.take().filter(|_| number > 0);
        let [across, down] = self.size;
        let mut slice = match before {
            None => key_slice(),
            Some(_) => other_slice(number),
        };
        let places = (0..down).flat_map(|y| (0..across).map(move |x| [x, y]));
        let mut blocks: Vec<Block> = Vec::with_capacity(across * down);
        let mut skipped = 0;
        for at in places {
            let block = chosen(frame, before.as_ref(), at);
            // Other pictures say how many blocks before this one are skipped, and their numbers of
            // kinds begin behind those of kinds that refer to the picture before.
            if block == Block::Skipped {
                skipped += 1;
            } else {
                let kinds = if before.is_some() { 5 } else { 0 };
                if before.is_some() {
                    slice.ue(std::mem::take(&mut skipped));
                }
                // The neighbours left and above, of which a raw one counts as full of coefficients.
                let left = at[0].checked_sub(1).map(|_| blocks[blocks.len() - 1]);
                let above = blocks.len().checked_sub(across).map(|place| blocks[place]);
                let is_beside_raw = [left, above].contains(&Some(Block::Raw));
                write(&mut slice, block, kinds, is_beside_raw, frame, at);
            }
            blocks.push(block);
        }
        if skipped > 0 {
            slice.ue(skipped);
        }
        self.before = Some(frame.clone());
        slice.finish()
    }
}

/// The edge of a block in a plane.
fn edge(plane: usize) -> usize {
    if plane == 0 { EDGE } else { EDGE / 2 }
}

fn chosen(frame: &Frame, before: Option<&Frame>, at: [usize; 2]) -> Block {
    let all = |is: fn(&Plane, usize, [usize; 2]) -> bool| {
        let planes = frame.planes.iter().enumerate();
        planes
            .into_iter()
            .all(|(place, plane)| is(plane, edge(place), at))
    };
    let is_as_before = before.is_some_and(|before| {
        let planes = frame.planes.iter().zip(&before.planes).enumerate();
        planes.into_iter().all(|(place, (now, before))| {
            let edge = edge(place);
            now.rows(edge, at).eq(before.rows(edge, at))
        })
    });
    if is_as_before {
        Block::Skipped
    } else if all(Plane::goes_on_from_left) {
        Block::FromLeft
    } else if all(Plane::goes_on_from_above) {
        Block::FromAbove
    } else {
        Block::Raw
    }
}

fn write(
    slice: &mut Writer,
    block: Block,
    kinds: u32,
    is_beside_raw: bool,
    frame: &Frame,
    at: [usize; 2],
) {
    // Intra 16x16 without coefficients, from above or from the left, and the same of the colours.
    let (kind, of_colours) = match block {
        Block::FromAbove => (1, 2),
        Block::FromLeft => (2, 1),
        Block::Raw | Block::Skipped => {
            slice.ue(kinds + 25);
            for (place, plane) in frame.planes.iter().enumerate() {
                for row in plane.rows(edge(place), at) {
                    slice.bytes(row);
                }
            }
            return;
        }
    };
    slice.ue(kinds + kind);
    slice.ue(of_colours);
    // The quantizer as before; no coefficient, which is written in the way of the neighbours.
    slice.ue(0);
    match is_beside_raw {
        true => slice.bits(0b00_0011, 6),
        false => slice.bits(1, 1),
    }
}
