//! WHEP by a client that is no browser, over real sockets.

mod media;
mod viewer;

use std::net::SocketAddr;
use std::time::Duration;

use cameras::watch::Settings;
use cameras::watch::server::check;
use cameras::watch::settings::{Permission, Token};
use cameras::watch::webrtc;
use evenkeel::net::UdpSocket;
use str0m::RtcConfig;
use str0m::media::MediaKind;

use crate::support::{Site, Stops, runtime, until};
use viewer::{Camera, SPS, Viewer, h264};

const PATH: &str = "/api/cameras/yard/whep";
const SDP: (&str, &str) = ("content-type", "application/sdp");
const FRAGMENT: (&str, &str) = ("content-type", "application/trickle-ice-sdpfrag");
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

/// A server with a camera that sends all the time.
async fn begin(webrtc: webrtc::Settings) -> (tempfile::TempDir, Site, Stops) {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::begin(directory.path(), settings(webrtc)).await;
    let mut camera = Camera::begin(&site.hub);
    camera.send();
    let sends = camera.keep_sending(Duration::from_millis(4));
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
        let is_enough = |it: &Viewer| it.packets.len() > 200 && it.sound().len() > 20;
        viewer.until("pictures and sound come", is_enough).await;
        let first = viewer.packets.iter().find(|it| viewer::is_video(it));
        let first = &first.unwrap().payload;
        assert_eq!(**first, *SPS, "the parameter sets are first");

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
fn who_may_not_watch_any_more_is_sent_nothing() {
    runtime().block_on(async {
        let (_directory, site, _sends) = begin(webrtc::Settings::default()).await;
        let (mut viewer, _) = Viewer::watching(&site).await;
        let is_enough = |it: &Viewer| it.packets.len() > 20;
        viewer.until("pictures come", is_enough).await;
        // From now on a token is needed, which it has not.
        let token = Token {
            name: "guard".to_owned(),
            sha256: "00".repeat(32),
            permissions: vec![Permission::Watch],
            cameras: Vec::new(),
        };
        let settings = Settings {
            tokens: vec![token],
            ..Settings::default()
        };
        let (_, gate) = check(&settings).unwrap();
        site.server.gate().become_like(&gate);
        viewer.until("it is told", |it| it.is_closed).await;
        let port = site.server.webrtc().unwrap().port();
        until("its place is free", || port.sessions() == 0).await;
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
        let early = client.ask("POST", PATH, &[SDP], &offer).await;
        assert_eq!(
            (early.status, early.header("retry-after")),
            (409, Some("5"))
        );
        assert!(early.text().contains("live"), "{early:?}");
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
                422,
            ),
            (SDP, &offer.replace("a=fingerprint", "a=print"), 400),
            (SDP, &offer.replace("a=ice-ufrag", "a=ice-frag"), 400),
            (SDP, &offer.replace("a=recvonly", "a=sendonly"), 422),
        ] {
            let (status, error) = post(PATH, kind, body).await;
            assert_eq!(status, wanted, "{error}");
            assert!(error.len() > 20 && !error.contains("0x"), "{error}");
        }
        let only_vp8 = RtcConfig::new().clear_codecs().enable_vp8(true);
        let (_, offer_of_vp8) = Viewer::offering(&[MediaKind::Video], only_vp8).await;
        let (status, error) = post(PATH, SDP, &offer_of_vp8).await;
        assert_eq!((status, error.contains("VP8")), (422, true), "{error}");
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
    });
}

/// As clients find out what is at an address.
#[test]
fn other_methods_say_what_is_there() {
    runtime().block_on(async {
        let (_directory, site, _sends) = begin(webrtc::Settings::default()).await;
        let (_viewer, answer) = Viewer::watching(&site).await;
        let session = answer.header("location").unwrap();
        let nobodys = format!("{PATH}/00");
        for (method, path, wanted, kind) in [
            ("OPTIONS", PATH, 200, None),
            ("GET", PATH, 200, Some("application/sdp")),
            ("HEAD", PATH, 200, Some("application/sdp")),
            ("PUT", PATH, 405, Some("application/json")),
            ("DELETE", PATH, 405, Some("application/json")),
            ("GET", session, 204, None),
            ("HEAD", session, 204, None),
            ("GET", &nobodys, 404, Some("application/json")),
            ("POST", session, 405, Some("application/json")),
        ] {
            let said = site.client().ask(method, path, &[], "").await;
            let found = (said.status, said.header("content-type"));
            assert_eq!(found, (wanted, kind), "{method} {path}: {said:?}");
            assert!(wanted >= 400 || said.body.is_empty(), "{said:?}");
            if path == PATH && wanted == 200 {
                assert_eq!(said.header("accept-post"), Some("application/sdp"));
            }
        }
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
            assert_eq!(refused.header("retry-after"), Some("5"));
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

#[test]
fn pages_of_other_servers_watch_if_they_are_named_and_without_cookies() {
    runtime().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let token = Token {
            name: "yard".to_owned(),
            sha256: YARD.to_owned(),
            permissions: vec![Permission::Watch],
            cameras: Vec::new(),
        };
        let settings = Settings {
            tokens: vec![token],
            ..settings(webrtc::Settings {
                origins: vec![PAGE.to_owned()],
                ..webrtc::Settings::default()
            })
        };
        let site = Site::begin(directory.path(), settings).await;
        let _camera = Camera::begin(&site.hub);
        let (_, offer) = Viewer::usual().await;
        let (page, stranger) = (("origin", PAGE), ("origin", "https://elsewhere.example"));
        let elsewhere = ("sec-fetch-site", "cross-site");
        let asks = ("access-control-request-method", "POST");
        let by_cookie = ("cookie", "evenkeel-cameras=yard");
        let by_token = ("authorization", "Bearer yard");
        let shown = "access-control-allow-origin";
        for (method, path, headers, wanted) in [
            ("OPTIONS", PATH, &[page, elsewhere, asks][..], 200),
            ("POST", PATH, &[page, elsewhere, SDP, by_token], 201),
            ("POST", PATH, &[page, elsewhere, SDP, by_cookie], 401),
            ("OPTIONS", PATH, &[stranger, elsewhere, asks], 403),
            ("POST", PATH, &[stranger, elsewhere, SDP, by_token], 403),
            ("POST", "/api/reload", &[page, elsewhere, by_token], 403),
        ] {
            let answer = site.client().ask(method, path, headers, &offer).await;
            assert_eq!(answer.status, wanted, "{headers:?}: {answer:?}");
            let is_for_page = headers[0] == page && path == PATH;
            assert_eq!(
                answer.header(shown),
                is_for_page.then_some(PAGE),
                "{answer:?}"
            );
            if method == "OPTIONS" && is_for_page {
                let methods = answer.header("access-control-allow-methods").unwrap();
                assert!(
                    methods.contains("POST") && methods.contains("DELETE"),
                    "{methods}"
                );
                let headers = answer.header("access-control-allow-headers").unwrap();
                assert!(headers.contains("authorization"), "{headers}");
            }
            if wanted == 201 {
                let told = answer.header("access-control-expose-headers").unwrap();
                assert!(told.contains("location"), "{told}");
            }
        }
    });
}

const PAGE: &str = "https://player.example";
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
