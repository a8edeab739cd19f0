//! Cameras that publish by themselves.

use cameras::simulator::Stream;
use std::net::UdpSocket;

use super::support::{Client, Program, until};

const WATCH: &str = "[watch]\nlisten = \"127.0.0.1:0\"\n";

fn announced() -> String {
    super::support::description()
}

/// Announces, sets up and records, with answers that are good.
fn publisher(program: &Program) -> Client {
    publisher_by(program.connect(), &program.url("gate"))
}

/// The same by a connection that was made.
pub(crate) fn publisher_by(mut client: Client, url: &str) -> Client {
    let answer = client.request(
        "ANNOUNCE",
        url,
        "Content-Type: application/sdp\r\n",
        &announced(),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=4-5;mode=record\r\n";
    let answer = client.ask("SETUP", &format!("{url}/track1"), transport);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer
            .header("Transport")
            .unwrap()
            .contains("interleaved=4-5")
    );
    assert_eq!(client.ask("RECORD", url, "").status, 200);
    client
}

/// Sends some rounds of pictures. Returns the next sequence number.
pub(crate) fn send(client: &mut Client, first: u16) -> u16 {
    let packets = packets(first);
    for packet in &packets {
        let len = (packet.len() as u16).to_be_bytes();
        client
            .write(&[&[b'$', 4], &len[..], packet].concat())
            .unwrap();
    }
    first.wrapping_add(packets.len() as u16)
}

/// Some rounds of pictures, from this number on.
fn packets(first: u16) -> Vec<Vec<u8>> {
    let stream = Stream::synthetic(3, 3_000);
    let (mut packets, mut sequence) = (Vec::new(), first);
    for (number, payloads) in stream.pictures.iter().enumerate() {
        for (index, payload) in payloads.iter().enumerate() {
            let marker = if index + 1 == payloads.len() { 0x80 } else { 0 };
            let mut packet = vec![0x80, 96 | marker];
            packet.extend(sequence.to_be_bytes());
            let time = u32::from(sequence) * 300 - index as u32 * 300 + number as u32;
            packet.extend(time.to_be_bytes());
            packet.extend([0, 0, 0, 1]);
            packet.extend(payload);
            packets.push(packet);
            sequence = sequence.wrapping_add(1);
        }
    }
    packets
}

#[test]
fn what_is_published_is_watched() {
    let program = Program::start("[camera.gate]\n");
    let mut publisher = publisher(&program);
    let mut next = send(&mut publisher, 0);
    let mut viewer = program.watch("gate");
    next = send(&mut publisher, next);
    assert_eq!(viewer.media().kind(), 7);
    // There is one publisher at a time.
    let url = program.url("gate");
    let sdp = "Content-Type: application/sdp\r\n";
    let second = program
        .connect()
        .request("ANNOUNCE", &url, sdp, &announced());
    assert_eq!(second.status, 403, "{second:?}");
    send(&mut publisher, next);
    assert_eq!(publisher.ask("TEARDOWN", &url, "").status, 200);
    viewer.ended();
    until("another one may", || {
        program
            .connect()
            .request("ANNOUNCE", &url, sdp, &announced())
            .status
            == 200
    });
}

#[test]
fn a_publisher_that_comes_second_changes_nothing() {
    let program = Program::start(&format!("{WATCH}[camera.gate]\n"));
    let mut first = publisher(&program);
    let mut second = publisher(&program);
    second.ended();
    let ingest = |program: &Program| program.camera("gate")["details"]["ingest"].clone();
    let next = send(&mut first, 0);
    until("the first is received", || {
        let ingest = ingest(&program);
        ingest["state"] == "receiving" && ingest["failures"] == 0
    });
    send(&mut first, next);
    let url = program.url("gate");
    assert_eq!(first.ask("TEARDOWN", &url, "").status, 200);
    until("the camera is expected again", || {
        ingest(&program)["state"] == "expecting"
    });
}

