//! What clients are answered, and when media begin.

use rtsp_types::{Message, Url};

use super::*;
use crate::media::Codec;

struct One {
    is_live: bool,
}

impl Directory for One {
    fn is_open(&self) -> bool {
        true
    }

    fn password(&self, _user: &str) -> Option<String> {
        None
    }

    fn may(&self, _user: &str, _camera: &str, _what: Permission) -> bool {
        false
    }

    fn find(&self, camera: &str) -> Found {
        match (camera, self.is_live) {
            ("gate", true) => Found::Tracks(tracks()),
            ("gate", false) => Found::Silent,
            _ => Found::Unknown,
        }
    }

    fn takes_publishers(&self, _camera: &str) -> bool {
        true
    }
}

fn tracks() -> Arc<[Track]> {
    let of = |id| Track {
        id,
        codec: Codec::Opus { channels: 1 },
        clock_rate: 48_000,
    };
    [of(0), of(1)].into()
}

fn ask(
    server: &mut Server,
    is_live: bool,
    method: Method,
    path: &str,
    more: &str,
) -> (u16, Action) {
    let url = Url::parse(&format!("rtsp://127.0.0.1/{path}")).unwrap();
    let mut request = Request::builder(method, Version::V1_0)
        .request_uri(url)
        .header(headers::CSEQ, "3");
    if more.starts_with("RTP") {
        request = request.header(headers::TRANSPORT, more);
    }
    let body = if more.starts_with("v=") { more } else { "" };
    let reply = server.request(&request.build(body.as_bytes().to_vec()), &One { is_live });
    match Message::<Vec<u8>>::parse(&reply.bytes) {
        Ok((Message::Response(response), used)) if used == reply.bytes.len() => {
            let cseq = response.header(&headers::CSEQ).unwrap();
            assert_eq!(cseq.as_str(), "3");
            (response.status().into(), reply.action)
        }
        other => panic!("{other:?}"),
    }
}

const TCP: &str = "RTP/AVP/TCP;unicast;interleaved=4-5";

#[test]
fn a_viewer_sets_up_what_it_wants() {
    let mut server = Server::new([0; 16], 1);
    assert_eq!(
        ask(&mut server, true, Method::Setup, "gate/trackID=1", TCP).0,
        200
    );
    // Neither the same track twice nor the same channels.
    assert_eq!(
        ask(&mut server, true, Method::Setup, "gate/trackID=1", TCP).0,
        404
    );
    assert_eq!(
        ask(&mut server, true, Method::Setup, "gate/trackID=0", TCP).0,
        461
    );
    // Nor one of them.
    for one in ["3-4", "5-6", "5-4", "7-7"] {
        let way = format!("RTP/AVP/TCP;interleaved={one}");
        assert_eq!(
            ask(&mut server, true, Method::Setup, "gate/trackID=0", &way).0,
            461,
            "{one}"
        );
    }
    assert_eq!(ask(&mut server, true, Method::Setup, "gate", TCP).0, 404);
    let other = "RTP/AVP/TCP;interleaved=0-1";
    assert_eq!(
        ask(&mut server, true, Method::Setup, "gate/trackID=0", other).0,
        200
    );
    let (status, action) = ask(&mut server, true, Method::Play, "gate", "");
    assert_eq!(status, 200);
    let Action::Play { camera, set_up, .. } = action else {
        panic!("{action:?}");
    };
    assert_eq!(camera, "gate");
    let of = |track, channels| SetUp {
        track,
        channels,
        ports: None,
        receives: None,
    };
    assert_eq!(set_up, [of(1, (4, 5)), of(0, (0, 1))]);
    assert_eq!(
        ask(&mut server, true, Method::Setup, "gate/trackID=0", other).0,
        455
    );
    assert_eq!(
        ask(&mut server, true, Method::Play, "gate", ""),
        (200, Action::None)
    );
    assert_eq!(
        ask(&mut server, true, Method::Pause, "gate", ""),
        (200, Action::Pause)
    );
    assert!(matches!(
        ask(&mut server, true, Method::Play, "gate", "").1,
        Action::Play { .. }
    ));
    assert_eq!(
        ask(&mut server, true, Method::Teardown, "gate", ""),
        (200, Action::End)
    );
}

#[test]
fn a_session_is_of_one_camera_and_of_one_sort() {
    let sdp = "v=0\r\ns=x\r\nm=audio 0 RTP/AVP 0\r\na=control:streamid=0\r\n";
    let mut server = Server::new([0; 16], 1);
    assert_eq!(
        ask(&mut server, false, Method::Setup, "gate/trackID=0", TCP).0,
        404
    );
    assert_eq!(
        ask(&mut server, false, Method::Announce, "gate", sdp).0,
        200
    );
    assert_eq!(
        ask(&mut server, false, Method::Announce, "gate", sdp).0,
        455
    );
    assert_eq!(ask(&mut server, false, Method::Record, "gate", "").0, 455);
    assert_eq!(
        ask(&mut server, false, Method::Setup, "yard/streamid=0", TCP).0,
        455
    );
    assert_eq!(
        ask(&mut server, false, Method::Setup, "gate/streamid=0", TCP).0,
        200
    );
    assert_eq!(ask(&mut server, false, Method::Play, "gate", "").0, 455);
    let (status, action) = ask(&mut server, false, Method::Record, "gate", "");
    assert_eq!(status, 200);
    assert!(matches!(action, Action::Record { .. }), "{action:?}");
    assert_eq!(ask(&mut server, false, Method::Record, "gate", "").0, 455);
}
