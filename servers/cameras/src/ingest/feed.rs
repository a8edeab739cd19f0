//! From the packets of a session to the hub, the same for cameras that are asked and for those that
//! publish.
//!
//! The session begins in the hub when all tracks are known: parameter sets may come in the stream
//! alone. Until then samples are dropped, as nobody could decode them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::time::Instant;

use super::waste::Waste;
use crate::hub::{Hub, PublishError, Publisher};
use crate::media::Track;
use crate::rtp::order::Patience;
use crate::rtp::receiver::{Received, Receiver};
use crate::rtp::rtcp::ReceiverReport;
use crate::rtsp::sdp::Offer;

/// What was counted of a session, of all tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came.
    pub packets: u64,
    /// Those that never came.
    pub lost: u64,
    /// Those that came twice or too late.
    pub late: u64,
    /// Samples that a loss took with it.
    pub dropped: u64,
    /// Packets that could not be read.
    pub malformed: u64,
}

/// A session on its way into the hub, which ends when this is dropped.
#[derive(Debug)]
pub struct Feed {
    hub: Arc<Hub>,
    camera: String,
    began: Instant,
    receivers: Vec<Receiver>,
    clock_rates: Vec<u32>,
    tracks: Vec<Track>,
    publisher: Option<Publisher>,
    received: Vec<Received>,
    waste: Waste,
    /// Of each track, what was lost and what came at the last report.
    reported: Vec<(u64, u64)>,
    /// The number of this receiver in reports.
    ssrc: u32,
}

impl Feed {
    /// For a session with these streams.
    pub fn new(hub: &Arc<Hub>, camera: &str, offers: &[Offer], patience: Patience) -> Self {
        let receiver = |(track, offer): (u8, &Offer)| {
            let format = offer.format.clone();
            Receiver::new(
                track,
                offer.payload_type,
                offer.clock_rate,
                format,
                patience,
            )
        };
        Self {
            hub: Arc::clone(hub),
            camera: camera.to_owned(),
            began: Instant::now(),
            receivers: (0..).zip(offers).map(receiver).collect(),
            clock_rates: offers.iter().map(|offer| offer.clock_rate).collect(),
            tracks: Vec::new(),
            publisher: None,
            received: Vec::new(),
            waste: Waste::default(),
            reported: vec![(0, 0); offers.len()],
            ssrc: super::random(),
        }
    }

    /// Takes in a packet of a track. One that is malformed is counted and dropped.
    ///
    /// # Errors
    ///
    /// [`PublishError`]: the hub does not take this session.
    pub fn packet(&mut self, track: usize, bytes: &Bytes) -> Result<(), PublishError> {
        let now = self.began.elapsed();
        self.waste.came(bytes.len());
        let Some(receiver) = self.receivers.get_mut(track) else {
            return Ok(());
        };
        // The counts say what there was of these.
        let _ = receiver.receive(bytes, now, &mut self.received);
        self.pass()
    }

    /// So many bytes came that are no packet of a track. They lie beside such.
    pub fn skip(&mut self, bytes: usize) {
        self.waste.came(bytes);
    }

    /// Gives up packets that have been waited for too long.
    ///
    /// # Errors
    ///
    /// As of [`packet`](Self::packet).
    pub fn expire(&mut self) -> Result<(), PublishError> {
        let now = self.began.elapsed();
        for receiver in &mut self.receivers {
            let _ = receiver.expire(now, &mut self.received);
        }
        self.pass()
    }

    /// How long until [`expire`](Self::expire) has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = self.receivers.iter().filter_map(Receiver::deadline);
        let next = deadlines.min()?;
        Some(next.saturating_sub(self.began.elapsed()))
    }

    /// Whether the session has begun in the hub.
    pub fn is_live(&self) -> bool {
        self.publisher.is_some()
    }

    /// Whether somebody watches the camera now.
    pub fn is_watched(&self) -> bool {
        self.publisher.as_ref().is_some_and(Publisher::is_watched)
    }

    /// Whether the camera was removed from the hub.
    pub fn is_removed(&self) -> bool {
        self.publisher.as_ref().is_some_and(Publisher::is_removed)
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counts in self.receivers.iter().map(Receiver::counts) {
            sum.packets += counts.packets.received;
            sum.lost += counts.packets.lost;
            sum.late += counts.packets.late;
            sum.dropped += counts.dropped;
            sum.malformed += counts.malformed;
        }
        sum
    }

    /// A report on a track for its sender; `None` before its first packet.
    pub fn report(&mut self, track: usize) -> Option<Vec<u8>> {
        let receiver = self.receivers.get(track)?;
        let (highest, source) = receiver.highest()?;
        let counts = receiver.counts().packets;
        let (lost_before, received_before) = self.reported[track];
        self.reported[track] = (counts.lost, counts.received);
        let lost = counts.lost - lost_before;
        let expected = lost + counts.received - received_before;
        let report = ReceiverReport {
            ssrc: self.ssrc,
            source,
            fraction_lost: (lost * 256).checked_div(expected).unwrap_or(0).min(255) as u8,
            lost: u32::try_from(counts.lost).unwrap_or(u32::MAX),
            // The wraps above the 16 bits of packets, and these.
            highest: highest as u32,
        };
        Some(report.write())
    }

    fn pass(&mut self) -> Result<(), PublishError> {
        let mut received = std::mem::take(&mut self.received);
        let mut outcome = Ok(());
        for received in received.drain(..) {
            match received {
                Received::Codec(_) => self.change(),
                Received::Sample(mut sample) => {
                    sample.data = self.waste.keep(sample.data);
                    if self.publisher.is_none() {
                        outcome = outcome.and(self.begin());
                    }
                    if let Some(publisher) = &mut self.publisher {
                        publisher.push(sample);
                    }
                }
            }
        }
        self.received = received;
        outcome
    }

    fn begin(&mut self) -> Result<(), PublishError> {
        if let Some(tracks) = self.known() {
            self.tracks.clone_from(&tracks);
            self.publisher = Some(self.hub.publish(&self.camera, tracks)?);
        }
        Ok(())
    }

    fn change(&mut self) {
        if let Some(publisher) = &self.publisher
            && let Some(tracks) = self.known()
            && tracks != self.tracks
        {
            publisher.parameters(tracks.clone().into());
            self.tracks = tracks;
        }
    }

    /// The tracks, if all are known.
    fn known(&self) -> Option<Vec<Track>> {
        let track = |((id, receiver), rate): ((u8, &Receiver), &u32)| {
            Some(Track {
                id,
                codec: receiver.codec()?,
                clock_rate: *rate,
            })
        };
        let receivers = (0..).zip(&self.receivers);
        receivers.zip(&self.clock_rates).map(track).collect()
    }
}
