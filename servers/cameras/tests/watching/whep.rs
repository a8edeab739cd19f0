//! WHEP by a client that is no browser, over real sockets.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cameras::hub::{Hub, Publisher};
use cameras::media::{Codec, Data, Law, Sample, Track};
use cameras::watch::Settings;
use cameras::watch::settings::{Permission, Token};
use cameras::watch::webrtc;
use evenkeel::net::UdpSocket;
use evenkeel::time::timeout;
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::media::{Direction, MediaKind};
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpPacket;
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

use crate::support::{Answer, LIMIT, PICTURE, Site, Stops, runtime, until};

const PATH: &str = "/api/cameras/yard/whep";
const SDP: (&str, &str) = ("content-type", "application/sdp");
const FRAGMENT: (&str, &str) = ("content-type", "application/trickle-ice-sdpfrag");
/// Parameter sets of the constrained baseline profile.
const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1f, 0xda, 0x05, 0x07, 0xc4];
const PPS: &[u8] = &[0x68, 0xce, 0x3c, 0x80];

fn settings(webrtc: webrtc::Settings) -> Settings {
    let webrtc = webrtc::Settings {
        listen: "127.0.0.1:0".to_owned(),
        ..webrtc
    };
    Settings {
        webrtc: Some(webrtc),
        ..Settings::default()
    }
}

fn track(id: u8, codec: Codec, clock_rate: u32) -> Track {
    Track {
        id,
        codec,
        clock_rate,
    }
}

fn h264(sps: &'static [u8]) -> Track {
    let (sps, pps) = (Bytes::from_static(sps), Bytes::from_static(PPS));
    track(0, Codec::H264 { sps, pps }, 90_000)
}

/// A camera with pictures and sound, each of which has its number.
struct Camera {
    publisher: Publisher,
    next: i64,
}

impl Camera {
    fn begin(hub: &Hub) -> Self {
        let (law, channels) = (Law::A, 1);
        let tracks = vec![h264(SPS), track(1, Codec::G711 { law, channels }, 8_000)];
        Self {
            publisher: hub.publish("yard", tracks).unwrap(),
            next: 0,
        }
    }

    /// Sends a picture of some packets, and its sound.
    fn send(&mut self) {
        let is_key = self.next % 10 == 0;
        let number = u8::try_from(self.next % 250).unwrap();
        let mut picture = 4_000_u32.to_be_bytes().to_vec();
        picture.push(if is_key { 0x65 } else { 0x41 });
        picture.resize(4_004, number);
        for (track, dts, data) in [
            (0, self.next * PICTURE, picture),
            (1, self.next * 320, vec![number; 160]),
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

    fn keep_sending(mut self) -> Stops {
        Stops::when_dropped(Duration::from_millis(4), move || self.send())
    }
}

/// A client of the protocols.
struct Viewer {
    rtc: Rtc,
    socket: UdpSocket,
    pending: Option<SdpPendingOffer>,
    packets: Vec<RtpPacket>,
    /// The last question of STUN that it sent.
    question: Vec<u8>,
    is_connected: bool,
    is_closed: bool,
}

fn now() -> Instant {
    evenkeel::time::Instant::now().into()
}

impl Viewer {
    /// One that offers to receive this.
    async fn offering(kinds: &[MediaKind], config: RtcConfig) -> (Self, String) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut rtc = config.set_rtp_mode(true).build(now());
        let address = socket.local_addr().unwrap();
        rtc.add_local_candidate(Candidate::host(address, "udp").unwrap());
        let mut changes = rtc.sdp_api();
        for &kind in kinds {
            changes.add_media(kind, Direction::RecvOnly, None, None, None);
        }
        let (offer, pending) = changes.apply().unwrap();
        let viewer = Self {
            rtc,
            socket,
            pending: Some(pending),
            packets: Vec::new(),
            question: Vec::new(),
            is_connected: false,
            is_closed: false,
        };
        (viewer, offer.to_sdp_string())
    }

    /// One of pictures and of G.711.
    async fn usual() -> (Self, String) {
        let config = RtcConfig::new().enable_pcma(true, false);
        Self::offering(&[MediaKind::Video, MediaKind::Audio], config).await
    }

    /// One whose offer a server has taken.
    async fn watching(site: &Site) -> (Self, Answer) {
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
    async fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
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
                Output::Event(Event::RtpPacket(packet)) => self.packets.push(packet),
                Output::Event(Event::Connected) => self.is_connected = true,
                Output::Event(Event::Closed) => self.is_closed = true,
                Output::Event(_) => {}
            }
        }
    }

    fn sound(&self) -> usize {
        let is_sound = |packet: &&RtpPacket| packet.payload.len() == 160;
        self.packets.iter().filter(is_sound).count()
    }
}

