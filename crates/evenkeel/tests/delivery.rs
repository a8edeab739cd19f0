//! The promises of the modes of delivery, over real sockets.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use evenkeel::net::{Delivery, DeliveryError, TcpListener, TcpStream, UnixStream};
use evenkeel::runtime::Handle;
use evenkeel::stats::DeliveryStats;
use support::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longer than any test takes, so that no delivery is made by the delay.
const LONG: Duration = Duration::from_secs(50);

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

/// Usually long enough for a task to begin to wait; nothing fails if it has not.
const A_MOMENT: Duration = Duration::from_millis(20);

/// A stream whose reader has read everything, and has waited: from now on wake-ups are held back.
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

/// Bytes below the watermark are delivered by the delay, and those that reach it without.
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

/// Bytes that are sent in pieces with pauses between come as one delivery.
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

/// While its worker is idle, and after the worker was busy for a while, an adaptive reader is woken
/// for each of many small messages.
#[evenkeel::test(workers = 1)]
async fn adaptive_is_immediate_while_the_worker_is_idle() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    server
        .set_delivery(Delivery::Adaptive { max_delay: LONG })
        .unwrap();
    let echo = evenkeel::spawn(async move {
        let mut buf = [0; 64];
        while let Ok(len @ 1..) = server.read(&mut buf).await {
            server.write_all(&buf[..len]).await.unwrap();
        }
    });
    for number in 0..100 {
        client.write_all(&[number; 10]).await.unwrap();
        let mut heard = [0; 10];
        within(client.read_exact(&mut heard)).await.unwrap();
        assert_eq!(heard, [number; 10]);
    }
    drop(client);
    within(echo).await.unwrap();
}

