//! A camera with pictures and sound, each of which has its number, and a client of the protocols
//! that can lose what it receives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cameras::hub::{Hub, Publisher};
use cameras::media::{Codec, Data, Law, Sample, Track};
use evenkeel::net::UdpSocket;
use evenkeel::time::timeout;
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::media::{Direction, KeyframeRequestKind, MediaKind, Mid};
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpPacket;
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

use super::{PATH, SDP};
use crate::support::{Answer, LIMIT, PICTURE, Site, Stops};

/// Parameter sets of the constrained baseline profile.
pub(crate) const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1f, 0xda, 0x05, 0x07, 0xc4];
const PPS: &[u8] = &[0x68, 0xce, 0x3c, 0x80];

/// Pictures a second, by their times.
const RATE: i64 = 25;
/// Pictures have this many bytes: some packets.
const PICTURE_BYTES: usize = 4_000;
/// Numbers begin anew after this many.
const NUMBERS: i64 = 250;

pub(crate) fn track(id: u8, codec: Codec, clock_rate: u32) -> Track {
    Track {
        id,
        codec,
        clock_rate,
    }
}

pub(crate) fn h264(sps: &'static [u8]) -> Track {
    let (sps, pps) = (Bytes::from_static(sps), Bytes::from_static(PPS));
    track(0, Codec::H264 { sps, pps }, 90_000)
}

/// G.711, one channel.
pub(crate) fn g711(law: Law) -> Track {
    track(1, Codec::G711 { law, channels: 1 }, 8_000)
}

/// A camera with pictures and sound, each of which has its number.
pub(crate) struct Camera {
    publisher: Publisher,
    sound: Track,
    /// Pictures from one key frame to the next.
    group: i64,
    next: i64,
}

impl Camera {
    pub(crate) fn begin(hub: &Hub) -> Self {
        Self::of(hub, g711(Law::A), 10)
    }

    /// One with this sound, and so many pictures in a group.
    pub(crate) fn of(hub: &Hub, sound: Track, group: i64) -> Self {
        let tracks = vec![h264(SPS), sound.clone()];
        Self {
            publisher: hub.publish("yard", tracks).unwrap(),
            sound,
            group,
            next: 0,
        }
    }

    /// Sends a picture of some packets, and its sound.
    pub(crate) fn send(&mut self) {
        let is_key = self.next % self.group == 0;
        let number = u8::try_from(self.next % NUMBERS).unwrap();
        let mut picture = u32::try_from(PICTURE_BYTES).unwrap().to_be_bytes().to_vec();
        picture.push(if is_key { 0x65 } else { 0x41 });
        picture.resize(PICTURE_BYTES + 4, number);
        let sound_at = self.next * i64::from(self.sound.clock_rate) / RATE;
        for (track, dts, data) in [
            (0, self.next * PICTURE, picture),
            (1, sound_at, sound_of(number)),
        ] {
            self.publisher.push(Sample {
                track,
                dts,
                pts_offset: 0,
                duration: None,
                is_key: is_key || track == 1,
                data: Data::new(vec![Bytes::from(data)]),
            });
        }
        self.next += 1;
    }

    pub(crate) fn keep_sending(mut self, every: Duration) -> Stops {
        Stops::when_dropped(every, move || self.send())
    }
}

/// The sound of this number, of which no two lengths in a row are the same.
pub(crate) fn sound_of(number: u8) -> Vec<u8> {
    vec![number; 100 + usize::from(number % 60)]
}

/// A client of the protocols.
pub(crate) struct Viewer {
    rtc: Rtc,
    socket: UdpSocket,
    pending: Option<SdpPendingOffer>,
    /// The first of what it offered to receive.
    first: Option<Mid>,
    pub(crate) packets: Vec<RtpPacket>,
    pictures: Pictures,
    /// The last question of STUN that it sent.
    pub(crate) question: Vec<u8>,
    pub(crate) is_connected: bool,
    pub(crate) is_closed: bool,
    /// Every so many packets of media one does not arrive; none is lost, if this is 0.
    pub(crate) loses_one_in: usize,
    /// Packets of media that were sent to it.
    sent: usize,
    /// Those of them that did not arrive.
    pub(crate) lost: usize,
}

/// Whether a packet is one of pictures, by the clock of its times.
pub(crate) fn is_video(packet: &RtpPacket) -> bool {
    packet.time.frequency().get() == 90_000
}

/// Whether a datagram is RTP, and not RTCP, DTLS or STUN (RFC 7983, RFC 5761).
fn is_media(datagram: &[u8]) -> bool {
    matches!(datagram, [128..=191, kind, ..] if !(64..96).contains(&(kind & 0x7f)))
}

fn now() -> Instant {
    evenkeel::time::Instant::now().into()
}