/// A server with a camera that sends all the time.
async fn begin(webrtc: webrtc::Settings) -> (tempfile::TempDir, Site, Stops) {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::begin(directory.path(), settings(webrtc)).await;
    let mut camera = Camera::begin(&site.hub);
    camera.send();
    let sends = camera.keep_sending();
    (directory, site, sends)
}

#[test]
fn a_client_gets_pictures_and_sound_until_it_ends_the_session() {
    runtime().block_on(async {
        let (_directory, site, _sends) = begin(webrtc::Settings::default()).await;
        let (mut viewer, answer) = Viewer::watching(&site).await;
        assert_eq!(answer.header("content-type"), Some("application/sdp"));
        assert!(
            answer.header("etag").unwrap().starts_with('"'),
            "{answer:?}"
        );
        let location = answer.header("location").unwrap().to_owned();
        assert!(location.starts_with(PATH), "{location}");
        let is_enough = |it: &Viewer| it.packets.len() > 200 && it.sound() > 20;
        viewer.until("pictures and sound come", is_enough).await;
        let first = viewer.packets.iter().find(|it| it.payload.len() != 160);
        assert_eq!(
            *first.unwrap().payload,
            *SPS,
            "the parameter sets are first"
        );

        let port = site.server.webrtc().unwrap().port();
        assert_eq!(port.sessions(), 1);
        let ended = site.client().ask("DELETE", &location, &[], "").await;
        assert_eq!(ended.status, 200, "{ended:?}");
        viewer.until("it is told", |it| it.is_closed).await;
        let again = site.client().ask("DELETE", &location, &[], "").await;
        assert_eq!(again.status, 404, "{again:?}");
        until("its place is free", || port.sessions() == 0).await;
        // Its cursor is gone with it.
        until("nobody watches", || {
            site.hub.status_of("yard").unwrap().viewers == 0
        })
        .await;
    });
}

#[test]
fn what_is_asked_wrongly_is_refused_with_the_reason() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), settings(webrtc::Settings::default())).await;
        let client = site.client();
        let (_, offer) = Viewer::usual().await;
        let post = async |path: &str, kind: (&str, &str), body: &str| {
            let answer = client.ask("POST", path, &[kind], body).await;
            let error = answer.json()["error"].as_str().unwrap_or("").to_owned();
            (answer.status, error)
        };
        let (status, error) = post(PATH, SDP, &offer).await;
        assert_eq!((status, error.contains("live")), (409, true), "{error}");
        let (status, _) = post("/api/cameras/attic/whep", SDP, &offer).await;
        assert_eq!(status, 404);
        let camera = Camera::begin(&site.hub);
        for (kind, body, wanted) in [
            (("content-type", "application/json"), offer.as_str(), 415),
            (SDP, "{}", 400),
            (SDP, "v=0\r\n", 400),
            (
                SDP,
                "v=0\r\nm=video 9 UDP/TLS/RTP/SAVPF 8\r\na=mid:0\r\n",
                406,
            ),
            (SDP, &offer.replace("a=fingerprint", "a=print"), 400),
            (SDP, &offer.replace("a=ice-ufrag", "a=ice-frag"), 400),
            (SDP, &offer.replace("a=recvonly", "a=sendonly"), 406),
        ] {
            let (status, error) = post(PATH, kind, body).await;
            assert_eq!(status, wanted, "{error}");
            assert!(error.len() > 20 && !error.contains("0x"), "{error}");
        }
        let only_vp8 = RtcConfig::new().clear_codecs().enable_vp8(true);
        let (_, offer_of_vp8) = Viewer::offering(&[MediaKind::Video], only_vp8).await;
        let (status, error) = post(PATH, SDP, &offer_of_vp8).await;
        assert_eq!((status, error.contains("VP8")), (406, true), "{error}");
        drop(camera);
        // Its parameter sets say that pictures are shown in another order.
        let tracks = vec![h264(crate::support::SPS)];
        let _publisher = site.hub.publish("yard", tracks).unwrap();
        let (status, error) = post(PATH, SDP, &offer).await;
        assert_eq!((status, error.contains("B-frames")), (422, true), "{error}");
        assert_eq!(site.server.webrtc().unwrap().port().sessions(), 0);
    });
}

