//! TLS with clients: certificates, sessions, and who may shake hands.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::support::{
    Authority, Client, Issued, Origin, Proxy, Reply, Trust, connected, pattern, run_command, until,
    web,
};

/// The beginning of a handshake which the client does not go on with.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// A listener for HTTP over TLS by this certificate.
fn over_tls(issued: &Issued, more: &str, server: &Origin) -> String {
    let tls = format!(
        "{more}\n[listener.web.tls]\n{}",
        issued.config("certificate")
    );
    web(&tls, "", &[server])
}

fn a_certificate() -> (Authority, Issued) {
    let authority = Authority::new("ours");
    let issued = authority.issue("web", &["a.example"]);
    (authority, issued)
}

#[test]
fn requests_and_bodies_go_over_tls_and_connections_are_kept() {
    let (authority, issued) = a_certificate();
    let origin = Origin::http(|asked| {
        let body = if asked.line == "GET /long" {
            pattern(3_000_001)
        } else {
            asked.body.clone()
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Reply::Go([head.as_bytes(), &body].concat())
    });
    let proxy = Proxy::start(&over_tls(&issued, "", &origin));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    assert_eq!(client.get("/").body, b"");
    for length in [1, 16_383, 16_385, 2_000_003] {
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
        ));
        client.send(pattern(length));
        assert!(client.answer().body == pattern(length), "{length}");
    }
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "3\r\nabc\r\n0\r\n\r\n");
    // Two at once.
    client.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().body == pattern(3_000_001));
    assert_eq!(client.answer().body, b"");
    let asked = &origin.asked()[0];
    assert_eq!(asked.header("x-forwarded-proto").as_deref(), Some("https"));
    assert_eq!(proxy.stat("web/FRONTEND", "req_tot"), 8);
    assert_eq!(proxy.stat("web/FRONTEND", "tls_handshakes"), 1);
    assert_eq!(origin.connections(), 1);

    let plain = Proxy::start(&web("", "", &[&origin]));
    plain.connect().get("/");
    let asked = origin.asked().pop().unwrap();
    assert_eq!(asked.header("x-forwarded-proto").as_deref(), Some("http"));
}

#[test]
fn the_certificate_is_that_of_the_name_that_is_asked_for() {
    let authority = Authority::new("ours");
    let first = authority.issue("first", &["first.example"]);
    let exact = authority.issue("exact", &["one.b.example", "c.example"]);
    let below = authority.issue("below", &["*.b.example"]);
    let mut tls = String::new();
    for issued in [&first, &exact, &below] {
        tls += &format!(
            "[[listener.web.tls.certificate]]\n{}",
            issued.config("file")
        );
    }
    let origin = Origin::named("x");
    let proxy = Proxy::start(&web(&tls, "", &[&origin]));
    for (name, issued) in [
        ("first.example", &first),
        ("one.b.example", &exact),
        ("ONE.b.example", &exact),
        ("c.example", &exact),
        ("two.b.example", &below),
    ] {
        let mut client = Trust::of(&authority).connect(proxy.address("web"), name);
        assert_eq!(client.certificate(), issued.der(), "{name}");
        assert_eq!(client.get("/").text(), "x");
    }
    // The first one is for all others, who do not trust it.
    let trust = Trust::of(&authority);
    let mut client = trust.connect(proxy.address("web"), "three.two.b.example");
    assert!(client.stream.flush().is_err());
    proxy.until_said("it does not trust the certificate of this listener");
    assert_eq!(proxy.stat("web/FRONTEND", "tls_failed"), 1);
}

