//! What is said by RTSP, by both sides.

use std::sync::Arc;

use bytes::Bytes;
use cameras::hub::TRACKS_MAX;
use cameras::media::{Codec, Law, Track};
use cameras::rtsp::auth::{Algorithm, Answering, Checking, Credentials};
use cameras::rtsp::client::Wanted;
use cameras::rtsp::server::{Action, Directory, Found, Permission, REALM, Server};
use cameras::rtsp::wire::{BODY_MAX, HEAD_MAX};
use cameras::rtsp::{Client, Frame, Step, Wire};
use rtsp_types::{Message, Request, Response, Url, headers};
use servers_common::properties::{Property, chosen};

/// A stream is taken apart alike however it is cut, and within bounds.
pub(crate) const WIRE: Property = Property::new("wire", streams, wire);
/// A client has one answer to each request, and nothing that it may not have.
pub(crate) const SERVER: Property = Property::new("server", requests, server);
/// A camera has one request for each answer at most, and learns no password.
pub(crate) const CLIENT: Property = Property::new("client", answers, client);
/// Nobody gets in without a password.
pub(crate) const PASSWORDS: Property = Property::new("passwords", challenges, passwords);

const SDP: &str = "v=0\r\ns=x\r\na=control:*\r\nm=video 0 RTP/AVP 96\r\n\
    a=rtpmap:96 H264/90000\r\na=control:track1\r\nm=audio 0 RTP/AVP 0\r\na=control:track2\r\n";

/// Each behind one byte, by which a property chooses.
fn streams() -> Vec<Vec<u8>> {
    [requests(), answers()].concat()
}

fn message(line: &str, more: &str, body: &str) -> String {
    let length = match body.len() {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    format!("{line}\r\nCSeq: 7\r\n{more}{length}\r\n{body}")
}

fn requests() -> Vec<Vec<u8>> {
    let ask = |method: &str, path: &str, more: &str, body: &str| {
        message(
            &format!("{method} rtsp://192.0.2.1/{path} RTSP/1.0"),
            more,
            body,
        )
    };
    let tcp = "Transport: RTP/AVP/TCP;unicast;interleaved=4-5\r\n";
    let udp = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
    let views = [
        ask("DESCRIBE", "gate", "Accept: application/sdp\r\n", ""),
        ask("SETUP", "gate/trackID=1", tcp, ""),
        ask("SETUP", "gate/trackID=0", udp, ""),
        ask("PLAY", "gate", "Range: npt=0.000-\r\n", ""),
        "$\x04\0\x03abc".to_owned(),
        ask("GET_PARAMETER", "gate", "", ""),
        ask("PAUSE", "gate", "", ""),
        ask("TEARDOWN", "gate", "", ""),
    ];
    let publishes = [
        "\r\nOPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_owned(),
        ask("ANNOUNCE", "yard", "Content-Type: application/sdp\r\n", SDP),
        ask("SETUP", "yard/track1", tcp, ""),
        ask(
            "SETUP",
            "yard/track2",
            "Transport: RTP/AVP/TCP;mode=record\r\n",
            "",
        ),
        ask("RECORD", "yard", "", ""),
    ];
    [views.concat(), publishes.concat()]
        .iter()
        .flat_map(|text| [0, 1].map(|first| [&[first], text.as_bytes()].concat()))
        .collect()
}

fn answers() -> Vec<Vec<u8>> {
    let good = |more: &str, body: &str| message("RTSP/1.0 200 OK", more, body);
    let refused = |challenge: &str| {
        let more = format!("WWW-Authenticate: {challenge}\r\n");
        message("RTSP/1.0 401 Unauthorized", &more, "")
    };
    let session = [
        refused("Digest realm=\"c\", nonce=\"n\", algorithm=MD5"),
        good("Public: DESCRIBE, GET_PARAMETER\r\n", ""),
        good("Content-Base: rtsp://192.0.2.1/base\r\n", SDP),
        good(
            "Transport: RTP/AVP/TCP;interleaved=0-1\r\nSession: ab;timeout=20\r\n",
            "",
        ),
        good("Transport: RTP/AVP/TCP;unicast\r\n", ""),
        good("Session: ab\r\n", ""),
        "$\0\0\x04abcd".to_owned(),
        good("", ""),
    ];
    let moved = "Location: rtsp://192.0.2.1:8554/b\r\n";
    let elsewhere = [
        message("RTSP/1.0 302 Found", moved, ""),
        refused("Basic realm=\"c\""),
        good("", ""),
    ];
    [session.concat(), elsewhere.concat()]
        .map(|text| [&[0], text.as_bytes()].concat())
        .to_vec()
}

/// The frames of a stream that comes in these parts, and whether it can be read on.
fn frames(parts: &[&[u8]]) -> (Vec<Frame>, bool) {
    let (mut wire, mut frames) = (Wire::default(), Vec::new());
    for part in parts {
        wire.buffer().extend_from_slice(part);
        loop {
            match wire.frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, false),
            }
        }
        assert!(wire.buffer().len() <= HEAD_MAX + BODY_MAX);
    }
    (frames, true)
}

