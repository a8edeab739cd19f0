//! hyper-util's client on the runtime's own sockets, without a runtime of Tokio's.
#![cfg(all(feature = "client", feature = "serve"))]

mod support;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::routing::{get, post};
use axum::{Extension, Router};
use evenkeel::hyper::{Connector, Executor, Timer};
use evenkeel::net::TcpListener;
use evenkeel::serve::Peer;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use support::{watch_descriptors, within};

type Body = Full<Bytes>;

fn client(connector: Connector) -> Client<Connector, Body> {
    Client::builder(Executor)
        .timer(Timer)
        .pool_timer(Timer)
        .build(connector)
}

/// The error at the bottom of a client's.
fn cause(error: &(dyn Error + 'static)) -> io::ErrorKind {
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.kind(),
        None => cause(
            error
                .source()
                .expect("the cause is an error of the system's"),
        ),
    }
}

#[evenkeel::test(workers = 2)]
async fn requests_by_name_and_address_are_answered() {
    watch_descriptors();
    within(async {
        assert!(tokio::runtime::Handle::try_current().is_err());
        let peer = async |Extension(Peer(peer)): Extension<Peer<SocketAddr>>| peer.to_string();
        let app = Router::new()
            .route("/echo", post(async |body: String| body))
            .route("/peer", get(peer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = evenkeel::spawn(evenkeel::serve(listener, app).into_future());

        let client = client(Connector::new());
        for host in ["127.0.0.1", "localhost"] {
            let mut peers = Vec::new();
            for round in (0..5_000).step_by(1_000) {
                let uri: Uri = format!("http://{host}:{port}/echo").parse().unwrap();
                let body = Full::new(Bytes::from(vec![b'x'; round]));
                let answer = client.request(Request::post(uri).body(body).unwrap()).await;
                let bytes = answer.unwrap().collect().await.unwrap().to_bytes();
                assert_eq!(bytes.len(), round);
                let uri: Uri = format!("http://{host}:{port}/peer").parse().unwrap();
                let answer = client.get(uri).await.unwrap();
                peers.push(answer.collect().await.unwrap().to_bytes());
            }
            // Whether they share a connection is up to the client's pool.
            assert!(
                peers.iter().all(|peer| peer.starts_with(b"127.0.0.1:")),
                "{peers:?}"
            );
        }
        drop(client);
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn what_cannot_be_reached_is_an_error() {
    watch_descriptors();
    within(async {
        // Bound, and not listening any more.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let client = client(Connector::new());
        let refused = client.get(format!("http://127.0.0.1:{port}/").parse().unwrap());
        assert_eq!(
            cause(&refused.await.unwrap_err()),
            io::ErrorKind::ConnectionRefused
        );
        let tls = client.get("https://127.0.0.1/".parse().unwrap());
        assert_eq!(cause(&tls.await.unwrap_err()), io::ErrorKind::InvalidInput);
    })
    .await;
}

/// A listener whose backlog is full answers no attempt to connect.
#[cfg(target_os = "linux")]
#[evenkeel::test(workers = 1)]
async fn a_connection_that_takes_too_long_is_given_up() {
    use socket2::{Domain, Socket, Type};

    watch_descriptors();
    within(async {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(1).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut waiting = Vec::new();
        for _ in 0..8 {
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            client.set_nonblocking(true).unwrap();
            // It is in progress.
            let _ = client.connect(&address.into());
            waiting.push(client);
        }
        let limit = Duration::from_millis(50);
        let client = client(Connector::new().connect_timeout(Some(limit)));
        let late = client
            .get(format!("http://{address}/").parse().unwrap())
            .await;
        assert_eq!(cause(&late.unwrap_err()), io::ErrorKind::TimedOut);
    })
    .await;
}
