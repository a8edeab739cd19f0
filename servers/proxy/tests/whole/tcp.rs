//! Connections that are passed on as they are, and the PROXY protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};

use super::support::{
    Authority, Client, LIMIT, Origin, Proxy, Trust, connected, pattern, request, secured, until,
};

fn tcp(more: &str, servers: &str) -> String {
    format!(
        "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"tcp\"\npool = \"app\"\n{more}\n{servers}"
    )
}

/// Sends all that comes over its connections, once they have ended.
fn recorder() -> (Origin, Receiver<Vec<u8>>) {
    let (sender, came) = channel();
    let origin = Origin::raw(move |mut stream, _, _| {
        let mut all = Vec::new();
        // However it ends.
        let _ = stream.read_to_end(&mut all);
        let _ = sender.send(all);
    });
    (origin, came)
}

#[test]
fn each_direction_passes_whole_and_ends_for_itself() {
    let origin = Origin::raw(|mut stream, _, _| {
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert!(came == pattern(700_001));
        // The other direction is still open.
        stream.write_all(&pattern(900_003)).unwrap();
    });
    let proxy = Proxy::start(&tcp("", &origin.config("app", "s0")));
    let mut client = proxy.connect();
    client.send(pattern(700_001));
    client.end();
    assert!(client.rest() == pattern(900_003));
    // They are counted a moment after they have passed.
    until("they are counted", || {
        proxy.stat("app/s0", "bin") == 700_001 && proxy.stat("web/FRONTEND", "bout") == 900_003
    });
}

#[test]
fn a_server_that_speaks_first_is_heard_and_an_end_from_it_is_passed_on() {
    let origin = Origin::raw(|mut stream, _, _| {
        stream.write_all(b"220 welcome\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert_eq!(came, b"QUIT\r\n");
    });
    let proxy = Proxy::start(&tcp("", &origin.config("app", "s0")));
    let mut client = proxy.connect();
    assert_eq!(client.rest(), b"220 welcome\r\n");
    client.send("QUIT\r\n");
    client.end();
    super::support::until("the connection is over", || {
        origin.open() == 0 && proxy.stat("web/FRONTEND", "scur") == 0
    });
}

#[test]
fn unix_sockets_are_listened_on_and_connected_to() {
    let directory = tempfile::tempdir().unwrap();
    let (front, back) = (
        directory.path().join("front"),
        directory.path().join("back"),
    );
    let listener = UnixListener::bind(&back).unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    let proxy = Proxy::start(&format!(
        "[listener.web]\nbind = \"unix:{}\"\nmode = \"tcp\"\npool = \"app\"\n\
         [[pool.app.server]]\nname = \"s0\"\naddress = \"unix:{}\"\n",
        front.display(),
        back.display()
    ));
    let mut stream = UnixStream::connect(&front).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&pattern(300_000)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == pattern(300_000));
    echo.join().unwrap();
    drop(proxy);
}

#[test]
fn servers_are_told_whose_connection_it_is() {
    let (origin, came) = recorder();
    for version in ["v1", "v2"] {
        let server = origin.config("app", "s0") + &format!("send_proxy = \"{version}\"\n");
        let proxy = Proxy::start(&tcp("", &server));
        let mut client = proxy.connect();
        let (from, to) = (
            client.stream.local_addr().unwrap(),
            client.stream.peer_addr().unwrap(),
        );
        client.send("hello");
        client.end();
        client.rest();
        let expected = if version == "v1" {
            let (from, to) = (from.port(), to.port());
            format!("PROXY TCP4 127.0.0.1 127.0.0.1 {from} {to}\r\nhello").into_bytes()
        } else {
            let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01".to_vec();
            bytes.extend(from.port().to_be_bytes());
            bytes.extend(to.port().to_be_bytes());
            bytes.extend(b"hello");
            bytes
        };
        assert_eq!(came.recv_timeout(LIMIT).unwrap(), expected);
    }
}