#[test]
fn sessions_are_resumed_also_after_a_reload_unless_other_clients_are_let_in() {
    let (authority, issued) = a_certificate();
    let origin = Origin::named("x");
    let config = over_tls(&issued, "", &origin);
    let proxy = Proxy::start(&config);
    for (number, version) in [&rustls::version::TLS12, &rustls::version::TLS13]
        .iter()
        .enumerate()
    {
        let own = authority.issue("client", &["client"]);
        let trust = Trust::with(&authority, &[*version], Some(&own));
        let connect = |is_resumed: bool| {
            let mut client = trust.connect(proxy.address("web"), "a.example");
            assert_eq!(client.get("/").text(), "x");
            assert_eq!(client.is_resumed(), is_resumed, "{version:?}");
        };
        connect(false);
        connect(true);
        proxy.ctl("reload");
        connect(true);
        assert_eq!(
            proxy.stat("web/FRONTEND", "tls_resumed"),
            number as u64 * 3 + 2
        );
        let asking = config.replace(
            "[pool.app]",
            &format!("client_ca = {:?}\n[pool.app]", authority.ca()),
        );
        proxy.rewrite(&asking);
        proxy.ctl("reload");
        connect(false);
        connect(true);
        proxy.rewrite(&config);
        proxy.ctl("reload");
    }
    assert!(proxy.ctl("show info").contains("CumTlsResumed: 6\n"));
    // Neither is kept anywhere.
    let off = config.replace(
        "[pool.app]",
        "tickets = false\nsessions_max = 0\n[pool.app]",
    );
    let proxy = Proxy::start(&off);
    let trust = Trust::of(&authority);
    for _ in 0..2 {
        let mut client = trust.connect(proxy.address("web"), "a.example");
        assert_eq!(client.get("/").text(), "x");
        assert!(!client.is_resumed());
    }
}

#[test]
fn versions_and_protocols_are_agreed_on() {
    let (authority, issued) = a_certificate();
    let origin = Origin::named("x");
    let config = over_tls(&issued, "", &origin);
    let proxy = Proxy::start(&config.replace("[pool.app]", "min_version = \"1.3\"\n[pool.app]"));
    let old = Trust::with(&authority, &[&rustls::version::TLS12], None);
    assert!(
        old.connect(proxy.address("web"), "a.example")
            .stream
            .flush()
            .is_err()
    );
    proxy.until_said("no version or cipher in common");
    let proxy = Proxy::start(&config);
    let trust = Trust::of(&authority);
    for (spoken, agreed) in [
        (&["spdy/1", "http/1.1"][..], Some(&b"http/1.1"[..])),
        (&[][..], None),
    ] {
        let mut client = trust
            .speaking(spoken)
            .connect(proxy.address("web"), "a.example");
        assert_eq!(client.get("/").text(), "x");
        assert_eq!(client.stream.conn.alpn_protocol(), agreed);
    }
    let other = trust.speaking(&["spdy/1"]);
    assert!(
        other
            .connect(proxy.address("web"), "a.example")
            .stream
            .flush()
            .is_err()
    );
    proxy.until_said("none of the protocols of this listener");
    // With TCP, the servers' protocols are said.
    let tcp = config.replace("\"http\"", "\"tcp\"");
    let tcp = tcp.replace("[pool.app]", "alpn = [\"h2\", \"imap\"]\n[pool.app]");
    let proxy = Proxy::start(&tcp);
    let mut client = trust
        .speaking(&["imap"])
        .connect(proxy.address("web"), "a.example");
    client.certificate();
    assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"imap"[..]));
}

