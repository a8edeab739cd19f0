//! Two of the library's peers, with nothing between them but lists of datagrams.

use std::collections::VecDeque;

use str0m::media::{Direction, KeyframeRequestKind, MediaKind};
use str0m::rtp::RtpPacket;

use super::super::choice::tests::{g711, h264};
use super::*;
use crate::media::Law;

const SERVER: &str = "192.0.2.1:8189";
const BROWSER: &str = "198.51.100.2:4000";
/// Datagrams that two peers exchange at most until they are connected.
const STEPS: usize = 400;

/// A browser, as far as the protocols go.
struct Browser {
    rtc: Rtc,
    address: SocketAddr,
    packets: Vec<RtpPacket>,
    is_closed: bool,
}

impl Browser {
    /// One that offers to receive video and audio.
    fn offering(now: Instant) -> (Self, String, str0m::change::SdpPendingOffer) {
        let config = RtcConfig::new().set_rtp_mode(true).enable_pcma(true, false);
        let mut rtc = config.build(now);
        let address: SocketAddr = BROWSER.parse().unwrap();
        rtc.add_local_candidate(Candidate::host(address, "udp").unwrap());
        let mut changes = rtc.sdp_api();
        for kind in [MediaKind::Audio, MediaKind::Video] {
            changes.add_media(kind, Direction::RecvOnly, None, None, None);
        }
        let (offer, pending) = changes.apply().unwrap();
        let browser = Self {
            rtc,
            address,
            packets: Vec::new(),
            is_closed: false,
        };
        (browser, offer.to_sdp_string(), pending)
    }

    fn turn(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        loop {
            match self.rtc.poll_output().unwrap() {
                Output::Timeout(at) if at > now => return datagrams,
                Output::Timeout(_) => self.rtc.handle_input(Input::Timeout(now)).unwrap(),
                Output::Transmit(datagram) => datagrams.push(datagram.contents.into()),
                Output::Event(Event::RtpPacket(packet)) => self.packets.push(packet),
                Output::Event(Event::Closed) => self.is_closed = true,
                Output::Event(_) => {}
            }
        }
    }

    fn take(&mut self, now: Instant, datagram: &[u8]) {
        let source = SERVER.parse().unwrap();
        let received = Receive::new(Protocol::Udp, source, self.address, datagram);
        let input = Input::Receive(now, received.unwrap());
        self.rtc.handle_input(input).unwrap();
    }
}

struct Pair {
    peer: Peer,
    browser: Browser,
    answer: String,
    now: Instant,
    told: Vec<Told>,
}

pub(in super::super) fn identity() -> Identity {
    let provider = str0m::crypto::from_feature_flags();
    Identity {
        certificate: provider.dtls_provider.generate_certificate().unwrap(),
        credentials: IceCreds {
            ufrag: "0123456789abcdef".to_owned(),
            pass: "0123456789abcdef0123456789abcdef".to_owned(),
        },
    }
}

impl Pair {
    fn of(tracks: &[crate::media::Track]) -> Self {
        let now = evenkeel::time::Instant::now().into();
        let (mut browser, offer, pending) = Browser::offering(now);
        let choice = Choice::of(&offer, tracks).unwrap();
        let candidates = [SERVER.parse().unwrap()];
        let answered = Peer::answer(&choice, identity(), &candidates, u16::MAX, now);
        let (peer, answer) = answered.unwrap();
        let read = str0m::change::SdpAnswer::from_sdp_string(&answer).unwrap();
        browser.rtc.sdp_api().accept_answer(pending, read).unwrap();
        Self {
            peer,
            browser,
            answer,
            now,
            told: Vec::new(),
        }
    }

    /// Exchanges datagrams for so long, by a clock of its own.
    fn go(&mut self, millis: u64) {
        for _ in 0..millis.div_ceil(10) {
            self.now += Duration::from_millis(10);
            self.settle();
        }
    }

    /// Exchanges datagrams until there are none.
    fn settle(&mut self) {
        let mut waiting = VecDeque::new();
        for _ in 0..STEPS {
            waiting.extend(self.browser.turn(self.now));
            if let Some(datagram) = waiting.pop_front() {
                let source = self.browser.address;
                let taken = self.peer.receive(self.now, source, &datagram).unwrap();
                assert!(taken, "the server does not take what the browser sends");
            }
            let mut told = Vec::new();
            self.peer.turn(self.now, &mut told).unwrap();
            let is_done = told.is_empty() && waiting.is_empty();
            for told in told {
                match told {
                    Told::Send(target, datagram) => {
                        assert_eq!(target, self.browser.address);
                        self.browser.take(self.now, &datagram);
                        waiting.extend(self.browser.turn(self.now));
                    }
                    told => self.told.push(told),
                }
            }
            if is_done {
                return;
            }
        }
        panic!("they never stop");
    }

    fn connect(&mut self) {
        for _ in 0..100 {
            self.go(10);
            if self.told.iter().any(|told| matches!(told, Told::Connected)) {
                return;
            }
        }
        panic!("never connected: {}", self.answer);
    }

