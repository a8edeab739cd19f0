//! Viewers by RTSP.

use std::net::UdpSocket;

use super::support::{LIMIT, Program, simulator, simulator_of, until};

#[test]
fn pictures_come_whole_and_in_order() {
    let simulator = simulator();
    let config = format!(
        "[camera.gate]\nurl = {:?}\ndelivery = \"5ms\"\n",
        simulator.url(0)
    );
    let program = Program::start(&config);
    let mut viewer = program.watch("gate");
    let first = viewer.media();
    let (mut sequence, mut timestamp) = (first.sequence(), first.timestamp());
    let (mut pictures, mut keys, mut was_marked) = (0, 0, false);
    while pictures < 60 {
        let packet = viewer.media();
        assert_eq!(packet.sequence(), sequence.wrapping_add(1));
        sequence = packet.sequence();
        let step = packet.timestamp().wrapping_sub(timestamp);
        // 100 pictures a second, and a new time behind each marker only.
        assert_eq!(step, if was_marked { 900 } else { 0 });
        timestamp = packet.timestamp();
        keys += u32::from(packet.kind() == 7);
        was_marked = packet.is_marked();
        pictures += u32::from(was_marked);
    }
    assert!((5..=7).contains(&keys), "{keys}");
}

#[test]
fn a_description_names_the_tracks_and_what_is_not_there_is_said() {
    let simulator = simulator();
    let config = format!(
        "[camera.gate]\nurl = {:?}\n[camera.yard]\n",
        simulator.url(0)
    );
    let program = Program::start(&config);
    program.watch("gate");
    let mut client = program.connect();
    let options = client.ask("OPTIONS", "*", "");
    assert!(options.header("Public").unwrap().contains("DESCRIBE"));
    let described = client.ask("DESCRIBE", &program.url("gate"), "");
    assert!(
        described.body.contains("a=rtpmap:96 H264/90000"),
        "{}",
        described.body
    );
    assert!(
        described.body.contains("a=control:trackID=0"),
        "{}",
        described.body
    );
    for (method, camera, status, said) in [
        ("DESCRIBE", "none", 404, "no camera named"),
        ("DESCRIBE", "yard", 404, "no session now"),
        ("DESCRIBE", "", 404, "names no camera"),
        ("PLAY", "gate", 455, "SETUP comes before PLAY"),
        ("PAUSE", "gate", 455, "PAUSE comes after PLAY"),
        ("RECORD", "gate", 455, "ANNOUNCE"),
        ("JUMP", "gate", 501, "not supported"),
    ] {
        let answer = client.ask(method, &program.url(camera), "");
        assert_eq!(answer.status, status, "{method} {camera}");
        assert!(answer.body.contains(said), "{}", answer.body);
    }
    let udp = "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n";
    let answer = client.ask("SETUP", &format!("{}/trackID=0", program.url("gate")), udp);
    assert_eq!(answer.status, 461);
    let tcp = "Transport: RTP/AVP/TCP;interleaved=0-1\r\n";
    let answer = client.ask("SETUP", &format!("{}/trackID=7", program.url("gate")), tcp);
    assert_eq!(answer.status, 404);
}

#[test]
fn a_pause_stops_the_packets_and_play_begins_with_a_key_frame() {
    let simulator = simulator();
    let config = format!(
        "[camera.gate]\nurl = {:?}\ndelivery = \"5ms\"\n",
        simulator.url(0)
    );
    let program = Program::start(&config);
    let mut viewer = program.watch("gate");
    viewer.media();
    let url = program.url("gate");
    assert_eq!(viewer.ask("PAUSE", &url, "").status, 200);
    assert_eq!(viewer.ask("GET_PARAMETER", &url, "").status, 200);
    assert_eq!(viewer.ask("PLAY", &url, "").status, 200);
    assert_eq!(viewer.media().kind(), 7);
    assert_eq!(viewer.ask("TEARDOWN", &url, "").status, 200);
    viewer.ended();
}

