//! Takes samples from a camera that publishes by itself.

use std::sync::Arc;

use evenkeel::net::Delivery;
use evenkeel::time::timeout;
use rtsp_types::Message;

use super::Shared;
use super::connection::{Connection, End};
use crate::ingest::session::CHUNK;
use crate::ingest::{Feed, IngestError, State};
use crate::rtp::order::Patience;
use crate::rtsp::Frame;
use crate::rtsp::sdp::Offer;
use crate::rtsp::server::{Action, Server, SetUp};

/// How long packets are held back; there is no configuration of it for those who publish.
const DELAY: std::time::Duration = std::time::Duration::from_millis(100);

/// How many packets are taken between two looks at what was counted.
const COUNT_EVERY: u64 = 256;

/// Until the publisher ends.
pub(super) async fn run(
    shared: &Arc<Shared>,
    connection: &mut Connection,
    server: &mut Server,
    camera: &str,
    offers: &[Offer],
    set_up: &[SetUp],
) -> Result<(), End> {
    let Some(status) = shared.cameras.publisher(camera) else {
        return Err(End::Over);
    };
    status.set(State::Receiving);
    // An optimisation, without which it works too.
    let _ = connection.stream.set_delivery(Delivery::Coalesce {
        bytes: CHUNK,
        delay: DELAY,
    });
    let wanted: Vec<Offer> = set_up
        .iter()
        .filter_map(|set_up| offers.get(usize::from(set_up.track)))
        .cloned()
        .collect();
    let mut feed = Feed::new(shared.cameras.hub(), camera, &wanted, Patience::NONE);
    let mut packets = 0_u64;
    let (end, why) = loop {
        let frame = match timeout(shared.silence, connection.frame()).await {
            Err(_) => break (End::Slow, IngestError::Silent(shared.silence)),
            Ok(Err(end)) => break (end, IngestError::Ended),
            Ok(Ok(frame)) => frame,
        };
        match frame {
            Frame::Packet { channel, bytes } => {
                let of_channel = |set_up: &SetUp| set_up.channels.0 == channel;
                let Some(track) = set_up.iter().position(of_channel) else {
                    continue;
                };
                if let Err(error) = feed.packet(track, &bytes) {
                    break (End::Over, error.into());
                }
                packets += 1;
                if packets.is_multiple_of(COUNT_EVERY) {
                    status.count(feed.counts());
                    if feed.is_removed() {
                        break (End::Over, IngestError::Ended);
                    }
                }
            }
            Frame::Message(Message::Request(request)) => {
                let reply = server.request(&request, &**shared);
                let sent = connection.send(&reply.bytes).await;
                if sent.is_err() || reply.action == Action::End {
                    break (End::Over, IngestError::Ended);
                }
            }
            Frame::Message(_) => {}
        }
    };
    status.count(feed.counts());
    status.ended(&Err(why));
    status.set(State::Expecting);
    Err(end)
}
