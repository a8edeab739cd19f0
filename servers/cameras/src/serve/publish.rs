//! Takes samples from a camera that publishes by itself, in the connection or as datagrams.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::time::{Instant, sleep_until};
use rtsp_types::Message;

use super::Shared;
use super::connection::{Connection, End};
use crate::ingest::datagrams::Datagrams;
use crate::ingest::session::CHUNK;
use crate::ingest::{Claim, Feed, IngestError};
use crate::rtp::order::Patience;
use crate::rtsp::Frame;
use crate::rtsp::sdp::Offer;
use crate::rtsp::server::{Action, Permission, Server, SetUp};

/// How long packets are held back; there is no configuration of it for those who publish.
const DELAY: Duration = Duration::from_millis(100);

/// How many packets are taken between two looks at what was counted.
const COUNT_EVERY: u64 = 256;

/// How often a publisher of datagrams gets a report, and what was counted of it is looked at.
const REPORTS_EVERY: Duration = Duration::from_secs(5);

/// Why it is over: for the connection, and for the camera.
type Over = (End, IngestError);

/// Until the publisher ends.
pub(super) async fn run(
    shared: &Arc<Shared>,
    connection: &mut Connection,
    server: &mut Server,
    camera: &str,
    offers: &[Offer],
    set_up: &[SetUp],
) -> Result<(), End> {
    // Another one may have begun since this one announced its streams.
    let status = shared.cameras.publisher(camera);
    let Some(claim) = status.and_then(|status| status.claim()) else {
        return Err(End::Over);
    };
    connection.hold_back(CHUNK, DELAY);
    let wanted: Vec<Offer> = set_up
        .iter()
        .filter_map(|set_up| offers.get(usize::from(set_up.track)))
        .cloned()
        .collect();
    let (datagrams, tracks) = datagrams(connection, set_up);
    let patience = match datagrams {
        Some(_) => Patience::DATAGRAMS,
        None => Patience::NONE,
    };
    let mut publishing = Publishing {
        shared,
        camera,
        claim: &claim,
        feed: Feed::new(shared.cameras.hub(), camera, &wanted, patience),
        set_up,
        tracks,
        packets: 0,
        heard: Instant::now(),
        reported: Instant::now(),
    };
    let (end, why) = publishing.go(connection, server, datagrams).await;
    claim.status().count(publishing.feed.counts());
    claim.status().ended(&Err(why));
    Err(end)
}

/// The sockets of what comes in datagrams, and which track each pair of them is of.
fn datagrams(connection: &mut Connection, set_up: &[SetUp]) -> (Option<Datagrams>, Vec<usize>) {
    let (mut pairs, mut tracks) = (Vec::new(), Vec::new());
    for (track, set_up) in set_up.iter().enumerate() {
        let mut open = connection.pairs.iter();
        if let Some(index) = open.position(|pair| set_up.receives == Some(pair.port)) {
            pairs.push(connection.pairs.swap_remove(index));
            tracks.push(track);
        }
    }
    // Those that were opened for nothing.
    connection.pairs.clear();
    let publisher = connection.peer().filter(|_| !pairs.is_empty());
    let datagrams = publisher.map(|publisher| Datagrams::of(pairs, publisher));
    (datagrams, tracks)
}

/// A publisher at work.
struct Publishing<'a> {
    shared: &'a Arc<Shared>,
    camera: &'a str,
    claim: &'a Claim,
    feed: Feed,
    set_up: &'a [SetUp],
    /// Of each pair of sockets, the track.
    tracks: Vec<usize>,
    packets: u64,
    /// When the last packet came.
    heard: Instant,
    reported: Instant,
}

