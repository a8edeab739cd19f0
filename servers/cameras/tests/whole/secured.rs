//! The page, the interface and RTSP over TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use servers_common::testing::Authority;
use sha2::{Digest, Sha256};

use super::publish;
use super::support::{Client, LIMIT, Program, simulator, until};

/// A client that takes what this authority vouches for.
fn session(authority: &Authority) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(authority.ca()).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

/// What a server answers for which this authority vouches, or why there is no answer.
fn get(program: &Program, authority: &Authority) -> std::io::Result<String> {
    let socket = TcpStream::connect(&program.watch)?;
    socket.set_read_timeout(Some(LIMIT))?;
    let mut stream = StreamOwned::new(session(authority), socket);
    stream
        .write_all(b"GET /api/cameras HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        // The connection may end without a word of TLS about it.
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

#[test]
fn browsers_connect_by_tls_and_the_certificate_is_read_again() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let issued = first.issue("server", &["localhost"]);
    let watch = "[watch]\nlisten = \"127.0.0.1:0\"\n[watch.tls]\n".to_owned();
    let camera = "[camera.door]\n";
    let config = watch.clone() + &issued.config("certificate") + camera;
    let program = Program::start(&config);
    // Who does not shake hands holds up nobody.
    let _silent = TcpStream::connect(&program.watch).unwrap();
    let answer = get(&program, &first).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\"door\""), "{answer}");
    assert!(get(&program, &second).is_err());
    // One that is wrong changes nothing.
    program.rewrite(&config.replace("server.key", "server.pem"));
    program.signal("HUP");
    program.until_said("there is no private key in it");
    assert!(get(&program, &first).is_ok());
    let other = second.issue("server", &["localhost"]);
    program.rewrite(&(watch + &other.config("certificate") + camera));
    program.signal("HUP");
    program.until_said("the configuration was read again");
    assert!(get(&program, &second).is_ok());
    assert!(get(&program, &first).is_err());
}

/// A program with a camera and a place for a publisher, and RTSP over TLS.
fn secured(authority: &Authority, url: &str) -> Program {
    let issued = authority.issue("server", &["localhost"]);
    let config = format!(
        "[watch]\nlisten = \"127.0.0.1:0\"\n[watch.tls]\n{}\
         [camera.gate]\nurl = {url:?}\ndelivery = \"5ms\"\n[camera.door]\n",
        issued.config("certificate")
    );
    Program::start_with("listen_tls = \"127.0.0.1:0\"", &config)
}

fn fingerprint(authority: &Authority) -> String {
    let certificate = CertificateDer::from_pem_file(authority.path("server.pem")).unwrap();
    let digest = Sha256::digest(&certificate);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn streams_come_and_go_over_tls() {
    let simulator = simulator();
    let authority = Authority::new("one");
    let from = secured(&authority, &simulator.url(0));
    drop(from.watch("gate"));
    // Who does not shake hands holds up nobody.
    let _silent = TcpStream::connect(&from.rtsps).unwrap();
    let good = fingerprint(&authority);
    let camera = |name: &str, fingerprint: &str| {
        let fingerprint = match fingerprint {
            "" => String::new(),
            digits => format!("fingerprint = {digits:?}\n"),
        };
        let url = format!("rtsps://{}/gate", from.rtsps);
        format!("[camera.{name}]\nurl = {url:?}\ndelivery = \"5ms\"\n{fingerprint}")
    };
    let watch = "[watch]\nlisten = \"127.0.0.1:0\"\n";
    let wrong = good.replace(|digit| digit != '0', "0");
    let cameras = camera("good", &good) + &camera("wrong", &wrong) + &camera("unknown", "");
    let to = Program::start(&(watch.to_owned() + &cameras));
    let mut viewer = to.watch("good");
    assert_eq!(viewer.media().kind(), 7);
    let error = |name: &str| to.camera(name)["details"]["ingest"]["last_error"].to_string();
    until("another certificate is refused", || {
        error("wrong").contains(&format!("the fingerprint {good}, which is not expected"))
    });
    until("one of nobody known is refused", || {
        error("unknown").contains("cannot connect to")
    });
    for name in ["wrong", "unknown"] {
        assert_ne!(to.camera(name)["state"], "live", "{name}");
    }
    // By the name and the authority too.
    let mut viewer = Client::connect_tls(&from.rtsps, session(&authority));
    viewer.play(&format!("rtsps://{}/gate", from.rtsps));
    assert_eq!(viewer.media().kind(), 7);
}

#[test]
fn publishers_come_over_tls() {
    let authority = Authority::new("one");
    let program = secured(&authority, "rtsp://127.0.0.1:9/");
    let client = Client::connect_tls(&program.rtsps, session(&authority));
    let url = format!("rtsps://{}/door", program.rtsps);
    let mut publisher = publish::publisher_by(client, &url);
    let next = publish::send(&mut publisher, 0);
    let mut viewer = program.watch("door");
    publish::send(&mut publisher, next);
    assert_eq!(viewer.media().kind(), 7);
}

#[test]
fn a_certificate_that_changes_is_read_again_by_itself() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let issued = first.issue("server", &["localhost"]);
    let files = tempfile::tempdir().unwrap();
    let copy = |from: &Authority| {
        for name in ["server.pem", "server.key"] {
            std::fs::copy(from.path(name), files.path().join(name)).unwrap();
        }
    };
    copy(&first);
    let config = issued.config("certificate").replace(
        first.path("").to_str().unwrap(),
        &format!("{}/", files.path().display()),
    );
    let watch = "[watch]\nlisten = \"127.0.0.1:0\"\n[watch.tls]\n".to_owned();
    let program = Program::start_looking("listen_tls = \"127.0.0.1:0\"", &(watch + &config));
    assert!(get(&program, &first).is_ok());
    let shakes_hands = |authority: &Authority| {
        let mut client = Client::connect_tls(&program.rtsps, session(authority));
        client.write(b"OPTIONS * RTSP/1.0\r\n\r\n").is_ok()
    };
    assert!(shakes_hands(&first) && !shakes_hands(&second));
    second.issue("server", &["localhost"]);
    copy(&second);
    until("the other one is shown", || get(&program, &second).is_ok());
    assert!(shakes_hands(&second) && !shakes_hands(&first));
}
