//! Packets of one sample, which wait for their turn: a large picture goes out in pieces, so that it
//! neither floods the way to the browser nor holds up others.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Buf, BytesMut};

use crate::rtp::packet::HEADER;
use crate::rtp::packetizer::Framing;

/// The largest payload. With SRTP's mark, the headers of RTP, UDP and IP and an extension it stays
/// below the 1 280 bytes that every way of IPv6 takes.
pub const PAYLOAD_MAX: usize = 1_160;

/// What is kept for further samples; a large key frame's room is given back.
const KEPT: usize = 64 << 10;

/// Which track something is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pictures.
    Video,
    /// Sound.
    Sound,
}

/// A packet that is due.
#[derive(Debug, PartialEq, Eq)]
pub struct Packet {
    /// Of which track.
    pub kind: Kind,
    /// Whether it is the last one of its picture.
    pub marker: bool,
    /// Its timestamp.
    pub timestamp: u32,
    /// When that is, by the clock of the system.
    pub shown: Instant,
    /// What is in it.
    pub payload: Box<[u8]>,
}

/// Packets that wait.
#[derive(Debug, Default)]
pub struct Packets {
    bytes: BytesMut,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    len: usize,
    kind: Kind,
    shown: Instant,
}

/// Takes a packetizer's packets of one sample.
pub struct Into<'a> {
    packets: &'a mut VecDeque<Waiting>,
    kind: Kind,
    shown: Instant,
}

impl Framing for Into<'_> {
    fn begin(&mut self, _out: &mut BytesMut, len: usize) {
        let (kind, shown) = (self.kind, self.shown);
        self.packets.push_back(Waiting { len, kind, shown });
    }

    fn end(&mut self, _out: &mut BytesMut) {}
}

impl Packets {
    /// Where the packets of a sample that is shown then are to be written.
    pub fn of(&mut self, kind: Kind, shown: Instant) -> (Into<'_>, &mut BytesMut) {
        let packets = &mut self.waiting;
        let into = Into {
            packets,
            kind,
            shown,
        };
        (into, &mut self.bytes)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<Packet> {
        let Waiting { len, kind, shown } = self.waiting.pop_front()?;
        let packet = &self.bytes[..len];
        let next = Packet {
            kind,
            marker: packet[1] & 0x80 != 0,
            timestamp: u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]),
            shown,
            payload: packet[HEADER..].into(),
        };
        self.bytes.advance(len);
        if self.waiting.is_empty() {
            if self.bytes.capacity() > KEPT {
                self.bytes = BytesMut::new();
            }
            self.bytes.clear();
        }
        Some(next)
    }

    /// Drops those that wait.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
