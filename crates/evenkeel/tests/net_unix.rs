//! Unix sockets, seen from outside.
#![cfg(unix)]

mod support;

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::sync::Arc;

use evenkeel::net::{UnixDatagram, UnixListener, UnixStream};
use support::{SocketPath, within};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

#[evenkeel::test]
async fn connections_echo_over_a_path() {
    support::watch_descriptors();
    let path = SocketPath::new("echo");
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(
        UnixListener::bind(&path).unwrap_err().kind(),
        ErrorKind::AddrInUse
    );
    let server = evenkeel::spawn(async move {
        for _ in 0..4 {
            let (mut stream, _) = listener.accept().await.unwrap();
            evenkeel::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await.unwrap();
            });
        }
    });
    for _ in 0..4 {
        let mut client = within(UnixStream::connect(&path)).await.unwrap();
        assert_eq!(
            client.peer_addr().unwrap().as_pathname(),
            Some(path.as_ref())
        );
        client.write_all(b"echo").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        within(client.read_to_end(&mut heard)).await.unwrap();
        assert_eq!(heard, b"echo");
    }
    within(server).await.unwrap();
}

#[evenkeel::test]
async fn megabytes_cross_a_pair_through_owned_halves() {
    support::watch_descriptors();
    const LEN: usize = 2 << 20;
    let (one, other) = UnixStream::pair().unwrap();
    let mut tasks = Vec::new();
    for stream in [one, other] {
        let (mut read, mut write) = stream.into_split();
        tasks.push(evenkeel::spawn(async move {
            let bytes: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8).collect();
            write.write_all(&bytes).await.unwrap();
        }));
        tasks.push(evenkeel::spawn(async move {
            let mut heard = Vec::new();
            read.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard.len(), LEN);
            assert!(
                heard
                    .iter()
                    .enumerate()
                    .all(|(i, byte)| *byte == (i % 251) as u8)
            );
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
}

#[evenkeel::test]
async fn the_methods_of_streams_work_here_too() {
    support::watch_descriptors();
    let (mut one, other) = UnixStream::pair().unwrap();
    assert!(one.is_write_vectored());
    let slices = [IoSlice::new(b"gathered "), IoSlice::new(b"bytes")];
    assert_eq!(within(one.write_vectored(&slices)).await.unwrap(), 14);
    let mut buf = [0; 32];
    assert_eq!(within(other.peek(&mut buf)).await.unwrap(), 14);
    assert_eq!(other.try_read(&mut buf).unwrap(), 14);
    assert_eq!(&buf[..14], b"gathered bytes");
    assert_eq!(
        other.try_read(&mut buf).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );

    let (read, write) = one.into_split();
    let one = write.reunite(read).unwrap();
    let mut one = UnixStream::from_std(one.into_std().unwrap()).unwrap();
    assert_eq!(other.try_write(b"back").unwrap(), 4);
    within(one.read_exact(&mut buf[..4])).await.unwrap();
    assert_eq!(&buf[..4], b"back");
}

/// On others what is written is in the peer's buffer at once.
#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn what_the_peer_reads_leaves_the_send_queue() {
    let (ours, mut peer) = UnixStream::pair().unwrap();
    assert_eq!(ours.send_queue().unwrap(), 0);
    within(ours.writable()).await.unwrap();
    assert_eq!(ours.try_write(&[0; 10_000]).unwrap(), 10_000);
    assert!(ours.send_queue().unwrap() >= 10_000);
    within(peer.read_exact(&mut [0; 10_000])).await.unwrap();
    assert_eq!(ours.send_queue().unwrap(), 0);
}

#[evenkeel::test]
async fn nobody_at_the_path_is_an_error() {
    support::watch_descriptors();
    let path = SocketPath::new("nobody");
    assert_eq!(
        within(UnixStream::connect(&path)).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    drop(UnixListener::bind(&path).unwrap());
    let refused = within(UnixStream::connect(&path)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn a_full_backlog_is_waited_for() {
    support::watch_descriptors();
    use std::os::linux::net::SocketAddrExt;
    let name = format!("evenkeel-backlog-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    let std_listener: std::os::unix::net::UnixListener = {
        let bound = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        // Listening again sets a new length: one waits, and one more is let in.
        socket2::SockRef::from(&bound).listen(0).unwrap();
        bound
    };
    let listener = UnixListener::from_std(std_listener).unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let address = address.clone();
        clients.push(evenkeel::spawn(async move {
            UnixStream::connect_addr(&address).await
        }));
    }
    for _ in 0..4 {
        within(listener.accept()).await.unwrap();
    }
    for client in clients {
        within(client).await.unwrap().unwrap();
    }
}

/// Sends `bytes` together with a descriptor, which makes the receiver's read end behind them.
#[cfg(target_os = "linux")]
fn send_with_descriptor(stream: &std::os::unix::net::UnixStream, bytes: &[u8]) {
    use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
    use std::os::fd::AsRawFd;

    let descriptor = stream.as_raw_fd();
    let passed = [ControlMessage::ScmRights(&[descriptor])];
    let slices = [IoSlice::new(bytes)];
    let sent = sendmsg::<UnixAddr>(descriptor, &slices, &passed, MsgFlags::empty(), None);
    assert_eq!(sent, Ok(bytes.len()));
}

#[cfg(target_os = "linux")]
#[evenkeel::test]
async fn a_read_that_ends_at_a_passed_descriptor_leaves_the_rest_readable() {
    support::watch_descriptors();
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut here = UnixStream::from_std(here).unwrap();
    // The wait registers the stream, so that from here on everything depends on events.
    let mut buf = [0; 64];
    let reading = evenkeel::spawn(async move {
        let mut heard = Vec::new();
        while heard.len() < 12 {
            let len = here.read(&mut buf).await.unwrap();
            heard.extend_from_slice(&buf[..len]);
        }
        heard
    });
    evenkeel::time::sleep(std::time::Duration::from_millis(5)).await;
    send_with_descriptor(&there, b"first ");
    send_with_descriptor(&there, b"second");
    assert_eq!(within(reading).await.unwrap(), b"first second");
}

#[evenkeel::test]
async fn datagrams_arrive_whole_and_in_order() {
    support::watch_descriptors();
    let (one, other) = UnixDatagram::pair().unwrap();
    let sender = evenkeel::spawn(async move {
        // More than the queue holds, so that the sender has to wait.
        for number in 0..500u32 {
            one.send(&number.to_be_bytes()).await.unwrap();
        }
    });
    let mut buf = [0; 8];
    for number in 0..500u32 {
        assert_eq!(within(other.recv(&mut buf)).await.unwrap(), 4);
        assert_eq!(buf[..4], number.to_be_bytes());
    }
    within(sender).await.unwrap();
}

#[evenkeel::test]
async fn datagrams_are_addressed_by_path() {
    support::watch_descriptors();
    let (here, there) = (SocketPath::new("here"), SocketPath::new("there"));
    let one = UnixDatagram::bind(&here).unwrap();
    let other = Arc::new(UnixDatagram::bind(&there).unwrap());
    let receiver = {
        let other = other.clone();
        evenkeel::spawn(async move {
            let mut seen = Vec::new();
            let mut buf = [0; 8];
            // Slower than the sender, which has to wait for the receiver's queue.
            while seen.len() < 200 {
                let (len, from) = other.recv_from(&mut buf).await.unwrap();
                seen.push((
                    buf[..len].to_vec(),
                    from.as_pathname().map(|path| path.to_owned()),
                ));
                evenkeel::task::yield_now().await;
            }
            seen
        })
    };
    for number in 0..200u8 {
        within(one.send_to(&[number], &there)).await.unwrap();
    }
    for (number, (bytes, from)) in (0..200).zip(within(receiver).await.unwrap()) {
        assert_eq!(bytes, [number]);
        assert_eq!(from.as_deref(), Some(here.as_ref()));
    }

    let unnamed = UnixDatagram::unbound().unwrap();
    unnamed.connect(&there).unwrap();
    assert_eq!(unnamed.try_send(b"who?").unwrap(), 4);
    let mut memory = [MaybeUninit::uninit(); 8];
    let mut buf = ReadBuf::uninit(&mut memory);
    let from = within(poll_fn(|cx| other.poll_recv_from(cx, &mut buf)))
        .await
        .unwrap();
    assert!(from.is_unnamed());
    assert_eq!(buf.filled(), b"who?");
    assert_eq!(one.try_send_to(b"direct", &there).unwrap(), 6);
    assert_eq!(other.try_recv_from(&mut [0; 8]).unwrap().0, 6);
    assert_eq!(
        other.try_recv(&mut [0; 8]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[evenkeel::test]
async fn peeked_datagrams_are_still_there_and_growing_buffers_gather_them() {
    support::watch_descriptors();
    let path = SocketPath::new("peek");
    let receiver = UnixDatagram::bind(&path).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    let waiting = async {
        let mut buf = [0; 8];
        let len = receiver.peek(&mut buf).await.unwrap();
        assert_eq!(&buf[..len], b"first");
        let (len, from) = receiver.peek_from(&mut buf).await.unwrap();
        assert!(from.is_unnamed());
        assert_eq!(&buf[..len], b"first");
    };
    let sending = async {
        evenkeel::task::yield_now().await;
        sender.send_to(b"first", &path).await.unwrap();
        sender.send_to(b"second", &path).await.unwrap();
    };
    within(async { tokio::join!(waiting, sending) }).await;
    let mut buf = Vec::with_capacity(64);
    assert_eq!(within(receiver.recv_buf(&mut buf)).await.unwrap(), 5);
    let (len, from) = receiver.try_recv_buf_from(&mut buf).unwrap();
    assert!(len == 6 && from.is_unnamed());
    assert_eq!(buf, b"firstsecond");
    let error = receiver.try_recv_buf(&mut buf).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[evenkeel::test]
async fn a_stream_knows_the_process_at_its_other_end() {
    support::watch_descriptors();
    let path = SocketPath::new("cred");
    let listener = UnixListener::bind(&path).unwrap();
    let client = UnixStream::connect(&path).await.unwrap();
    let (server, _) = within(listener.accept()).await.unwrap();
    for stream in [client, server] {
        let peer = stream.peer_cred().unwrap();
        assert_eq!(peer.uid(), nix::unistd::geteuid().as_raw());
        assert_eq!(peer.gid(), nix::unistd::getegid().as_raw());
        assert_eq!(peer.pid(), Some(std::process::id() as i32));
    }
}
