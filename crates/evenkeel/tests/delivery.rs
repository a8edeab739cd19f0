//! What the modes of delivery promise, over real sockets.

mod support;

use std::time::{Duration, Instant};

use evenkeel::net::{Delivery, DeliveryError, TcpListener, TcpStream, UnixStream};
use evenkeel::runtime::Handle;
use evenkeel::stats::DeliveryStats;
use support::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longer than a test may take, so that nothing comes by the delay.
const LONG: Duration = Duration::from_secs(60);

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = within(TcpStream::connect(address)).await.unwrap();
    client.set_nodelay(true).unwrap();
    let (server, _) = within(listener.accept()).await.unwrap();
    (client, server)
}

fn coalesce(bytes: usize, delay: Duration) -> Delivery {
    Delivery::Coalesce { bytes, delay }
}

/// Long enough for a task to come to wait, mostly; nothing fails if it has not.
const A_MOMENT: Duration = Duration::from_millis(20);

/// A stream whose reader has read all there is, and has waited: from now on it is held back.
async fn make_wait(client: &mut TcpStream, server: &mut TcpStream) {
    let mut buf = [0; 16];
    for _ in 0..2 {
        let (read, ()) = tokio::join!(within(server.read(&mut buf)), async {
            evenkeel::time::sleep(A_MOMENT).await;
            client.write_all(b"x").await.unwrap();
        });
        assert_eq!(read.unwrap(), 1);
    }
}

fn stats() -> DeliveryStats {
    Handle::current().stats().delivery
}

#[evenkeel::test]
async fn a_mode_is_what_was_set() {
    support::watch_descriptors();
    let (client, _server) = pair().await;
    assert_eq!(client.delivery(), Delivery::Immediate);
    let modes = [
        coalesce(4096, Duration::from_millis(5)),
        Delivery::Adaptive { max_delay: LONG },
        Delivery::Immediate,
    ];
    for mode in modes {
        client.set_delivery(mode).unwrap();
        assert_eq!(client.delivery(), mode);
    }
    let delay = Delivery::DELAY_MAX + Duration::from_nanos(1);
    let error = client.set_delivery(coalesce(2, delay)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    let inner = error.into_inner().unwrap();
    assert_eq!(
        inner.downcast_ref(),
        Some(&DeliveryError::TooLong { delay })
    );
    assert_eq!(client.delivery(), Delivery::Immediate);
}

/// Bytes below the watermark come by the delay, and those that reach it without.
#[evenkeel::test]
async fn tails_come_by_the_delay_and_the_rest_by_the_watermark() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    let delay = Duration::from_millis(50);
    server.set_delivery(coalesce(10_000, delay)).unwrap();
    let mut buf = [0; 32 * 1024];
    for round in 0..5 {
        let began = Instant::now();
        client.write_all(&[round; 100]).await.unwrap();
        assert_eq!(within(server.read(&mut buf)).await.unwrap(), 100);
        assert!(began.elapsed() < LONG / 2);
    }
    server.set_delivery(coalesce(10_000, LONG)).unwrap();
    for _ in 0..5 {
        for _ in 0..10 {
            client.write_all(&[7; 1000]).await.unwrap();
        }
        let mut heard = 0;
        while heard < 10_000 {
            heard += within(server.read(&mut buf)).await.unwrap();
        }
        assert_eq!(heard, 10_000);
    }
}

/// What is sent in pieces with pauses between comes as one delivery.
#[evenkeel::test]
async fn pieces_are_gathered() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    make_wait(&mut client, &mut server).await;
    server.set_delivery(coalesce(5_000, LONG)).unwrap();
    let before = stats();
    let reader = evenkeel::spawn(async move {
        let mut buf = vec![0; 64 * 1024];
        within(server.read(&mut buf)).await.unwrap()
    });
    evenkeel::time::sleep(A_MOMENT).await;
    for _ in 0..50 {
        client.write_all(&[1; 100]).await.unwrap();
        evenkeel::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(within(reader).await.unwrap(), 5_000);
    let after = stats();
    assert_eq!(after.deliveries - before.deliveries, 1);
    assert_eq!(after.bytes - before.bytes, 5_000);
}

#[evenkeel::test]
async fn the_end_and_errors_are_not_held_back() {
    support::watch_descriptors();
    let mut buf = [0; 100];
    let (mut client, mut server) = pair().await;
    server.set_delivery(coalesce(10_000, LONG)).unwrap();
    client.write_all(b"tail").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(within(server.read(&mut buf)).await.unwrap(), 4);
    assert_eq!(within(server.read(&mut buf)).await.unwrap(), 0);

    let (mut client, mut server) = pair().await;
    make_wait(&mut client, &mut server).await;
    server.set_delivery(coalesce(10_000, LONG)).unwrap();
    let reader = evenkeel::spawn(async move {
        let mut heard = Vec::new();
        within(server.read_to_end(&mut heard)).await
    });
    evenkeel::time::sleep(A_MOMENT).await;
    client.write_all(b"tail").await.unwrap();
    evenkeel::time::sleep(A_MOMENT).await;
    client.set_zero_linger().unwrap();
    drop(client);
    let error = within(reader).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[evenkeel::test]
async fn unix_streams_hold_back_by_the_delay() {
    support::watch_descriptors();
    let (mut client, mut server) = UnixStream::pair().unwrap();
    server
        .set_delivery(coalesce(10, Duration::from_millis(30)))
        .unwrap();
    let mut buf = [0; 4096];
    for round in 0..5 {
        let reader = within(server.read(&mut buf));
        let writer = async {
            for _ in 0..3 {
                client.write_all(&[round; 100]).await.unwrap();
            }
        };
        let (read, ()) = tokio::join!(reader, writer);
        assert!(read.unwrap() >= 100);
        while server.try_read(&mut buf).is_ok() {}
    }
    server.set_delivery(coalesce(10, LONG)).unwrap();
    let reader = evenkeel::spawn(async move {
        let mut heard = Vec::new();
        within(server.read_to_end(&mut heard)).await.unwrap();
        heard
    });
    client.write_all(b"the last").await.unwrap();
    evenkeel::time::sleep(A_MOMENT).await;
    drop(client);
    assert!(within(reader).await.unwrap().ends_with(b"the last"));
}