#[test]
fn clients_come_with_a_certificate_where_one_is_asked_for() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let issued = ours.issue("web", &["a.example"]);
    let origin = Origin::named("x");
    let asks = format!("client_ca = {:?}\n[pool.app]", theirs.ca());
    let proxy = Proxy::start(&over_tls(&issued, "", &origin).replace("[pool.app]", &asks));
    let with = |own: Option<&Issued>| {
        Trust::with(&ours, rustls::ALL_VERSIONS, own).connect(proxy.address("web"), "a.example")
    };
    let good = theirs.issue("good", &["client"]);
    assert_eq!(with(Some(&good)).get("/").text(), "x");
    let foreign = ours.issue("foreign", &["client"]);
    let old = theirs.issue_until("old", &["client"], 2020);
    for (own, said) in [
        (None, "it came without a certificate"),
        (
            Some(&foreign),
            "from none of the authorities in tls.client_ca",
        ),
        (Some(&old), "its certificate has expired"),
    ] {
        let mut client = with(own);
        let _ = client
            .stream
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        // It learns why, by an alert.
        let error = client.stream.read(&mut [0]).unwrap_err();
        assert!(error.to_string().contains("alert"), "{error}");
        proxy.until_said(said);
        // A complaint a second.
        std::thread::sleep(std::time::Duration::from_millis(1_050));
    }
    assert_eq!(origin.asked().len(), 1);
    assert_eq!(proxy.stat("web/FRONTEND", "tls_failed"), 3);
}

#[test]
fn certificates_are_read_again_and_wrong_ones_change_nothing() {
    let authority = Authority::new("ours");
    let issued = authority.issue("web", &["a.example"]);
    let origin = Origin::named("x");
    let proxy = Proxy::start(&over_tls(&issued, "", &origin));
    // Each one without sessions, which would have the certificate of the first time.
    let connect = || Trust::of(&authority).connect(proxy.address("web"), "a.example");
    let shown = || connect().certificate();
    let (first, mut old) = (issued.der(), connect());
    assert_eq!(old.get("/").text(), "x");
    authority.issue("web", &["a.example"]);
    assert_ne!(issued.der(), first);
    assert_eq!(shown(), first, "nobody has asked for it yet");
    proxy.signal("HUP");
    until("it was read", || {
        proxy.ctl("show info").contains("Reloads: 1\n")
    });
    let second = issued.der();
    assert_eq!(shown(), second);
    assert_eq!(old.get("/").text(), "x", "a connection goes on");
    // The key is another one.
    let key = std::fs::read(&issued.key).unwrap();
    let other = authority.issue("other", &["a.example"]);
    std::fs::copy(&other.key, &issued.key).unwrap();
    let refused = |said: &str, file: &Path| {
        let (done, _, errors) = proxy.try_ctl("reload");
        assert!(!done && errors.contains(said), "{errors}");
        assert!(errors.contains(&*file.to_string_lossy()), "{errors}");
        assert!(errors.contains("nothing was changed"), "{errors}");
        assert_eq!(shown(), second);
    };
    refused("it does not fit the key in", &issued.certificate);
    std::fs::write(&issued.key, key).unwrap();
    std::fs::remove_file(&issued.certificate).unwrap();
    refused("No such file", &issued.certificate);
    assert_eq!(old.get("/").text(), "x");
    proxy.signal("HUP");
    proxy.until_said("nothing was changed");
}

/// A listener with this in its table for TLS.
fn listener(name: &str, tls: &str) -> String {
    format!(
        "[listener.{name}]\nbind = \"unix:/{name}\"\nmode = \"http\"\npool = \"p\"\n\
         [listener.{name}.tls]\n{tls}\n"
    )
}

/// A pool with this in its table for TLS.
fn pool(address: &str, tls: &str) -> String {
    format!("[[pool.p.server]]\nname = \"s\"\naddress = \"{address}\"\n[pool.p.tls]\n{tls}\n")
}