impl Viewer {
    /// One that offers to receive this.
    pub(crate) async fn offering(kinds: &[MediaKind], config: RtcConfig) -> (Self, String) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut rtc = config.set_rtp_mode(true).build(now());
        let address = socket.local_addr().unwrap();
        rtc.add_local_candidate(Candidate::host(address, "udp").unwrap());
        let mut changes = rtc.sdp_api();
        let add = |&kind| changes.add_media(kind, Direction::RecvOnly, None, None, None);
        let mids: Vec<Mid> = kinds.iter().map(add).collect();
        let (offer, pending) = changes.apply().unwrap();
        let viewer = Self {
            rtc,
            socket,
            pending: Some(pending),
            first: mids.first().copied(),
            packets: Vec::new(),
            pictures: Pictures::default(),
            question: Vec::new(),
            is_connected: false,
            is_closed: false,
            loses_one_in: 0,
            sent: 0,
            lost: 0,
        };
        (viewer, offer.to_sdp_string())
    }

    /// One of pictures and of G.711.
    pub(crate) async fn usual() -> (Self, String) {
        let config = RtcConfig::new()
            .enable_pcma(true, false)
            .enable_pcmu(true, false);
        Self::offering(&[MediaKind::Video, MediaKind::Audio], config).await
    }

    /// One whose offer a server has taken.
    pub(crate) async fn watching(site: &Site) -> (Self, Answer) {
        let (mut viewer, offer) = Self::usual().await;
        let answer = site.client().ask("POST", PATH, &[SDP], &offer).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        viewer.take_answer(answer.text());
        (viewer, answer)
    }

    fn take_answer(&mut self, answer: &str) {
        let read = SdpAnswer::from_sdp_string(answer).unwrap();
        let pending = self.pending.take().unwrap();
        self.rtc.sdp_api().accept_answer(pending, read).unwrap();
    }

    /// Takes part until something is so.
    pub(crate) async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = now();
        let mut buffer = [0; 2_048];
        let address = self.socket.local_addr().unwrap();
        loop {
            let due = self.turn().await;
            if is_so(self) {
                return;
            }
            assert!(now() - began < LIMIT, "never: {what}");
            let wait = (due - now()).min(Duration::from_millis(50));
            let input = match timeout(wait, self.socket.recv_from(&mut buffer)).await {
                Ok(received) => {
                    let (len, source) = received.unwrap();
                    if self.loses(&buffer[..len]) {
                        continue;
                    }
                    let read = Receive::new(Protocol::Udp, source, address, &buffer[..len]);
                    Input::Receive(now(), read.unwrap())
                }
                Err(_) => Input::Timeout(now()),
            };
            self.rtc.handle_input(input).unwrap();
        }
    }

    async fn turn(&mut self) -> Instant {
        loop {
            match self.rtc.poll_output().unwrap() {
                Output::Timeout(due) => return due.max(now()),
                Output::Transmit(datagram) => {
                    let is_question = datagram.contents.starts_with(&[0, 1]);
                    if is_question {
                        self.question = datagram.contents.to_vec();
                    }
                    let target = datagram.destination;
                    self.socket
                        .send_to(&datagram.contents, target)
                        .await
                        .unwrap();
                }
                Output::Event(Event::RtpPacket(packet)) => {
                    if is_video(&packet) {
                        self.pictures.take(&packet);
                    }
                    self.packets.push(packet);
                }
                Output::Event(Event::Connected) => self.is_connected = true,
                Output::Event(Event::Closed) => self.is_closed = true,
                Output::Event(_) => {}
            }
        }
    }

    fn loses(&mut self, datagram: &[u8]) -> bool {
        if self.loses_one_in == 0 || !is_media(datagram) {
            return false;
        }
        self.sent += 1;
        let is_lost = self.sent.is_multiple_of(self.loses_one_in);
        self.lost += usize::from(is_lost);
        is_lost
    }

    /// Asks for a key frame (PLI, RFC 4585) of the first that it receives.
    pub(crate) fn ask_for_key(&mut self) {
        let mid = self.first.unwrap();
        let mut direct = self.rtc.direct_api();
        if let Some(stream) = direct.stream_rx_by_mid(mid, None) {
            stream.request_keyframe(KeyframeRequestKind::Pli);
        }
    }

    /// Packets of sound.
    pub(crate) fn sound(&self) -> Vec<&RtpPacket> {
        let packets = self.packets.iter();
        packets.filter(|packet| !is_video(packet)).collect()
    }

    /// Pictures that have come whole, up to the first packet that is missing.
    pub(crate) fn whole(&self) -> &[(u8, bool)] {
        &self.pictures.whole
    }
}

/// Packets of pictures become pictures, in the order of their sequence numbers.
#[derive(Default)]
pub(crate) struct Pictures {
    /// What is in packets, and whether each is the last one of its picture.
    waiting: BTreeMap<u64, (Arc<[u8]>, bool)>,
    next: Option<u64>,
    picture: Vec<u8>,
    /// The numbers of those that came before the first packet that is missing, each compared with
    /// the one that was sent; and whether it is a key frame.
    pub(crate) whole: Vec<(u8, bool)>,
}

impl Pictures {
    fn take(&mut self, packet: &RtpPacket) {
        let number = *packet.seq_no;
        self.next.get_or_insert(number);
        let payload = Arc::clone(&packet.payload);
        self.waiting.insert(number, (payload, packet.header.marker));
        while let Some(next) = self.next
            && let Some((payload, is_last)) = self.waiting.remove(&next)
        {
            self.next = Some(next + 1);
            self.piece(&payload, is_last);
        }
    }

    fn piece(&mut self, payload: &[u8], is_last: bool) {
        match *payload {
            // Parameter sets.
            [0x67 | 0x68, ..] => return,
            // The first piece of a picture (FU-A, RFC 6184).
            [first, kind, ..] if kind & 0x80 != 0 => {
                assert!(self.picture.is_empty(), "a picture does not end");
                self.picture.push(first & 0xe0 | kind & 0x1f);
            }
            _ => {}
        }
        self.picture.extend_from_slice(&payload[2..]);
        if is_last {
            let picture = std::mem::take(&mut self.picture);
            assert_eq!(picture.len(), PICTURE_BYTES);
            assert!(picture[1..].iter().all(|byte| *byte == picture[1]));
            self.whole.push((picture[1], picture[0] == 0x65));
        }
    }
}
