//! Cameras that publish by themselves.

use cameras::simulator::Stream;
use std::io::Write;

use super::support::{Client, Program, until};

fn announced() -> String {
    super::support::description()
}

/// Announces, sets up and records, with answers that are good.
fn publisher(program: &Program) -> Client {
    let url = program.url("gate");
    let mut client = program.connect();
    let answer = client.request(
        "ANNOUNCE",
        &url,
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
    assert_eq!(client.ask("RECORD", &url, "").status, 200);
    client
}

/// Sends some rounds of pictures. Returns the next sequence number.
fn send(client: &mut Client, first: u16) -> u16 {
    let stream = Stream::synthetic(3, 3_000);
    let mut sequence = first;
    for (number, payloads) in stream.pictures.iter().enumerate() {
        for (index, payload) in payloads.iter().enumerate() {
            let marker = if index + 1 == payloads.len() { 0x80 } else { 0 };
            let mut packet = vec![b'$', 4];
            packet.extend((payload.len() as u16 + 12).to_be_bytes());
            packet.extend([0x80, 96 | marker]);
            packet.extend(sequence.to_be_bytes());
            let time = u32::from(sequence) * 300 - index as u32 * 300 + number as u32;
            packet.extend(time.to_be_bytes());
            packet.extend([0, 0, 0, 1]);
            packet.extend(payload);
            client.stream.write_all(&packet).unwrap();
            sequence = sequence.wrapping_add(1);
        }
    }
    sequence
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