/// Beside tasks that keep the worker behind, readers are held back, and all bytes arrive.
#[evenkeel::test(workers = 1)]
async fn adaptive_holds_back_while_the_worker_is_behind() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    let max_delay = Duration::from_millis(50);
    server
        .set_delivery(Delivery::Adaptive { max_delay })
        .unwrap();
    let busy = Arc::new(AtomicBool::new(true));
    // Each round takes longer than the pause, so tasks that are woken wait for each other.
    let tasks: Vec<_> = (0..60)
        .map(|_| {
            let busy = Arc::clone(&busy);
            evenkeel::spawn(async move {
                while busy.load(SeqCst) {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_micros(60) {
                        std::hint::spin_loop();
                    }
                    evenkeel::time::sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    evenkeel::time::sleep(Duration::from_millis(200)).await;
    let reader = evenkeel::spawn(async move {
        let mut heard = Vec::new();
        within(server.read_to_end(&mut heard)).await.unwrap();
        heard.len()
    });
    for _ in 0..500 {
        client.write_all(&[1; 100]).await.unwrap();
        evenkeel::time::sleep(Duration::from_millis(1)).await;
    }
    let deliveries = stats().deliveries;
    assert!(deliveries < 250, "{deliveries} for 500 messages");
    busy.store(false, SeqCst);
    for task in tasks {
        within(task).await.unwrap();
    }
    drop(client);
    assert_eq!(within(reader).await.unwrap(), 50_000);
}

/// A reader does not wait for the delay if the receive buffer cannot reach the watermark.
#[evenkeel::test]
async fn a_full_receive_buffer_is_not_held_back() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    socket2::SockRef::from(&server)
        .set_recv_buffer_size(16 * 1024)
        .unwrap();
    make_wait(&mut client, &mut server).await;
    server.set_delivery(coalesce(100_000_000, LONG)).unwrap();
    let sender = evenkeel::spawn(async move {
        client.write_all(&vec![1; 2_000_000]).await.unwrap();
    });
    let mut heard = Vec::new();
    within(server.read_to_end(&mut heard)).await.unwrap();
    assert_eq!(heard.len(), 2_000_000);
    within(sender).await.unwrap();
}

/// A runtime that shuts down wakes readers that are held back, with or without bytes.
#[test]
fn the_end_of_the_runtime_is_not_held_back() {
    let runtime = evenkeel::runtime::Builder::new()
        .workers(1)
        .build()
        .unwrap();
    let (mut client, mut server) = runtime.block_on(pair());
    runtime.block_on(make_wait(&mut client, &mut server));
    server.set_delivery(coalesce(1_000_000, LONG)).unwrap();
    let handle = runtime.handle().clone();
    let reader = std::thread::spawn(move || {
        handle.block_on(async move {
            let mut buf = [0; 16];
            let first = server.read(&mut buf).await;
            let second = server.read(&mut buf).await;
            first.and(second)
        })
    });
    std::thread::sleep(A_MOMENT);
    runtime.block_on(client.write_all(b"held")).unwrap();
    std::thread::sleep(A_MOMENT);
    runtime.shutdown(LONG / 4).unwrap();
    let began = Instant::now();
    let error = reader.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("has shut down"), "{error}");
    assert!(began.elapsed() < LONG / 4);
}

/// A socket that leaves the runtime gets its original watermark back.
#[evenkeel::test]
async fn a_socket_is_given_back_as_it_came() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    server.set_delivery(coalesce(4_000, LONG)).unwrap();
    let read = async {
        let mut buf = [0; 16];
        tokio::select! {
            biased;
            _ = server.read(&mut buf) => panic!("nothing was sent"),
            () = evenkeel::time::sleep(A_MOMENT) => {}
        }
    };
    read.await;
    client.write_all(b"held").await.unwrap();
    evenkeel::time::sleep(A_MOMENT).await;
    // In the runtime again, it wakes its reader at every byte.
    let mut server = TcpStream::from_std(server.into_std().unwrap()).unwrap();
    let mut buf = [0; 16];
    assert_eq!(within(server.read(&mut buf)).await.unwrap(), 4);
    make_wait(&mut client, &mut server).await;
}

/// If the buffer has room for a delivery, one read suffices: there is no second to find it empty.
#[evenkeel::test]
async fn a_short_read_is_the_last() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    make_wait(&mut client, &mut server).await;
    let before = stats();
    for _ in 0..20 {
        let mut buf = [0; 4096];
        let (read, ()) = tokio::join!(within(server.read(&mut buf)), async {
            evenkeel::time::sleep(Duration::from_millis(2)).await;
            client.write_all(&[9; 1000]).await.unwrap();
        });
        assert_eq!(read.unwrap(), 1000);
    }
    let after = stats();
    assert_eq!(after.deliveries - before.deliveries, 20);
    assert_eq!(after.reads - before.reads, 20);
    assert_eq!(after.empty_reads, before.empty_reads);
    let sizes = stats().bytes_per_delivery;
    assert_eq!(sizes.quantile(1.0), Some(1024));
}

/// Held-back bytes can be peeked at, waited for and tried like any others.
#[evenkeel::test]
async fn all_ways_to_read_hear_of_what_was_held_back() {
    support::watch_descriptors();
    let (client, server) = pair().await;
    let (mut read, _write) = server.into_split();
    let mode = coalesce(1_000_000, Duration::from_millis(10));
    read.set_delivery(mode).unwrap();
    assert_eq!(read.delivery(), mode);
    let writer = async {
        for _ in 0..3 {
            evenkeel::time::sleep(2 * A_MOMENT).await;
            client.writable().await.unwrap();
            client.try_write(b"held").unwrap();
        }
    };
    let reader = async {
        let mut buf = [0; 16];
        assert_eq!(within(read.peek(&mut buf)).await.unwrap(), 4);
        assert_eq!(read.try_read(&mut buf).unwrap(), 4);
        loop {
            within(read.readable()).await.unwrap();
            if let Ok(len) = read.try_read(&mut buf) {
                assert_eq!(len, 4);
                break;
            }
        }
        assert_eq!(within(read.read(&mut buf)).await.unwrap(), 4);
    };
    tokio::join!(writer, reader);
}
