//! The servers under measurement: TCP echo, and HTTP hello world.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::peer::Peer;

/// What a server does with a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    /// With a buffer of this size for each connection.
    Echo {
        buffer_bytes: usize,
    },
    Hello,
}

/// Starts a server, and gives the port on which it listens.
pub(crate) fn start<P: Peer>(peer: &P, service: Service) -> u16 {
    let (tell, told) = std::sync::mpsc::channel();
    drop(peer.spawn(async move {
        let listener = P::bind().await.expect("a port on the loopback");
        tell.send(P::port(&listener)).expect("the benchmark waits");
        while let Ok(stream) = P::accept(&listener).await {
            P::spawn_here(async move {
                match service {
                    Service::Echo { buffer_bytes } => echo::<P>(stream, buffer_bytes).await,
                    Service::Hello => hello::<P>(stream).await,
                }
            });
        }
    }));
    told.recv().expect("the server listens")
}

async fn echo<P: Peer>(mut stream: P::Stream, buffer_bytes: usize) {
    let mut buffer = vec![0; buffer_bytes];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn hello<P: Peer>(stream: P::Stream) {
    let service = service_fn(async |_: Request<Incoming>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(
            b"Hello, World!",
        ))))
    });
    // A connection that breaks is the client's way to end.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(P::http(stream), service)
        .await;
}