fn written(message: &Message<Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes).expect("memory takes all");
    bytes
}

/// Its lines, without spaces at their ends, of which the library keeps some.
fn lines(message: &Message<Vec<u8>>) -> Vec<Vec<u8>> {
    let bytes = written(message);
    let lines = bytes.split(|&byte| byte == b'\n');
    lines.map(|line| line.trim_ascii_end().to_vec()).collect()
}

fn same(one: &Frame, two: &Frame) -> bool {
    match (one, two) {
        (
            Frame::Packet { channel, bytes },
            Frame::Packet {
                channel: other,
                bytes: others,
            },
        ) => (channel, bytes) == (other, others),
        (Frame::Message(one), Frame::Message(two)) => lines(one) == lines(two),
        _ => false,
    }
}

fn wire(bytes: &[u8]) -> bool {
    let Some((_, bytes)) = bytes.split_first() else {
        return false;
    };
    let (whole, is_good) = frames(&[bytes]);
    let (one, rest) = bytes.split_at(chosen(bytes, bytes.len() + 1));
    let (two, three) = rest.split_at(chosen(one, rest.len() + 1));
    let (cut, is_good_cut) = frames(&[one, two, three]);
    let shown = bytes.escape_ascii();
    assert_eq!(is_good, is_good_cut, "{shown}: {whole:?}, {cut:?}");
    assert_eq!(whole.len(), cut.len(), "{shown}: {whole:?}, {cut:?}");
    assert!(
        whole.iter().zip(&cut).all(|(whole, cut)| same(whole, cut)),
        "{shown}"
    );
    for frame in &whole {
        if let Frame::Message(message) = frame
            && says_its_length(message)
        {
            let again = written(message);
            let (again, is_good) = frames(&[&again]);
            let is_same = matches!(&again[..], [again] if same(again, frame));
            assert!(is_good && is_same, "{shown}: {message:?}, {again:?}");
        }
    }
    !whole.is_empty()
}

/// Whether the headers of a message have the length of its body. The library puts headers together
/// of which one's name begins with that of the other, and their values.
fn says_its_length(message: &Message<Vec<u8>>) -> bool {
    let (header, body) = match message {
        Message::Request(request) => (request.header(&headers::CONTENT_LENGTH), request.body()),
        Message::Response(response) => (response.header(&headers::CONTENT_LENGTH), response.body()),
        Message::Data(_) => return false,
    };
    let said = header.map_or(Some(0), |header| header.as_str().parse().ok());
    said == Some(body.len())
}

struct Known {
    is_open: bool,
}

impl Directory for Known {
    fn is_open(&self) -> bool {
        self.is_open
    }

    fn password(&self, user: &str) -> Option<String> {
        (user == "user").then(|| "as long as this".to_owned())
    }

