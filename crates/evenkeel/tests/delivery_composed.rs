//! Delivery below layers that use sockets: hyper, and TLS. Neither knows about it.

mod support;

use std::time::Duration;

use evenkeel::net::{Delivery, TcpListener, TcpStream};
use support::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MODES: [Delivery; 3] = [
    Delivery::Immediate,
    Delivery::Coalesce {
        bytes: 16 * 1024,
        delay: Duration::from_millis(5),
    },
    Delivery::Adaptive {
        max_delay: Duration::from_millis(5),
    },
];

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = within(TcpStream::connect(address)).await.unwrap();
    (client, within(listener.accept()).await.unwrap().0)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[cfg(feature = "hyper")]
mod over_hyper {
    use std::convert::Infallible;

    use evenkeel::hyper::{Executor, Timer};
    use http_body_util::{BodyExt, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::service::service_fn;
    use hyper::{Request, Response};

    use super::*;

    async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Ok(Response::new(Full::new(body)))
    }

    fn request(body: &Bytes) -> Request<Full<Bytes>> {
        let request = Request::post("http://evenkeel.test/");
        request.body(Full::new(body.clone())).unwrap()
    }

    #[evenkeel::test]
    async fn http_1_is_as_ever() {
        support::watch_descriptors();
        for mode in MODES {
            let (client, server) = connected().await;
            client.set_delivery(mode).unwrap();
            server.set_delivery(mode).unwrap();
            let serving = evenkeel::spawn(async move {
                hyper::server::conn::http1::Builder::new()
                    .timer(Timer)
                    .serve_connection(server, service_fn(echo))
                    .await
            });
            let handshake = hyper::client::conn::http1::handshake(client);
            let (mut sender, connection) = handshake.await.unwrap();
            evenkeel::spawn(connection);
            for len in [0, 1, 100, 20_000, 1_000_000, 3] {
                let body = Bytes::from(pattern(len));
                within(sender.ready()).await.unwrap();
                let response = within(sender.send_request(request(&body))).await.unwrap();
                assert_eq!(within(response.collect()).await.unwrap().to_bytes(), body);
            }
            drop(sender);
            within(serving).await.unwrap().unwrap();
        }
    }

    #[evenkeel::test]
    async fn http_2_is_as_ever() {
        support::watch_descriptors();
        for mode in MODES {
            let (client, server) = connected().await;
            client.set_delivery(mode).unwrap();
            server.set_delivery(mode).unwrap();
            let serving = evenkeel::spawn(async move {
                hyper::server::conn::http2::Builder::new(Executor)
                    .serve_connection(server, service_fn(echo))
                    .await
            });
            let builder = hyper::client::conn::http2::Builder::new(Executor);
            let (sender, connection) = within(builder.handshake(client)).await.unwrap();
            evenkeel::spawn(connection);
            let answers: Vec<_> = (0..10)
                .map(|number| {
                    let mut sender = sender.clone();
                    evenkeel::spawn(async move {
                        let body = Bytes::from(pattern(number * 10_000));
                        let response = sender.send_request(request(&body)).await.unwrap();
                        assert_eq!(response.collect().await.unwrap().to_bytes(), body);
                    })
                })
                .collect();
            for answer in answers {
                within(answer).await.unwrap();
            }
            drop(sender);
            within(serving).await.unwrap().unwrap();
        }
    }
}

mod over_tls {
    use std::sync::Arc;

    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
    use tokio_rustls::rustls::time_provider::TimeProvider;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    /// A key that protects nothing, and its certificate for `localhost`.
    const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2vUqytMIJMVs943m
Xla8A3yb1xQfV2q35id9DsOI5wuhRANCAASMkQiTn1nOoHMiTYa55JjCMmGp59jg
kz/h3cquoZH1kxW3WfIuMbyTGKU8QI8VHl4cR/D/ZQsqjp25JOtVXpvB
-----END PRIVATE KEY-----
";
    const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----
MIIBkjCCATigAwIBAgIUU0V6ALtPLGSu/qWr/WBQeZxxtWswCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTE5MjIyNloYDzIxMjYxMDI4
MTkyMjI2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASMkQiTn1nOoHMiTYa55JjCMmGp59jgkz/h3cquoZH1kxW3WfIuMbyT
GKU8QI8VHl4cR/D/ZQsqjp25JOtVXpvBo2YwZDAdBgNVHQ4EFgQUfdWRiCY7/8aL
xJavAstuhoexD1cwHwYDVR0jBBgwFoAUfdWRiCY7/8aLxJavAstuhoexD1cwFAYD
VR0RBA0wC4IJbG9jYWxob3N0MAwGA1UdEwEB/wQCMAAwCgYIKoZIzj0EAwIDSAAw
RQIhAMyrvf0mXCUkQi7UcXUIle1A/M2nO1eKZWsqNltacs9TAiAD1665qPgVBgzM
Ht04RNU7vf56J/XcTXRZZqDOWmZr6w==
-----END CERTIFICATE-----
";

    /// A moment at which the certificate is valid, whatever the machine's clock says.
    #[derive(Debug)]
    struct ThatDay;

    impl TimeProvider for ThatDay {
        fn current_time(&self) -> Option<UnixTime> {
            // 2030-01-01
            let since_1970 = Duration::from_secs(1_893_456_000);
            Some(UnixTime::since_unix_epoch(since_1970))
        }
    }

    fn ends() -> (TlsConnector, TlsAcceptor) {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_details(provider, Arc::new(ThatDay))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(client).into(), Arc::new(server).into())
    }

    /// Records of every size arrive, some in pieces. The bytes on the wire are counted.
    #[evenkeel::test]
    async fn records_arrive_whole() {
        support::watch_descriptors();
        let (connector, acceptor) = ends();
        for mode in MODES {
            let before = evenkeel::runtime::Handle::current().stats().delivery;
            let (client, server) = connected().await;
            server.set_delivery(mode).unwrap();
            let sender = evenkeel::spawn({
                let connector = connector.clone();
                async move {
                    let name = "localhost".try_into().unwrap();
                    let mut stream = connector.connect(name, client).await.unwrap();
                    let bytes = pattern(500_000);
                    let mut rest = &bytes[..];
                    for round in 1.. {
                        let (now, later) = rest.split_at(rest.len().min(round * 700));
                        stream.write_all(now).await.unwrap();
                        stream.flush().await.unwrap();
                        rest = later;
                        if rest.is_empty() {
                            break;
                        }
                    }
                    stream.shutdown().await.unwrap();
                    // If it were closed with unread bytes, it would reset the connection.
                    stream.read_to_end(&mut Vec::new()).await.unwrap();
                }
            });
            let mut stream = within(acceptor.accept(server)).await.unwrap();
            let mut heard = Vec::new();
            within(stream.read_to_end(&mut heard)).await.unwrap();
            assert!(heard == pattern(500_000));
            within(stream.shutdown()).await.unwrap();
            within(sender).await.unwrap();
            let after = evenkeel::runtime::Handle::current().stats().delivery;
            let counted = after.bytes - before.bytes;
            assert!(counted > 500_000, "{counted} bytes with records' framing");
        }
    }
}
