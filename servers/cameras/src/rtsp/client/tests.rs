//! What is asked, by what cameras answer.

use rtsp_types::Message;

use super::*;

const SDP: &str = "v=0\r\ns=x\r\na=control:*\r\n\
    m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track1\r\n\
    m=audio 0 RTP/AVP 0\r\na=control:track2\r\n";

fn response(text: &str) -> Response<Vec<u8>> {
    let text = text.replace('\n', "\r\n") + "\r\n";
    match Message::parse(text.as_bytes()) {
        Ok((Message::Response(response), _)) => response,
        other => panic!("{other:?}"),
    }
}

fn described() -> Response<Vec<u8>> {
    let len = SDP.len();
    let head = format!(
        "RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Base: rtsp://192.0.2.1/base\r\n\
         Content-Length: {len}\r\n\r\n{SDP}"
    );
    match Message::parse(head.as_bytes()) {
        Ok((Message::Response(response), _)) => response,
        other => panic!("{other:?}"),
    }
}

fn client(url: &str) -> Client {
    let mut client = Client::new(Url::parse(url).unwrap(), None, [7; 8]);
    client.begin();
    client
}

fn sent(step: Step) -> String {
    match step {
        Step::Send(bytes) => String::from_utf8(bytes).unwrap(),
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_session_is_asked_for_step_by_step() {
    let url = "rtsp://192.0.2.1/live?channel=1";
    let mut client = Client::new(Url::parse(url).unwrap(), None, [0; 8]);
    let first = String::from_utf8(client.begin()).unwrap();
    assert!(
        first.starts_with("OPTIONS rtsp://192.0.2.1/live?channel=1 RTSP/1.0\r\n"),
        "{first}"
    );
    let options = response("RTSP/1.0 200 OK\nCSeq: 1\nPublic: DESCRIBE, GET_PARAMETER\n");
    let describe = sent(client.answer(&options).unwrap());
    assert!(describe.starts_with("DESCRIBE ") && describe.contains("application/sdp"));
    let Step::Described(description) = client.answer(&described()).unwrap() else {
        panic!("it is described");
    };
    let set_up = client.set_up(&description, &Wanted::Tcp).unwrap();
    let set_up = String::from_utf8(set_up).unwrap();
    assert!(
        set_up.starts_with("SETUP rtsp://192.0.2.1/base/track1 "),
        "{set_up}"
    );
    assert!(
        set_up.contains("RTP/AVP/TCP;unicast;interleaved=0-1"),
        "{set_up}"
    );
    // This one chooses other channels for the first track, and says none for the second.
    let agreed = response(
        "RTSP/1.0 200 OK\nTransport: RTP/AVP/TCP;interleaved=8-9\nSession: ab;timeout=20\n",
    );
    let second = sent(client.answer(&agreed).unwrap());
    assert!(
        second.starts_with("SETUP rtsp://192.0.2.1/base/track2 "),
        "{second}"
    );
    assert!(second.contains("Session: ab\r\n"), "{second}");
    let agreed = response("RTSP/1.0 200 OK\nTransport: RTP/AVP/TCP;unicast\n");
    let play = sent(client.answer(&agreed).unwrap());
    assert!(play.starts_with("PLAY rtsp://192.0.2.1/base "), "{play}");
    let Step::Playing(playing) = client.answer(&response("RTSP/1.0 200 OK\n")).unwrap() else {
        panic!("it plays");
    };
    assert_eq!(playing.keep_alive, Duration::from_secs(10));
    let channels: Vec<_> = playing
        .transports
        .iter()
        .map(|way| way.interleaved)
        .collect();
    assert_eq!(channels, [Some((8, 9)), Some((2, 3))]);
    let alive = String::from_utf8(client.keep_alive()).unwrap();
    assert!(alive.starts_with("GET_PARAMETER "), "{alive}");
    let refused = response("RTSP/1.0 451 Parameter Not Understood\n");
    assert!(matches!(client.answer(&refused), Ok(Step::Alive)));
    let end = String::from_utf8(client.tear_down().unwrap()).unwrap();
    assert!(end.starts_with("TEARDOWN "), "{end}");
}

#[test]
fn credentials_are_given_when_they_are_asked_for() {
    let challenge =
        response("RTSP/1.0 401 Unauthorized\nWWW-Authenticate: Digest realm=\"c\", nonce=\"n\"\n");
    let mut anonymous = client("rtsp://192.0.2.1/a");
    let refused = anonymous.answer(&challenge);
    assert_eq!(refused.unwrap_err(), ClientError::Credentials);
    let mut client = client("rtsp://us%40er:pass@192.0.2.1/a");
    let again = sent(client.answer(&challenge).unwrap());
    assert!(again.starts_with("OPTIONS rtsp://192.0.2.1/a "), "{again}");
    assert!(again.contains("username=\"us@er\""), "{again}");
    assert!(!again.contains("pass"), "{again}");
    // A second refusal is one of these credentials, unless only the nonce is too old.
    let stale = response(
        "RTSP/1.0 401 Unauthorized\n\
         WWW-Authenticate: Digest realm=\"c\", nonce=\"m\", stale=true\n",
    );
    assert!(sent(client.answer(&stale).unwrap()).contains("nonce=\"m\""));
    let refused = client.answer(&challenge);
    assert_eq!(
        refused.unwrap_err(),
        ClientError::Refused("us@er".to_owned())
    );
}

#[test]
fn addresses_that_a_camera_makes_up_are_no_words_of_requests() {
    let text = String::from_utf8(described_at("seq: 7://192.0.2.1/base")).unwrap();
    assert!(
        text.starts_with("SETUP rtsp://192.0.2.1/a RTSP/1.0\r\n"),
        "{text}"
    );
}

/// What follows a description whose base this is.
fn described_at(base: &str) -> Vec<u8> {
    let mut client = client("rtsp://192.0.2.1/a");
    client.answer(&response("RTSP/1.0 200 OK\n")).unwrap();
    let len = SDP.len();
    let head =
        format!("RTSP/1.0 200 OK\r\nContent-Base: {base}\r\nContent-Length: {len}\r\n\r\n{SDP}");
    let Ok((Message::Response(described), _)) = Message::parse(head.as_bytes()) else {
        panic!("{head} is an answer");
    };
    let Step::Described(description) = client.answer(&described).unwrap() else {
        panic!("it is described");
    };
    client.set_up(&description, &Wanted::Tcp).unwrap()
}

/// A camera whose nonces are stale at once does not keep us asking for ever.
#[test]
fn stale_nonces_have_an_end() {
    let mut client = client("rtsp://u:p@192.0.2.1/a");
    let stale = response(
        "RTSP/1.0 401 Unauthorized\n\
         WWW-Authenticate: Digest realm=\"c\", nonce=\"m\", stale=true\n",
    );
    let refused = (0..10).find_map(|_| client.answer(&stale).err());
    assert_eq!(refused, Some(ClientError::Refused("u".to_owned())));
}

#[test]
fn redirects_are_followed_a_few_times_and_passwords_stay_with_their_host() {
    let mut client = client("rtsp://u:secret@192.0.2.1/a");
    let moved = |to: &str| response(&format!("RTSP/1.0 302 Found\nLocation: {to}\n"));
    let Step::Redirect(url) = client.answer(&moved("rtsp://192.0.2.1:8554/b")).unwrap() else {
        panic!("it is a redirect");
    };
    client.redirected(url).unwrap();
    let challenge = response("RTSP/1.0 401 Unauthorized\nWWW-Authenticate: Basic realm=\"c\"\n");
    assert!(sent(client.answer(&challenge).unwrap()).contains("Authorization: Basic"));
    client
        .redirected(Url::parse("rtsp://192.0.2.9/").unwrap())
        .unwrap();
    assert_eq!(
        client.answer(&challenge).unwrap_err(),
        ClientError::Credentials
    );
    for nowhere in ["http://192.0.2.1/", "", "nowhere"] {
        let refused = client.answer(&moved(nowhere)).unwrap_err();
        assert_eq!(refused, ClientError::Location(nowhere.to_owned()));
    }
    let again = Url::parse("rtsp://192.0.2.9/").unwrap();
    let refused = (0..9).find_map(|_| client.redirected(again.clone()).err());
    assert!(matches!(refused, Some(ClientError::Redirects(_))));
}

#[test]
fn refusals_say_what_to_do() {
    let mut client = client("rtsp://192.0.2.1/a");
    // OPTIONS may be refused.
    client
        .answer(&response("RTSP/1.0 405 Method Not Allowed\n"))
        .unwrap();
    let refused = client
        .answer(&response("RTSP/1.0 404 Not Found\n"))
        .unwrap_err();
    let said = refused.to_string();
    assert_eq!(
        said,
        "the camera answers DESCRIBE with 404 Not Found; is the path in the url right?"
    );
}

#[test]
fn names_of_tracks_are_appended_to_the_base() {
    for (base, control, url) in [
        ("rtsp://a/b", "track1", "rtsp://a/b/track1"),
        ("rtsp://a/b/", "track1", "rtsp://a/b/track1"),
        ("rtsp://a/b?c=1", "track1", "rtsp://a/b?c=1/track1"),
        ("rtsp://a/b", "rtsp://x/y", "rtsp://x/y"),
        ("rtsp://a/b", "*", "rtsp://a/b"),
        ("rtsp://a/b", "", "rtsp://a/b"),
        ("rtsp://a/b", "?ctype=video", "rtsp://a/b?ctype=video"),
    ] {
        assert_eq!(joined(base, control), url);
    }
}
