//! The page and the interface over TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use servers_common::testing::Authority;

use super::support::{LIMIT, Program};

/// What a server answers for which this authority vouches, or why there is no answer.
fn get(program: &Program, authority: &Authority) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let ca = rustls::pki_types::CertificateDer::from_pem_file(authority.ca()).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(&program.watch)?;
    socket.set_read_timeout(Some(LIMIT))?;
    let mut stream = StreamOwned::new(session, socket);
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
