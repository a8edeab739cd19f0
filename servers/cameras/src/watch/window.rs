//! The newest parts of a camera. Pure: it knows no task and no clock.
//!
//! Parts are numbered from 1 on, without holes. They are grouped into segments, which begin with a
//! key frame. The oldest segments go first, by time and by bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::parts::{Head, Part};

/// How long a segment is at least: some cameras send a key frame each half second.
const SEGMENT_US: i64 = 2_000_000;
/// A segment that is longer is ended without a key frame, as no playlist would bear it.
const SEGMENT_MAX_US: i64 = 30_000_000;
/// How much is kept, in time and in segments: what players want to begin with, and to catch up.
const KEPT_US: i64 = 12_000_000;
const SEGMENTS_MIN: usize = 3;

/// A part with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its number.
    pub number: u64,
    /// The part.
    pub part: Part,
    /// How it is to be taken.
    pub head: Arc<Head>,
}

/// Parts from one key frame up to another one.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its number, from 1 on, without holes.
    pub number: u64,
    /// Its parts.
    pub parts: Vec<Arc<Placed>>,
    /// Whether its times, or its head, are no continuation of the segment before.
    pub is_discontinuous: bool,
    /// Whether it is complete.
    pub is_complete: bool,
}

impl Segment {
    /// When it begins.
    pub fn start_us(&self) -> i64 {
        self.parts.first().map_or(0, |placed| placed.part.start_us)
    }

    /// How long it lasts.
    pub fn duration_us(&self) -> i64 {
        self.parts
            .iter()
            .map(|placed| placed.part.duration_us)
            .sum()
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|placed| placed.part.bytes.len())
            .sum()
    }
}

/// The newest segments.
#[derive(Clone, Debug, Default)]
pub struct Window {
    segments: VecDeque<Segment>,
    head: Option<Arc<Head>>,
    bytes: usize,
    next_part: u64,
    next_segment: u64,
    /// How often a segment that went was no continuation of the one before it.
    discontinuities_gone: u64,
    /// The next part is no continuation.
    is_discontinuous: bool,
    longest_us: i64,
}

/// What a viewer gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// This part.
    Part(Arc<Placed>),
    /// This part, which begins with a key frame. So many before it were missed.
    Jump(Arc<Placed>, u64),
    /// Nothing yet.
    Nothing,
}

impl Window {
    /// A session begins, whose parts are to be taken like this.
    pub fn begin(&mut self, head: Head) {
        self.end();
        self.head = Some(Arc::new(head));
        self.is_discontinuous = self.next_segment > 0;
    }

    /// The session has ended, or parts of it are missing.
    pub fn end(&mut self) {
        if let Some(last) = self.segments.back_mut() {
            last.is_complete = true;
        }
        self.is_discontinuous = true;
    }

    /// Adds a part, and drops segments that are too old, or too many bytes.
    pub fn push(&mut self, part: Part, bytes_max: usize) {
        let Some(head) = self.head.clone() else {
            return;
        };
        let begins = match self.segments.back() {
            None => true,
            Some(last) if last.is_complete || self.is_discontinuous => true,
            Some(last) => {
                let lasts = last.duration_us();
                part.is_key && lasts >= SEGMENT_US || lasts >= SEGMENT_MAX_US
            }
        };
        if begins {
            if let Some(last) = self.segments.back_mut() {
                last.is_complete = true;
                self.longest_us = self.longest_us.max(last.duration_us());
            }
            self.next_segment += 1;
            self.segments.push_back(Segment {
                number: self.next_segment,
                parts: Vec::new(),
                is_discontinuous: std::mem::take(&mut self.is_discontinuous),
                is_complete: false,
            });
        }
        self.next_part += 1;
        self.bytes += part.bytes.len();
        let placed = Placed {
            number: self.next_part,
            part,
            head,
        };
        if let Some(last) = self.segments.back_mut() {
            last.parts.push(Arc::new(placed));
        }
        self.trim(bytes_max);
    }

    /// Drops the oldest segments.
    pub fn trim(&mut self, bytes_max: usize) {
        loop {
            let kept: i64 = self.segments.iter().skip(1).map(Segment::duration_us).sum();
            let is_old = self.segments.len() > SEGMENTS_MIN && kept >= KEPT_US;
            let is_large = self.segments.len() > 1 && self.bytes > bytes_max;
            if !is_old && !is_large {
                return;
            }
            if let Some(gone) = self.segments.pop_front() {
                self.bytes -= gone.bytes();
                self.discontinuities_gone += u64::from(gone.is_discontinuous);
            }
        }
    }

    /// The part after that with this number. One that is not kept, or is older than what a viewer
    /// may be behind, is passed over, up to the newest key frame. 0 asks for that one.
    pub fn after(&self, number: u64, behind_max: u64) -> Next {
        let is_kept = number >= self.oldest().saturating_sub(1);
        if number > 0 && is_kept && self.next_part - number.min(self.next_part) <= behind_max {
            return match self.part(number + 1) {
                Some(placed) => Next::Part(placed),
                None => Next::Nothing,
            };
        }
        let keys = self
            .segments
            .iter()
            .rev()
            .flat_map(|it| it.parts.iter().rev());
        match keys.into_iter().find(|placed| placed.part.is_key) {
            // The viewer is past it: what it waits for has not come.
            Some(key) if key.number <= number => match self.part(number + 1) {
                Some(placed) => Next::Part(placed),
                None => Next::Nothing,
            },
            Some(key) if number == 0 => Next::Part(Arc::clone(key)),
            Some(key) => Next::Jump(Arc::clone(key), key.number - number - 1),
            None => Next::Nothing,
        }
    }

    /// Segments, from the oldest on.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> + ExactSizeIterator {
        self.segments.iter()
    }

    /// A segment by its number.
    pub fn segment(&self, number: u64) -> Option<&Segment> {
        self.segments
            .iter()
            .find(|segment| segment.number == number)
    }

    /// The newest head.
    pub fn head(&self) -> Option<&Arc<Head>> {
        self.head.as_ref()
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many of the segments that went were no continuation.
    pub fn discontinuities_gone(&self) -> u64 {
        self.discontinuities_gone
    }

    /// How long the longest segment was.
    pub fn longest_us(&self) -> i64 {
        let kept = self.segments.iter().map(Segment::duration_us).max();
        kept.unwrap_or(0).max(self.longest_us)
    }

    /// The number of the oldest part.
    fn oldest(&self) -> u64 {
        let first = self
            .segments
            .front()
            .and_then(|segment| segment.parts.first());
        first.map_or(self.next_part + 1, |placed| placed.number)
    }

    fn part(&self, number: u64) -> Option<Arc<Placed>> {
        let segments = self.segments.iter().rev();
        let mut parts = segments.flat_map(|segment| segment.parts.iter().rev());
        parts.find(|placed| placed.number == number).cloned()
    }
}

#[cfg(test)]
mod tests;
