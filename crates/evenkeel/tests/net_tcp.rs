//! TCP streams and listeners, seen from outside.

mod support;

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use evenkeel::io::Interest;
use evenkeel::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use support::within;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = within(TcpStream::connect(listener.local_addr().unwrap()))
        .await
        .unwrap();
    let (server, from) = within(listener.accept()).await.unwrap();
    assert_eq!(from, client.local_addr().unwrap());
    (client, server)
}

/// An address without a listener.
fn closed_port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Bytes that show whether some are lost, doubled or out of order.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[evenkeel::test]
async fn many_connections_echo_at_once() {
    support::watch_descriptors();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = evenkeel::spawn(async move {
        let mut echoes = Vec::new();
        for _ in 0..32 {
            let (mut stream, _) = listener.accept().await.unwrap();
            echoes.push(evenkeel::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await.unwrap()
            }));
        }
        let mut total = 0;
        for echo in echoes {
            total += echo.await.unwrap();
        }
        total
    });
    let mut clients = Vec::new();
    for client in 0..32u8 {
        clients.push(evenkeel::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            for round in 0..20u8 {
                let sent = [client, round, 3, 4, 5];
                stream.write_all(&sent).await.unwrap();
                let mut heard = [0; 5];
                stream.read_exact(&mut heard).await.unwrap();
                assert_eq!(heard, sent);
            }
        }));
    }
    for client in clients {
        within(client).await.unwrap();
    }
    assert_eq!(within(server).await.unwrap(), 32 * 20 * 5);
}

