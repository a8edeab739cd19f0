//! One track of a session: from packets to samples.

use std::time::Duration;

use bytes::Bytes;

use super::depacketizer::{Depacketizer, Format, Malformed, Unit};
use super::order::{self, Order, Ordered, Patience};
use super::packet::{Packet, PacketError};
use super::timeline::Timeline;
use crate::media::{Codec, Sample, h264, h265};

/// What comes out of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// From the next sample on, the track is encoded like this.
    Codec(Codec),
    /// A sample, whose `track` is the receiver's.
    Sample(Sample),
}

/// Why a packet cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// Its header.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Its payload.
    #[error(transparent)]
    Payload(#[from] Malformed),
}

/// What was counted of a track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: order::Counts,
    /// Samples that a loss or a malformed payload took with it.
    pub dropped: u64,
    /// Packets that could not be used.
    pub malformed: u64,
}

/// Receives a track.
#[derive(Debug)]
pub struct Receiver {
    track: u8,
    payload_type: u8,
    order: Order,
    depacketizer: Depacketizer,
    timeline: Timeline,
    malformed: u64,
    ordered: Vec<Ordered>,
    units: Vec<Unit>,
}

impl Receiver {
    /// For the track of this number, whose packets have this type.
    pub fn new(
        track: u8,
        payload_type: u8,
        clock_rate: u32,
        format: Format,
        patience: Patience,
    ) -> Self {
        let mut receiver = Self {
            track,
            payload_type,
            order: Order::new(patience),
            depacketizer: Depacketizer::new(format),
            timeline: Timeline::new(clock_rate),
            malformed: 0,
            ordered: Vec::new(),
            units: Vec::new(),
        };
        if let Some(codec) = receiver.codec() {
            receiver.reorder_by(&codec);
        }
        receiver
    }

    /// How the track is encoded, once that is known.
    pub fn codec(&self) -> Option<Codec> {
        self.depacketizer.codec()
    }

    /// Takes in a packet that came at this time of the session.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]: it is dropped, or a packet that it completed the order of; the next one
    /// may be good.
    pub fn receive(
        &mut self,
        bytes: &Bytes,
        now: Duration,
        out: &mut Vec<Received>,
    ) -> Result<(), ReceiveError> {
        let packet = Packet::parse(bytes);
        let packet = match packet {
            // Of another type: comfort noise, repairs and the like, which nobody has asked for.
            Ok(packet) if packet.payload_type != self.payload_type => return Ok(()),
            Ok(packet) => packet,
            Err(error) => {
                self.malformed += 1;
                return Err(error.into());
            }
        };
        self.order.push(packet, now, &mut self.ordered);
        self.pass(now, out)
    }

    /// Gives up what has been waited for too long.
    ///
    /// # Errors
    ///
    /// As of [`receive`](Self::receive).
    pub fn expire(&mut self, now: Duration, out: &mut Vec<Received>) -> Result<(), ReceiveError> {
        self.order.expire(now, &mut self.ordered);
        self.pass(now, out)
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        self.order.deadline()
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        Counts {
            packets: self.order.counts(),
            dropped: self.depacketizer.dropped(),
            malformed: self.malformed,
        }
    }

    /// The highest sequence number with its wraps, and the source.
    pub fn highest(&self) -> Option<(u64, u32)> {
        self.order.highest()
    }

    fn pass(&mut self, now: Duration, out: &mut Vec<Received>) -> Result<(), ReceiveError> {
        let mut outcome = Ok(());
        for ordered in std::mem::take(&mut self.ordered).drain(..) {
            if let Err(error) = self.depacketizer.push(&ordered, &mut self.units) {
                self.malformed += 1;
                outcome = Err(error.into());
            }
        }
        let mut units = std::mem::take(&mut self.units);
        for unit in units.drain(..) {
            self.place(unit, now, out);
        }
        self.units = units;
        outcome
    }

    fn place(&mut self, unit: Unit, now: Duration, out: &mut Vec<Received>) {
        if let Some(codec) = unit.codec {
            self.reorder_by(&codec);
            out.push(Received::Codec(codec));
        }
        let ticks = now.as_nanos() * u128::from(self.timeline.clock_rate()) / 1_000_000_000;
        let arrived = i64::try_from(ticks).unwrap_or(i64::MAX / 2);
        let times = self.timeline.place(unit.timestamp, arrived);
        out.push(Received::Sample(Sample {
            track: self.track,
            dts: times.dts,
            pts_offset: times.pts_offset,
            duration: unit.duration,
            is_key: unit.is_key,
            data: unit.data,
        }));
    }

    fn reorder_by(&mut self, codec: &Codec) {
        let pictures = match codec {
            Codec::H264 { sps, .. } => h264::Sps::parse(sps).and_then(|sps| sps.reorder),
            Codec::H265 { sps, .. } => h265::Sps::parse(sps).map(|sps| sps.reorder),
            _ => None,
        };
        self.timeline.set_reorder(pictures.unwrap_or(0));
    }
}
