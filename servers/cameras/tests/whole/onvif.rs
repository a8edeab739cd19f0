//! Cameras by ONVIF: a small one of the test is found, asked, and watched.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use super::support::{LIMIT, Program, simulator, until};

/// Answers questions of ONVIF for as long as the test lasts; its clock is of another year.
fn device(stream: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A camera behind a router says an address of its own.
    let stream = stream.replace("127.0.0.1", "192.0.2.99");
    thread::spawn(move || {
        while let Ok((connection, _)) = listener.accept() {
            let _ = connection.set_read_timeout(Some(LIMIT));
            answer(connection, address, &stream);
        }
    });
    address
}

fn answer(connection: TcpStream, address: SocketAddr, stream: &str) -> Option<()> {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let asked = String::from_utf8(body).ok()?;
    let is_open = asked.contains("GetSystemDateAndTime");
    let (status, said) = if !is_open && !is_authorized(&asked) {
        (
            400,
            "<s:Fault><s:Reason><s:Text>not authorized</s:Text></s:Reason></s:Fault>".to_owned(),
        )
    } else {
        (200, said(&asked, address, stream))
    };
    let text = format!("<s:Envelope xmlns:s=\"e\"><s:Body>{said}</s:Body></s:Envelope>");
    let len = text.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {len}\r\n\r\n");
    reader
        .get_mut()
        .write_all(format!("{head}{text}").as_bytes())
        .ok()
}

fn said(asked: &str, address: SocketAddr, stream: &str) -> String {
    let profile = |token: &str, name: &str| {
        format!("<t:Profiles token=\"{token}\"><t:Name>{name}</t:Name></t:Profiles>")
    };
    match () {
        () if asked.contains("GetSystemDateAndTime") => {
            "<r><UTCDateTime><Time><Hour>1</Hour><Minute>2</Minute><Second>3</Second></Time><Date>\
             <Year>2001</Year><Month>2</Month><Day>3</Day></Date></UTCDateTime></r>"
                .to_owned()
        }
        () if asked.contains("GetCapabilities") => {
            format!("<c><t:Media xmlns:t=\"x\"><t:XAddr>http://{address}/m</t:XAddr></t:Media></c>")
        }
        () if asked.contains("GetProfiles") => {
            format!(
                "<p xmlns:t=\"x\">{}{}</p>",
                profile("p1", "main"),
                profile("p&amp;2", "small")
            )
        }
        () if asked.contains("<ProfileToken>p&amp;2<") => format!("<u><Uri>{stream}</Uri></u>"),
        () => "<u><Uri>rtsp://127.0.0.1:9/other</Uri></u>".to_owned(),
    }
}

/// As a camera checks it: by its own clock.
fn is_authorized(asked: &str) -> bool {
    let between = |from: &str, to: &str| {
        let rest = asked.split(from).nth(1)?;
        Some(rest.split(to).next()?.to_owned())
    };
    let digest = between("#PasswordDigest\">", "</").unwrap_or_default();
    let nonce = between("#Base64Binary\">", "</").unwrap_or_default();
    let created = between("<u:Created>", "</").unwrap_or_default();
    let expected = Sha1::new()
        .chain_update(STANDARD.decode(nonce).unwrap_or_default())
        .chain_update(&created)
        .chain_update("secret");
    created == "2001-02-03T01:02:03Z" && digest == STANDARD.encode(expected.finalize())
}

#[test]
fn a_camera_is_asked_by_onvif_where_its_streams_are() {
    let simulator = simulator();
    let address = device(&simulator.url(0));
    let camera = |name: &str, password: &str, profile: &str| {
        format!(
            "[camera.{name}]\nonvif = \"http://{address}/onvif/device_service\"\nuser = \"u\"\n\
             password = {password:?}\nprofile = {profile:?}\ndelivery = \"5ms\"\n"
        )
    };
    let watch = "[watch]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    let program = Program::start(
        &(watch
            + &camera("good", "secret", "small")
            + &camera("token", "secret", "p&2")
            + &camera("none", "secret", "large")
            + &camera("wrong", "guess", "small")),
    );
    for name in ["good", "token"] {
        assert_eq!(program.watch(name).media().kind(), 7);
    }
    for (name, why) in [
        (
            "none",
            "no profile \\\"large\\\"; it has \\\"main\\\" (p1), \\\"small\\\" (p&2)",
        ),
        ("wrong", "answers 400 to GetCapabilities: not authorized"),
    ] {
        until("it is said what is wrong", || {
            let error = program.camera(name)["details"]["ingest"]["last_error"].to_string();
            error.contains(why)
        });
    }
}

#[test]
fn cameras_are_found() {
    let camera = UdpSocket::bind("127.0.0.1:0").unwrap();
    camera.set_read_timeout(Some(LIMIT)).unwrap();
    let address = camera.local_addr().unwrap();
    let answers = thread::spawn(move || {
        let mut datagram = [0; 4_096];
        let (len, from) = camera.recv_from(&mut datagram).unwrap();
        let asked = String::from_utf8_lossy(&datagram[..len]).into_owned();
        let id = asked
            .split("<a:MessageID>")
            .nth(1)
            .unwrap()
            .split('<')
            .next()
            .unwrap();
        for related in ["uuid:another", id] {
            let answer = format!(
                "<e><RelatesTo>{related}</RelatesTo><ProbeMatch><Scopes>\
                 onvif://www.onvif.org/name/Yard onvif://www.onvif.org/hardware/X1</Scopes>\
                 <XAddrs>http://192.0.2.7/onvif/device_service</XAddrs></ProbeMatch></e>"
            );
            camera.send_to(answer.as_bytes(), from).unwrap();
        }
    });
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"))
        .args([
            "discover",
            "--from",
            "127.0.0.1",
            "--wait-ms",
            "3000",
            "--to",
        ])
        .arg(address.to_string())
        .output()
        .unwrap();
    answers.join().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        said,
        "127.0.0.1\tYard\tX1\thttp://192.0.2.7/onvif/device_service\n"
    );
}