    fn send(&mut self, kind: Kind, timestamp: u32, payload: &[u8]) {
        self.peer.send(Packet {
            kind,
            marker: kind == Kind::Video,
            timestamp,
            shown: self.now,
            payload: payload.into(),
        });
        self.settle();
    }
}

#[test]
fn pictures_and_sound_come_through_as_they_were_sent() {
    let mut pair = Pair::of(&[h264(66, 0x40), g711(Law::A, 1)]);
    assert!(pair.answer.contains("a=ice-lite"), "{}", pair.answer);
    assert!(
        pair.answer.contains("192.0.2.1 8189 typ host"),
        "{}",
        pair.answer
    );
    pair.connect();
    for number in 0..50_u32 {
        pair.send(Kind::Video, number * 3_600, &[0x65, number as u8]);
        pair.send(Kind::Sound, number * 320, &[number as u8; 160]);
        pair.go(40);
    }
    let packets = &pair.browser.packets;
    let (video, sound): (Vec<_>, Vec<_>) = packets.iter().partition(|it| it.header.marker);
    assert_eq!((video.len(), sound.len()), (50, 50));
    for (number, packet) in (0..).zip(&video) {
        assert_eq!(*packet.payload, [0x65, number as u8]);
        assert_eq!(packet.header.timestamp, number * 3_600);
        let first = video[0].header.sequence_number;
        assert_eq!(packet.header.sequence_number, first + number as u16);
    }
    assert!(sound.iter().all(|packet| packet.payload.len() == 160));
    let reported = pair
        .told
        .iter()
        .any(|told| matches!(told, Told::Reported { packets, .. } if *packets > 0));
    assert!(reported, "{:?}", pair.told);
}

#[test]
fn a_browser_asks_for_a_key_frame_and_says_goodbye() {
    let mut pair = Pair::of(&[h264(66, 0x40)]);
    // There is a section for the sound that the camera has not.
    assert!(pair.answer.contains("a=inactive"), "{}", pair.answer);
    pair.connect();
    pair.send(Kind::Video, 0, &[0x65, 1]);
    pair.go(100);
    let ssrc = pair.browser.packets[0].header.ssrc;
    let mut direct = pair.browser.rtc.direct_api();
    let stream = direct.stream_rx(&ssrc).unwrap();
    stream.request_keyframe(KeyframeRequestKind::Pli);
    pair.go(500);
    assert!(
        pair.told.iter().any(|told| matches!(told, Told::NeedsKey)),
        "{:?}",
        pair.told
    );
    pair.browser.rtc.close().unwrap();
    pair.go(100);
    assert!(
        pair.told.iter().any(|told| matches!(told, Told::Ended)),
        "{:?}",
        pair.told
    );
}

#[test]
fn media_of_an_unknown_kind_are_refused_since_they_cannot_be_answered() {
    let now = evenkeel::time::Instant::now().into();
    let (_, offer, _) = Browser::offering(now);
    let refused = |offer: &str| {
        let choice = Choice::of(offer, &[h264(66, 0x40)]).unwrap();
        let candidates = [SERVER.parse().unwrap()];
        let answered = Peer::answer(&choice, identity(), &candidates, 1, now);
        answered.err().map(|error| error.to_string())
    };
    assert_eq!(refused(&offer), None);
    let error = refused(&offer.replace("m=audio", "m=smell")).unwrap();
    assert!(error.contains("offer video, audio or both"), "{error}");
}

#[test]
fn a_browser_is_told_that_it_is_over() {
    let mut pair = Pair::of(&[h264(66, 0x40)]);
    pair.connect();
    pair.peer.close().unwrap();
    pair.settle();
    assert!(pair.browser.is_closed);
    assert!(!pair.peer.is_alive());
}

#[test]
fn what_is_signed_by_nobody_is_not_taken() {
    let mut pair = Pair::of(&[h264(66, 0x40)]);
    let mut datagrams = Vec::new();
    for _ in 0..100 {
        pair.now += Duration::from_millis(10);
        datagrams.extend(pair.browser.turn(pair.now));
    }
    let mut question = datagrams.into_iter().find(|it| it[0] < 2).unwrap();
    let last = question.len() - 1;
    let source = pair.browser.address;
    // The mark of integrity stands before that of the fingerprint, which has eight bytes.
    question[last - 10] ^= 1;
    assert!(!pair.peer.receive(pair.now, source, &question).unwrap());
    question[last - 10] ^= 1;
    assert!(
        !pair
            .peer
            .receive(pair.now, source, &[0x80, 111, 0, 0])
            .unwrap()
    );
    assert!(!pair.peer.receive(pair.now, source, &[]).unwrap());
}

/// A server's side of a session with a browser of which nothing is heard.
pub(in super::super) fn silent(choice: impl Fn(&str) -> Choice) -> (Peer, Choice) {
    let now = evenkeel::time::Instant::now().into();
    let (_, offer, _) = Browser::offering(now);
    let choice = choice(&offer);
    let candidates = [SERVER.parse().unwrap()];
    let answered = Peer::answer(&choice, identity(), &candidates, 0, now);
    (answered.unwrap().0, choice)
}
