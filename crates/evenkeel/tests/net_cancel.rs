//! Every async function of `net` may be dropped at any of its waits without losing anything.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::sync::Mutex;

use evenkeel::io::Interest;
use evenkeel::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, lookup_host};
#[cfg(unix)]
use evenkeel::net::{UnixDatagram, UnixListener, UnixStream};
use support::{assert_cancel_safe, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A stream, and its peer as a socket of the standard library.
async fn stream_and_peer() -> (TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = within(TcpStream::connect(listener.local_addr().unwrap()))
        .await
        .unwrap();
    (stream, listener.accept().unwrap().0)
}

#[evenkeel::test]
async fn accept_loses_no_connection() {
    support::watch_descriptors();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let clients = Mutex::new(Vec::new());
    assert_cancel_safe(
        || listener.accept(),
        || {
            clients
                .lock()
                .unwrap()
                .push(std::net::TcpStream::connect(address).unwrap())
        },
        async |accepted| {
            let client = clients.lock().unwrap().remove(0);
            assert_eq!(accepted.unwrap().1, client.local_addr().unwrap());
        },
    )
    .await;
    assert!(clients.lock().unwrap().is_empty());
}

#[evenkeel::test]
async fn connect_leaves_nothing_behind() {
    support::watch_descriptors();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    assert_cancel_safe(
        || TcpStream::connect(address),
        || (),
        async |connected| {
            // The connections of dropped futures end at once; this one answers.
            let mut stream = connected.unwrap();
            stream.write_all(b"alive").await.unwrap();
            let mut heard = Vec::new();
            while heard != b"alive" {
                heard.clear();
                let (mut peer, from) = listener.accept().unwrap();
                if from == stream.local_addr().unwrap() {
                    stream.shutdown().await.unwrap();
                }
                let ended = peer.read_to_end(&mut heard);
                assert!(ended.is_ok() || heard.is_empty());
            }
        },
    )
    .await;
    assert_cancel_safe(
        || TcpSocket::new_v4().unwrap().connect(address),
        || (),
        async |connected| assert_eq!(connected.unwrap().peer_addr().unwrap(), address),
    )
    .await;
}

#[evenkeel::test]
async fn reads_lose_no_byte() {
    support::watch_descriptors();
    let (stream, peer) = stream_and_peer().await;
    assert_cancel_safe(
        || async {
            let mut buf = [0; 4];
            let len = (&stream).read(&mut buf).await?;
            std::io::Result::Ok(buf[..len].to_vec())
        },
        || (&peer).write_all(b"abc").unwrap(),
        async |read| assert_eq!(read.unwrap(), b"abc"),
    )
    .await;
    assert_eq!(
        stream.try_read(&mut [0; 4]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

fn peek_now(stream: &TcpStream) -> std::io::Result<usize> {
    socket2::SockRef::from(stream).peek(&mut [std::mem::MaybeUninit::uninit(); 8])
}

#[evenkeel::test]
async fn peeks_and_waits_take_no_byte() {
    support::watch_descriptors();
    let (stream, peer) = stream_and_peer().await;
    let take = |expected: &[u8]| {
        let mut buf = [0; 8];
        let len = stream.try_read(&mut buf).unwrap();
        assert_eq!(&buf[..len], expected);
    };
    assert_cancel_safe(
        || async { stream.peek(&mut [0; 8]).await },
        || (&peer).write_all(b"peek").unwrap(),
        async |peeked| {
            assert_eq!(peeked.unwrap(), 4);
            take(b"peek");
        },
    )
    .await;
    assert_cancel_safe(
        || async {
            loop {
                stream.readable().await?;
                // A `peek` takes nothing, and shows whether the readiness was true.
                match stream.try_io(Interest::READABLE, || peek_now(&stream)) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    looked => break looked,
                }
            }
        },
        || (&peer).write_all(b"wait").unwrap(),
        async |looked| {
            assert_eq!(looked.unwrap(), 4);
            take(b"wait");
        },
    )
    .await;
    assert_cancel_safe(
        || stream.ready(Interest::READABLE | Interest::WRITABLE),
        || (),
        async |ready| assert!(ready.unwrap().is_writable()),
    )
    .await;
    assert_cancel_safe(|| stream.writable(), || (), async |ready| ready.unwrap()).await;
}

#[evenkeel::test]
async fn a_write_that_was_dropped_wrote_nothing() {
    support::watch_descriptors();
    let (stream, mut peer) = stream_and_peer().await;
    let full = vec![0; 1 << 20];
    let fill = || {
        let mut filled = 0;
        while let Ok(len) = stream.try_write(&full) {
            filled += len;
        }
        filled
    };
    for polls in 0..=4 {
        let filled = fill();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        {
            let mut stream = &stream;
            let mut write = std::pin::pin!(stream.write(b"dropped"));
            for _ in 0..polls {
                assert!(write.as_mut().poll(&mut cx).is_pending());
            }
        }
        let reader = std::thread::spawn(move || {
            let mut heard = vec![0; filled + 4];
            peer.read_exact(&mut heard).unwrap();
            assert_eq!(&heard[filled..], b"kept");
            peer
        });
        within((&stream).write_all(b"kept")).await.unwrap();
        peer = reader.join().unwrap();
    }
}

#[evenkeel::test]
async fn lookups_can_be_dropped() {
    support::watch_descriptors();
    assert_cancel_safe(
        || async { lookup_host("localhost:1").await.map(|found| found.count()) },
        || (),
        async |found| assert_ne!(found.unwrap(), 0),
    )
    .await;
    assert_cancel_safe(
        || TcpListener::bind("localhost:0"),
        || (),
        async |bound| assert!(bound.unwrap().local_addr().unwrap().ip().is_loopback()),
    )
    .await;
}

#[evenkeel::test]
async fn udp_loses_no_datagram() {
    support::watch_descriptors();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = peer.local_addr().unwrap();
    let event = || assert_eq!(peer.send_to(b"datagram", address).unwrap(), 8);
    assert_cancel_safe(
        || async { socket.recv_from(&mut [0; 16]).await },
        event,
        async |received| assert_eq!(received.unwrap(), (8, from)),
    )
    .await;
    assert_cancel_safe(
        || async { socket.peek_from(&mut [0; 16]).await },
        event,
        async |peeked| {
            assert_eq!(peeked.unwrap(), (8, from));
            assert_eq!(socket.try_recv_from(&mut [0; 16]).unwrap(), (8, from));
        },
    )
    .await;
    assert_cancel_safe(|| socket.connect(from), || (), async |done| done.unwrap()).await;
    assert_cancel_safe(
        || async { socket.recv(&mut [0; 16]).await },
        event,
        async |received| assert_eq!(received.unwrap(), 8),
    )
    .await;
    assert_cancel_safe(
        || async { socket.peek(&mut [0; 16]).await },
        event,
        async |peeked| {
            assert_eq!(peeked.unwrap(), 8);
            assert_eq!(socket.try_recv(&mut [0; 16]).unwrap(), 8);
        },
    )
    .await;
    // A send is done at its first poll or not begun: as many datagrams arrive as were reported.
    let mut sent = 0;
    assert_cancel_safe(
        || async {
            socket.send_to(b"one", from).await?;
            socket.send(b"two").await
        },
        || (),
        async |done| {
            assert_eq!(done.unwrap(), 3);
            sent += 1;
        },
    )
    .await;
    let mut buf = [0; 16];
    for _ in 0..sent {
        assert_eq!(peer.recv(&mut buf).unwrap(), 3);
    }
}

#[cfg(unix)]
#[evenkeel::test]
async fn unix_sockets_lose_nothing() {
    support::watch_descriptors();
    let path = support::SocketPath::new("cancel");
    let listener = UnixListener::bind(&path).unwrap();
    let clients = Mutex::new(0);
    assert_cancel_safe(
        || listener.accept(),
        || {
            std::os::unix::net::UnixStream::connect(&path).unwrap();
            *clients.lock().unwrap() += 1;
        },
        async |accepted| {
            accepted.unwrap();
            *clients.lock().unwrap() -= 1;
        },
    )
    .await;
    assert_eq!(*clients.lock().unwrap(), 0);
    assert_cancel_safe(
        || UnixStream::connect(&path),
        || (),
        async |stream| drop(stream.unwrap()),
    )
    .await;

    // The peer is the standard library's: it sees the present state, and not that of an event.
    let (socket, peer) = std::os::unix::net::UnixDatagram::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    let socket = UnixDatagram::from_std(socket).unwrap();
    assert_cancel_safe(
        || async { socket.recv(&mut [0; 16]).await },
        || assert_eq!(peer.send(b"datagram").unwrap(), 8),
        async |received| assert_eq!(received.unwrap(), 8),
    )
    .await;
    // The queue is full, until the event empties it. (The system reports room when three quarters
    // of the queue are free, so less would not do.)
    let fill = || while socket.try_send(b"fills").is_ok() {};
    let (waited, heard) = (Mutex::new(0), Mutex::new(0));
    let empty = || {
        let mut buf = [0; 16];
        while let Ok(len) = peer.recv(&mut buf) {
            *heard.lock().unwrap() += usize::from(&buf[..len] == b"waits");
        }
    };
    fill();
    assert_cancel_safe(
        || socket.send(b"waits"),
        empty,
        async |sent| {
            assert_eq!(sent.unwrap(), 5);
            *waited.lock().unwrap() += 1;
            fill();
        },
    )
    .await;
    empty();
    assert_eq!(*heard.lock().unwrap(), *waited.lock().unwrap());
}