#[test]
fn a_publisher_ends_when_its_camera_is_of_another_configuration() {
    // Longer than is waited for below: it is not to end for being silent.
    let rest = format!("{WATCH}[ingest]\nsilence = \"10m\"\n");
    let program = Program::start(&format!("{rest}[camera.gate]\n"));
    let mut publisher = publisher(&program);
    send(&mut publisher, 0);
    until("it is live", || program.camera("gate")["state"] == "live");
    program.rewrite(&format!(
        "{rest}[camera.gate]\nurl = \"rtsp://127.0.0.1:9/\"\n"
    ));
    let (status, changes) = program.api("POST", "/api/reload", &serde_json::Value::Null);
    assert_eq!(status, 200, "{changes}");
    assert_eq!(changes["changed"], serde_json::json!(["gate"]));
    publisher.ended();
}

#[test]
fn what_nobody_can_publish_is_refused() {
    let program = Program::start("[camera.gate]\n[camera.yard]\nurl = \"rtsp://127.0.0.1:9/\"\n");
    let sdp = "Content-Type: application/sdp\r\n";
    for (camera, body, status) in [
        ("none", announced(), 404),
        ("yard", announced(), 403),
        ("gate", "nonsense".to_owned(), 415),
        ("gate", announced().replace("H264", "X"), 415),
    ] {
        let mut client = program.connect();
        let answer = client.request("ANNOUNCE", &program.url(camera), sdp, &body);
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[test]
fn datagrams_of_a_publisher_are_put_into_order() {
    let watch = "[watch]\nlisten = \"127.0.0.1:0\"\n";
    let program = Program::start_with("udp = true\n", &format!("{watch}[camera.gate]\n"));
    let url = program.url("gate");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let mut publisher = program.connect();
    let sdp = "Content-Type: application/sdp\r\n";
    assert_eq!(
        publisher
            .request("ANNOUNCE", &url, sdp, &announced())
            .status,
        200
    );
    let other = port.wrapping_add(1).max(1_024);
    let transport =
        format!("Transport: RTP/AVP;unicast;client_port={port}-{other};mode=record\r\n");
    let answer = publisher.ask("SETUP", &format!("{url}/track1"), &transport);
    assert_eq!(answer.status, 200, "{answer:?}");
    let agreed = answer.header("Transport").unwrap();
    assert!(agreed.contains(";mode=record"), "{agreed}");
    let to = agreed.split("server_port=").nth(1).unwrap();
    let to: u16 = to.split('-').next().unwrap().parse().unwrap();
    assert_eq!(publisher.ask("RECORD", &url, "").status, 200);
    let send = |packet: &[u8]| {
        socket.send_to(packet, ("127.0.0.1", to)).unwrap();
    };
    let mut sent = packets(0);
    // The second and the third change places in each three, also those of one picture.
    for three in sent.chunks_mut(3).filter(|three| three.len() == 3) {
        three.swap(1, 2);
    }
    sent.iter().for_each(|packet| send(packet));
    let mut viewer = program.watch("gate");
    let next = sent.len() as u16;
    let more = packets(next);
    // One is lost, of the second picture, and is given up.
    let lost = next + 3;
    for packet in more
        .iter()
        .filter(|packet| packet[2..4] != lost.to_be_bytes())
    {
        send(packet);
    }
    assert_eq!(viewer.media().kind(), 7);
    until("what was lost is counted", || {
        packets(next.wrapping_add(more.len() as u16))
            .iter()
            .for_each(|packet| send(packet));
        // The second round of packets comes twice, which is seen too.
        program.camera("gate")["details"]["ingest"]["lost"].as_u64() > Some(0)
    });
    assert_eq!(publisher.ask("TEARDOWN", &url, "").status, 200);
    viewer.ended();
}

#[test]
fn datagrams_of_a_publisher_need_leave() {
    let program = Program::start("[camera.gate]\n");
    let url = program.url("gate");
    let mut publisher = program.connect();
    let sdp = "Content-Type: application/sdp\r\n";
    assert_eq!(
        publisher
            .request("ANNOUNCE", &url, sdp, &announced())
            .status,
        200
    );
    let transport = "Transport: RTP/AVP;unicast;client_port=50000-50001;mode=record\r\n";
    let answer = publisher.ask("SETUP", &format!("{url}/track1"), transport);
    assert_eq!(answer.status, 461, "{answer:?}");
}