/// What is written for a listener, and in which line of it what is wrong.
type Case = (String, i32, &'static str);

fn wrong_files(authority: &Authority, good: &Issued) -> Vec<Case> {
    let other = authority.issue("other", &["b.example"]);
    let open = authority.issue("open", &["c.example"]);
    let [empty, missing, encrypted] =
        ["empty", "missing", "encrypted"].map(|name| authority.path(name));
    std::fs::write(&empty, "").unwrap();
    let begin = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n";
    std::fs::write(
        &encrypted,
        format!("{begin}-----END ENCRYPTED PRIVATE KEY-----\n"),
    )
    .unwrap();
    for (file, mode) in [(&open.key, 0o644), (&empty, 0o600), (&encrypted, 0o600)] {
        std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    }
    let pair = |certificate: &Path, key: &Path| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Issued { certificate, key }.config("certificate")
    };
    let clients = format!("client_ca = {empty:?}");
    vec![
        (pair(&missing, &good.key), 0, "No such file"),
        (
            pair(&good.certificate, &other.key),
            0,
            "it does not fit the key in",
        ),
        (
            pair(&good.certificate, &open.key),
            1,
            "others can read or change it",
        ),
        (
            pair(&good.certificate, &empty),
            1,
            "there is no private key in it",
        ),
        (
            pair(&good.certificate, &encrypted),
            1,
            "write it without a passphrase",
        ),
        (pair(&empty, &good.key), 0, "there is no certificate in it"),
        (
            good.config("certificate") + &clients,
            2,
            "there is no certificate in it",
        ),
    ]
}

fn wrong_keys(authority: &Authority, good: &Issued) -> Vec<Case> {
    let nameless = authority.issue("nameless", &["127.0.0.1"]);
    let with = |more: &str| good.config("certificate") + more;
    let [first, second] = [good, &nameless].map(|issued| issued.config("file"));
    let (from, table) = (
        "certificate = []".to_owned(),
        "[[listener.l.tls.certificate]]\n",
    );
    vec![
        (with("class = \"none\""), 2, "there is no class"),
        (with("alpn = [\"h2\"]"), 2, "drop alpn"),
        (with("handshakes_max = 0"), -1, "tls.handshakes_max is 0"),
        (with("clientca = \"x\""), 2, "clientca"),
        (from, 0, "a list of no certificates"),
        (
            format!("{table}{first}{table}{second}"),
            4,
            "no client would get",
        ),
    ]
}

#[test]
fn all_that_is_wrong_with_a_listener_is_said_with_its_line() {
    let authority = Authority::new("ours");
    let good = authority.issue("good", &["a.example"]);
    let files = wrong_files(&authority, &good);
    let server = "[[pool.p.server]]\nname = \"s\"\naddress = \"a.example:1\"\n";
    for (tls, line, said) in wrong_keys(&authority, &good).iter().chain(&files) {
        let text = listener("l", tls) + server;
        says(&text, &[(line + 6, said)]);
    }
    // All at once.
    let mut text = server.to_owned();
    let mut expected = Vec::new();
    for (number, (tls, line, said)) in files.into_iter().enumerate() {
        expected.push((text.matches('\n').count() as i32 + line + 6, said));
        text += &listener(&format!("l{number}"), &tls);
    }
    says(&text, &expected);
}

#[test]
fn what_is_wrong_with_a_pool_is_said_with_its_line() {
    let authority = Authority::new("ours");
    let good = authority.issue("good", &["a.example"]);
    let (ca, missing) = (authority.ca(), authority.path("missing"));
    let front = listener("l", &good.config("certificate"));
    // From the first line for TLS on.
    let begin = front.matches('\n').count() as i32 + 5;
    for (address, tls, line, said) in [
        ("a:1", format!("ca = {missing:?}"), 0, "No such file"),
        (
            "a:1",
            format!("verify = false\nca = {ca:?}"),
            1,
            "drop ca, or verify",
        ),
        (
            "a:1",
            format!("verify = false\nkey = {:?}", good.key),
            1,
            "no certificate",
        ),
        (
            "a:1",
            "verify = false\nserver_name = \"a b\"".to_owned(),
            1,
            "is no name that",
        ),
        ("a:1", "verify = 1".to_owned(), 0, "boolean"),
        (
            "unix:/s",
            format!("ca = {ca:?}"),
            -4,
            "give pool.p.tls.server_name",
        ),
    ] {
        says(
            &(front.clone() + &pool(address, &tls)),
            &[(begin + line, said)],
        );
    }
}