impl Publishing<'_> {
    async fn go(
        &mut self,
        connection: &mut Connection,
        server: &mut Server,
        mut datagrams: Option<Datagrams>,
    ) -> Over {
        let mut changed = self.shared.changed.subscribe();
        // Since RECORD was answered.
        changed.mark_changed();
        loop {
            let sooner = self.feed.deadline().map(|left| Instant::now() + left);
            let silent = self.heard + self.shared.silence;
            let wake = silent.min(self.reported + REPORTS_EVERY);
            let wake = sooner.map_or(wake, |sooner| sooner.min(wake));
            let went_on = tokio::select! {
                biased;
                Ok(()) = changed.changed() => {
                    match server.may_go_on(self.camera, Permission::Publish, &**self.shared) {
                        true => Ok(()),
                        false => Err((End::Over, IngestError::Ended)),
                    }
                }
                frame = connection.frame() => match frame {
                    Ok(frame) => self.frame(frame, connection, server).await,
                    Err(end) => Err((end, IngestError::Ended)),
                },
                datagram = Datagrams::next_of(&mut datagrams) => match datagram {
                    Ok((pair, bytes)) => self.packet(self.tracks[pair], &bytes),
                    Err(error) => Err((End::Over, error.into())),
                },
                () = sleep_until(wake) => self.look(datagrams.as_ref()),
            };
            if let Err(over) = went_on {
                return over;
            }
        }
    }

    async fn frame(
        &mut self,
        frame: Frame,
        connection: &mut Connection,
        server: &mut Server,
    ) -> Result<(), Over> {
        match frame {
            Frame::Packet { channel, bytes } => {
                let of_channel =
                    |set_up: &SetUp| set_up.ports.is_none() && set_up.channels.0 == channel;
                match self.set_up.iter().position(of_channel) {
                    Some(track) => self.packet(track, &bytes),
                    None => {
                        self.feed.skip(connection.wire.frame_len());
                        Ok(())
                    }
                }
            }
            Frame::Message(Message::Request(request)) => {
                self.feed.skip(connection.wire.frame_len());
                if self.tracks.is_empty() {
                    // In the connection whatever comes says that it holds.
                    self.heard = Instant::now();
                }
                let reply = self.shared.answer(server, &request).await;
                let sent = connection.send(&reply.bytes).await;
                if sent.is_err() || reply.action == Action::End {
                    return Err((End::Over, IngestError::Ended));
                }
                Ok(())
            }
            Frame::Message(_) => Ok(()),
        }
    }

    fn packet(&mut self, track: usize, bytes: &Bytes) -> Result<(), Over> {
        self.heard = Instant::now();
        let taken = self.feed.packet(track, bytes);
        taken.map_err(|error| (End::Over, error.into()))?;
        self.packets += 1;
        if self.packets.is_multiple_of(COUNT_EVERY) {
            return self.count();
        }
        Ok(())
    }

    fn count(&self) -> Result<(), Over> {
        let status = self.claim.status();
        status.count(self.feed.counts());
        // A camera of another configuration has another status, and is to be taken anew.
        let now = self.shared.cameras.publisher(self.camera);
        let is_same = now.is_some_and(|now| Arc::ptr_eq(&now, status));
        match self.feed.is_removed() || !is_same {
            true => Err((End::Over, IngestError::Ended)),
            false => Ok(()),
        }
    }

    /// What is due by the clock.
    fn look(&mut self, datagrams: Option<&Datagrams>) -> Result<(), Over> {
        let expired = self.feed.expire();
        expired.map_err(|error| (End::Over, error.into()))?;
        let silence = self.shared.silence;
        if self.heard.elapsed() >= silence {
            return Err((End::Slow, IngestError::Silent(silence)));
        }
        if self.reported.elapsed() >= REPORTS_EVERY {
            self.reported = Instant::now();
            self.report(datagrams);
            return self.count();
        }
        Ok(())
    }

    /// Tells a publisher of datagrams what was lost of them.
    fn report(&mut self, datagrams: Option<&Datagrams>) {
        for (pair, &track) in self.tracks.iter().enumerate() {
            let ports = self.set_up[track].ports;
            if let (Some(datagrams), Some((_, port))) = (datagrams, ports)
                && let Some(report) = self.feed.report(track)
            {
                datagrams.report(pair, port, &report);
            }
        }
    }
}
