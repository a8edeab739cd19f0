//! What browsers say: offers, and datagrams of those who do not know a session's secret.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cameras::media::{Codec, Law, Track};
use cameras::watch::webrtc::choice::Choice;
use cameras::watch::webrtc::offer::Offer;
use cameras::watch::webrtc::peer::{Identity, Peer};
use servers_common::properties::Property;
use str0m::IceCreds;
use str0m::config::DtlsCert;

/// An offer that is taken is answered with as many media as it has.
pub(crate) const OFFER: Property = Property::new("offer", offers, offer);
/// A stranger is sent nothing, and ends nothing.
pub(crate) const DATAGRAMS: Property = Property::new("datagrams", strange, datagrams);

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 8_189);
const USER: &str = "0123456789abcdef";
const FINGERPRINT: &str = "0E:4B:81:6C:3B:21:1F:B0:2C:5C:6D:1A:44:11:53:7C:\
    9B:0D:55:0E:61:A1:2A:5B:8E:13:7E:99:40:7A:1C:2D";

fn offered() -> String {
    format!(
        "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 8\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=ice-ufrag:abcd\r\n\
         a=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 {FINGERPRINT}\r\n\
         a=setup:actpass\r\na=recvonly\r\na=rtcp-mux\r\na=rtpmap:8 PCMA/8000\r\n\
         m=video 9 UDP/TLS/RTP/SAVPF 96 106 103\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\n\
         a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\n\
         a=fingerprint:sha-256 {FINGERPRINT}\r\na=setup:actpass\r\na=recvonly\r\na=rtcp-mux\r\n\
         a=rtpmap:96 VP8/90000\r\na=rtpmap:106 H264/90000\r\na=fmtp:106 \
         level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f\r\n\
         a=rtpmap:103 rtx/90000\r\na=fmtp:103 apt=106\r\n"
    )
}

fn offers() -> Vec<Vec<u8>> {
    let sound = offered();
    let video = sound.replace(
        "a=recvonly\r\na=rtcp-mux\r\na=rtpmap:8",
        "a=inactive\r\na=rtpmap:8",
    );
    vec![sound.into_bytes(), video.into_bytes()]
}

fn tracks() -> [Track; 2] {
    let track = |id, codec, clock_rate| Track {
        id,
        codec,
        clock_rate,
    };
    let [sps, pps] = [&[0x67, 0x42, 0, 0x1f][..], &[0x68]].map(Bytes::from_static);
    let law = Law::A;
    [
        track(0, Codec::H264 { sps, pps }, 90_000),
        track(1, Codec::G711 { law, channels: 1 }, 8_000),
    ]
}

fn identity() -> Identity {
    static CERTIFICATE: OnceLock<DtlsCert> = OnceLock::new();
    let certificate = CERTIFICATE.get_or_init(|| {
        let provider = str0m::crypto::from_feature_flags();
        let made = provider.dtls_provider.generate_certificate();
        made.expect("there are random numbers")
    });
    Identity {
        certificate: certificate.clone(),
        credentials: IceCreds {
            ufrag: USER.to_owned(),
            pass: "0123456789abcdef0123456789abcdef".to_owned(),
        },
    }
}

/// The peer and its answer. `None` if the offer is refused.
fn answered(text: &str, now: Instant) -> Option<(Peer, String)> {
    let choice = Choice::of(text, &tracks()).ok()?;
    let candidates = [SocketAddr::from(SERVER)];
    Peer::answer(&choice, identity(), &candidates, 1, now).ok()
}

fn offer(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let Some((_, answer)) = answered(text, Instant::now()) else {
        return false;
    };
    let [asked, told] = [text, &answer].map(|text| Offer::read(text).map(|it| it.sections.len()));
    assert_eq!(asked, told, "{text}: {answer}");
    true
}

/// Each behind its length, in one byte.
fn strange() -> Vec<Vec<u8>> {
    let mut question = vec![0, 1, 0, 32, 0x21, 0x12, 0xa4, 0x42];
    question.extend([7; 12]);
    question.extend([0, 6, 0, 21]);
    question.extend(format!("{USER}:abcd\0\0\0").into_bytes());
    question.extend([0, 0x25, 0, 0]);
    let hello = [
        &[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 1, 0, 0, 13][..],
        &[0; 4],
        &[0, 13, 0xfe, 0xfd],
        &[9; 9],
    ]
    .concat();
    let media = [0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3];
    let report = [0x81, 201, 0, 1, 0, 0, 0, 1];
    let all = [&question[..], &hello, &media, &report];
    let behind = |part: &&[u8]| [&[part.len() as u8], *part].concat();
    let mut seeds: Vec<Vec<u8>> = all.iter().map(behind).collect();
    seeds.push(seeds.concat());
    seeds
}

fn datagrams(bytes: &[u8]) -> bool {
    let mut now = Instant::now();
    let (mut peer, _) = answered(&offered(), now).expect("the offer is good");
    let mut told = Vec::new();
    let mut rest = bytes;
    let mut is_taken = false;
    while let Some((&len, after)) = rest.split_first() {
        let (datagram, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        now += Duration::from_millis(10);
        let source = SocketAddr::from(([198, 51, 100, 2], 4_000));
        let received = peer.receive(now, source, datagram);
        assert!(received.is_ok(), "{}: {received:?}", bytes.escape_ascii());
        let is_for_us = received.is_ok_and(|is_for_us| is_for_us);
        assert!(!is_for_us, "{}", bytes.escape_ascii());
        is_taken = true;
        let turned = peer.turn(now, &mut told);
        assert!(turned.is_ok(), "{}: {turned:?}", bytes.escape_ascii());
        assert!(told.is_empty(), "{}: {told:?}", bytes.escape_ascii());
        assert!(peer.is_alive());
    }
    is_taken
}
