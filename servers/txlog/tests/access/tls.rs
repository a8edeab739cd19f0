//! TLS: who is let in, who is trusted, and what others learn.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::certificates::{Authority, Issued, Trusted, security};
use crate::support::secured::serving_secured;
use crate::support::served::{Raw, serving};
use crate::support::{LIMIT, Random, run};
use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::time::{sleep, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use txlog::access::{Security, ServerTls, TlsFiles};
use txlog::server::{BindError, Server, ServerConfig};
use txlog_client::frame::Code;
use txlog_client::{Client, ClientError, Connect, ReadFrom, Tls};

/// Serves with this certificate while `test` runs.
fn serving_tls(issued: &Issued, test: impl AsyncFnOnce(SocketAddr)) {
    let security = security(issued, None);
    serving_secured(ServerConfig::default(), security, async |address, _| {
        test(address).await;
    });
}

async fn works(connect: &Connect, address: SocketAddr) -> u64 {
    let client = connect.connect(address).await.unwrap();
    client.append("over TLS").await.unwrap()
}

#[track_caller]
fn assert_says<T: std::fmt::Debug>(result: Result<T, ClientError>, part: &str) {
    let error = result.expect_err("no TLS, or no right to it");
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn records_go_over_tls_as_they_do_without() {
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    serving_tls(&issued, async |address| {
        let client = authority.connect(None).connect(address).await.unwrap();
        let mut submitted = Vec::new();
        for number in 0..500 {
            // Up to the largest, and not in step with the records of TLS.
            let record = vec![number as u8; number * 1_237 % 4_096];
            submitted.push(client.submit(record).await.unwrap());
        }
        for (number, submitted) in submitted.into_iter().enumerate() {
            assert_eq!(submitted.await.unwrap(), number as u64 + 1);
        }
        let mut follower = client.follow(ReadFrom::Oldest);
        for number in 0..500 {
            let record = follower.next().await.unwrap();
            assert_eq!(record.payload, vec![number as u8; number * 1_237 % 4_096]);
        }
        client.ping().await.unwrap();
        assert!(client.health(LIMIT).await.unwrap().writable);
    });
}

#[test]
fn a_server_is_trusted_by_its_authority_its_name_and_its_time() {
    let (ours, other) = (Authority::new("ours"), Authority::new("another"));
    let cases = [
        (ours.issue("good", &["127.0.0.1"]), &other, "--tls-ca"),
        (
            ours.issue_until("old", &["127.0.0.1"], 2020),
            &ours,
            "expired",
        ),
        (
            ours.issue("named", &["example.org"]),
            &ours,
            "--tls-server-name",
        ),
    ];
    for (issued, trusted, said) in cases {
        serving_tls(&issued, async |address| {
            assert_says(trusted.connect(None).connect(address).await, said);
        });
    }
    let named = ours.issue("named", &["example.org"]);
    serving_tls(&named, async |address| {
        let files = txlog_client::TlsFiles {
            ca: ours.ca(),
            server_name: Some("example.org".to_owned()),
            ..Default::default()
        };
        let connect = Connect::new().tls(Tls::read(&files).unwrap());
        assert_eq!(works(&connect, address).await, 1);
    });
}

#[test]
fn clients_come_with_a_certificate_where_one_is_asked_for() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ours.issue("server", &["127.0.0.1"]);
    let security = security(&server, Some(theirs.ca()));
    let config = ServerConfig::default();
    serving_secured(config, security, async |address, _| {
        let good = theirs.issue("client", &["somebody"]);
        assert_eq!(works(&ours.connect(Some(&good)), address).await, 1);
        assert_says(
            ours.connect(None).connect(address).await,
            "--tls-cert and --tls-key",
        );
        let foreign = ours.issue("client", &["somebody"]);
        let old = theirs.issue_until("old", &["somebody"], 2020);
        for own in [foreign, old] {
            let connected = ours.connect(Some(&own)).connect(address).await;
            assert_says(connected, "does not accept this client's certificate");
        }
        assert_eq!(works(&ours.connect(Some(&good)), address).await, 2);
    });
}

#[test]
fn each_side_says_so_if_only_the_other_speaks_tls() {
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    serving_tls(&issued, async |address| {
        let error = Client::connect(address).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::NotTxlog));
        assert!(error.to_string().contains("--tls-ca"), "{error}");
        // Whatever else comes is answered so, too.
        for other in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"\0\0\0\0",
            &[0x16, 2, 0, 0],
        ] {
            let mut raw = Raw::connect(address).await;
            raw.send(other).await;
            assert_eq!(raw.faulted().await, Code::NotTxlog);
        }
    });
    serving(ServerConfig::default(), |address, _| async move {
        assert_says(
            authority.connect(None).connect(address).await,
            "does not speak TLS",
        );
        let mut raw = Raw::connect(address).await;
        // What TLS begins with.
        raw.send(&[0x16, 3, 1, 2, 0, 1, 0, 1]).await;
        assert_eq!(raw.faulted().await, Code::NotTxlog);
    });
}