#[evenkeel::test]
async fn megabytes_cross_both_ways_in_uneven_pieces() {
    support::watch_descriptors();
    const LEN: usize = 4 << 20;
    let (one, other) = pair().await;
    let sent = pattern(LEN);
    let mut tasks = Vec::new();
    for (stream, write_len, read_len) in [(one, 70_001, 3_001), (other, 9_973, 131_072)] {
        let (mut read, mut write) = stream.into_split();
        let data = sent.clone();
        tasks.push(evenkeel::spawn(async move {
            for piece in data.chunks(write_len) {
                write.write_all(piece).await.unwrap();
            }
        }));
        let expected = sent.clone();
        tasks.push(evenkeel::spawn(async move {
            let mut heard = Vec::with_capacity(LEN);
            let mut piece = vec![0; read_len];
            while heard.len() < LEN {
                let len = read.read(&mut piece).await.unwrap();
                assert_ne!(len, 0, "the stream ended at byte {}", heard.len());
                heard.extend_from_slice(&piece[..len]);
            }
            assert!(heard == expected);
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
}

#[evenkeel::test]
async fn a_short_message_followed_by_the_end_is_heard_to_the_end() {
    support::watch_descriptors();
    // The end may arrive together with the bytes, whose read is short.
    for _ in 0..200 {
        let (mut client, mut server) = pair().await;
        let client = evenkeel::spawn(async move {
            client.write_all(b"short").await.unwrap();
        });
        let mut heard = Vec::new();
        within(server.read_to_end(&mut heard)).await.unwrap();
        assert_eq!(heard, b"short");
        within(client).await.unwrap();
    }
}

#[evenkeel::test]
async fn one_side_may_close_while_the_other_goes_on() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let refused = client.write(b"more").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);

    let mut heard = String::new();
    within(server.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "question");
    server.write_all(b"answer").await.unwrap();
    drop(server);
    heard.clear();
    within(client.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "answer");
}

#[evenkeel::test]
async fn the_end_stays_the_end_and_wakes_a_waiting_reader() {
    support::watch_descriptors();
    let (client, mut server) = pair().await;
    let reader = evenkeel::spawn(async move {
        let mut buf = [0; 8];
        let first = server.read(&mut buf).await.unwrap();
        let second = server.read(&mut buf).await.unwrap();
        (first, second)
    });
    evenkeel::task::yield_now().await;
    drop(client);
    assert_eq!(within(reader).await.unwrap(), (0, 0));
}

#[evenkeel::test]
async fn owned_halves_work_in_two_tasks_and_reunite() {
    support::watch_descriptors();
    let (client, mut server) = pair().await;
    let (mut read, mut write) = client.into_split();
    let reader = evenkeel::spawn(async move {
        let mut heard = [0; 4];
        read.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"pong");
        read
    });
    write.write_all(b"ping").await.unwrap();
    let mut heard = [0; 4];
    within(server.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"ping");
    server.write_all(b"pong").await.unwrap();
    let read = within(reader).await.unwrap();

    let mut client = read.reunite(write).unwrap();
    client.write_all(b"whole").await.unwrap();
    let mut heard = [0; 5];
    within(server.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"whole");
}

#[evenkeel::test]
async fn halves_of_two_streams_do_not_reunite() {
    support::watch_descriptors();
    let (one, other) = pair().await;
    let (one_read, one_write) = one.into_split();
    let (other_read, other_write) = other.into_split();
    let error = one_read.reunite(other_write).unwrap_err();
    assert!(error.to_string().contains("not of the same stream"));
    // The error gives both back, still usable.
    error.0.reunite(one_write).unwrap();
    error.1.reunite(other_read).unwrap();
}

/// The kernel resets a connection that is closed with unread bytes, unless it was shut down.
#[evenkeel::test]
async fn the_last_half_ends_the_stream_though_something_is_unread() {
    support::watch_descriptors();
    for _ in 0..20 {
        let (mut client, mut server) = pair().await;
        client.write_all(b"a request, and more").await.unwrap();
        within(server.read_exact(&mut [0; 9])).await.unwrap();
        let (read, mut write) = server.into_split();
        write.write_all(b"answer").await.unwrap();
        drop(read);
        drop(write);
        let mut heard = [0; 6];
        within(client.read_exact(&mut heard)).await.unwrap();
        assert_eq!(&heard, b"answer");
        assert_eq!(within(client.read(&mut heard)).await.unwrap(), 0);
    }
}

#[evenkeel::test]
async fn a_dropped_write_half_ends_the_stream_and_a_forgotten_one_does_not() {
    support::watch_descriptors();
    let (client, mut server) = pair().await;
    let (mut read, write) = client.into_split();
    drop(write);
    let mut buf = [0; 8];
    assert_eq!(within(server.read(&mut buf)).await.unwrap(), 0);
    server.write_all(b"still heard").await.unwrap();
    drop(server);
    let mut heard = String::new();
    within(read.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "still heard");

    let (client, server) = pair().await;
    let (read, write) = client.into_split();
    write.forget();
    assert_eq!(
        server.try_read(&mut buf).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    drop(read);
    within(server.readable()).await.unwrap();
    assert_eq!(server.try_read(&mut buf).unwrap(), 0);
}

#[evenkeel::test]
async fn borrowed_halves_read_and_write_within_one_task() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    let sent = pattern(1 << 20);
    let echo = evenkeel::spawn(async move {
        let (mut read, mut write) = server.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let (mut read, mut write) = client.split();
    let mut heard = Vec::new();
    let (written, read) = within(futures_util::future::join(
        async {
            write.write_all(&sent).await?;
            write.shutdown().await
        },
        read.read_to_end(&mut heard),
    ))
    .await;
    written.unwrap();
    assert_eq!(read.unwrap(), sent.len());
    assert!(heard == sent);
    within(echo).await.unwrap();
}

#[evenkeel::test]
async fn a_shared_reference_reads_and_writes() {
    support::watch_descriptors();
    let (client, server) = pair().await;
    within((&client).write_all(b"by reference")).await.unwrap();
    let mut heard = [0; 12];
    within((&server).read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"by reference");
}

#[evenkeel::test]
async fn peeked_bytes_are_still_there() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    client.write_all(b"peek").await.unwrap();
    let mut buf = [0; 16];
    assert_eq!(within(server.peek(&mut buf)).await.unwrap(), 4);
    assert_eq!(within(server.peek(&mut buf[..2])).await.unwrap(), 2);
    let mut uninit = [std::mem::MaybeUninit::uninit(); 16];
    let mut read_buf = tokio::io::ReadBuf::uninit(&mut uninit);
    let peeked = std::future::poll_fn(|cx| server.poll_peek(cx, &mut read_buf));
    assert_eq!(within(peeked).await.unwrap(), 4);
    assert_eq!(read_buf.filled(), b"peek");
    assert_eq!(within(server.read(&mut buf)).await.unwrap(), 4);
    assert_eq!(&buf[..4], b"peek");
    drop(client);
    assert_eq!(within(server.peek(&mut buf)).await.unwrap(), 0);
}

#[evenkeel::test]
async fn a_read_keeps_what_the_buffer_held_and_asks_for_no_more_than_there_is_room() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    client.write_all(b"0123456789").await.unwrap();
    let mut memory = [std::mem::MaybeUninit::uninit(); 8];
    let mut buf = tokio::io::ReadBuf::uninit(&mut memory);
    buf.put_slice(b"kept");
    let mut server = std::pin::Pin::new(&mut server);
    for (filled, initialized) in [(&b"kept0123"[..], 8), (b"kept0123", 8)] {
        let read = std::future::poll_fn(|cx| {
            tokio::io::AsyncRead::poll_read(server.as_mut(), cx, &mut buf)
        });
        within(read).await.unwrap();
        assert_eq!(buf.filled(), filled);
        assert_eq!(buf.initialized().len(), initialized);
    }
    let mut rest = [0; 6];
    within(server.read_exact(&mut rest)).await.unwrap();
    assert_eq!(&rest, b"456789");
}

#[evenkeel::test]
async fn slices_are_gathered_and_scattered_in_order() {
    support::watch_descriptors();
    let (mut client, mut server) = pair().await;
    assert!(client.is_write_vectored());
    let slices = [
        IoSlice::new(b"one "),
        IoSlice::new(b""),
        IoSlice::new(b"two"),
    ];
    assert_eq!(within(client.write_vectored(&slices)).await.unwrap(), 7);
    within(server.readable()).await.unwrap();
    let (mut head, mut tail) = ([0; 2], [0; 16]);
    let mut into = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)];
    assert_eq!(server.try_read_vectored(&mut into).unwrap(), 7);
    assert_eq!((&head, &tail[..5]), (b"on", &b"e two"[..]));

    // More slices than the system takes in one call.
    let bytes = pattern(3_000);
    let slices: Vec<_> = bytes.chunks(1).map(IoSlice::new).collect();
    let mut written = 0;
    while written < bytes.len() {
        written += within(client.write_vectored(&slices[written..]))
            .await
            .unwrap();
    }
    let mut heard = vec![0; bytes.len()];
    within(server.read_exact(&mut heard)).await.unwrap();
    assert!(heard == bytes);
    assert_eq!(
        server.try_write_vectored(&[IoSlice::new(b"back")]).unwrap(),
        4
    );
}