/// One viewer takes nothing. The others, and the camera, go on; it is dropped when its time is up.
#[test]
fn a_viewer_that_takes_nothing_holds_up_nobody_and_is_dropped() {
    let simulator = simulator_of(40_000);
    let config = format!(
        "[camera.gate]\nurl = {:?}\ndelivery = \"5ms\"\n",
        simulator.url(0)
    );
    let program = Program::start_with("patience = \"3s\"", &config);
    let mut stuck = program.watch("gate");
    let mut good = program.watch("gate");
    let mut last = good.media().sequence();
    let descriptors = program.descriptors();
    // Until the sockets between are full, and for its patience after that.
    until("it is dropped", || {
        for _ in 0..50 {
            let sequence = good.media().sequence();
            assert_eq!(sequence, last.wrapping_add(1));
            last = sequence;
        }
        program.descriptors() < descriptors
    });
    // What had been sent is there; then comes the end.
    stuck.ended();
}

#[test]
fn users_see_what_they_may() {
    let simulator = simulator();
    let users = "[[rtsp.user]]\nname = \"me\"\npassword = \"secret\"\nview = [\"gate\"]\n";
    let url = simulator.url(0);
    let config = format!("{users}[camera.gate]\nurl = {url:?}\n[camera.yard]\nurl = {url:?}\n");
    let program = Program::start(&config);
    let ask = |camera: &str, password: &str| {
        use base64::Engine;
        let both = base64::engine::general_purpose::STANDARD.encode(format!("me:{password}"));
        let header = format!("Authorization: Basic {both}\r\n");
        program
            .connect()
            .ask("DESCRIBE", &program.url(camera), &header)
    };
    until("the camera is live", || ask("gate", "secret").status == 200);
    assert_eq!(ask("yard", "secret").status, 403);
    assert_eq!(ask("gate", "wrong").status, 401);
    let mut client = program.connect();
    let answer = client.ask("DESCRIBE", &program.url("gate"), "");
    assert_eq!(answer.status, 401);
    assert!(
        answer
            .header("WWW-Authenticate")
            .unwrap()
            .starts_with("Digest realm=")
    );
    // Passwords cannot be tried for ever over one connection.
    let wrong = "Authorization: Basic bWU6eA==\r\n";
    for _ in 0..5 {
        assert_eq!(
            client.ask("DESCRIBE", &program.url("gate"), wrong).status,
            401
        );
    }
    client.ended();
}

#[test]
fn a_viewer_is_sent_datagrams_where_they_are_allowed() {
    let simulator = simulator();
    let url = simulator.url(0);
    let camera = format!("[camera.gate]\nurl = {url:?}\ndelivery = \"5ms\"\n");
    let program = Program::start_with("udp = true\n", &camera);
    let packets = UdpSocket::bind("127.0.0.1:0").unwrap();
    packets.set_read_timeout(Some(LIMIT)).unwrap();
    let port = packets.local_addr().unwrap().port();
    let (url, other) = (program.url("gate"), port.wrapping_add(1).max(1_024));
    drop(program.watch("gate"));
    let mut viewer = program.connect();
    let mut set_up = |ports: &str| {
        let transport = format!("Transport: RTP/AVP;unicast;client_port={ports}\r\n");
        viewer.ask("SETUP", &format!("{url}/trackID=0"), &transport)
    };
    // Not to the ports of services.
    assert_eq!(set_up("53-54").status, 461);
    let answer = set_up(&format!("{port}-{other}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let agreed = answer.header("Transport").unwrap();
    let from = agreed.split("server_port=").nth(1).unwrap();
    let from: u16 = from.split('-').next().unwrap().parse().unwrap();
    assert_eq!(viewer.ask("PLAY", &url, "").status, 200);
    let (mut packet, mut last) = ([0; 2_000], None::<u16>);
    for number in 0..100 {
        let (len, sender) = packets.recv_from(&mut packet).unwrap();
        assert_eq!(sender.port(), from);
        assert!(
            len > 12 && packet[0] == 0x80,
            "{:?}",
            &packet[..len.min(12)]
        );
        if number == 0 {
            // The first sets of parameters, so that a picture is there at once.
            assert_eq!(packet[12] & 0x1f, 7);
        }
        let sequence = u16::from_be_bytes([packet[2], packet[3]]);
        assert!(last.is_none_or(|last| last.wrapping_add(1) == sequence));
        last = Some(sequence);
    }
    // The connection is there for requests alone.
    assert_eq!(viewer.ask("GET_PARAMETER", &url, "").status, 200);
    assert_eq!(viewer.ask("TEARDOWN", &url, "").status, 200);
    viewer.ended();
}
