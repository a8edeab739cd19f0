//! Sends a camera's samples to a viewer.
//!
//! It begins with the newest key frame, so that a picture is there at once. A viewer that takes too
//! long is moved on by the hub, and sees a hole in the sequence numbers; one that takes nothing at
//! all for as long as it may is dropped.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{BufMut, BytesMut};
use evenkeel::Class;
use evenkeel::time::{Instant, sleep_until};
use rtsp_types::Message;

use super::Shared;
use super::connection::{Connection, End};
use super::datagrams::Target;
use crate::hub::{Event, From, Subscriber};
use crate::media::{Codec, Sample, Track};
use crate::rtp::packetizer::{Framing, Packetizer};
use crate::rtp::rtcp::{self, SenderReport};
use crate::rtsp::Frame;
use crate::rtsp::sdp::payload_type;
use crate::rtsp::server::{Action, Permission, Server, SetUp};

/// How long a viewer of datagrams may ask for nothing: twice what it is told. One that has gone
/// without a word would be sent to for ever.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// So much is gathered for one write.
const BATCH: usize = 64 << 10;

/// How often a viewer gets reports.
const REPORTS_EVERY: Duration = Duration::from_secs(5);

/// Until the viewer pauses or is gone.
pub(super) async fn run(
    shared: &Arc<Shared>,
    connection: &mut Connection,
    server: &mut Server,
    camera: &str,
    tracks: &Arc<[Track]>,
    set_up: &[SetUp],
) -> Result<(), End> {
    let subscribed = shared.cameras.hub().subscribe(camera, From::NewestKey);
    let mut subscriber = subscribed.map_err(|_| End::Over)?;
    // What viewers take costs nobody's ingest.
    let _ = evenkeel::task::change_class(Class::BULK);
    let mut viewing = Viewing::new(tracks, set_up).ok_or(End::Over)?;
    viewing.viewer = connection.peer();
    let outcome = viewing
        .go(shared, connection, server, &mut subscriber)
        .await;
    let _ = evenkeel::task::change_class(Class::NORMAL);
    outcome
}

struct Viewing {
    tracks: Vec<Sent>,
    out: BytesMut,
    /// The time of day at which the session's times began, so that sound and pictures fit together.
    origin: Option<SystemTime>,
    reported: Instant,
    /// Who takes datagrams, and where.
    viewer: Option<IpAddr>,
    targets: Vec<Target>,
    /// When the viewer asked for something last.
    heard: Instant,
}

/// A track that is sent.
struct Sent {
    track: Track,
    channels: (u8, u8),
    packetizer: Packetizer,
    /// The time of the last sample.
    last: Option<i64>,
}

/// Packets in the connection (RFC 2326, section 10.12).
struct Channel(u8);

impl Framing for Channel {
    fn begin(&mut self, out: &mut BytesMut, len: usize) {
        out.put_slice(&[b'$', self.0]);
        // Packets are shorter than an Ethernet frame.
        out.put_u16(len as u16);
    }

    fn end(&mut self, _out: &mut BytesMut) {}
}

fn target(set_up: &SetUp) -> Option<Target> {
    let channels = set_up.channels;
    let target = |ports| Target { channels, ports };
    set_up.ports.map(target)
}

impl Viewing {
    /// `None` without randomness.
    fn new(tracks: &[Track], set_up: &[SetUp]) -> Option<Self> {
        let sent = |set_up: &SetUp| {
            let track = tracks.get(usize::from(set_up.track))?;
            let mut random = [0; 10];
            getrandom::fill(&mut random).ok()?;
            Some(Sent {
                track: track.clone(),
                channels: set_up.channels,
                packetizer: Packetizer::new(track, payload_type(track), random),
                last: None,
            })
        };
        Some(Self {
            tracks: set_up.iter().map(sent).collect::<Option<_>>()?,
            out: BytesMut::new(),
            origin: None,
            reported: Instant::now(),
            viewer: None,
            targets: set_up.iter().filter_map(target).collect(),
            heard: Instant::now(),
        })
    }

