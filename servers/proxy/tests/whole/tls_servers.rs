//! TLS to servers: who is trusted, as whom the proxy comes, and checks.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use rustls::{HandshakeKind, ServerConnection, StreamOwned};

use super::support::{
    Authority, Issued, LIMIT, Origin, Proxy, Trust, pattern, request, secured, web,
};

type Accepted = StreamOwned<ServerConnection, TcpStream>;

/// A server over TLS.
fn server(
    own: &Issued,
    clients: Option<&Authority>,
    serve: impl Fn(&mut Accepted) + Send + Sync + 'static,
) -> Origin {
    let over_tls = secured(own, clients);
    Origin::raw(move |stream, _, _| serve(&mut over_tls(stream)))
}

/// One that answers requests.
fn answering(own: &Issued, clients: Option<&Authority>) -> Origin {
    let over_tls = secured(own, clients);
    Origin::raw(move |stream, _, asked| {
        let (mut stream, mut buffer) = (over_tls(stream), Vec::new());
        while let Ok(Some(request)) = request(&mut stream, &mut buffer) {
            asked.lock().unwrap().push(request.clone());
            let body = if request.line == "GET /long" {
                pattern(2_000_003)
            } else {
                request.body
            };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream
                .write_all(&[head.as_bytes(), &body].concat())
                .is_err()
            {
                return;
            }
        }
    })
}

fn trusting(authority: &Authority, more: &str) -> String {
    format!("tls.ca = {:?}\n{more}", authority.ca())
}

#[test]
fn requests_go_to_servers_over_tls_whose_connections_are_kept_and_resumed() {
    let authority = Authority::new("ours");
    let origin = answering(&authority.issue("server", &["127.0.0.1"]), None);
    let proxy = Proxy::start(&web("", &trusting(&authority, ""), &[&origin]));
    let mut client = proxy.connect();
    assert_eq!(client.get("/").status, 200);
    for length in [1, 16_385, 2_000_003] {
        client.send(format!(
            "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
        ));
        client.send(pattern(length));
        assert!(client.answer().body == pattern(length), "{length}");
    }
    assert!(client.get("/long").body == pattern(2_000_003));
    assert_eq!(
        origin.connections(),
        1,
        "tickets that have come do not speak against it"
    );
    assert_eq!(proxy.stat("app/s0", "reuse"), 4);
    // Without a kept one.
    proxy.ctl("set server app/s0 state maint");
    proxy.ctl("set server app/s0 state ready");
    assert_eq!(proxy.connect().get("/").status, 200);
    assert_eq!(proxy.stat("app/s0", "tls_handshakes"), 2);
    assert_eq!(proxy.stat("app/s0", "tls_resumed"), 1);
    assert_eq!(origin.connections(), 2);
}

#[test]
fn what_the_system_trusts_is_trusted() {
    let authority = Authority::new("ours");
    let origin = answering(&authority.issue("server", &["127.0.0.1"]), None);
    let config = web("", "tls = true", &[&origin]);
    let ca = authority.ca();
    let proxy = Proxy::start_in(&[("SSL_CERT_FILE", &ca)], "", &config);
    assert_eq!(proxy.connect().get("/").status, 200);
    let other = Authority::new("other");
    let ca = other.ca();
    let proxy = Proxy::start_in(&[("SSL_CERT_FILE", &ca)], "", &config);
    assert_eq!(proxy.connect().get("/").status, 503);
    proxy.until_said("from none of the authorities that are trusted");
}

#[test]
fn a_server_is_trusted_by_its_authority_its_name_and_its_time() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let named = ours.issue("named", &["b.example"]);
    let plain = Origin::raw(|mut stream, _, _| {
        stream.write_all(b"220 welcome\r\n").unwrap();
        let _ = stream.peek(&mut [0]);
    });
    for (own, pool, said) in [
        (
            &ours.issue("good", &["127.0.0.1"]),
            trusting(&other, ""),
            "from none of the authorities",
        ),
        (&named, trusting(&ours, ""), "is for another name"),
        (
            &ours.issue_until("old", &["127.0.0.1"], 2020),
            trusting(&ours, ""),
            "has expired",
        ),
    ] {
        let origin = answering(own, None);
        let proxy = Proxy::start(&web("", &pool, &[&origin]));
        let answer = proxy.connect().get("/");
        assert_eq!(answer.status, 503, "{said}");
        proxy.until_said(said);
        proxy.until_said("cannot connect to server app/s0 at 127.0.0.1:");
        assert!(origin.asked().is_empty());
        assert!(proxy.stat("app/s0", "tls_failed") >= 1);
    }
    let origin = answering(&named, None);
    for pool in [
        trusting(&ours, "tls.server_name = \"b.example\""),
        "tls = { verify = false }".to_owned(),
    ] {
        let proxy = Proxy::start(&web("", &pool, &[&origin]));
        assert_eq!(proxy.connect().get("/").status, 200, "{pool}");
    }
    let proxy = Proxy::start(&web("", &trusting(&ours, ""), &[&plain]));
    assert_eq!(proxy.connect().get("/").status, 503);
    proxy.until_said("it does not speak TLS");
}

