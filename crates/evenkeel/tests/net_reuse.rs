//! Descriptors that are closed without a word to the readiness queue, and used again at once.
//!
//! What the kernel watches is read from `/proc`, for the whole process, so such a test runs alone.
#![cfg(target_os = "linux")]

mod support;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel::net::{TcpListener, TcpSocket, TcpStream};
use evenkeel::runtime::{Builder, Handle};
use support::{alone, watched, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CLIENTS: u64 = 12;
const CONNECTIONS: u64 = 400;

/// Masks of the readiness queue.
const READING: u32 = libc::EPOLLIN as u32;
const BOTH: u32 = READING | libc::EPOLLOUT as u32;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = within(TcpStream::connect(address)).await.unwrap();
    let (server, _) = within(listener.accept()).await.unwrap();
    (client, server)
}

/// Makes the stream wait once, whereby it is registered.
async fn wait_once(stream: &mut TcpStream, peer: &mut TcpStream) {
    let mut byte = [0];
    let read = async { stream.read_exact(&mut byte).await.unwrap() };
    let write = async {
        evenkeel::task::yield_now().await;
        peer.write_all(b"x").await.unwrap();
    };
    within(futures_util::future::join(read, write)).await;
}

#[test]
fn a_closed_socket_is_not_watched_whether_or_not_it_has_a_duplicate() {
    let name = "a_closed_socket_is_not_watched_whether_or_not_it_has_a_duplicate";
    alone(name, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(within(async {
            let before = watched();
            let (mut client, mut server) = pair().await;
            wait_once(&mut client, &mut server).await;
            assert!(watched() > before, "a stream that waits is watched");

            // Nobody knows the number of these two: the kernel forgets them.
            let mut duplicates: Vec<OwnedFd> = Vec::new();
            drop((client, server));
            assert_eq!(watched(), before);

            let (mut client, mut server) = pair().await;
            duplicates.push(client.as_fd().try_clone_to_owned().unwrap());
            wait_once(&mut client, &mut server).await;
            drop((client, server));
            assert_eq!(watched(), before, "as_fd");

            let (client, mut server) = pair().await;
            let client = client.into_std().unwrap();
            duplicates.push(client.try_clone().unwrap().into());
            let mut client = TcpStream::from_std(client).unwrap();
            wait_once(&mut client, &mut server).await;
            drop((client, server));
            assert_eq!(watched(), before, "from_std");

            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let socket = TcpSocket::new_v4().unwrap();
            duplicates.push(socket.as_fd().try_clone_to_owned().unwrap());
            let address = listener.local_addr().unwrap();
            let mut client = within(socket.connect(address)).await.unwrap();
            let (mut server, _) = within(listener.accept()).await.unwrap();
            wait_once(&mut client, &mut server).await;
            drop((client, server, listener));
            assert_eq!(watched(), before, "a socket that was configured");

            let socket = TcpSocket::new_v4().unwrap();
            duplicates.push(socket.as_fd().try_clone_to_owned().unwrap());
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = socket.listen(16).unwrap();
            let address = listener.local_addr().unwrap();
            let accepted = within(futures_util::future::join(
                listener.accept(),
                TcpStream::connect(address),
            ));
            drop((accepted.await, listener));
            assert_eq!(watched(), before, "a listener that was configured");
            drop(duplicates);
        }));
    });
}

/// What the readiness queues of this process report of a descriptor.
fn reported(fd: RawFd) -> Vec<u32> {
    let queues = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let infos = queues.filter_map(|queue| std::fs::read_to_string(queue.ok()?.path()).ok());
    let lines = infos.flat_map(|info| info.lines().map(str::to_owned).collect::<Vec<_>>());
    let mask = |line: String| {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_its = words.first() == Some(&"tfd:") && words.get(1)?.parse() == Ok(fd);
        // Behind `events:`, in hexadecimal digits.
        is_its.then(|| u32::from_str_radix(words[3], 16).unwrap())
    };
    lines.filter_map(mask).collect()
}

#[test]
fn room_is_reported_to_those_alone_who_wait_for_it() {
    alone("room_is_reported_to_those_alone_who_wait_for_it", || {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(within(async {
            let (mut client, mut server) = pair().await;
            wait_once(&mut client, &mut server).await;
            let fd = client.as_raw_fd();
            let masks = reported(fd);
            assert!(!masks.is_empty(), "a stream that waits is watched");
            for mask in masks {
                assert_eq!(mask & BOTH, READING, "{mask:x}");
            }

            let mut written = 0;
            while let Ok(count) = client.try_write(&[0; 65_536]) {
                written += count;
            }
            let read = async {
                evenkeel::task::yield_now().await;
                server.read_exact(&mut vec![0; written]).await.unwrap();
            };
            let (room, ()) = futures_util::future::join(client.writable(), read).await;
            room.unwrap();
            for mask in reported(fd) {
                assert_eq!(mask & BOTH, BOTH, "{mask:x}");
            }
        }));
    });
}

/// A server's answer to each message is the message, with the number of the connection.
async fn serve(mut stream: TcpStream, number: u64) {
    let mut message = [0; 8];
    while let Ok(8) = stream.read_exact(&mut message).await {
        let answer = u64::from_le_bytes(message).wrapping_mul(3);
        // A client that has gone already is no failure.
        if stream.write_all(&answer.to_le_bytes()).await.is_err() {
            return;
        }
        // Some go while bytes are on their way to them, whose events come late.
        if number.is_multiple_of(5) {
            return;
        }
    }
}

/// Opens and closes connections. The kernel gives each the lowest free number, which another task
/// has just closed, maybe with events on their way.
async fn reuse(address: SocketAddr, client: u64, answered: Arc<AtomicU64>) {
    for round in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        for part in 0..3 {
            let message = client << 32 | round << 8 | part;
            if stream.write_all(&message.to_le_bytes()).await.is_err() {
                break;
            }
            if part == 2 && round.is_multiple_of(3) {
                // The answer comes to a closed socket.
                break;
            }
            let mut answer = [0; 8];
            match stream.read_exact(&mut answer).await {
                Ok(_) => {
                    let answer = u64::from_le_bytes(answer);
                    assert_eq!(answer, message.wrapping_mul(3), "another one's answer");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    break;
                }
            }
        }
    }
}

/// If an event of a closed descriptor reached the next one, or an event of the next one were lost,
/// a connection would get the wrong answer or none.
#[test]
fn connections_that_reuse_descriptors_hear_of_their_own_events() {
    let name = "connections_that_reuse_descriptors_hear_of_their_own_events";
    alone(name, || {
        let runtime = Builder::new().workers(3).build().unwrap();
        let before = watched();
        runtime.block_on(within(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let accepting = evenkeel::spawn(async move {
                for number in 0.. {
                    let (stream, _) = listener.accept().await.unwrap();
                    evenkeel::spawn(serve(stream, number));
                }
            });
            let answered = Arc::new(AtomicU64::new(0));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| evenkeel::spawn(reuse(address, client, Arc::clone(&answered))))
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            let answered = answered.load(Ordering::Relaxed);
            assert!(answered > CLIENTS * CONNECTIONS, "{answered} answers");
            accepting.abort();
            accepting.await.unwrap_err();
            // The last servers hear of the ends of their clients, and close what is not counted.
            let descriptors = || Handle::current().stats().readiness.descriptors;
            while descriptors() > 0 || watched() > before {
                evenkeel::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }));
        assert_eq!(watched(), before, "the kernel watches what is closed");
    });
}