    async fn go(
        &mut self,
        shared: &Arc<Shared>,
        connection: &mut Connection,
        server: &mut Server,
        subscriber: &mut Subscriber,
    ) -> Result<(), End> {
        let mut changed = shared.changed.subscribe();
        // Since PLAY was answered.
        changed.mark_changed();
        loop {
            let report = self.reported + REPORTS_EVERY;
            tokio::select! {
                frame = connection.frame() => {
                    let Frame::Message(Message::Request(request)) = frame? else {
                        continue;
                    };
                    self.heard = Instant::now();
                    let reply = shared.answer(server, &request).await;
                    connection.send(&reply.bytes).await?;
                    match reply.action {
                        Action::End => return Err(End::Over),
                        Action::Pause => return Ok(()),
                        _ => {}
                    }
                }
                Ok(()) = changed.changed() => {
                    let camera = subscriber.camera();
                    if !server.may_go_on(camera, Permission::View, &**shared) {
                        return Err(End::Over);
                    }
                }
                event = subscriber.next() => {
                    self.take(event)?;
                    while self.out.len() < BATCH
                        && let Some(event) = subscriber.try_next()
                    {
                        self.take(event)?;
                    }
                    self.flush(shared, connection).await?;
                }
                () = sleep_until(report) => {
                    if !self.targets.is_empty() && self.heard.elapsed() > SILENCE_MAX {
                        return Err(End::Slow);
                    }
                    self.report();
                    self.flush(shared, connection).await?;
                }
            }
        }
    }

    async fn flush(&mut self, shared: &Shared, connection: &mut Connection) -> Result<(), End> {
        if !self.out.is_empty() {
            let sent = match (&shared.datagrams, self.viewer) {
                (Some(datagrams), Some(viewer)) if !self.targets.is_empty() => {
                    let left = datagrams.send(viewer, &self.targets, &self.out).await;
                    connection.send(&left).await
                }
                _ => connection.send(&self.out).await,
            };
            self.out.clear();
            sent?;
        }
        // What a large key frame needed is not kept for each viewer.
        if self.out.capacity() > 4 * BATCH {
            self.out = BytesMut::new();
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Sample(sample) => self.sample(&sample),
            Event::Lagged { .. } => {
                self.tracks
                    .iter_mut()
                    .for_each(|sent| sent.packetizer.skip());
            }
            Event::Parameters { tracks, .. } => return self.change(&tracks),
            Event::Ended | Event::Removed => return Err(End::Over),
            Event::Gop(_) => {}
        }
        Ok(())
    }

    /// Other parameter sets are sent in the stream. Other encodings need another description, for
    /// which the viewer has to come again.
    fn change(&mut self, tracks: &[Track]) -> Result<(), End> {
        for sent in &mut self.tracks {
            let now = tracks.get(usize::from(sent.track.id)).ok_or(End::Over)?;
            let is_same = std::mem::discriminant(&now.codec)
                == std::mem::discriminant(&sent.track.codec)
                && now.clock_rate == sent.track.clock_rate;
            if !is_same {
                return Err(End::Over);
            }
            sent.track = now.clone();
        }
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) {
        let sent = self
            .tracks
            .iter_mut()
            .find(|sent| sent.track.id == sample.track);
        let Some(sent) = sent else { return };
        if self.origin.is_none() {
            let since = sent.track.time_of(sample.dts);
            self.origin = SystemTime::now().checked_sub(since);
        }
        let channel = &mut Channel(sent.channels.0);
        if sample.is_key {
            // Who has just come, and who has lost packets, needs the sets before the key frame.
            let sets: &[&bytes::Bytes] = match &sent.track.codec {
                Codec::H264 { sps, pps } => &[sps, pps],
                Codec::H265 { vps, sps, pps } => &[vps, sps, pps],
                _ => &[],
            };
            for set in sets {
                sent.packetizer
                    .write_set(set, sample, channel, &mut self.out);
            }
        }
        sent.packetizer.write(sample, channel, &mut self.out);
        sent.last = Some(sample.dts + i64::from(sample.pts_offset));
    }

    /// Says how the tracks' times belong together.
    fn report(&mut self) {
        self.reported = Instant::now();
        let Some(origin) = self.origin else { return };
        for sent in &self.tracks {
            let Some(last) = sent.last else { continue };
            let at = origin.checked_add(sent.track.time_of(last));
            let counts = sent.packetizer.counts();
            let report = SenderReport {
                ssrc: sent.packetizer.ssrc(),
                ntp: rtcp::ntp(at.unwrap_or(origin)),
                timestamp: sent.packetizer.timestamp(last),
                packets: counts.packets,
                bytes: counts.bytes,
            };
            let report = report.write();
            Channel(sent.channels.1).begin(&mut self.out, report.len());
            self.out.put_slice(&report);
        }
    }
}
