//! What clients and cameras can make grow has a limit, and descriptors are given back.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::support::{Client, LIMIT, Program, simulator, simulator_of, until};

#[test]
fn connections_have_limits_and_who_is_refused_is_told() {
    let program = Program::start_with("sessions_per_client_max = 3", "");
    let mut kept: Vec<Client> = Vec::new();
    for _ in 0..3 {
        let mut client = program.connect();
        assert_eq!(client.ask("OPTIONS", "*", "").status, 200);
        kept.push(client);
    }
    let mut client = program.connect();
    let answer = client.ask("OPTIONS", "*", "");
    assert_eq!(answer.status, 503);
    assert!(
        answer.body.contains("sessions_per_client_max"),
        "{}",
        answer.body
    );
    drop(kept);
    until("there is room", || {
        program.connect().ask("OPTIONS", "*", "").status == 200
    });
}

/// One client, which says nothing, does not have all connections.
#[test]
fn a_client_has_only_some_of_the_connections_over_http() {
    let program =
        Program::start("[watch]\nlisten = \"127.0.0.1:0\"\nconnections_per_client_max = 3\n");
    let silent = || TcpStream::connect(&program.watch).unwrap();
    let kept: Vec<TcpStream> = (0..3).map(|_| silent()).collect();
    let refused = || {
        let (mut client, mut said) = (silent(), String::new());
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.read_to_string(&mut said).unwrap();
        said
    };
    let said = refused();
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    assert!(said.contains("connections_per_client_max"), "{said}");
    drop(kept);
    until("there is room", || {
        let (mut client, mut said) = (silent(), [0; 12]);
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let asked = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(asked).is_ok()
            && client.read_exact(&mut said).is_ok()
            && said == *b"HTTP/1.1 200"
    });
}

/// Whoever announces streams in datagrams has sockets opened for them: only so many at a time.
#[test]
fn publishers_of_datagrams_do_not_take_all_descriptors() {
    let program = Program::start_with("udp = true", "[camera.gate]\n");
    let url = program.url("gate");
    let tracks: String = (0..8)
        .map(|track| format!("m=audio 0 RTP/AVP 8\r\na=control:trackID={track}\r\n"))
        .collect();
    let described = format!("v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n{tracks}");
    let transport = "Transport: RTP/AVP;unicast;client_port=50000-50001;mode=record\r\n";
    let before = program.descriptors();
    let mut kept = Vec::new();
    let mut opened = 0;
    for _ in 0..65 {
        let mut client = program.connect();
        let kind = "Content-Type: application/sdp\r\n";
        let announced = client.request("ANNOUNCE", &url, kind, &described);
        assert_eq!(announced.status, 200, "{announced:?}");
        for track in 0..8 {
            let track = format!("{url}/trackID={track}");
            let answer = client.ask("SETUP", &track, transport);
            assert!(matches!(answer.status, 200 | 461), "{answer:?}");
            opened += usize::from(answer.status == 200);
        }
        kept.push(client);
    }
    assert_eq!(opened, 512);
    assert_eq!(program.descriptors(), before + kept.len() + 2 * opened);
    drop(kept);
    until("they are closed", || program.descriptors() == before);
}

#[test]
fn who_says_nothing_or_nonsense_is_dropped() {
    let hasty = Program::start_with("patience = \"100ms\"", "");
    hasty.connect().ended();
    // Packets that nobody has asked for win it no time.
    let mut client = hasty.connect();
    let mut writer = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        while writer.write_all(b"$\0\0\0").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
    client.ended();
    drop(client);
    sending.join().unwrap();
    let program = Program::start("");
    for nonsense in [
        &b"\x16\x03\x01\0\0"[..],
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"DESCRIBE rtsp://a/b RTSP/1.0\r\nContent-Length: 99999999\r\n\r\n",
        &[b'x'; 20_000],
    ] {
        let mut client = program.connect();
        // It may be closed before all of it is sent.
        let _ = client.stream.write_all(nonsense);
        client.ended();
    }
    let mut client = program.connect();
    assert_eq!(client.ask("OPTIONS", "*", "").status, 200);
}

#[test]
fn sessions_leave_no_descriptors_behind() {
    let simulator = simulator();
    let config = format!(
        "[camera.gate]\nurl = {:?}\ndelivery = \"5ms\"\n",
        simulator.url(0)
    );
    let program = Program::start(&config);
    drop(program.watch("gate"));
    // The camera's connection is there and no client's.
    let mut before = 0;
    until("no client is connected", || {
        let now = program.descriptors();
        std::mem::replace(&mut before, now) == now
    });
    for round in 0..10 {
        let mut clients: Vec<Client> = (0..6).map(|_| program.connect()).collect();
        for (index, client) in clients.iter_mut().enumerate() {
            if (round + index) % 2 == 0 {
                client.play(&program.url("gate"));
                client.media();
            } else if index % 3 == 0 {
                client.ask("DESCRIBE", &program.url("gate"), "");
            }
        }
    }
    simulator.cut();
    program.watch("gate");
    until("as many descriptors as before", || {
        program.descriptors() <= before
    });
}

/// All rings together have a limit, which viewers that take nothing cannot exceed.
#[test]
fn viewers_that_take_nothing_do_not_fill_the_memory() {
    let simulator = simulator_of(40_000);
    let limits = "[limits]\nmemory = \"4MiB\"\ncamera_memory = \"2MiB\"\nlag = \"5m\"\n";
    let cameras: String = (0..4)
        .map(|camera| {
            let url = simulator.url(camera);
            format!("[camera.c{camera}]\nurl = {url:?}\ndelivery = \"5ms\"\n")
        })
        .collect();
    let program = Program::start_with("patience = \"5m\"", &format!("{limits}{cameras}"));
    let _stuck: Vec<Client> = (0..4)
        .map(|camera| program.watch(&format!("c{camera}")))
        .collect();
    let mut good = program.watch("c0");
    let mut received = 0;
    // Ten times as much as may be kept.
    until("much has come", || {
        for _ in 0..50 {
            received += good.media().bytes.len();
        }
        received > 4 << 20
    });
    // What names of hogs take on a busy machine is given back after ten seconds. For longer than is
    // waited for here those viewers stay, and are not moved on.
    until("little is kept", || program.memory() < 150 << 20);
}

/// Of 2 MiB, which the allocator asks for, a good part would be empty.
#[test]
fn it_takes_small_pages() {
    let program = Program::start("");
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let said = status.lines().find(|line| line.starts_with("THP_enabled:"));
    // Kernels before 5.0 do not say it.
    let large = said.map(|said| said.trim_end().ends_with('1'));
    assert_ne!(large, Some(true), "{status}");
}