#[test]
fn servers_that_ask_for_a_certificate_get_it() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let origin = answering(&ours.issue("server", &["127.0.0.1"]), Some(&theirs));
    let own = theirs.issue("proxy", &["proxy"]);
    let pool = format!("[pool.app.tls]\nca = {:?}\n", ours.ca()) + &own.config("certificate");
    let proxy = Proxy::start(&web("", &pool, &[&origin]));
    assert_eq!(proxy.connect().get("/").status, 200);
    // Another one, in the same files, is for connections to come: no kept one is used.
    theirs.issue("proxy", &["proxy"]);
    proxy.ctl("reload");
    assert_eq!(proxy.connect().get("/").status, 200);
    assert_eq!(origin.connections(), 2);
    proxy.ctl("reload");
    assert_eq!(proxy.connect().get("/").status, 200);
    assert_eq!(origin.connections(), 2, "nothing has changed");
    let proxy = Proxy::start(&web("", &trusting(&ours, ""), &[&origin]));
    assert_eq!(proxy.connect().get("/").status, 502);
    proxy.until_said("CertificateRequired");
}

#[test]
fn checks_see_a_certificate_that_has_expired() {
    let authority = Authority::new("ours");
    let good = answering(&authority.issue("good", &["127.0.0.1"]), None);
    let old = answering(&authority.issue_until("old", &["127.0.0.1"], 2020), None);
    for kind in ["tcp", "http"] {
        let check = format!("check = {{ kind = \"{kind}\", interval = \"20ms\" }}");
        let pool = trusting(&authority, &check);
        let proxy = Proxy::start(&web("", &pool, &[&good, &old]));
        proxy.until_status("app/s1", "DOWN");
        proxy.until_said("server app/s1 is down: no TLS: its certificate has expired");
        assert_eq!(proxy.row("app/s0")["status"], "UP");
        for _ in 0..4 {
            assert_eq!(proxy.connect().get("/").status, 200);
        }
    }
}

#[test]
fn checks_shake_hands_whole() {
    let authority = Authority::new("ours");
    let (sender, kinds) = channel();
    let own = authority.issue("server", &["127.0.0.1"]);
    let origin = server(&own, None, move |stream| {
        if let Ok(Some(_)) = request(stream, &mut Vec::new()) {
            let _ = sender.send(stream.conn.handshake_kind());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        }
    });
    let pool = trusting(
        &authority,
        "check = { kind = \"http\", interval = \"20ms\" }",
    );
    let _proxy = Proxy::start(&web("", &pool, &[&origin]));
    for _ in 0..5 {
        assert_eq!(
            kinds.recv_timeout(LIMIT).unwrap(),
            Some(HandshakeKind::Full)
        );
    }
}

#[test]
fn an_answer_of_a_server_that_is_cut_off_is_not_taken_for_whole() {
    let authority = Authority::new("ours");
    let is_cut = Mutex::new(false);
    let origin = server(
        &authority.issue("server", &["127.0.0.1"]),
        None,
        move |stream| {
            let _ = request(stream, &mut Vec::new());
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").unwrap();
            let mut is_cut = is_cut.lock().unwrap();
            if !*is_cut {
                stream.conn.send_close_notify();
                stream.flush().unwrap();
            }
            stream.sock.shutdown(Shutdown::Write).unwrap();
            *is_cut = true;
        },
    );
    let proxy = Proxy::start(&web("", &trusting(&authority, ""), &[&origin]));
    assert_eq!(proxy.connect().get("/").text(), "half");
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    let error = std::io::Read::read_to_end(&mut client.stream, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(proxy.stat("app/s0", "eresp"), 1);
}

#[test]
fn tcp_passes_over_tls_on_both_sides() {
    let authority = Authority::new("ours");
    let origin = server(&authority.issue("server", &["127.0.0.1"]), None, |stream| {
        let mut came = Vec::new();
        std::io::Read::read_to_end(stream, &mut came).unwrap();
        stream.write_all(&came).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    });
    let issued = authority.issue("web", &["a.example"]);
    let tls = format!("[listener.web.tls]\n{}", issued.config("certificate"));
    let server = "send_proxy = \"v1\"\n";
    let config = web(&tls, &trusting(&authority, ""), &[&origin]).replace("\"http\"", "\"tcp\"");
    let proxy = Proxy::start(&config);
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.send(pattern(300_001));
    client.finish();
    assert!(client.rest() == pattern(300_001));
    // The header of the PROXY protocol goes before TLS.
    let over_tls = secured(&authority.issue("server", &["127.0.0.1"]), None);
    let origin = Origin::raw(move |mut stream, _, _| {
        let mut byte = [0];
        let mut line = Vec::new();
        while byte != *b"\n" {
            std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
            line.push(byte[0]);
        }
        let mut stream = over_tls(stream);
        stream.write_all(&line).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    });
    let proxy = Proxy::start(
        &(web("", &trusting(&authority, ""), &[&origin]).replace("\"http\"", "\"tcp\"") + server),
    );
    let line = proxy.connect().rest();
    assert!(
        line.starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1 "),
        "{line:?}"
    );
}
