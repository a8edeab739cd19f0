//! Cameras that send what the tests say, and the packets that become of it.

use bytes::Bytes;

use super::super::choice::tests::{g711, h264};
use super::super::offer::tests::BROWSER;
use super::super::packets::Packet;
use super::*;
use crate::hub::{Limits, Publisher};
use crate::media::{Data, Law};

const PICTURE: i64 = 3_600;

struct Stage {
    hub: Arc<Hub>,
    publisher: Option<Publisher>,
    now: Instant,
}

impl Stage {
    fn new() -> Self {
        let hub = Hub::new(Limits::default());
        hub.add("gate").unwrap();
        let mut stage = Self {
            hub,
            publisher: None,
            now: evenkeel::time::Instant::now().into(),
        };
        stage.publish();
        stage
    }

    fn publish(&mut self) {
        self.publisher = None;
        let tracks = vec![h264(66, 0x40), g711(Law::A, 1)];
        self.publisher = Some(self.hub.publish("gate", tracks).unwrap());
    }

    fn push(&mut self, track: u8, time: i64, is_key: bool, bytes: usize) {
        let mut data = u32::try_from(bytes).unwrap().to_be_bytes().to_vec();
        data.resize(bytes + 4, if is_key { 0x65 } else { 0x41 });
        self.publisher.as_mut().unwrap().push(Sample {
            track,
            dts: time,
            pts_offset: 0,
            duration: None,
            is_key,
            data: Data::new(vec![Bytes::from(data)]),
        });
    }

    fn feed(&self) -> Result<Feed, FeedError> {
        let tracks = self.hub.status_of("gate").unwrap().tracks.unwrap();
        let choice = Choice::of(BROWSER, &tracks).unwrap();
        Feed::begin(&self.hub, "gate", &choice, self.now)
    }

    /// The packets of what is there.
    fn drain(&self, feed: &mut Feed) -> Result<Vec<Packet>, FeedError> {
        let mut packets = Vec::new();
        while let Some(event) = feed.subscriber.try_next() {
            feed.take(event, self.now)?;
            packets.extend(std::iter::from_fn(|| feed.packets.pop()));
        }
        Ok(packets)
    }
}

/// The timestamps of pictures, from the first one on.
fn pictures(packets: &[Packet], base: u32) -> Vec<u32> {
    let ends = packets
        .iter()
        .filter(|it| it.kind == Kind::Video && it.marker);
    ends.map(|it| it.timestamp.wrapping_sub(base)).collect()
}

#[test]
fn a_browser_begins_at_the_newest_key_frame_with_its_parameter_sets() {
    let mut stage = Stage::new();
    for picture in 0..23 {
        stage.push(0, picture * PICTURE, picture % 20 == 0, 3_000);
        stage.push(1, picture * 320, true, 160);
    }
    let mut feed = stage.feed().unwrap();
    let packets = stage.drain(&mut feed).unwrap();
    assert_eq!((packets[0].payload[0], packets[1].payload[0]), (0x67, 0x68));
    assert!(packets.iter().all(|it| it.payload.len() <= PAYLOAD_MAX));
    let base = packets[0].timestamp;
    // Three pictures, a millisecond apart; the last one is where the camera has it.
    assert_eq!(pictures(&packets, base), [0, 90, 180]);
    assert!(packets[0].shown <= stage.now);
    // Sound that is older than the newest picture is not sent.
    let sound = packets.iter().filter(|it| it.kind == Kind::Sound).count();
    assert_eq!(sound, 1);
    stage.push(0, 23 * PICTURE, false, 100);
    let more = stage.drain(&mut feed).unwrap();
    assert_eq!(pictures(&more, base), [180 + 3_600]);
}

#[test]
fn a_browser_goes_back_to_the_key_frame_but_not_again_and_again() {
    let mut stage = Stage::new();
    for picture in 0..3 {
        stage.push(0, picture * PICTURE, picture == 0, 100);
    }
    let mut feed = stage.feed().unwrap();
    let first = stage.drain(&mut feed).unwrap();
    assert_eq!(feed.rewind(stage.now), Ok(false), "it has just begun");
    stage.now += REWIND_EVERY;
    assert_eq!(feed.rewind(stage.now), Ok(true));
    assert_eq!(
        feed.rewind(stage.now + REWIND_EVERY),
        Ok(false),
        "nothing was taken yet"
    );
    let again = stage.drain(&mut feed).unwrap();
    assert_eq!(again.len(), first.len());
    let base = first[0].timestamp;
    assert_eq!(pictures(&again, base), [270, 360, 450]);
    assert_eq!(feed.rewind(stage.now), Ok(false));
}

#[test]
fn times_go_on_when_the_camera_comes_back() {
    let mut stage = Stage::new();
    stage.push(0, 90_000, true, 100);
    let mut feed = stage.feed().unwrap();
    let base = stage.drain(&mut feed).unwrap()[0].timestamp;
    stage.publish();
    stage.now += Duration::from_secs(20);
    stage.push(0, 45_000, true, 100);
    let after = stage.drain(&mut feed).unwrap();
    assert_eq!(pictures(&after, base), [20 * 90_000]);
}

#[test]
fn pictures_in_another_order_end_it_and_are_seen_before() {
    let mut stage = Stage::new();
    stage.push(0, 0, true, 100);
    let mut feed = stage.feed().unwrap();
    stage.push(0, 3 * PICTURE, false, 100);
    stage.push(0, PICTURE, false, 100);
    assert_eq!(stage.drain(&mut feed).unwrap_err(), FeedError::Reordered);
    assert!(ahead(&stage.hub, "gate", 0).unwrap().is_reordered);
    assert_eq!(stage.feed().unwrap_err(), FeedError::Reordered);
}

#[test]
fn another_encoding_ends_it_and_other_parameters_do_not() {
    let mut stage = Stage::new();
    stage.push(0, 0, true, 100);
    let mut feed = stage.feed().unwrap();
    let publisher = stage.publisher.as_ref().unwrap();
    publisher.parameters(vec![h264(66, 0), g711(Law::A, 1)].into());
    stage.drain(&mut feed).unwrap();
    let publisher = stage.publisher.as_ref().unwrap();
    publisher.parameters(vec![h264(100, 0), g711(Law::A, 1)].into());
    stage.push(0, PICTURE, true, 100);
    assert_eq!(stage.drain(&mut feed).unwrap_err(), FeedError::Changed);
    stage.hub.remove("gate");
    let expected = SubscribeError::Unknown("gate".to_owned());
    assert_eq!(ahead(&stage.hub, "gate", 0), Err(expected));
}
