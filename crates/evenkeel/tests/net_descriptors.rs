//! Descriptors: none is leaked, and sockets survive it when no descriptor is left.
//!
//! The tests count and exhaust the descriptors of the whole process, so each runs in a process of
//! its own: the test starts this same binary again for itself alone.
#![cfg(target_os = "linux")]

mod support;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use evenkeel::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use evenkeel::runtime::Builder;
use support::{alone, descriptors, take_every_descriptor, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn every_descriptor_is_closed() {
    alone("every_descriptor_is_closed", || {
        let use_everything = || {
            let runtime = Builder::new().workers(2).build().unwrap();
            runtime.block_on(within(async {
                use_sockets().await;
                let before = descriptors();
                for _ in 0..10 {
                    use_sockets().await;
                }
                assert_eq!(descriptors(), before);
            }));
        };
        // Descriptors that the process opens once and keeps are open after the first round.
        use_everything();
        let before = descriptors();
        for _ in 0..3 {
            use_everything();
        }
        assert_eq!(descriptors(), before);
    });
}

async fn use_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let (mut read, mut write) = client.into_split();
    write.write_all(b"x").await.unwrap();
    server.read_exact(&mut [0]).await.unwrap();
    drop(write);
    server.write_all(b"y").await.unwrap();
    read.read_exact(&mut [0]).await.unwrap();
    drop(server.into_std().unwrap());
    assert_eq!(read.read(&mut [0]).await.unwrap(), 0);
    drop(listener);
    TcpStream::connect(address).await.unwrap_err();

    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    udp.send_to(b"x", udp.local_addr().unwrap()).await.unwrap();
    udp.recv(&mut [0]).await.unwrap();

    let path = support::SocketPath::new("descriptors");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = UnixStream::connect(&path).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    drop(server);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    let (one, other) = UnixDatagram::pair().unwrap();
    one.send(b"x").await.unwrap();
    other.recv(&mut [0]).await.unwrap();

    use evenkeel::signal::unix::{SignalKind, signal};
    drop(signal(SignalKind::window_change()).unwrap());
}

#[test]
fn accept_without_descriptors_neither_spins_nor_gives_up() {
    alone(
        "accept_without_descriptors_neither_spins_nor_gives_up",
        || {
            let runtime = Builder::new().workers(1).build().unwrap();
            runtime.block_on(within(async {
                let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = tcp.local_addr().unwrap();
                let clients: Vec<_> = (0..3)
                    .map(|_| std::net::TcpStream::connect(address).unwrap())
                    .collect();
                let taken = take_every_descriptor();
                assert_paced(async || tcp.accept().await.map(drop)).await;
                assert_paced(async || {
                    std::future::poll_fn(|cx| tcp.poll_accept(cx))
                        .await
                        .map(drop)
                })
                .await;

                // When there are descriptors again, connections in the backlog are served.
                drop(taken);
                for mut client in clients {
                    let (mut server, from) = loop {
                        match tcp.accept().await {
                            Ok(accepted) => break accepted,
                            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EMFILE)),
                        }
                    };
                    assert_eq!(from, client.local_addr().unwrap());
                    client.write_all(b"!").unwrap();
                    server.read_exact(&mut [0]).await.unwrap();
                }

                let path = support::SocketPath::new("exhausted");
                let unix = UnixListener::bind(&path).unwrap();
                let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
                let taken = take_every_descriptor();
                assert_paced(async || unix.accept().await.map(drop)).await;
                drop(taken);
                while unix.accept().await.is_err() {}
            }));
        },
    );
}

/// Checks that a loop that accepts again after each error has the pace that the listener promises:
/// at most one failure in 10 ms. Noise of the machine only makes them fewer.
async fn assert_paced(mut accept: impl AsyncFnMut() -> io::Result<()>) {
    const FAILURES: u32 = 8;
    let start = Instant::now();
    for _ in 0..FAILURES {
        let error = accept().await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
    }
    // The first failure comes at once.
    assert!(start.elapsed() >= Duration::from_millis(10) * (FAILURES - 1));
}
