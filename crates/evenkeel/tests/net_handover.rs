//! Sockets that pass from a process to its successor.

mod support;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use evenkeel::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream, handover};
use support::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SUCCESSOR: &str = "EVENKEEL_TEST_SUCCESSOR";

/// A successor, which is ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_successor(path: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_successor", "--nocapture"])
        .env(SUCCESSOR, path)
        .stdout(Stdio::null());
    Process(command.spawn().unwrap())
}

/// Does nothing, except in the process that the test below starts: takes the listeners over, says
/// so, and answers one connection of each.
#[evenkeel::test]
async fn the_successor() {
    let Some(path) = std::env::var_os(SUCCESSOR) else {
        return;
    };
    let mut old = within(UnixStream::connect(path)).await.unwrap();
    let mut passed = within(handover::receive(&old)).await.unwrap();
    let names: Vec<_> = passed
        .iter()
        .map(|passed| passed.name().to_owned())
        .collect();
    assert_eq!(names, ["http", "admin", "dns"]);
    let udp = passed.pop().unwrap().into_udp_socket().unwrap();
    let unix = passed.pop().unwrap().into_unix_listener().unwrap();
    let tcp = passed.pop().unwrap().into_tcp_listener().unwrap();
    old.write_all(b"ready").await.unwrap();

    let (mut stream, _) = within(tcp.accept()).await.unwrap();
    stream.write_all(b"successor").await.unwrap();
    drop(stream);
    let (mut stream, _) = within(unix.accept()).await.unwrap();
    stream.write_all(b"successor").await.unwrap();
    drop(stream);
    let mut asked = [0; 1];
    let (_, from) = within(udp.recv_from(&mut asked)).await.unwrap();
    udp.send_to(b"successor", from).await.unwrap();
    // Until the test has heard everything.
    within(old.read(&mut asked)).await.unwrap();
}

#[evenkeel::test]
async fn a_successor_serves_what_waited_and_what_comes() {
    support::watch_descriptors();
    let path = support::SocketPath::new("handover");
    let admin_path = support::SocketPath::new("handover-admin");
    let control = UnixListener::bind(&path).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let unix = UnixListener::bind(&admin_path).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (tcp_address, udp_address) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    // It is in the queue of the listener, and nobody here accepts it.
    let mut waited = within(TcpStream::connect(tcp_address)).await.unwrap();

    let _successor = start_successor(path.as_ref());
    let (mut to_successor, _) = within(control.accept()).await.unwrap();
    let pid = to_successor.peer_cred().unwrap().pid();
    assert!(
        pid.is_none_or(|pid| pid != std::process::id() as i32),
        "another process"
    );
    let given = [
        ("http", tcp.as_fd()),
        ("admin", unix.as_fd()),
        ("dns", udp.as_fd()),
    ];
    within(handover::send(&to_successor, &given)).await.unwrap();
    let mut said = [0; 5];
    within(to_successor.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"ready");
    drop((tcp, unix, udp));

    let mut heard = String::new();
    within(waited.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "successor");
    let mut client = within(UnixStream::connect(&admin_path)).await.unwrap();
    heard.clear();
    within(client.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "successor");
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.send_to(b"?", udp_address).await.unwrap();
    let mut heard = [0; 9];
    within(client.recv(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"successor");
    to_successor.write_all(b".").await.unwrap();
}

#[evenkeel::test]
async fn many_descriptors_come_in_order_and_the_stream_goes_on() {
    support::watch_descriptors();
    let (mut old, mut new) = UnixStream::pair().unwrap();
    for count in [0, 1, 32, 33, 100] {
        let names: Vec<_> = (0..count)
            .map(|i| format!("{}-{i}", "n".repeat(200)))
            .collect();
        let (one, other) = StdStream::pair().unwrap();
        let given: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), one.as_fd()))
            .collect();
        let (sent, passed) = within(futures_util::future::join(
            handover::send(&old, &given),
            handover::receive(&new),
        ))
        .await;
        sent.unwrap();
        let passed = passed.unwrap();
        let came: Vec<_> = passed.iter().map(|passed| passed.name()).collect();
        assert_eq!(came, names);
        drop(one);
        if let Some(last) = passed.into_iter().next_back() {
            let mut stream = StdStream::from(last.into_fd());
            stream.write_all(b"x").unwrap();
            drop(stream);
            (&other).read_exact(&mut [0]).unwrap();
        }
        assert_eq!(
            (&other).read(&mut [0]).unwrap(),
            0,
            "all duplicates are closed"
        );
        old.write_all(b"and").await.unwrap();
        let mut heard = [0; 3];
        within(new.read_exact(&mut heard)).await.unwrap();
        assert_eq!(&heard, b"and");
    }
}

#[evenkeel::test]
async fn what_is_no_handover_is_refused_and_leaves_no_descriptor() {
    support::watch_descriptors();
    let (mut old, new) = UnixStream::pair().unwrap();
    old.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let error = within(handover::receive(&new)).await.unwrap_err();
    assert!(error.to_string().contains("no handover"), "{error}");

    let (mut old, new) = UnixStream::pair().unwrap();
    // Announces two descriptors, and sends none.
    old.write_all(b"EKh1\x02\x00\x04\x00\x01a\x01b")
        .await
        .unwrap();
    let error = within(handover::receive(&new)).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("2 descriptors were announced and 0 came"),
        "{error}"
    );

    let (mut old, new) = UnixStream::pair().unwrap();
    old.write_all(b"EKh1\x01").await.unwrap();
    drop(old);
    assert!(
        within(handover::receive(&new))
            .await
            .unwrap_err()
            .is_ended()
    );

    let (old, new) = UnixStream::pair().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for bad in [["a", "a"], ["", "b"]] {
        let given = bad.map(|name| (name, udp.as_fd()));
        assert!(handover::send(&old, &given).await.is_err());
    }
    let file = std::fs::File::open("/dev/null").unwrap();
    let given = [
        ("udp", udp.as_fd()),
        ("tcp", udp.as_fd()),
        ("file", file.as_fd()),
    ];
    handover::send(&old, &given).await.unwrap();
    let mut passed = within(handover::receive(&new)).await.unwrap();
    let error = passed.pop().unwrap().into_udp_socket().unwrap_err();
    assert!(error.is_wrong_kind(), "{error}");
    let error = passed.pop().unwrap().into_tcp_listener().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the descriptor named \"tcp\" is not a TCP socket that listens"
    );
    passed.pop().unwrap().into_udp_socket().unwrap();
}

/// The old process hears no more of a listener that it has given away and dropped, although the
/// socket lives on.
#[cfg(target_os = "linux")]
#[test]
fn a_listener_that_was_given_away_wakes_nobody_here() {
    support::alone("a_listener_that_was_given_away_wakes_nobody_here", || {
        let runtime = evenkeel::runtime::Builder::new()
            .workers(1)
            .build()
            .unwrap();
        runtime.block_on(within(async {
            let (old, new) = UnixStream::pair().unwrap();
            let before = support::watched();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let waiting = futures_util::future::select(
                Box::pin(listener.accept()),
                Box::pin(evenkeel::task::yield_now()),
            );
            waiting.await;
            assert!(
                support::watched() > before,
                "a listener that waits is watched"
            );
            handover::send(&old, &[("listener", listener.as_fd())])
                .await
                .unwrap();
            drop(listener);
            assert_eq!(support::watched(), before);
            let _passed = within(handover::receive(&new)).await.unwrap();
        }));
    });
}
