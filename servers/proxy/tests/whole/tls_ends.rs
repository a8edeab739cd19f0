//! How connections over TLS end: what is whole, what was cut off, and one direction alone.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::support::{Authority, Issued, LIMIT, Origin, Proxy, Reply, Trust, pattern, until, web};

fn a_certificate() -> (Authority, Issued) {
    let authority = Authority::new("ours");
    let issued = authority.issue("web", &["a.example"]);
    (authority, issued)
}

fn over_tls(mode: &str, issued: &Issued, server: &Origin) -> String {
    let tls = format!("[listener.web.tls]\n{}", issued.config("certificate"));
    web(&tls, "", &[server]).replace("\"http\"", &format!("\"{mode}\""))
}

#[test]
fn each_direction_of_tcp_passes_whole_and_ends_for_itself() {
    let (authority, issued) = a_certificate();
    let origin = Origin::raw(|mut stream, _, _| {
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert!(came == pattern(700_001));
        // The other direction is still open.
        stream.write_all(&pattern(900_003)).unwrap();
    });
    let proxy = Proxy::start(&over_tls("tcp", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.send(pattern(700_001));
    client.finish();
    assert!(client.rest() == pattern(900_003), "with TLS's own end");
    // They are counted a moment after they have passed.
    until("they are counted", || {
        proxy.stat("app/s0", "bin") == 700_001 && proxy.stat("web/FRONTEND", "bout") == 900_003
    });
}

#[test]
fn many_small_records_that_come_at_once_are_passed_on() {
    let (authority, issued) = a_certificate();
    let origin = Origin::raw(|mut stream, _, _| {
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        let is_whole = came[0] == b'x' && came[1..] == pattern(60_000);
        stream
            .write_all(if is_whole { b"whole" } else { b"other" })
            .unwrap();
    });
    let proxy = Proxy::start(&over_tls("tcp", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    // With the end of the handshake.
    client.send("x");
    let secured = &mut client.stream;
    secured.conn.set_buffer_limit(None);
    for part in pattern(60_000).chunks(700) {
        secured.conn.writer().write_all(part).unwrap();
    }
    let mut records = Vec::new();
    while secured.conn.wants_write() {
        secured.conn.write_tls(&mut records).unwrap();
    }
    secured.sock.write_all(&records).unwrap();
    client.finish();
    assert_eq!(client.rest(), b"whole");
}

#[test]
fn a_server_that_speaks_first_is_heard_and_its_end_is_passed_on() {
    let (authority, issued) = a_certificate();
    let origin = Origin::raw(|mut stream, _, _| {
        stream.write_all(b"220 welcome\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert_eq!(came, b"QUIT\r\n");
    });
    let proxy = Proxy::start(&over_tls("tcp", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    assert_eq!(client.rest(), b"220 welcome\r\n");
    client.send("QUIT\r\n");
    client.finish();
    until("the connection is over", || {
        origin.open() == 0 && proxy.stat("web/FRONTEND", "scur") == 0
    });
}

#[test]
fn a_client_that_is_cut_off_is_not_passed_on_as_its_end() {
    let (authority, issued) = a_certificate();
    let (sender, came) = channel();
    let origin = Origin::raw(move |mut stream, _, _| {
        let mut all = Vec::new();
        let end = stream.read_to_end(&mut all);
        sender
            .send((all, end.map_err(|error| error.kind())))
            .unwrap();
    });
    let proxy = Proxy::start(&over_tls("tcp", &issued, &origin));
    for is_finished in [true, false] {
        let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
        client.send("hello");
        until("it is passed on", || origin.open() == 1);
        if is_finished {
            client.finish();
        }
        client.stream.sock.shutdown(Shutdown::Write).unwrap();
        let (all, end) = came.recv_timeout(LIMIT).unwrap();
        if is_finished {
            assert_eq!((&all[..], end), (&b"hello"[..], Ok(5)));
        } else {
            assert_eq!(end, Err(ErrorKind::ConnectionReset));
        }
        until("it is over", || origin.open() == 0);
    }
}

#[test]
fn a_server_that_is_reset_is_not_passed_on_as_its_end() {
    let (authority, issued) = a_certificate();
    let origin = Origin::raw(|mut stream, _, _| {
        stream.write_all(b"half").unwrap();
        // With something unread, this resets the connection.
        stream.peek(&mut [0]).unwrap();
    });
    let proxy = Proxy::start(&over_tls("tcp", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    assert_eq!(client.take(4), b"half");
    client.send("x");
    assert!(client.stream.read(&mut [0]).is_err(), "and no close_notify");
}

#[test]
fn an_answer_to_the_end_of_the_connection_ends_with_that_of_tls() {
    let (authority, issued) = a_certificate();
    let origin = Origin::http(|_| {
        let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        Reply::End([head, pattern(100_000)].concat())
    });
    let proxy = Proxy::start(&over_tls("http", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    // Reading fails without a close_notify.
    assert!(client.get("/").body == pattern(100_000));
    // So do others.
    let origin = Origin::named("x");
    let proxy = Proxy::start(&over_tls("http", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().text(), "x");
    assert_eq!(client.rest(), b"");
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.send("GET /\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_answer_that_breaks_off_does_not_end_with_that_of_tls() {
    let (authority, issued) = a_certificate();
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let origin = Origin::raw(move |mut stream, _, _| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").unwrap();
        held.lock().unwrap().recv_timeout(LIMIT).unwrap();
        // With something unread, this resets the connection.
        stream.peek(&mut [0]).unwrap();
    });
    let proxy = Proxy::start(&over_tls("http", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.take(4), b"half");
    release.send(()).unwrap();
    assert!(client.stream.read(&mut [0]).is_err());
}

#[test]
fn a_protocol_that_is_changed_passes_over_tls() {
    let (authority, issued) = a_certificate();
    let origin = Origin::raw(|mut stream, _, _| {
        let mut buffer = Vec::new();
        super::support::request(&mut stream, &mut buffer)
            .unwrap()
            .unwrap();
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                  Upgrade: websocket\r\n\r\nfirst",
            )
            .unwrap();
        // All that comes is sent back.
        let mut part = [0; 4_096];
        stream.write_all(&buffer).unwrap();
        while let Ok(came @ 1..) = stream.read(&mut part) {
            stream.write_all(&part[..came]).unwrap();
        }
    });
    let proxy = Proxy::start(&over_tls("http", &issued, &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nbehind",
    );
    assert_eq!(client.head().status, 101);
    assert_eq!(client.take(11), b"firstbehind");
    for length in [1, 50_000] {
        client.send(pattern(length));
        assert!(client.take(length) == pattern(length));
    }
    client.finish();
    assert_eq!(client.rest(), b"");
    until("it is over", || origin.open() == 0);
}

#[test]
fn who_does_not_take_an_answer_over_tls_is_given_up_and_a_slow_one_is_not() {
    let (authority, issued) = a_certificate();
    let origin = Origin::http(|_| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n".to_vec();
        Reply::Go([head, pattern(30_000_000)].concat())
    });
    let config = over_tls("http", &issued, &origin);
    let timed = "timeouts.body = \"1s\"\nbody_rate_min = 1000\n[listener.web.tls]";
    let proxy = Proxy::start(&config.replace("[listener.web.tls]", timed));
    let trust = Trust::of(&authority);
    let mut idle = trust.connect(proxy.address("web"), "a.example");
    idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    until("it is given up", || proxy.stat("web/FRONTEND", "scur") == 0);
    let mut slow = trust.connect(proxy.address("web"), "a.example");
    slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(slow.head().status, 200);
    let mut body = Vec::new();
    for _ in 0..30 {
        body.extend(slow.take(1_000_000));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(body == pattern(30_000_000));
}