#[test]
fn who_a_proxy_before_says_it_is_is_believed_where_that_is_allowed() {
    let (origin, came) = recorder();
    let server = origin.config("app", "s0") + "send_proxy = \"v1\"\n";
    let proxy = Proxy::start(&tcp("accept_proxy = true\n", &server));
    let line = "PROXY TCP4 192.0.2.1 192.0.2.9 1000 443\r\n";
    // In pieces, and with bytes of the connection behind it.
    let mut client = proxy.connect();
    client.send(&line[..9]);
    client.send(format!("{}hello", &line[9..]));
    client.end();
    client.rest();
    assert_eq!(
        came.recv_timeout(LIMIT).unwrap(),
        format!("{line}hello").into_bytes()
    );

    let mut second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x09".to_vec();
    second.extend(1_000_u16.to_be_bytes());
    second.extend(443_u16.to_be_bytes());
    second.extend(b"hello");
    let mut client = proxy.connect();
    client.send(second);
    client.end();
    client.rest();
    assert_eq!(
        came.recv_timeout(LIMIT).unwrap(),
        format!("{line}hello").into_bytes()
    );
}

#[test]
fn without_a_header_where_one_is_expected_nothing_is_passed_on() {
    let (origin, _came) = recorder();
    let more = "accept_proxy = true\ntimeouts.proxy_header = \"50ms\"\n";
    let proxy = Proxy::start(&tcp(more, &origin.config("app", "s0")));
    for bytes in [
        "GET / HTTP/1.1\r\n\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.9 1000\r\n",
        "PROXY TC",
    ] {
        let mut client = proxy.connect();
        client.send(bytes);
        assert_eq!(client.ended(), b"");
    }
    assert_eq!(origin.connections(), 0);
    assert_eq!(proxy.stat("web/FRONTEND", "drefused"), 3);
}

#[test]
fn a_silent_connection_is_ended() {
    let origin = Origin::raw(|mut stream, _, _| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
    });
    let proxy = Proxy::start(&tcp(
        "timeouts.idle = \"50ms\"\n",
        &origin.config("app", "s0"),
    ));
    let mut client = proxy.connect();
    client.send("hello");
    client.ended();
    super::support::until("the server's side ends, too", || {
        origin.connections() == 1 && origin.open() == 0
    });
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> String {
    let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stream.local_addr().unwrap().to_string()
}

#[test]
fn another_server_is_tried_if_one_cannot_be_reached() {
    let origin = Origin::raw(|mut stream, _, _| stream.write_all(b"here").unwrap());
    let dead = |name: &str| {
        let address = nobody();
        format!("[[pool.app.server]]\nname = \"{name}\"\naddress = \"{address}\"\n")
    };
    let proxy = Proxy::start(&tcp("", &(dead("d") + &origin.config("app", "s0"))));
    for _ in 0..4 {
        assert_eq!(proxy.connect().ended(), b"here");
    }
    assert_eq!(proxy.stat("app/d", "econ"), proxy.stat("app/d", "wretr"));
    assert!(proxy.stat("app/d", "econ") >= 2);

    // The client sees it if there is none.
    let proxy = Proxy::start(&tcp("", &dead("d")));
    let mut stream = TcpStream::connect(proxy.address("web")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(
        proxy.stat("app/d", "econ"),
        3,
        "as often as retries.max says"
    );
}

/// So few bytes are copied: pipes are kept for the next transfer, and would be counted.
#[test]
fn connections_leave_no_descriptors_behind() {
    let origin = Origin::raw(|mut stream, connection, _| {
        // Some end at once, some send, and some wait for the client.
        match connection % 3 {
            0 => {}
            1 => drop(stream.write_all(&pattern(10_000))),
            _ => drop(stream.read_to_end(&mut Vec::new())),
        }
    });
    let proxy = Proxy::start(&tcp("", &origin.config("app", "s0")));
    drop(proxy.connect().ended());
    let is_over = || proxy.stat("web/FRONTEND", "scur") == 0;
    super::support::until("the first one is over", is_over);
    let before = proxy.descriptors();
    let mut clients: Vec<Client> = Vec::new();
    for index in 0..90 {
        let mut client = proxy.connect();
        if index % 2 == 0 {
            // It may have ended.
            let _ = client.stream.write_all(&pattern(10_000));
        }
        clients.push(client);
    }
    drop(clients);
    super::support::until("as many descriptors as before", || {
        is_over() && proxy.descriptors() == before
    });
    assert_eq!(proxy.stat("web/FRONTEND", "stot"), 91);
}

/// What a client does not take stands in a pipe of the proxy, if the kernel moves it.
#[test]
fn bytes_are_moved_by_the_kernel_unless_a_listener_copies_them() {
    const LENGTH: usize = 8_000_000;
    let origin = Origin::raw(|mut stream, _, _| {
        let mut asked = Vec::new();
        // What is asked of it by TCP has no body either.
        let _ = super::support::request(&mut stream, &mut asked);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        // The proxy may end first.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&pattern(LENGTH));
    });
    for mode in ["tcp", "http"] {
        for splices in [true, false] {
            let more = format!("splice = {splices}");
            let config = tcp(&more, &origin.config("app", "s0")).replace("tcp", mode);
            let proxy = Proxy::start(&config);
            let before = proxy.pipes();
            let mut client = proxy.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client.head();
            // More than the proxy reads at once, so that it has begun to move the rest.
            let first = client.take(1_000_000);
            if splices {
                super::support::until("it moves bytes through a pipe", || proxy.pipes() > before);
            }
            assert_eq!(proxy.pipes() > before, splices, "{mode}, splice {splices}");
            let rest = client.take(LENGTH - first.len());
            let all = [first, rest].concat();
            assert!(all == pattern(LENGTH), "{mode}, splice {splices}");
        }
    }
}

/// Answers requests over TLS with its name, for which it has a certificate.
fn secure(authority: &Authority, host: &str, name: &'static str) -> Origin {
    let accept = secured(&authority.issue(name, &[host]), None);
    Origin::raw(move |stream, _, _| {
        let mut stream = accept(stream);
        if matches!(request(&mut stream, &mut Vec::new()), Ok(Some(_))) {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}");
            drop(stream.write_all(text.as_bytes()));
        }
    })
}

