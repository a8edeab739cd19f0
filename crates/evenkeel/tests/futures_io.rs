//! The I/O traits of the futures family on the streams.
#![cfg(feature = "futures-io")]

mod support;

use std::io::{IoSlice, IoSliceMut};

use evenkeel::net::{TcpListener, TcpStream};
use futures_util::{AsyncReadExt, AsyncWriteExt};
use support::within;

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    (client, listener.accept().await.unwrap().0)
}

#[evenkeel::test]
async fn bytes_cross_and_closing_ends_the_stream() {
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    let bytes: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    let expected = bytes.clone();
    let reader = evenkeel::spawn(async move {
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        assert!(heard == expected);
        server
    });
    within(client.write_all(&bytes)).await.unwrap();
    within(client.flush()).await.unwrap();
    within(client.close()).await.unwrap();
    let mut server = within(reader).await.unwrap();
    within(server.write_all(b"after")).await.unwrap();
    let mut heard = [0; 5];
    within(client.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"after");
}

#[evenkeel::test]
async fn slices_are_gathered_and_scattered() {
    support::watch_descriptors();
    let (client, server) = connected().await;
    let slices = [IoSlice::new(b"one "), IoSlice::new(b"two")];
    assert_eq!(within((&client).write_vectored(&slices)).await.unwrap(), 7);
    let (mut head, mut tail) = ([0; 3], [0; 8]);
    let mut into = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)];
    assert_eq!(within((&server).read_vectored(&mut into)).await.unwrap(), 7);
    assert_eq!((&head, &tail[..4]), (b"one", &b" two"[..]));

    // More than the system takes in one call, so that each leaves some unread.
    let bytes = vec![7; 3_000];
    let (mut memory, mut heard) = (vec![0; 4_000], 0);
    let write = async { (&client).write_all(&bytes).await.unwrap() };
    let read = async {
        while heard < bytes.len() {
            let mut into: Vec<_> = memory.chunks_mut(1).map(IoSliceMut::new).collect();
            heard += (&server).read_vectored(&mut into).await.unwrap();
        }
    };
    within(futures_util::future::join(read, write)).await;
}

#[evenkeel::test]
async fn owned_halves_have_the_traits_too() {
    support::watch_descriptors();
    let (client, server) = connected().await;
    let (mut read, mut write) = client.into_split();
    within(write.write_all(b"ping")).await.unwrap();
    let mut heard = [0; 4];
    within((&server).read_exact(&mut heard)).await.unwrap();
    within((&server).write_all(&heard)).await.unwrap();
    within(read.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"ping");
    within(write.close()).await.unwrap();
    assert_eq!(within((&server).read(&mut heard)).await.unwrap(), 0);
}

#[cfg(unix)]
#[evenkeel::test]
async fn unix_streams_have_the_traits_too() {
    support::watch_descriptors();
    let (mut one, mut other) = evenkeel::net::UnixStream::pair().unwrap();
    within(one.write_all(b"ping")).await.unwrap();
    within(one.close()).await.unwrap();
    let mut heard = Vec::new();
    within(other.read_to_end(&mut heard)).await.unwrap();
    assert_eq!(heard, b"ping");
}
