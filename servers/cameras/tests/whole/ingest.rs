//! Cameras that are asked for their streams.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cameras::simulator::{Settings, Simulator, Stream};

use super::support::{Camera, Program, Reply, simulator, until};

fn camera(name: &str, url: &str) -> String {
    format!("[camera.{name}]\nurl = {url:?}\ndelivery = \"5ms\"\n")
}

#[test]
fn a_camera_is_received_and_found_again_after_its_connection_was_cut() {
    let simulator = simulator();
    let program = Program::start(&camera("gate", &simulator.url(0)));
    let mut viewer = program.watch("gate");
    // The stream begins with its parameter sets and a key frame.
    let kinds: Vec<u8> = (0..4).map(|_| viewer.media().kind()).collect();
    assert_eq!(kinds[..2], [7, 8]);
    let sessions = simulator.sessions();
    simulator.cut();
    viewer.ended();
    until("it is connected to again", || {
        simulator.sessions() > sessions
    });
    program.watch("gate").media();
}

#[test]
fn credentials_answer_a_digest() {
    let settings = Settings {
        stream: Stream::synthetic(5, 2_000),
        rate: 100,
        credentials: Some(cameras::rtsp::auth::Credentials {
            user: "me".to_owned(),
            password: "secret".to_owned(),
        }),
    };
    let simulator = Simulator::start("127.0.0.1:0".parse().unwrap(), settings).unwrap();
    let in_url = simulator.url(1).replace("rtsp://", "rtsp://me:secret@");
    let config = camera("gate", &simulator.url(0))
        + "user = \"me\"\npassword = \"secret\"\n"
        + &camera("yard", &in_url);
    let program = Program::start(&config);
    program.watch("gate").media();
    program.watch("yard").media();
}

/// What stands in the address goes to the camera, and what comes behind a redirect is another one.
#[test]
fn a_redirect_is_followed_and_the_path_is_kept() {
    let simulator = simulator();
    let elsewhere = simulator.url(0);
    let camera_moved = Camera::start(
        move |head| {
            if head.starts_with("DESCRIBE") {
                let location = format!("Location: {elsewhere}\r\n");
                Reply::Answer("302 Found".to_owned(), location, String::new())
            } else {
                Reply::Usual
            }
        },
        Vec::new(),
    );
    let program = Program::start(&camera("gate", &camera_moved.url()));
    program.watch("gate").media();
    let asked = camera_moved.asked();
    assert!(asked[0].starts_with("OPTIONS rtsp://"), "{asked:?}");
    assert!(asked[0].contains("/stream?channel=1 RTSP/1.0"), "{asked:?}");
}

/// One camera that refuses, one that says nonsense, and one that hangs up hold up nobody.
#[test]
fn cameras_that_fail_are_tried_again_and_hold_up_nobody() {
    let simulator = simulator();
    let refusing = Camera::start(
        |_| Reply::Answer("404 Not Found".to_owned(), String::new(), String::new()),
        Vec::new(),
    );
    let nonsense = Camera::start(
        |head| {
            if head.starts_with("DESCRIBE") {
                Reply::Answer("200 OK".to_owned(), String::new(), "nonsense".to_owned())
            } else {
                Reply::Usual
            }
        },
        Vec::new(),
    );
    let gone = Camera::start(|_| Reply::End, Vec::new());
    let config = ["a", "b", "c"]
        .into_iter()
        .zip([&refusing, &nonsense, &gone])
        .map(|(name, bad)| camera(name, &bad.url()))
        .collect::<String>();
    let program = Program::start(&(config + &camera("good", &simulator.url(0))));
    program.watch("good").media();
    for bad in [&refusing, &nonsense, &gone] {
        until("it is tried again", || bad.connections() >= 3);
    }
}

