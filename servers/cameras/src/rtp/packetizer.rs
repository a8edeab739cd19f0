//! The way back: from samples to packets for viewers, in the modes that all players know.
//!
//! Packets are written one after the other into a buffer, each behind room for what the transport
//! puts before it, so that the bytes of a sample are copied once.

use bytes::{BufMut, BytesMut};

use super::packet::HEADER;
use crate::media::{Codec, Data, Sample, Track};

/// The largest payload: an Ethernet frame of 1 500 bytes less the headers of IPv6, UDP and RTP,
/// with room for a tunnel.
pub const PAYLOAD_MAX: usize = 1_400;

/// Writes a track's packets.
#[derive(Debug)]
pub struct Packetizer {
    payload_type: u8,
    ssrc: u32,
    sequence: u16,
    /// What is added to times, so that timestamps begin anywhere.
    base: u32,
    kind: Kind,
    clock_rate: u32,
    payload_max: usize,
    counts: Counts,
}

/// What was sent, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u32,
    /// Bytes of their payloads.
    pub bytes: u32,
    /// The timestamp of the last one.
    pub timestamp: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    H264,
    H265,
    Aac,
    /// Opus: in one packet each.
    Whole,
    /// G.711: may be cut anywhere between samples of all channels.
    Bytes(usize),
    Mjpeg,
}

/// What the transport wants before and after each packet.
pub trait Framing {
    /// Before a packet of this length.
    fn begin(&mut self, out: &mut BytesMut, len: usize);
    /// After it.
    fn end(&mut self, out: &mut BytesMut);
}

impl Packetizer {
    /// For a track. The first sequence number and timestamp are random, as RFC 3550 asks.
    pub fn new(track: &Track, payload_type: u8, random: [u8; 10]) -> Self {
        let [s1, s2, s3, s4, q1, q2, b1, b2, b3, b4] = random;
        let kind = match &track.codec {
            Codec::H264 { .. } => Kind::H264,
            Codec::H265 { .. } => Kind::H265,
            Codec::Aac { .. } => Kind::Aac,
            Codec::Opus { .. } => Kind::Whole,
            Codec::G711 { channels, .. } => Kind::Bytes(usize::from(*channels).max(1)),
            Codec::Mjpeg { .. } => Kind::Mjpeg,
        };
        Self {
            payload_type,
            ssrc: u32::from_be_bytes([s1, s2, s3, s4]),
            sequence: u16::from_be_bytes([q1, q2]),
            base: u32::from_be_bytes([b1, b2, b3, b4]),
            kind,
            clock_rate: track.clock_rate,
            payload_max: PAYLOAD_MAX,
            counts: Counts::default(),
        }
    }

    /// The same with smaller packets, for ways that are narrower. Below [`PAYLOAD_MAX`].
    pub fn with_payload_max(self, payload_max: usize) -> Self {
        Self {
            payload_max: payload_max.min(PAYLOAD_MAX),
            ..self
        }
    }

    /// The source's number.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// The next packet's number.
    pub fn sequence(&self) -> u16 {
        self.sequence
    }

    /// The timestamp of a time of the track.
    pub fn timestamp(&self, ticks: i64) -> u32 {
        // The lower 32 bits, which wrap.
        self.base.wrapping_add(ticks as u32)
    }

    /// Ticks a second.
    pub fn clock_rate(&self) -> u32 {
        self.clock_rate
    }

    /// What was sent.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Leaves numbers out, so that viewers know that something is missing.
    pub fn skip(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Writes a parameter set, as a part of the picture that follows.
    pub fn write_set(
        &mut self,
        set: &[u8],
        of: &Sample,
        framing: &mut dyn Framing,
        out: &mut BytesMut,
    ) {
        let mut writer = Writer {
            timestamp: self.timestamp(of.dts + i64::from(of.pts_offset)),
            of: self,
            framing,
            out,
        };
        if set.len() <= writer.of.payload_max {
            writer.packet(false, &[], set);
        }
    }

    /// Writes the packets of a sample.
    pub fn write(&mut self, sample: &Sample, framing: &mut dyn Framing, out: &mut BytesMut) {
        let mut writer = Writer {
            timestamp: self.timestamp(sample.dts + i64::from(sample.pts_offset)),
            of: self,
            framing,
            out,
        };
        match writer.of.kind {
            Kind::H264 => writer.units(&sample.data, 1),
            Kind::H265 => writer.units(&sample.data, 2),
            Kind::Aac => writer.access_unit(&sample.data),
            Kind::Whole => writer.packet(true, &[], &sample.data.joined()),
            Kind::Bytes(channels) => {
                let data = sample.data.joined();
                let most = writer.of.payload_max / channels * channels;
                for part in data.chunks(most) {
                    writer.packet(false, &[], part);
                    let ticks = (part.len() / channels) as u32;
                    writer.timestamp = writer.timestamp.wrapping_add(ticks);
                }
            }
            Kind::Mjpeg => writer.picture(&sample.data.joined()),
        }
    }
}

struct Writer<'a> {
    of: &'a mut Packetizer,
    timestamp: u32,
    framing: &'a mut dyn Framing,
    out: &'a mut BytesMut,
}