#[test]
fn a_certificate_and_its_key_may_be_in_one_file_beside_the_configuration() {
    let authority = Authority::new("ours");
    let good = authority.issue("good", &["a.example"]);
    let mut both = std::fs::read_to_string(&good.certificate).unwrap();
    both += &std::fs::read_to_string(&good.key).unwrap();
    std::fs::write(&good.key, both).unwrap();
    let file = authority.path("good.toml");
    let pool = pool("a.example:1", "ca = \"ca.pem\"");
    std::fs::write(&file, listener("l", "certificate = \"good.key\"") + &pool).unwrap();
    let (done, said, errors) = run_command(&["check", file.to_str().unwrap()]);
    assert!(done && said.contains("good;"), "{errors}");
}

/// Has `check` say what is wrong with a text, in these lines.
fn says(text: &str, expected: &[(i32, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("proxy.toml");
    std::fs::write(&file, text).unwrap();
    let (done, _, errors) = run_command(&["check", file.to_str().unwrap()]);
    assert!(!done);
    for (line, said) in expected {
        let place = format!("proxy.toml:{line}:");
        let is_there = |found: &str| found.contains(&place) && found.contains(said);
        assert!(
            errors.lines().any(is_there),
            "{place} {said}\n{errors}\n{text}"
        );
    }
    let found = errors.lines().filter(|found| found.contains("proxy.toml:"));
    assert_eq!(found.count(), expected.len(), "{errors}");
}

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let (authority, issued) = a_certificate();
    let origin = Origin::named("x");
    let proxy = Proxy::start(&over_tls(&issued, "timeouts.handshake = \"1s\"", &origin));
    let mut client = Client::connect(proxy.address("web"));
    client.send(HALF_HELLO);
    client.ended();
    proxy.until_said("no handshake within 1s, timeouts.handshake");
    // One that says nothing is no failure, and neither is one that has shaken hands.
    drop(Client::connect(proxy.address("web")));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.certificate();
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    assert_eq!(client.get("/").text(), "x");
    until("its place is free", || {
        proxy.ctl("show info").contains("CurrTlsHandshakes: 0\n")
    });
    assert_eq!(proxy.stat("web/FRONTEND", "tls_failed"), 1);
}

#[test]
fn a_flood_of_stalled_handshakes_sheds_itself() {
    let (authority, issued) = a_certificate();
    let origin = Origin::named("x");
    let config = over_tls(&issued, "timeouts.handshake = \"1h\"", &origin);
    let config = config.replace("[pool.app]", "handshakes_max = 4\n[pool.app]");
    let proxy = Proxy::start(&config);
    let trust = Trust::of(&authority);
    let mut live = trust.connect(proxy.address("web"), "a.example");
    assert_eq!(live.get("/").text(), "x");
    let mut stalled = Vec::new();
    for number in 0..40 {
        let mut client = Client::connect(proxy.address("web"));
        if number % 2 == 0 {
            // Where all places are of handshakes that wait for this process, it has gone already.
            let _ = client.stream.write_all(HALF_HELLO);
        }
        stalled.push(client);
        if number % 10 == 9 {
            // All have their places by now, so that a new one is the youngest.
            until("the others have gone", || {
                proxy.stat("web/FRONTEND", "tls_shed") == number - 3
            });
            assert_eq!(live.get("/").text(), "x");
            let mut new = trust.connect(proxy.address("web"), "a.example");
            assert_eq!(new.get("/").text(), "x");
        }
    }
    // The oldest ones have gone, and the limit holds.
    stalled[0].ended();
    until("the others wait", || {
        proxy.ctl("show info").contains("CurrTlsHandshakes: 3\n")
    });
    until("they are counted", || {
        proxy.stat("web/FRONTEND", "tls_shed") == 37
    });
    proxy.until_said("tls.handshakes_max");
    assert_eq!(live.get("/").text(), "x");
    drop(stalled);
    until("all are over", || {
        proxy.ctl("show info").contains("CurrTlsHandshakes: 0\n")
    });
}

#[test]
fn handshakes_have_a_class_of_their_own() {
    let (authority, issued) = a_certificate();
    let origin = Origin::named("x");
    let config = over_tls(&issued, "class = \"bulk\"", &origin);
    let config = config.replace("[pool.app]", "class = \"hands\"\n[pool.app]");
    // With TCP, so that no request changes the class.
    let config = config.replace("\"http\"", "\"tcp\"") + "[class.hands]\nshare = 5\n";
    let proxy = Proxy::start(&config);
    let polls = |class: &str| {
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&proxy.ctl("show cpu json")).unwrap();
        let row = rows.iter().find(|row| row["class"] == class).unwrap();
        (row["polls"].as_u64().unwrap(), row["used_by"].clone())
    };
    assert_eq!(polls("hands"), (0, "web/handshakes".into()));
    let mut client = Trust::of(&authority).connect(proxy.address("web"), "a.example");
    client.certificate();
    until("its polls are counted", || polls("hands").0 > 0);
    assert_eq!(client.get("/").text(), "x");
    let (shaken, before) = (polls("hands").0, polls("bulk").0);
    for _ in 0..50 {
        assert_eq!(client.get("/").text(), "x");
    }
    until("its polls are counted", || polls("bulk").0 >= before + 50);
    assert_eq!(polls("hands").0, shaken, "what follows is not in it");
}