/// Malformed packets are dropped; the session goes on.
#[test]
fn packets_that_are_nonsense_do_no_harm() {
    let stream = Stream::synthetic(2, 3_000);
    let mut packets = vec![vec![], vec![0x80], vec![0xff; 40], vec![0x80, 96, 0, 1]];
    let (mut sequence, mut timestamp) = (0_u16, 0_u32);
    for payloads in stream.pictures.iter().cycle().take(400) {
        for (index, payload) in payloads.iter().enumerate() {
            let marker = if index + 1 == payloads.len() { 0x80 } else { 0 };
            let mut packet = vec![0x80, 96 | marker];
            packet.extend(sequence.to_be_bytes());
            packet.extend(timestamp.to_be_bytes());
            packet.extend([0, 0, 0, 1]);
            packet.extend(payload);
            packets.push(packet);
            sequence = sequence.wrapping_add(1);
        }
        packets.push(vec![0x80, 96, 0xff]);
        timestamp += 9_000;
    }
    let bad = Camera::start(|_| Reply::Usual, packets);
    let program = Program::start(&camera("gate", &bad.url()));
    program.watch("gate").media();
    assert_eq!(bad.connections(), 1);
}

/// Datagrams overtake each other and some come twice: pictures come whole and in order.
#[test]
fn datagrams_are_put_into_order() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let port = Arc::new(Mutex::new(0_u16));
    let camera = Camera::start(
        move |head| {
            if head.starts_with("SETUP") {
                let (_, ports) = head.split_once("client_port=").unwrap();
                let first = ports.split('-').next().unwrap().parse().unwrap();
                *port.lock().unwrap() = first;
                let headers = format!(
                    "Transport: RTP/AVP;unicast;client_port={first}-{};server_port=9-9\r\n\
                     Session: 77\r\n",
                    first + 1
                );
                return Reply::Answer("200 OK".to_owned(), headers, String::new());
            }
            if head.starts_with("PLAY") {
                let (port, stopped) = (*port.lock().unwrap(), Arc::clone(&stopped));
                std::thread::spawn(move || send_shaken(port, &stopped));
            }
            Reply::Usual
        },
        Vec::new(),
    );
    let url = format!("rtsp://{}/a", camera.address);
    let config = format!("[camera.gate]\nurl = {url:?}\ntransport = \"udp\"\n");
    let program = Program::start(&config);
    let mut viewer = program.watch("gate");
    let mut last = viewer.media();
    let mut pictures = 0;
    while pictures < 30 {
        let packet = viewer.media();
        assert_eq!(packet.sequence(), last.sequence().wrapping_add(1));
        if last.is_marked() {
            pictures += 1;
            assert_eq!(packet.timestamp().wrapping_sub(last.timestamp()), 3_000);
        }
        last = packet;
    }
    stop.store(true, Ordering::SeqCst);
}

/// Sends pictures, each packet after the one that follows it, and every fifth one twice.
fn send_shaken(port: u16, stopped: &AtomicBool) {
    let stream = Stream::synthetic(5, 5_000);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut sequence, mut timestamp) = (u16::MAX - 20, 0_u32);
    let mut packets: Vec<Vec<u8>> = Vec::new();
    while !stopped.load(Ordering::SeqCst) {
        for payloads in &stream.pictures {
            for (index, payload) in payloads.iter().enumerate() {
                let marker = if index + 1 == payloads.len() { 0x80 } else { 0 };
                let mut packet = vec![0x80, 96 | marker];
                packet.extend(sequence.to_be_bytes());
                packet.extend(timestamp.to_be_bytes());
                packet.extend([0, 0, 0, 1]);
                packet.extend(payload);
                packets.push(packet);
                sequence = sequence.wrapping_add(1);
            }
            timestamp = timestamp.wrapping_add(3_000);
        }
        for pair in packets.chunks(2) {
            for packet in pair.iter().rev() {
                let twice = if packet[3] % 5 == 0 { 2 } else { 1 };
                for _ in 0..twice {
                    // The test may be over.
                    let _ = socket.send_to(packet, ("127.0.0.1", port));
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        packets.clear();
    }
}