impl Writer<'_> {
    /// One packet, of two pieces.
    fn packet(&mut self, marker: bool, head: &[u8], piece: &[u8]) {
        self.begin(marker, head.len() + piece.len());
        self.out.put_slice(head);
        self.out.put_slice(piece);
        self.framing.end(self.out);
    }

    fn begin(&mut self, marker: bool, payload: usize) {
        let of = &mut *self.of;
        self.framing.begin(self.out, HEADER + payload);
        self.out.put_u8(0x80);
        self.out.put_u8(u8::from(marker) << 7 | of.payload_type);
        self.out.put_u16(of.sequence);
        self.out.put_u32(self.timestamp);
        self.out.put_u32(of.ssrc);
        of.sequence = of.sequence.wrapping_add(1);
        of.counts.packets = of.counts.packets.wrapping_add(1);
        of.counts.bytes = of.counts.bytes.wrapping_add(payload as u32);
        of.counts.timestamp = self.timestamp;
    }

    /// NAL units behind their lengths, whose heads have this many bytes.
    fn units(&mut self, data: &Data, head: usize) {
        let mut walk = Walk::new(data);
        while let Some(len) = walk.length() {
            let is_last = walk.left == len;
            if len <= self.of.payload_max {
                self.begin(is_last, len);
                walk.copy(len, self.out);
                self.framing.end(self.out);
            } else {
                self.fragments(&mut walk, len, head, is_last);
            }
        }
    }

    fn fragments(&mut self, walk: &mut Walk<'_>, len: usize, head: usize, is_last: bool) {
        let mut first = [0; 2];
        for byte in &mut first[..head] {
            *byte = walk.byte();
        }
        let mut left = len - head;
        let part_max = self.of.payload_max - head - 1;
        let mut flags = 0x80;
        while left > 0 {
            let part = left.min(part_max);
            left -= part;
            if left == 0 {
                flags |= 0x40;
            }
            self.begin(is_last && left == 0, head + 1 + part);
            if head == 1 {
                self.out.put_u8(first[0] & 0xe0 | 28);
                self.out.put_u8(flags | first[0] & 0x1f);
            } else {
                self.out.put_u8(first[0] & 0x81 | 49 << 1);
                self.out.put_u8(first[1]);
                self.out.put_u8(flags | first[0] >> 1 & 0x3f);
            }
            walk.copy(part, self.out);
            self.framing.end(self.out);
            flags = 0;
        }
    }

    /// One access unit of AAC in a packet, or in fragments.
    fn access_unit(&mut self, data: &Data) {
        let data = data.joined();
        // The size has 13 bits; larger units do not exist.
        let size = (data.len() as u16) << 3;
        let [size_high, size_low] = size.to_be_bytes();
        let head = [0, 16, size_high, size_low];
        let parts = data.chunks(self.of.payload_max - head.len());
        let count = parts.len();
        for (index, part) in parts.enumerate() {
            self.packet(index + 1 == count, &head, part);
        }
    }

    /// A picture of JPEG, if packets can carry it.
    fn picture(&mut self, file: &[u8]) {
        let Some(scan) = super::jpeg::Scan::of(file) else {
            return;
        };
        let mut offset = 0;
        let mut first = true;
        while first || offset < scan.data.len() {
            let head = scan.head(offset, first);
            let part_max = self.of.payload_max - head.len();
            let part = &scan.data[offset..scan.data.len().min(offset + part_max)];
            offset += part.len();
            self.packet(offset == scan.data.len(), &head, part);
            first = false;
        }
    }
}

/// Walks over the slices of a sample.
struct Walk<'a> {
    slices: std::slice::Iter<'a, bytes::Bytes>,
    rest: &'a [u8],
    left: usize,
}

impl<'a> Walk<'a> {
    fn new(data: &'a Data) -> Self {
        Self {
            slices: data.slices().iter(),
            rest: &[],
            left: data.len(),
        }
    }

    /// The length of the next NAL unit. What is left of a broken sample is left out.
    fn length(&mut self) -> Option<usize> {
        if self.left < 4 {
            return None;
        }
        let bytes = [self.byte(), self.byte(), self.byte(), self.byte()];
        let len = u32::from_be_bytes(bytes) as usize;
        (len > 0 && len <= self.left).then_some(len)
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        let mut out = &mut byte[..];
        self.each(1, |part| out.put_slice(part));
        byte[0]
    }

    fn copy(&mut self, len: usize, out: &mut BytesMut) {
        self.each(len, |part| out.put_slice(part));
    }

    fn each(&mut self, len: usize, mut take: impl FnMut(&[u8])) {
        let mut wanted = len.min(self.left);
        self.left -= wanted;
        while wanted > 0 {
            if self.rest.is_empty() {
                match self.slices.next() {
                    Some(slice) => self.rest = slice,
                    None => return,
                }
                continue;
            }
            let (part, rest) = self.rest.split_at(wanted.min(self.rest.len()));
            take(part);
            self.rest = rest;
            wanted -= part.len();
        }
    }
}