/// A read that is short of all buffers may have filled those that the system takes in one call.
#[evenkeel::test]
async fn a_read_into_more_buffers_than_the_system_takes_leaves_the_rest_readable() {
    support::watch_descriptors();
    let (mut client, server) = pair().await;
    // Registered, since short reads mean nothing before.
    let error = server.try_read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let (readable, written) = within(async {
        let bytes = pattern(3_000);
        tokio::join!(server.readable(), client.write_all(&bytes))
    })
    .await;
    readable.and(written).unwrap();
    let mut all = vec![0; 3_000];
    while within(server.peek(&mut all)).await.unwrap() < all.len() {
        evenkeel::task::yield_now().await;
    }
    let mut heard = Vec::new();
    while heard.len() < all.len() {
        within(server.readable()).await.unwrap();
        let mut memory = vec![0; 4_000];
        let mut into: Vec<_> = memory.chunks_mut(1).map(IoSliceMut::new).collect();
        match server.try_read_vectored(&mut into) {
            Ok(count) => heard.extend_from_slice(&memory[..count]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(heard == all);
}

/// Otherwise the stream would seem to have ended, or to take no more.
#[evenkeel::test]
async fn any_number_of_empty_buffers_may_come_first() {
    support::watch_descriptors();
    let (mut client, server) = pair().await;
    let mut slices = vec![IoSlice::new(b""); 2_000];
    slices.push(IoSlice::new(b"heard"));
    assert_eq!(within(client.write_vectored(&slices)).await.unwrap(), 5);
    let mut heard = [0; 8];
    let mut into: Vec<_> = (0..2_000).map(|_| IoSliceMut::new(&mut [])).collect();
    into.push(IoSliceMut::new(&mut heard));
    within(server.readable()).await.unwrap();
    assert_eq!(server.try_read_vectored(&mut into).unwrap(), 5);
    assert_eq!(&heard[..5], b"heard");
}

#[evenkeel::test]
async fn attempts_say_would_block_and_then_the_wait_is_real() {
    support::watch_descriptors();
    let (client, server) = pair().await;
    let mut buf = [0; 16];
    assert_eq!(
        server.try_read(&mut buf).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );

    // Full to the brim: then `writable` has to wait until the peer has read.
    let chunk = vec![7; 64 * 1024];
    let mut written = 0;
    loop {
        match client.try_write(&chunk) {
            Ok(len) => written += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    let reader = evenkeel::spawn(async move {
        let mut heard = 0;
        let mut buf = vec![0; 64 * 1024];
        while heard < written + 1 {
            server.readable().await.unwrap();
            match server.try_read(&mut buf) {
                Ok(0) => break,
                Ok(len) => heard += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        heard
    });
    loop {
        within(client.writable()).await.unwrap();
        match client.try_write(b"!") {
            Ok(len) => break assert_eq!(len, 1),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(within(reader).await.unwrap(), written + 1);
}

#[evenkeel::test]
async fn an_end_shows_though_nobody_waits_and_bytes_are_unread() {
    support::watch_descriptors();
    // One that is waited for first, and one that is not.
    for waits in [true, false] {
        let (ours, mut peer) = pair().await;
        peer.write_all(b"unread").await.unwrap();
        if waits {
            within(ours.readable()).await.unwrap();
        }
        assert!(!ours.is_read_closed());
        peer.shutdown().await.unwrap();
        let ended = async {
            while !ours.is_read_closed() {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within(ended).await;
        assert!(!peer.is_read_closed());
    }
}

#[evenkeel::test]
async fn what_the_peer_takes_shows_in_the_send_queue() {
    support::watch_descriptors();
    let (ours, mut peer) = pair().await;
    assert_eq!(ours.send_queue().unwrap(), 0);
    within(ours.writable()).await.unwrap();
    let mut written = 0;
    // Until the peer's buffer is full as well, and has been for a moment.
    loop {
        match ours.try_write(&[0; 64 * 1_024]) {
            Ok(bytes) => written += bytes,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                let time = Duration::from_millis(50);
                if evenkeel::time::timeout(time, ours.writable())
                    .await
                    .is_err()
                {
                    break;
                }
            }
        }
    }
    let full = ours.send_queue().unwrap();
    assert!((1..=written).contains(&full), "{full} of {written}");
    let mut left = written;
    let mut some = vec![0; 64 * 1_024];
    while ours.send_queue().unwrap() == full {
        left -= within(peer.read(&mut some)).await.unwrap();
    }
    assert!(ours.send_queue().unwrap() < full);
    while left > 0 {
        left -= within(peer.read(&mut some)).await.unwrap();
    }
    let empty = async {
        while ours.send_queue().unwrap() > 0 {
            evenkeel::task::yield_now().await;
        }
    };
    within(empty).await;
}

#[evenkeel::test]
async fn a_growing_buffer_is_read_into_behind_what_it_holds() {
    support::watch_descriptors();
    let (here, there) = pair().await;
    let mut buf = b"kept ".to_vec();
    let error = here.try_read_buf(&mut buf).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(buf, b"kept ", "a failed attempt changes nothing");
    assert_eq!(there.try_write(b"and more").unwrap(), 8);
    within(here.readable()).await.unwrap();
    buf.shrink_to_fit();
    assert_eq!(here.try_read_buf(&mut buf).unwrap(), 8);
    assert_eq!(buf, b"kept and more");
    let (read, _write) = here.into_split();
    drop(there);
    within(read.readable()).await.unwrap();
    assert_eq!(read.try_read_buf(&mut buf).unwrap(), 0, "the end");
    assert_eq!(buf, b"kept and more");
}

#[evenkeel::test]
async fn an_operation_of_ones_own_hears_of_interruptions() {
    support::watch_descriptors();
    let (here, _there) = pair().await;
    let mut attempts = 0;
    let interrupted = here.async_io(Interest::WRITABLE, || {
        attempts += 1;
        assert!(attempts < 100, "tried again for ever");
        Err::<(), _>(std::io::Error::from(ErrorKind::Interrupted))
    });
    let error = within(interrupted).await.unwrap_err();
    assert_eq!((error.kind(), attempts), (ErrorKind::Interrupted, 1));
    within(here.writable()).await.unwrap();
}

#[evenkeel::test]
async fn readiness_tells_what_for() {
    support::watch_descriptors();
    let (mut client, server) = pair().await;
    let ready = within(server.ready(Interest::READABLE | Interest::WRITABLE))
        .await
        .unwrap();
    assert!(ready.is_writable());
    client.write_all(b"x").await.unwrap();
    assert!(
        within(server.ready(Interest::READABLE))
            .await
            .unwrap()
            .is_readable()
    );
    let received = within(server.async_io(Interest::READABLE, || {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        socket2::SockRef::from(&server).recv(&mut byte)
    }));
    assert_eq!(received.await.unwrap(), 1);
    let again = server.try_io(Interest::READABLE, || -> io::Result<()> {
        Err(ErrorKind::WouldBlock.into())
    });
    assert_eq!(again.unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[evenkeel::test]
async fn a_refused_connection_is_an_error_and_the_next_address_is_tried() {
    support::watch_descriptors();
    let refused = within(TcpStream::connect(closed_port())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap();
    let addresses = [closed_port(), open];
    let stream = within(TcpStream::connect(&addresses[..])).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), open);

    let nowhere: [SocketAddr; 0] = [];
    let error = within(TcpStream::connect(&nowhere[..])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[evenkeel::test]
async fn a_reset_connection_is_an_error_to_the_reader() {
    support::watch_descriptors();
    let (client, mut server) = pair().await;
    client.set_zero_linger().unwrap();
    drop(client);
    let mut buf = [0; 8];
    let error = within(server.read(&mut buf)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // Ending a stream that has ended is not an error.
    server.shutdown().await.unwrap();
}

#[evenkeel::test]
async fn names_and_texts_are_looked_up() {
    support::watch_descriptors();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for found in within(lookup_host(("localhost", port))).await.unwrap() {
        assert!(found.ip().is_loopback());
        assert_eq!(found.port(), port);
    }
    // The name may have an IPv6 address too, which has no listener.
    within(TcpStream::connect(format!("localhost:{port}")))
        .await
        .unwrap();

    let error = within(lookup_host("no port"))
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("no port"), "{error}");
}

#[evenkeel::test]
async fn a_stream_goes_to_the_standard_library_and_back() {
    support::watch_descriptors();
    let (client, mut server) = pair().await;
    let std_client = client.into_std().unwrap();
    std_client.set_nonblocking(false).unwrap();
    io::Write::write_all(&mut &std_client, b"blocking").unwrap();
    let mut client = TcpStream::try_from(std_client).unwrap();
    client.write_all(b" and not").await.unwrap();
    let mut heard = [0; 16];
    within(server.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"blocking and not");

    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .into_std()
        .unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = within(futures_util::future::join(connecting, listener.accept())).await;
    assert_eq!(client.unwrap().local_addr().unwrap(), server.unwrap().1);
}

#[evenkeel::test]
async fn options_are_set_on_the_socket() {
    support::watch_descriptors();
    let (client, _server) = pair().await;
    for nodelay in [true, false] {
        client.set_nodelay(nodelay).unwrap();
        assert_eq!(client.nodelay().unwrap(), nodelay);
    }
    client.set_ttl(33).unwrap();
    assert_eq!(client.ttl().unwrap(), 33);
    assert_eq!(client.linger().unwrap(), None);
    client.set_linger(Some(Duration::ZERO)).unwrap();
    assert_eq!(client.linger().unwrap(), Some(Duration::ZERO));
    assert!(client.take_error().unwrap().is_none());
    let socket = socket2::SockRef::from(&client);
    socket.set_keepalive(true).unwrap();
    assert!(socket.keepalive().unwrap());
    assert!(client.as_fd().try_clone_to_owned().is_ok());
}

#[evenkeel::test]
async fn a_socket_is_prepared_before_it_connects_or_listens() {
    support::watch_descriptors();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    assert!(socket.reuseaddr().unwrap());
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let listener = socket.listen(16).unwrap();
    assert_eq!(listener.local_addr().unwrap(), address);

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_nodelay(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let from = socket.local_addr().unwrap();
    let client = within(socket.connect(address)).await.unwrap();
    assert!(client.nodelay().unwrap());
    assert_eq!(within(listener.accept()).await.unwrap().1, from);

    let socket = TcpSocket::new_v4().unwrap();
    let refused = within(socket.connect(closed_port())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn a_socket_takes_another_congestion_control() {
    let (listener, socket) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
    // Every Linux has this one.
    for socket in [&listener, &socket] {
        socket.set_congestion_control("reno").unwrap();
        assert_eq!(socket.congestion_control().unwrap(), "reno");
    }
    let unknown = socket.set_congestion_control("no-such").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener.listen(1).unwrap();
    let client = within(socket.connect(listener.local_addr().unwrap())).await;
    let (client, server) = (client.unwrap(), within(listener.accept()).await.unwrap().0);
    for stream in [&client, &server] {
        let control = rustix::net::sockopt::tcp_congestion(stream);
        assert_eq!(control.unwrap(), "reno");
    }
}

#[evenkeel::test]
async fn several_tasks_accept_from_one_listener() {
    support::watch_descriptors();
    let listener = std::sync::Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let (accepted, mut all) = tokio::sync::mpsc::channel(64);
    for _ in 0..4 {
        let (listener, accepted) = (listener.clone(), accepted.clone());
        evenkeel::spawn(async move {
            while let Ok((_, from)) = listener.accept().await {
                if accepted.send(from).await.is_err() {
                    break;
                }
            }
        });
    }
    let mut clients = Vec::new();
    for _ in 0..64 {
        clients.push(within(TcpStream::connect(address)).await.unwrap());
    }
    let mut expected: Vec<_> = clients.iter().map(|c| c.local_addr().unwrap()).collect();
    let mut seen = Vec::new();
    while seen.len() < clients.len() {
        seen.push(within(all.recv()).await.unwrap());
    }
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
}

#[evenkeel::test]
async fn a_polled_accept_gives_the_connection() {
    support::watch_descriptors();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = evenkeel::spawn(async move {
        std::future::poll_fn(|cx| listener.poll_accept(cx))
            .await
            .unwrap()
            .1
    });
    let client = within(TcpStream::connect(address)).await.unwrap();
    assert_eq!(
        within(accepting).await.unwrap(),
        client.local_addr().unwrap()
    );
}

/// Connections that are not accepted yet are complete for their clients.
#[evenkeel::test]
#[cfg(target_os = "linux")]
async fn a_burst_of_connections_waits_to_be_accepted() {
    const BURST: usize = 400;
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if most.trim().parse::<usize>().unwrap() < BURST {
        eprintln!("skipped: this system lets {} connections wait", most.trim());
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connected = Vec::new();
    for _ in 0..BURST {
        connected.push(within(TcpStream::connect(address)).await.unwrap());
    }
    for _ in 0..BURST {
        within(listener.accept()).await.unwrap();
    }
}