    fn may(&self, _user: &str, _camera: &str, _what: Permission) -> bool {
        true
    }

    fn find(&self, camera: &str) -> Found {
        match camera {
            "gate" => Found::Tracks(tracks()),
            "yard" => Found::Silent,
            _ => Found::Unknown,
        }
    }

    fn datagrams(&self) -> Option<(u16, u16)> {
        Some((8_000, 8_001))
    }

    fn takes_publishers(&self, _camera: &str) -> bool {
        true
    }
}

fn tracks() -> Arc<[Track]> {
    let track = |id, codec, clock_rate| Track {
        id,
        codec,
        clock_rate,
    };
    let [sps, pps] = [&[0x67, 0x42, 0, 0x1f][..], &[0x68, 2]].map(Bytes::from_static);
    let law = Law::A;
    [
        track(0, Codec::H264 { sps, pps }, 90_000),
        track(1, Codec::G711 { law, channels: 1 }, 8_000),
    ]
    .into()
}

fn server(bytes: &[u8]) -> bool {
    let Some((&first, bytes)) = bytes.split_first() else {
        return false;
    };
    let directory = Known {
        is_open: first & 1 == 0,
    };
    let mut server = Server::new([first; 16], 1);
    let mut is_answered = false;
    for frame in frames(&[bytes]).0 {
        let Frame::Message(Message::Request(request)) = frame else {
            continue;
        };
        if server.wants_ports(&request, &directory) {
            server.offer_ports((9_000, 9_001));
        }
        let reply = server.request(&request, &directory);
        is_answered = true;
        check_reply(&request, &reply.bytes);
        match &reply.action {
            Action::Play { set_up, .. } | Action::Record { set_up, .. } => {
                assert!(directory.is_open, "{request:?}");
                let mut tracks: Vec<_> = set_up.iter().map(|set_up| set_up.track).collect();
                let channels = set_up.iter().flat_map(|set_up| {
                    let (data, reports) = set_up.channels;
                    [data, reports]
                });
                let mut channels: Vec<_> = channels.collect();
                let all = (tracks.len(), channels.len());
                tracks.sort_unstable();
                tracks.dedup();
                channels.sort_unstable();
                channels.dedup();
                assert_eq!((tracks.len(), channels.len()), all, "{set_up:?}");
                assert!((1..=TRACKS_MAX).contains(&tracks.len()));
            }
            Action::End => break,
            Action::None | Action::Pause => {}
        }
    }
    is_answered
}

/// It is one message, with the request's number.
fn check_reply(request: &Request<Vec<u8>>, bytes: &[u8]) {
    let shown = bytes.escape_ascii();
    let reply = match Message::<Vec<u8>>::parse(bytes) {
        Ok((Message::Response(reply), used)) if used == bytes.len() => reply,
        other => panic!("{request:?}: {shown}: {other:?}"),
    };
    let number = request.header(&headers::CSEQ).map(|number| number.as_str());
    let answered = reply.header(&headers::CSEQ).map(|number| number.as_str());
    assert_eq!(
        answered,
        Some(number.unwrap_or("0")),
        "{request:?}: {shown}"
    );
    let asked = written(&Message::Request(request.clone())).len();
    assert!(bytes.len() <= 4_096 + 2 * asked, "{request:?}: {shown}");
}

/// What no camera may learn but by basic authentication, where it is not readable at once.
const SECRET: &str = "a-secret-of-ours";

fn client(bytes: &[u8]) -> bool {
    let Some((&first, bytes)) = bytes.split_first() else {
        return false;
    };
    let credentials = Credentials {
        user: "user".to_owned(),
        password: SECRET.to_owned(),
    };
    let url = Url::parse("rtsp://192.0.2.1/live?channel=1").expect("it is one");
    let mut client = Client::new(url, Some(credentials), [7; 8]);
    check_request(&client.begin());
    let mut is_taken = false;
    for frame in frames(&[bytes]).0 {
        let Frame::Message(Message::Response(response)) = frame else {
            continue;
        };
        match answered(&mut client, &response, first & 1 == 1) {
            Some(request) => check_request(&request),
            None => break,
        }
        is_taken = true;
    }
    if let Some(request) = client.tear_down() {
        check_request(&request);
    }
    is_taken
}