#[test]
fn a_client_says_so_if_the_server_answers_in_tls() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = evenkeel::spawn(Client::connect(address));
        let (mut stream, _) = listener.accept().await.unwrap();
        // An alert: no TLS was understood.
        stream.write_all(&[0x15, 3, 3, 0, 2, 2, 10]).await.unwrap();
        assert_says(client.await.unwrap(), "--tls-ca");
    });
}

/// Passes on so many bytes from a client to the server, and then cuts both off.
async fn cutting(server: SocketAddr, bytes: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    evenkeel::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(server).await.unwrap();
        let ((client, mut to_client), (mut from, mut to)) =
            (client.into_split(), server.into_split());
        let back = evenkeel::spawn(async move {
            let _ = tokio::io::copy(&mut from, &mut to_client).await;
        });
        let _ = tokio::io::copy(&mut client.take(bytes), &mut to).await;
        back.abort();
    });
    address
}

#[test]
fn a_connection_that_is_cut_anywhere_leaves_nothing_behind() {
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    // The one that is served at a time has the only place.
    let config = ServerConfig {
        connections_max: 1,
        reserve_max: 0,
        stall_max: Duration::from_secs(600),
        drain_max: Duration::from_secs(600),
        ..ServerConfig::default()
    };
    serving_secured(config, security(&issued, None), async |address, _| {
        let connect = authority.connect(None);
        let mut random = Random::new(1);
        for round in 0..150 {
            let bytes = if round < 20 {
                round
            } else {
                random.below(2_000)
            };
            let cut = cutting(address, bytes).await;
            let attempt = async {
                let client = connect.connect(cut).await?;
                client.append(vec![7; 2_000]).await
            };
            timeout(LIMIT, attempt).await.expect("an end").unwrap_err();
        }
        let works = async {
            loop {
                match connect.connect(address).await {
                    Ok(client) => break client.append("whole").await.unwrap(),
                    Err(_) => sleep(Duration::from_millis(1)).await,
                }
            }
        };
        timeout(LIMIT / 2, works).await.expect("the place is free");
    });
}

#[test]
fn a_client_that_stalls_in_its_handshake_leaves_in_time() {
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    let config = ServerConfig {
        stall_max: Duration::from_millis(50),
        ..ServerConfig::default()
    };
    serving_secured(config, security(&issued, None), async |address, _| {
        for begins in [&b""[..], &[0x16], &[0x16, 3, 1, 1, 0, 1, 0]] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begins).await.unwrap();
            let ended = timeout(LIMIT, stream.read(&mut [0; 100])).await;
            assert_eq!(ended.expect("it is cut off").unwrap_or(0), 0);
        }
    });
}

#[test]
fn certificates_that_are_read_again_are_for_connections_to_come() {
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    let server = first.issue("server", &["127.0.0.1"]);
    let config = ServerConfig::default();
    serving_secured(config, security(&server, None), async |address, reload| {
        let old = first.connect(None).connect(address).await.unwrap();
        // A key that does not fit changes nothing.
        let next = second.issue("server", &["127.0.0.1"]);
        let read = |path| std::fs::read_to_string(path).unwrap();
        let (certificate, key) = (read(&next.certificate), read(&next.key));
        std::fs::write(&server.certificate, certificate).unwrap();
        reload.request();
        sleep(Duration::from_millis(100)).await;
        works(&first.connect(None), address).await;
        servers_common::testing::write_private(&server.key, &key);
        reload.request();
        let renewed = async {
            while second.connect(None).connect(address).await.is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LIMIT / 2, renewed)
            .await
            .expect("the new certificate");
        assert_says(first.connect(None).connect(address).await, "--tls-ca");
        old.append("still here").await.unwrap();
    });
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let authority = Authority::new("ours");
    let (one, other) = (
        authority.issue("one", &["a"]),
        authority.issue("other", &["b"]),
    );
    let files = |certificate: &Issued, key: &Issued| TlsFiles {
        certificate: certificate.certificate.clone(),
        key: key.key.clone(),
        client_ca: None,
    };
    let said = |files| ServerTls::read(files).unwrap_err().to_string();
    assert!(said(files(&one, &other)).contains("does not fit"));
    let empty = TlsFiles {
        certificate: one.key.clone(),
        ..files(&one, &one)
    };
    assert!(said(empty).contains("no certificate"));
    let nowhere = TlsFiles {
        client_ca: Some("/nowhere.pem".into()),
        ..files(&one, &one)
    };
    assert!(said(nowhere).contains("/nowhere.pem"));
    let key = std::fs::read_to_string(&one.key).unwrap();
    std::fs::remove_file(&one.key).unwrap();
    std::fs::write(&one.key, key).unwrap();
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&one.key, open).unwrap();
    assert!(said(files(&one, &one)).contains("chmod 600"));
}