#[test]
fn it_is_off_unless_it_is_set() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::begin(directory.path(), Settings::default()).await;
        let answer = site.client().ask("POST", PATH, &[SDP], "v=0\r\n").await;
        assert_eq!(answer.status, 501, "{answer:?}");
        assert!(answer.text().contains("watch.webrtc"), "{answer:?}");
    });
}

#[test]
fn addresses_are_taken_by_the_tag_and_ice_does_not_begin_anew() {
    runtime().block_on(async {
        let (_directory, site, _sends) = begin(webrtc::Settings::default()).await;
        let (_viewer, answer) = Viewer::watching(&site).await;
        let location = answer.header("location").unwrap();
        let tag = answer.header("etag").unwrap();
        let client = site.client();
        let body = "a=ice-ufrag:abcd\r\na=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\n";
        for (headers, body, wanted) in [
            (&[FRAGMENT, ("if-match", tag)][..], body, 204),
            (&[FRAGMENT, ("if-match", tag)], "", 400),
            (&[FRAGMENT, ("if-match", "\"other\"")], body, 412),
            (&[FRAGMENT, ("if-match", "*")], body, 422),
            (&[FRAGMENT], body, 428),
            (&[SDP, ("if-match", tag)], body, 415),
        ] {
            let patched = client.ask("PATCH", location, headers, body).await;
            assert_eq!(patched.status, wanted, "{patched:?}");
        }
        let other = format!("{PATH}/00");
        let headers = [FRAGMENT, ("if-match", tag)];
        assert_eq!(
            client.ask("PATCH", &other, &headers, body).await.status,
            404
        );
        // The address is of the camera that it was made for.
        let door = location.replace("yard", "door");
        assert_eq!(client.ask("DELETE", &door, &[], "").await.status, 404);
        let options = client.ask("OPTIONS", PATH, &[], "").await;
        assert_eq!(options.status, 204, "{options:?}");
        assert_eq!(options.header("accept-post"), Some("application/sdp"));
        assert_eq!(client.ask("GET", PATH, &[], "").await.status, 405);
    });
}

#[test]
fn sessions_have_limits_and_give_their_places_back() {
    let settings = webrtc::Settings::default;
    let one_in_all = webrtc::Settings {
        sessions_max: 1,
        ..settings()
    };
    let one_of_each = webrtc::Settings {
        sessions_per_client_max: 1,
        ..settings()
    };
    for (limits, wanted) in [(one_in_all, 503), (one_of_each, 429)] {
        runtime().block_on(async {
            let (_directory, site, _sends) = begin(limits).await;
            let (_viewer, answer) = Viewer::watching(&site).await;
            let (_, offer) = Viewer::usual().await;
            let client = site.client();
            let refused = client.ask("POST", PATH, &[SDP], &offer).await;
            assert_eq!(refused.status, wanted, "{refused:?}");
            let port = site.server.webrtc().unwrap().port();
            assert_eq!(port.counts().refused.total(), 1);
            let location = answer.header("location").unwrap();
            client.ask("DELETE", location, &[], "").await;
            until("the place is free", || port.sessions() == 0).await;
            let (mut viewer, _) = Viewer::watching(&site).await;
            viewer.until("it connects", |it| it.is_connected).await;
        });
    }
}