#[test]
fn connections_go_by_the_name_that_their_clients_ask_for() {
    let authority = Authority::new("ours");
    let a = secure(&authority, "a.example", "a");
    let b = secure(&authority, "x.b.example", "b");
    let other = Origin::named("other");
    let routes = "[[listener.web.route]]\nserver_names = [\"a.example\"]\npool = \"a\"\n\
                  [[listener.web.route]]\nserver_names = [\"c.example\", \"*.b.example\"]\n\
                  pool = \"b\"\n\
                  [[listener.web.route]]\nserver_names = [\"bad.example\"]\n\
                  client = [\"127.0.0.0/8\"]\nreject = true\n";
    let servers = a.config("a", "one") + &b.config("b", "one") + &other.config("app", "one");
    let proxy = Proxy::start(&tcp(routes, &servers));
    let (trust, address) = (Trust::of(&authority), proxy.address("web"));
    for (name, expected) in [("a.example", "a"), ("X.b.example", "b")] {
        let mut client = trust.connect(address, name);
        assert_eq!(client.get("/").text(), expected, "{name}");
    }
    // What is no TLS asks for no name.
    assert_eq!(proxy.connect().get("/").text(), "other");
    let mut rejected = trust.begin(connected(address), "bad.example");
    let stream = &mut rejected.stream;
    assert!(stream.conn.complete_io(&mut stream.sock).is_err());
    proxy.until_said("no route takes a connection to \"bad.example\"");
    assert_eq!(proxy.stat("web/FRONTEND", "drefused"), 1);
}

#[test]
fn where_tls_ends_here_connections_go_by_its_names_too() {
    let authority = Authority::new("ours");
    let issued = authority.issue("web", &["a.example", "b.example"]);
    let (a, other) = (Origin::named("a"), Origin::named("other"));
    let tls = format!("[listener.web.tls]\n{}", issued.config("certificate"));
    let routes = "[[listener.web.route]]\nserver_names = [\"a.example\"]\npool = \"a\"\n";
    let servers = a.config("a", "one") + &other.config("app", "one");
    let proxy = Proxy::start(&tcp(&format!("{tls}{routes}"), &servers));
    let trust = Trust::of(&authority);
    for (name, expected) in [("a.example", "a"), ("b.example", "other")] {
        let mut client = trust.connect(proxy.address("web"), name);
        assert_eq!(client.get("/").text(), expected, "{name}");
    }
}