/// The next request; `None` if the session is over.
fn answered(client: &mut Client, answer: &Response<Vec<u8>>, is_udp: bool) -> Option<Vec<u8>> {
    match client.answer(answer).ok()? {
        Step::Send(bytes) => Some(bytes),
        Step::Described(description) => {
            assert!((1..=TRACKS_MAX).contains(&description.offers.len()));
            let wanted = match is_udp {
                true => Wanted::Udp(
                    (0..)
                        .map(|pair| 6_000 + 2 * pair)
                        .take(TRACKS_MAX)
                        .collect(),
                ),
                false => Wanted::Tcp,
            };
            client.set_up(&description, &wanted).ok()
        }
        Step::Redirect(url) => client.redirected(url).ok(),
        Step::Playing(playing) => {
            assert!(playing.keep_alive.as_secs() >= 2, "{playing:?}");
            Some(client.keep_alive())
        }
        Step::Alive => Some(client.keep_alive()),
    }
}

/// It is one request, whose headers are ours.
fn check_request(bytes: &[u8]) {
    let shown = bytes.escape_ascii();
    let request = match Message::<Vec<u8>>::parse(bytes) {
        Ok((Message::Request(request), used)) if used == bytes.len() => request,
        other => panic!("{shown}: {other:?}"),
    };
    assert!(request.headers().count() <= 5, "{shown}");
    let is_told = bytes
        .windows(SECRET.len())
        .any(|part| part == SECRET.as_bytes());
    assert!(!is_told, "{shown}");
}

fn challenges() -> Vec<Vec<u8>> {
    let checking = Checking::new(REALM, [3; 16]);
    let mut all = vec![
        checking.basic_challenge(),
        checking.challenge(Algorithm::Md5),
        checking.challenge(Algorithm::Sha256),
        "Basic realm=\"a, b\", Digest realm=\"c\\\"d\", nonce=n, opaque=\"\", stale=TRUE"
            .to_owned(),
    ];
    let digest = Answering::best(&all[1]).map(|mut answering| {
        let wrong = Credentials {
            user: "user".to_owned(),
            password: "wrong".to_owned(),
        };
        answering.authorization(&wrong, "DESCRIBE", "rtsp://192.0.2.1/gate", "cnonce")
    });
    all.extend(digest);
    all.into_iter().map(String::into_bytes).collect()
}

fn passwords(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let checking = Checking::new(REALM, [3; 16]);
    let known = |user: &str| (user == "user").then(|| SECRET.to_owned());
    let got_in = checking.check(Some(text), "DESCRIBE", known);
    assert!(got_in.is_err(), "{text:?}: {got_in:?}");
    let _ = Answering::is_stale(text);
    let Some(mut answering) = Answering::best(text) else {
        return false;
    };
    let credentials = Credentials {
        user: "user".to_owned(),
        password: SECRET.to_owned(),
    };
    let answer = answering.authorization(&credentials, "DESCRIBE", "rtsp://a/b", "cnonce");
    assert!(
        answer.len() <= 1_000 + 2 * text.len(),
        "{text:?}: {answer:?}"
    );
    assert!(!answer.contains(SECRET), "{text:?}: {answer:?}");
    // What we answer to a challenge of ours, however it is written, gets in.
    let is_ours = text == checking.basic_challenge()
        || text == checking.challenge(Algorithm::Md5)
        || text == checking.challenge(Algorithm::Sha256);
    let got_in = checking.check(Some(&answer), "DESCRIBE", known);
    assert!(
        !is_ours || got_in == Ok("user".to_owned()),
        "{text:?}: {answer:?}"
    );
    true
}
