//! UDP, seen from outside.

mod support;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::sync::Arc;

use evenkeel::net::{Delivery, DeliveryError, RecvBatch, UdpSocket};
use support::within;
use tokio::io::ReadBuf;

async fn pair() -> (UdpSocket, UdpSocket) {
    let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    one.connect(other.local_addr().unwrap()).await.unwrap();
    other.connect(one.local_addr().unwrap()).await.unwrap();
    (one, other)
}

#[evenkeel::test]
async fn datagrams_go_back_and_forth() {
    support::watch_descriptors();
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let echo = evenkeel::spawn(async move {
        let mut buf = [0; 64];
        for _ in 0..10 {
            let (len, from) = server.recv_from(&mut buf).await.unwrap();
            assert_eq!(server.send_to(&buf[..len], from).await.unwrap(), len);
        }
    });
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for round in 0..10u8 {
        client.send_to(&[round; 3], address).await.unwrap();
        let mut buf = [0; 64];
        let (len, from) = within(client.recv_from(&mut buf)).await.unwrap();
        assert_eq!((&buf[..len], from), (&[round; 3][..], address));
    }
    within(echo).await.unwrap();
}

#[evenkeel::test]
async fn each_of_many_waiters_gets_datagrams_of_its_own() {
    support::watch_descriptors();
    const WAITERS: usize = 8;
    const ROUNDS: u32 = 50;
    let server = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let address = server.local_addr().unwrap();
    let (heard, mut all) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..WAITERS {
        let (server, heard) = (server.clone(), heard.clone());
        evenkeel::spawn(async move {
            let mut buf = [0; 4];
            loop {
                let (len, _) = server.recv_from(&mut buf).await.unwrap();
                assert_eq!(len, 4);
                if heard.send(u32::from_be_bytes(buf)).is_err() {
                    break;
                }
            }
        });
    }
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut seen = BTreeSet::new();
    for round in 0..ROUNDS {
        // As many at once as there are waiters, and fewer than the socket's buffer holds.
        for waiter in 0..WAITERS as u32 {
            let number = round * WAITERS as u32 + waiter;
            client
                .send_to(&number.to_be_bytes(), address)
                .await
                .unwrap();
        }
        for _ in 0..WAITERS {
            let number = within(all.recv()).await.unwrap();
            assert!(seen.insert(number), "datagram {number} was received twice");
        }
    }
    assert_eq!(seen.len(), WAITERS * ROUNDS as usize);
}

#[evenkeel::test]
async fn waiters_that_peek_all_see_the_one_datagram() {
    support::watch_descriptors();
    let server = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let mut waiters = Vec::new();
    for _ in 0..6 {
        let server = server.clone();
        waiters.push(evenkeel::spawn(async move {
            let mut buf = [0; 16];
            let (len, from) = server.peek_from(&mut buf).await.unwrap();
            assert_eq!(&buf[..len], b"seen by all");
            from
        }));
    }
    evenkeel::task::yield_now().await;
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client
        .send_to(b"seen by all", server.local_addr().unwrap())
        .await
        .unwrap();
    for waiter in waiters {
        assert_eq!(within(waiter).await.unwrap(), client.local_addr().unwrap());
    }
    let mut buf = [0; 16];
    assert_eq!(within(server.recv_from(&mut buf)).await.unwrap().0, 11);
}