#[test]
fn with_tls_and_tokens_or_certificates_all_addresses_may_be_listened_on() {
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    let tls = security(&issued, None);
    let asks = security(&issued, Some(authority.ca()));
    let accepts = Security {
        insecure_no_tokens: true,
        ..tls.clone()
    };
    run(async {
        let log = crate::support::held::Held::new(crate::support::small()).await;
        let bind = |security| {
            let logs = (Some(log.clone()), None);
            Server::bind_secured("0.0.0.0:0", logs, ServerConfig::default(), security)
        };
        let error = bind(tls).await.unwrap_err();
        assert!(matches!(error, BindError::Exposed { .. }), "{error}");
        assert!(error.to_string().contains("--tokens"), "{error}");
        // Listened on, and never served.
        drop(bind(asks).await.unwrap());
        drop(bind(accepts).await.unwrap());
    });
}

/// What a client of TLS says first.
fn client_hello(authority: &Authority) -> Vec<u8> {
    use tokio_rustls::rustls::ClientConnection;
    use tokio_rustls::rustls::pki_types::ServerName;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut session = ClientConnection::new(authority.config(), name).unwrap();
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).unwrap();
    bytes
}

/// The most memory that a process has ever had.
#[cfg(target_os = "linux")]
fn peak_bytes(server: &crate::support::program::Server) -> usize {
    let path = format!("/proc/{}/status", server.id());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<usize>().unwrap() * 1_024
}

/// The server's budget: 198 MiB for 1 056 connections, and the rest to be shared.
#[cfg(target_os = "linux")]
const BUDGET: usize = 256 << 20;

/// For the program, its log, and what the runtime loads to name the functions that hogged.
#[cfg(target_os = "linux")]
const SLACK: usize = 160 << 20;

#[test]
#[cfg(target_os = "linux")]
fn thousands_of_half_handshakes_hold_neither_places_nor_memory() {
    use crate::support::program::Server as Program;
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    let directory = tempfile::tempdir().unwrap();
    let budget = BUDGET.to_string();
    let options = [
        "--tls-cert",
        issued.certificate.to_str().unwrap(),
        "--tls-key",
        issued.key.to_str().unwrap(),
        "--memory-bytes",
        &budget,
    ];
    let server = Program::start(directory.path(), &options);
    let address = server.address;
    let hello = client_hello(&authority);
    run(async {
        let mut half = Vec::new();
        for number in 0..2_000 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // Some say a hello and no more, others a part of one, or 64 KiB that it never ends in.
            let sent = match number % 4 {
                0 => stream.write_all(&hello).await,
                1 => stream.write_all(&hello[..number % hello.len()]).await,
                2 => {
                    // A message of a handshake of 65 535 bytes, in records of 16 000.
                    let mut bytes = Vec::new();
                    for part in 0..4 {
                        bytes.extend([0x16, 3, 1, 0x3e, 0x80]);
                        let mut body = vec![0; 16_000];
                        if part == 0 {
                            body[..4].copy_from_slice(&[1, 0, 0xff, 0xff]);
                        }
                        bytes.extend(body);
                    }
                    timeout(Duration::from_millis(200), stream.write_all(&bytes))
                        .await
                        .unwrap_or(Ok(()))
                }
                _ => Ok(()),
            };
            // It may be cut off by now.
            let _ = sent;
            half.push(stream);
        }
        let connect = authority.connect(None);
        let works = async {
            loop {
                if let Ok(client) = connect.connect(address).await
                    && let Ok(sequence) = client.append("among them").await
                {
                    break sequence;
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        assert_eq!(timeout(LIMIT / 2, works).await.expect("a place"), 1);
        let peak = peak_bytes(&server);
        assert!(peak < BUDGET + SLACK, "{} MiB", peak >> 20);
        drop(half);
    });
}