#[test]
fn only_those_who_may_watch_the_camera_get_it() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let token = |cameras: &[&str], permission, sha256: &str| Token {
            name: "test".to_owned(),
            sha256: sha256.to_owned(),
            permissions: vec![permission],
            cameras: cameras.iter().map(|&name| name.to_owned()).collect(),
        };
        // The digests of `door`, `manage` and `yard`.
        let settings = Settings {
            tokens: vec![
                token(&["door"], Permission::Watch, DOOR),
                token(&["yard"], Permission::Manage, MANAGE),
                token(&["yard"], Permission::Watch, YARD),
            ],
            ..settings(webrtc::Settings::default())
        };
        let site = Site::begin(directory.path(), settings).await;
        let _camera = Camera::begin(&site.hub);
        let (_, offer) = Viewer::usual().await;
        for (secret, wanted) in [
            (None, 401),
            (Some("wrong"), 401),
            (Some("door"), 404),
            (Some("manage"), 403),
            (Some("yard"), 201),
        ] {
            let mut client = site.client();
            client.authorization = secret.map(|secret| format!("Bearer {secret}"));
            let answer = client.ask("POST", PATH, &[SDP], &offer).await;
            assert_eq!(answer.status, wanted, "{secret:?}: {answer:?}");
            if wanted == 201 {
                // Another who may not watch it cannot end it either.
                client.authorization = Some("Bearer door".to_owned());
                let location = answer.header("location").unwrap();
                let ended = client.ask("DELETE", location, &[], "").await;
                assert_eq!(ended.status, 404, "{ended:?}");
                client.authorization = Some("Bearer yard".to_owned());
                let ended = client.ask("DELETE", location, &[], "").await;
                assert_eq!(ended.status, 200, "{ended:?}");
            }
            let foreign = [SDP, ("origin", "https://elsewhere.example")];
            let answer = client.ask("POST", PATH, &foreign, &offer).await;
            assert_eq!(answer.status, 403, "{answer:?}");
        }
    });
}

const DOOR: &str = "2534e2de1dec24fedab4c00266b55ba9ba60dde03a349c5b5662189dd561ba9e";
const MANAGE: &str = "181229424893bb65d94a74c2132b8b9e5adfe851464fdb5cb9f49e8a8204be7b";
const YARD: &str = "7ae4b7c7678e3e292739a846d935aeaece6c47f3ffcadd88936f1d75f6d6b764";

#[test]
fn datagrams_of_nobody_are_counted_and_not_answered() {
    runtime().block_on(async {
        let (_directory, site, _sends) = begin(webrtc::Settings::default()).await;
        let (mut viewer, _) = Viewer::watching(&site).await;
        viewer.until("it connects", |it| it.is_connected).await;
        let port = site.server.webrtc().unwrap().port();
        let target: SocketAddr = port.candidates()[0];
        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        // A question for nobody, and what is no question.
        let mut question = vec![0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42];
        question.extend([7; 12]);
        question.extend([0, 6, 0, 3, b'a', b':', b'b', 0]);
        let before = port.counts().strange.total();
        for round in 1..=25 {
            for datagram in [&question[..], &[0x80, 96, 0, 1], &[22, 254, 253], &[]] {
                stranger.send_to(datagram, target).await.unwrap();
            }
            // Not more at a time than any socket's buffer holds.
            let all = || port.counts().strange.total() >= before + 4 * round;
            until("all are counted", all).await;
        }
        let mut buffer = [0; 64];
        assert!(stranger.try_peek(&mut buffer).is_err(), "it was answered");
        let had = viewer.packets.len();
        let goes_on = |it: &Viewer| it.packets.len() > had + 50;
        viewer.until("pictures go on", goes_on).await;
        assert_eq!(port.sessions(), 1);
    });
}

#[test]
fn a_session_stays_with_the_machine_that_it_was_agreed_with() {
    runtime().block_on(async {
        let (_directory, site, _sends) = begin(webrtc::Settings::default()).await;
        let (mut viewer, _) = Viewer::watching(&site).await;
        viewer.until("it connects", |it| it.is_connected).await;
        let port = site.server.webrtc().unwrap().port();
        let before = port.counts().strange.total();
        // Another address of this machine asks with the browser's own words.
        let other = UdpSocket::bind("127.0.0.2:0").await.unwrap();
        let target = port.candidates()[0];
        other.send_to(&viewer.question, target).await.unwrap();
        until("it is counted", || port.counts().strange.total() > before).await;
        let had = viewer.packets.len();
        viewer
            .until("pictures go on", |it| it.packets.len() > had + 50)
            .await;
        let mut buffer = [0; 64];
        assert!(other.try_peek(&mut buffer).is_err(), "it was answered");
    });
}
