//! Pipes, with and without a name.

mod support;

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use evenkeel::io::Interest;
use evenkeel::net::unix::pipe::{OpenOptions, Receiver, Sender, pipe};
use evenkeel::runtime::Builder;
use evenkeel::time::timeout;
use rustix::fs::OFlags;
use support::{assert_cancel_safe, watch_descriptors, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// More than a pipe holds.
const MUCH: usize = 1 << 20;

/// Whether the future is still not ready after a few I/O checks.
async fn waits<F: Future>(future: F) -> bool {
    timeout(Duration::from_millis(50), future).await.is_err()
}

fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd)
        .unwrap()
        .contains(OFlags::NONBLOCK)
}

#[evenkeel::test(workers = 2)]
async fn bytes_arrive_in_order_and_then_the_end() {
    watch_descriptors();
    within(async {
        let (mut sender, mut receiver) = pipe().unwrap();
        let sent: Vec<u8> = (0..MUCH).map(|i| (i % 251) as u8).collect();
        let expected = sent.clone();
        let writer = evenkeel::spawn(async move {
            sender.write_all(&sent).await.unwrap();
            sender.flush().await.unwrap();
            sender.shutdown().await.unwrap();
            // Shutting down is not the end; dropping is.
            sender.write_all(b"end").await.unwrap();
        });
        let mut received = Vec::new();
        receiver.read_to_end(&mut received).await.unwrap();
        writer.await.unwrap();
        let (bytes, end) = received.split_at(MUCH);
        assert!(bytes == expected);
        assert_eq!(end, b"end");
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn without_a_receiver_writing_fails() {
    watch_descriptors();
    within(async {
        let (mut sender, receiver) = pipe().unwrap();
        while sender.try_write(&[0; 4096]).is_ok() {}
        let writer = evenkeel::spawn(async move {
            let error = sender.write_all(b"x").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            sender.writable().await.unwrap();
        });
        drop(receiver);
        writer.await.unwrap();
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn attempts_say_when_to_wait() {
    watch_descriptors();
    within(async {
        let (sender, receiver) = pipe().unwrap();
        let would_block = |result: std::io::Result<usize>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::WouldBlock);
        };
        would_block(receiver.try_read(&mut [0; 8]));
        assert!(waits(receiver.readable()).await);
        assert_eq!(sender.try_write(b"abc").unwrap(), 3);
        let bufs = [IoSlice::new(b""), IoSlice::new(b"de"), IoSlice::new(b"f")];
        assert_eq!(sender.try_write_vectored(&bufs).unwrap(), 3);
        receiver.readable().await.unwrap();
        assert!(
            receiver
                .ready(Interest::READABLE)
                .await
                .unwrap()
                .is_readable()
        );
        let (mut one, mut two) = ([0; 2], [0; 2]);
        let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        assert_eq!(receiver.try_read_vectored(&mut bufs).unwrap(), 4);
        assert_eq!((&one, &two), (b"ab", b"cd"));
        let mut grows = Vec::new();
        assert_eq!(receiver.try_read_buf(&mut grows).unwrap(), 2);
        assert_eq!(grows, b"ef");
        would_block(receiver.try_read_buf(&mut grows));

        let mut total = 0;
        while let Ok(length) = sender.try_write(&[1; 4096]) {
            total += length;
        }
        assert!(waits(sender.writable()).await);
        would_block(sender.try_write(b"x"));
        while total > 0 {
            total -= receiver.try_read(&mut [0; 4096]).unwrap();
        }
        sender.writable().await.unwrap();
        assert!(
            sender
                .ready(Interest::WRITABLE)
                .await
                .unwrap()
                .is_writable()
        );
        std::future::poll_fn(|cx| sender.poll_write_ready(cx))
            .await
            .unwrap();
        assert_eq!(sender.try_write(b"x").unwrap(), 1);
        std::future::poll_fn(|cx| receiver.poll_read_ready(cx))
            .await
            .unwrap();
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn an_end_has_one_direction() {
    watch_descriptors();
    let (sender, receiver) = pipe().unwrap();
    let both = Interest::READABLE | Interest::WRITABLE;
    for interest in [Interest::WRITABLE, both] {
        let error = within(receiver.ready(interest)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    for interest in [Interest::READABLE, both] {
        let error = within(sender.ready(interest)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[evenkeel::test(workers = 1)]
async fn reading_is_cancel_safe() {
    watch_descriptors();
    let (sender, receiver) = pipe().unwrap();
    let receiver = tokio::sync::Mutex::new(receiver);
    assert_cancel_safe(
        async || receiver.lock().await.read_u8().await.unwrap(),
        || assert_eq!(sender.try_write(&[7]).unwrap(), 1),
        async |byte| assert_eq!(byte, 7),
    )
    .await;
}

/// Waits for room, so that each write that is dropped has either been made or not.
#[evenkeel::test(workers = 1)]
async fn writing_is_cancel_safe() {
    watch_descriptors();
    let (sender, receiver) = pipe().unwrap();
    let sender = tokio::sync::Mutex::new(sender);
    let fill = || async { while sender.lock().await.try_write(&[0; 4096]).is_ok() {} };
    fill().await;
    assert_cancel_safe(
        async || sender.lock().await.write(&[7]).await.unwrap(),
        || {
            while receiver.try_read(&mut [0; 65_536]).is_ok() {}
        },
        async |length| {
            assert_eq!(length, 1);
            fill().await;
        },
    )
    .await;
}

/// A named pipe, removed on drop.
struct Fifo(PathBuf);

impl Fifo {
    fn new(name: &str) -> Self {
        let name = format!("evenkeel-{}-{name}.fifo", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Self(path)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[evenkeel::test(workers = 1)]
async fn a_named_pipe_waits_for_nobody_when_it_is_opened() {
    watch_descriptors();
    within(async {
        let fifo = Fifo::new("open");
        let options = OpenOptions::new();
        let error = options.open_sender(&fifo.0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
        let mut receiver = options.open_receiver(&fifo.0).unwrap();
        assert_eq!(
            receiver.read(&mut [0]).await.unwrap(),
            0,
            "there is no sender"
        );
        // More than one sender, one after the other; the end of one is not the last word.
        for text in [*b"first", *b"then."] {
            let mut sender = options.open_sender(&fifo.0).unwrap();
            assert_eq!(
                receiver.try_read(&mut [0]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            assert!(waits(receiver.readable()).await);
            sender.write_all(&text).await.unwrap();
            let mut buffer = [0; 5];
            receiver.read_exact(&mut buffer).await.unwrap();
            assert_eq!(buffer, text);
            drop(sender);
            assert_eq!(receiver.read(&mut [0]).await.unwrap(), 0);
        }
    })
    .await;
}

#[cfg(target_os = "linux")]
#[evenkeel::test(workers = 1)]
async fn an_end_that_is_both_never_ends() {
    watch_descriptors();
    within(async {
        let fifo = Fifo::new("both");
        let mut both = OpenOptions::new();
        both.read_write(true);
        // Before there is a receiver.
        let mut sender = both.open_sender(&fifo.0).unwrap();
        sender.write_all(b"a").await.unwrap();
        let mut receiver = both.open_receiver(&fifo.0).unwrap();
        assert_eq!(receiver.read_u8().await.unwrap(), b'a');
        drop(sender);
        assert!(waits(receiver.read_u8()).await);
        let mut sender = OpenOptions::new().open_sender(&fifo.0).unwrap();
        sender.write_all(b"b").await.unwrap();
        assert_eq!(receiver.read_u8().await.unwrap(), b'b');
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn what_is_no_pipe_is_refused() {
    watch_descriptors();
    let options = OpenOptions::new();
    let program = std::env::current_exe().unwrap();
    let error = options.open_receiver(&program).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = Receiver::from_file(File::open(&program).unwrap()).unwrap_err();
    assert!(error.to_string().contains("not a pipe"), "{error}");
    let mut unchecked = OpenOptions::new();
    unchecked.unchecked(true);
    unchecked.open_receiver(&program).unwrap();

    let missing = program.join("missing");
    options.open_receiver(missing).unwrap_err();

    let (reader, writer) = std::io::pipe().unwrap();
    let error = Sender::from_owned_fd(reader.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = Receiver::from_owned_fd(writer.into()).unwrap_err();
    assert!(
        error.to_string().contains("not open for reading"),
        "{error}"
    );
}

#[evenkeel::test(workers = 1)]
async fn descriptors_come_and_go_in_the_mode_that_is_asked_for() {
    watch_descriptors();
    within(async {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_nonblocking(&reader));
        let reader: OwnedFd = reader.into();
        let number = reader.as_raw_fd();
        let mut receiver = Receiver::from_owned_fd(reader).unwrap();
        assert!(is_nonblocking(&receiver));
        let mut sender = Sender::from_file(File::from(OwnedFd::from(writer))).unwrap();
        assert!(is_nonblocking(&sender));
        // Both are registered when they go.
        assert!(waits(receiver.read_u8()).await);
        while sender.try_write(&[0; 4096]).is_ok() {}
        assert!(waits(sender.write_u8(1)).await);

        let reader = receiver.into_nonblocking_fd().unwrap();
        assert_eq!(reader.as_raw_fd(), number);
        assert!(is_nonblocking(&reader));
        while rustix::io::read(&reader, &mut [0; 4096]).is_ok() {}
        let receiver = Receiver::from_owned_fd_unchecked(reader).unwrap();
        let mut writer = File::from(sender.into_blocking_fd().unwrap());
        assert!(!is_nonblocking(&writer));
        writer.write_all(b"x").unwrap();
        receiver.readable().await.unwrap();
        let mut reader = File::from(receiver.into_blocking_fd().unwrap());
        assert!(!is_nonblocking(&reader));
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 1);
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn the_output_of_a_child_is_heard() {
    watch_descriptors();
    within(async {
        let (sender, mut receiver) = pipe().unwrap();
        let mut child = Command::new("printf")
            .arg("hello")
            .stdout(sender.into_blocking_fd().unwrap())
            .spawn()
            .unwrap();
        let mut text = String::new();
        receiver.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
        let ended = evenkeel::spawn_blocking(move || child.wait())
            .await
            .unwrap();
        assert!(ended.unwrap().success());
    })
    .await;
}

#[test]
fn a_reader_ends_with_its_runtime() {
    let other = Builder::new().workers(1).build().unwrap();
    let runtime = Builder::new().workers(1).build().unwrap();
    let (_sender, mut receiver) = runtime.block_on(async { pipe().unwrap() });
    let task = other.spawn(async move { receiver.read_u8().await });
    std::thread::sleep(Duration::from_millis(5));
    runtime.shutdown(Duration::from_secs(60)).unwrap();
    let error = other.block_on(within(task)).unwrap().unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
}