#[evenkeel::test]
async fn a_connected_socket_knows_its_peer() {
    support::watch_descriptors();
    let (one, other) = pair().await;
    assert_eq!(one.peer_addr().unwrap(), other.local_addr().unwrap());
    assert_eq!(within(one.send(b"ping")).await.unwrap(), 4);
    let mut buf = [0; 16];
    assert_eq!(within(other.peek(&mut buf)).await.unwrap(), 4);
    assert_eq!(within(other.recv(&mut buf[..2])).await.unwrap(), 2);
    // The end of a datagram that is too long for the buffer is lost.
    assert_eq!(
        other.try_recv(&mut buf).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[evenkeel::test]
async fn attempts_say_would_block_and_then_the_wait_is_real() {
    support::watch_descriptors();
    let (one, other) = pair().await;
    let mut buf = [0; 16];
    assert_eq!(
        other.try_recv_from(&mut buf).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert_eq!(
        other.try_peek_from(&mut buf).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    let waiter = evenkeel::spawn(async move {
        let mut buf = [0; 16];
        loop {
            other.readable().await.unwrap();
            match other.try_recv(&mut buf) {
                Ok(len) => break buf[..len].to_vec(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    within(one.writable()).await.unwrap();
    assert_eq!(one.try_send(b"tried").unwrap(), 5);
    assert_eq!(within(waiter).await.unwrap(), b"tried");
}

#[evenkeel::test]
async fn polled_methods_use_memory_that_is_not_initialised() {
    support::watch_descriptors();
    let (one, other) = pair().await;
    let address = one.local_addr().unwrap();
    let mut memory = [MaybeUninit::uninit(); 16];

    within(poll_fn(|cx| one.poll_send(cx, b"first")))
        .await
        .unwrap();
    let mut buf = ReadBuf::uninit(&mut memory);
    within(poll_fn(|cx| other.poll_recv_ready(cx)))
        .await
        .unwrap();
    assert_eq!(
        within(poll_fn(|cx| other.poll_peek_from(cx, &mut buf)))
            .await
            .unwrap(),
        address
    );
    within(poll_fn(|cx| other.poll_recv(cx, &mut buf)))
        .await
        .unwrap();
    assert_eq!(buf.filled(), b"firstfirst");

    let to = other.local_addr().unwrap();
    within(poll_fn(|cx| one.poll_send_ready(cx))).await.unwrap();
    within(poll_fn(|cx| one.poll_send_to(cx, b"second", to)))
        .await
        .unwrap();
    buf.clear();
    assert_eq!(
        within(poll_fn(|cx| other.poll_recv_from(cx, &mut buf)))
            .await
            .unwrap(),
        address
    );
    assert_eq!(buf.filled(), b"second");
}

#[evenkeel::test]
async fn a_growing_buffer_gathers_datagrams() {
    support::watch_descriptors();
    let (one, other) = pair().await;
    let (from, to) = (one.local_addr().unwrap(), other.local_addr().unwrap());
    let mut buf = Vec::with_capacity(64);
    let error = other.try_recv_buf(&mut buf).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    for text in ["a", "bc", "def", "g"] {
        one.send_to(text.as_bytes(), to).await.unwrap();
    }
    assert_eq!(within(other.recv_buf(&mut buf)).await.unwrap(), 1);
    let received = within(other.recv_buf_from(&mut buf)).await.unwrap();
    assert_eq!(received, (2, from));
    within(other.readable()).await.unwrap();
    assert_eq!(other.try_peek(&mut [0; 8]).unwrap(), 3);
    assert_eq!(other.try_recv_buf(&mut buf).unwrap(), 3);
    assert_eq!(other.try_recv_buf_from(&mut buf).unwrap(), (1, from));
    assert_eq!(buf, b"abcdefg");
}

#[evenkeel::test]
async fn a_refused_datagram_is_reported_once_and_the_socket_goes_on() {
    support::watch_descriptors();
    let gone = std::net::UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(gone).await.unwrap();
    let mut buf = [0; 16];
    assert_eq!(
        client.try_recv(&mut buf).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    within(client.send(b"anybody?")).await.unwrap();
    let refused = within(client.recv(&mut buf)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    // The error was reported: the next receive waits, and does not try repeatedly in one poll.
    {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut receiving = std::pin::pin!(client.recv(&mut buf));
        assert!(receiving.as_mut().poll(&mut cx).is_pending());
    }
    // It waits for a datagram, and gets it.
    let address = client.local_addr().unwrap();
    let receiving = evenkeel::spawn(async move {
        let mut buf = [0; 16];
        let len = client.recv(&mut buf).await.unwrap();
        buf[..len].to_vec()
    });
    evenkeel::task::yield_now().await;
    let server = UdpSocket::bind(gone).await.unwrap();
    within(server.send_to(b"here now", address)).await.unwrap();
    assert_eq!(within(receiving).await.unwrap(), b"here now");
}

#[evenkeel::test]
async fn options_are_set_on_the_socket() {
    support::watch_descriptors();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.set_broadcast(true).unwrap();
    assert!(socket.broadcast().unwrap());
    socket.set_ttl(7).unwrap();
    assert_eq!(socket.ttl().unwrap(), 7);
    socket.set_multicast_ttl_v4(3).unwrap();
    assert_eq!(socket.multicast_ttl_v4().unwrap(), 3);
    assert!(socket.take_error().unwrap().is_none());
    let std_socket = socket.into_std().unwrap();
    let address = std_socket.local_addr().unwrap();
    assert_eq!(
        UdpSocket::from_std(std_socket)
            .unwrap()
            .local_addr()
            .unwrap(),
        address
    );
}

#[evenkeel::test]
async fn batches_hold_each_datagram_once() {
    support::watch_descriptors();
    let (one, other) = pair().await;
    // More than there are slots, and than one system call takes.
    for number in 0..100u8 {
        one.send(&vec![number; usize::from(number)]).await.unwrap();
    }
    let mut batch = RecvBatch::new(40, 64);
    assert!(batch.is_empty());
    let mut received = Vec::new();
    while received.len() < 100 {
        let count = within(other.recv_batch(&mut batch)).await.unwrap();
        assert_eq!((batch.len(), batch.iter().count()), (count, count));
        for datagram in batch.iter() {
            assert_eq!(datagram.from, one.local_addr().unwrap());
            assert_eq!(datagram.is_truncated, received.len() > 64);
            received.push(datagram.data.to_vec());
        }
    }
    for (number, data) in received.iter().enumerate() {
        assert_eq!(*data, vec![number as u8; number.min(64)]);
    }
    let error = other.try_recv_batch(&mut batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    // It waits again for later datagrams.
    let (count, ()) = tokio::join!(within(other.recv_batch(&mut batch)), async {
        evenkeel::time::sleep(std::time::Duration::from_millis(5)).await;
        one.send(b"last").await.unwrap();
    });
    assert_eq!(count.unwrap(), 1);
    assert_eq!(batch.iter().next().unwrap().data, b"last");
}

/// A sender that passes many datagrams to the kernel at once, which the loopback keeps together.
#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn merged_datagrams_come_apart_again() {
    use std::io::IoSlice;

    use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg};
    use std::os::fd::AsRawFd;

    support::watch_descriptors();
    let (one, other) = pair().await;
    if !other.merge_datagrams() {
        eprintln!("this kernel does not merge datagrams");
        return;
    }
    let sent: Vec<u8> = (0..2_050_u32).map(|at| (at % 251) as u8).collect();
    let segment = 100_u16;
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    let slices = [IoSlice::new(&sent)];
    let flags = MsgFlags::empty();
    sendmsg::<SockaddrIn>(one.as_raw_fd(), &slices, &control, flags, None).unwrap();

    let mut short = RecvBatch::new(4, 2_000);
    let error = within(other.recv_batch(&mut short)).await.unwrap_err();
    assert!(error.to_string().contains("for_merged"), "{error}");
    let error = within(other.recv(&mut [0; 100])).await.unwrap_err();
    assert!(error.to_string().contains("recv_batch"), "{error}");

    let mut batch = RecvBatch::for_merged(4);
    let mut received = Vec::new();
    while received.len() < 21 {
        within(other.recv_batch(&mut batch)).await.unwrap();
        received.extend(batch.iter().map(|datagram| datagram.data.to_vec()));
    }
    assert_eq!(received.concat(), sent);
    assert!(received[..20].iter().all(|data| data.len() == 100));
}

/// Other control messages of the kernel do not displace the one with the datagrams' length.
#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn merged_datagrams_come_apart_beside_time_stamps() {
    use std::io::IoSlice;

    use nix::sys::socket::{
        ControlMessage, MsgFlags, SockaddrIn, TimestampingFlag, sendmsg, setsockopt, sockopt,
    };
    use std::os::fd::AsRawFd;

    support::watch_descriptors();
    let (one, other) = pair().await;
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
    setsockopt(&other, sockopt::Timestamping, &stamps).unwrap();
    setsockopt(&other, sockopt::ReceiveTimestampns, &true).unwrap();
    if !other.merge_datagrams() {
        eprintln!("this kernel does not merge datagrams");
        return;
    }
    let segment = 100_u16;
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    let slices = [IoSlice::new(&[7; 1_000])];
    let flags = MsgFlags::empty();
    sendmsg::<SockaddrIn>(one.as_raw_fd(), &slices, &control, flags, None).unwrap();

    let mut batch = RecvBatch::for_merged(4);
    let mut received = 0;
    while received < 10 {
        received += within(other.recv_batch(&mut batch)).await.unwrap();
        assert!(batch.iter().all(|datagram| datagram.data == [7; 100]));
    }
    assert_eq!(received, 10);
}

/// A task that waited when merging began, and a later owner of the socket, get no merged datagrams.
#[evenkeel::test]
async fn merged_datagrams_come_to_nobody_who_does_not_know() {
    use std::time::Duration;

    support::watch_descriptors();
    let (one, other) = pair().await;
    let mut buf = [0; 100];
    let mut short = RecvBatch::new(4, 100);
    let (received, batch, merges) = tokio::join!(
        within(other.recv(&mut buf)),
        within(other.recv_batch(&mut short)),
        async {
            evenkeel::time::sleep(Duration::from_millis(20)).await;
            let merges = other.merge_datagrams();
            one.send(b"first").await.unwrap();
            evenkeel::time::sleep(Duration::from_millis(20)).await;
            one.send(b"second").await.unwrap();
            merges
        }
    );
    if !merges {
        eprintln!("this kernel does not merge datagrams");
        return;
    }
    let error = received.unwrap_err();
    assert!(error.to_string().contains("recv_batch"), "{error}");
    let error = batch.unwrap_err();
    assert!(error.to_string().contains("for_merged"), "{error}");
    let other = UdpSocket::from_std(other.into_std().unwrap()).unwrap();
    let error = within(other.recv(&mut buf)).await.unwrap_err();
    assert!(error.to_string().contains("recv_batch"), "{error}");
    let mut batch = RecvBatch::for_merged(4);
    within(other.recv_batch(&mut batch)).await.unwrap();
    assert_eq!(batch.iter().next().unwrap().data, b"first");
}

#[evenkeel::test]
async fn datagrams_are_held_back_by_the_delay_alone() {
    support::watch_descriptors();
    let (one, other) = pair().await;
    let delay = std::time::Duration::from_millis(30);
    let error = other
        .set_delivery(Delivery::Coalesce { bytes: 1000, delay })
        .unwrap_err();
    let inner = error.into_inner().unwrap();
    assert_eq!(
        inner.downcast_ref(),
        Some(&DeliveryError::NoWatermark { bytes: 1000 })
    );
    let bytes = usize::MAX;
    other
        .set_delivery(Delivery::Coalesce { bytes, delay })
        .unwrap();
    let mut batch = RecvBatch::new(64, 64);
    let mut received = 0;
    let (mut sent, mut batches) = (0, 0);
    for _ in 0..5 {
        let (count, ()) = tokio::join!(within(other.recv_batch(&mut batch)), async {
            evenkeel::time::sleep(delay / 6).await;
            for _ in 0..10 {
                one.send(b"held").await.unwrap();
                sent += 1;
            }
        });
        received += count.unwrap();
        batches += 1;
    }
    while received < sent {
        received += within(other.recv_batch(&mut batch)).await.unwrap();
        batches += 1;
    }
    assert!(batches <= 10, "{sent} datagrams in {batches} batches");
}