#[test]
fn who_does_not_speak_tls_is_told_in_the_clear() {
    let (_authority, issued) = a_certificate();
    let origin = Origin::named("x");
    let proxy = Proxy::start(&over_tls(&issued, "", &origin));
    let mut client = Client::connect(proxy.address("web"));
    let answer = client.get("/");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("ask for https"), "{}", answer.text());
    proxy.until_said("it speaks something else");
    let mut client = Client::connect(proxy.address("web"));
    client.send([0; 64]);
    // An alert.
    assert_eq!(client.ended()[0], 0x15);
    // An end in place of a handshake.
    let mut client = Client::connect(proxy.address("web"));
    client.send(b"\x15\x03\x03\x00\x02\x02\x00");
    client.ended();
    assert_eq!(proxy.stat("web/FRONTEND", "tls_failed"), 3);
    assert!(origin.asked().is_empty());
}

#[test]
fn the_header_of_the_proxy_protocol_comes_before_tls() {
    let (authority, issued) = a_certificate();
    let origin = Origin::named("x");
    let proxy = Proxy::start(&over_tls(&issued, "accept_proxy = true", &origin));
    let mut stream = connected(proxy.address("web"));
    stream
        .write_all(b"PROXY TCP4 192.0.2.1 192.0.2.9 1000 443\r\n")
        .unwrap();
    let mut client = Trust::of(&authority).begin(stream, "a.example");
    assert_eq!(client.get("/").text(), "x");
    let asked = &origin.asked()[0];
    assert_eq!(
        asked.header("x-forwarded-for").as_deref(),
        Some("192.0.2.1")
    );
    // All in one piece: what has come behind the header is of the handshake.
    let mut hello = Vec::new();
    let mut client = Trust::of(&authority).begin(connected(proxy.address("web")), "a.example");
    client.stream.conn.write_tls(&mut hello).unwrap();
    let header = b"PROXY TCP4 192.0.2.2 192.0.2.9 1000 443\r\n";
    client
        .stream
        .sock
        .write_all(&[header, &hello[..]].concat())
        .unwrap();
    assert_eq!(client.get("/").text(), "x");
    let asked = &origin.asked()[1];
    assert_eq!(
        asked.header("x-forwarded-for").as_deref(),
        Some("192.0.2.2")
    );
}
