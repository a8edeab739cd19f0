//! `AsyncFd`: readiness of descriptors that belong to the user.

mod support;

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel::io::unix::{AsyncFd, AsyncFdReadyGuard, TryIoError};
use evenkeel::io::{Interest, Ready};
use evenkeel::runtime::Builder;
use evenkeel::time::{sleep, timeout};
use support::{assert_cancel_safe, watch_descriptors, within};

/// A stream and its peer, both non-blocking.
fn unwatched_pair() -> (UnixStream, UnixStream) {
    let (stream, peer) = UnixStream::pair().unwrap();
    stream.set_nonblocking(true).unwrap();
    peer.set_nonblocking(true).unwrap();
    (stream, peer)
}

/// The same, with the stream watched.
fn pair() -> (AsyncFd<UnixStream>, UnixStream) {
    let (stream, peer) = unwatched_pair();
    (AsyncFd::new(stream).unwrap(), peer)
}

/// The same, with the stream watched for reading only.
fn pair_for_reading() -> (AsyncFd<UnixStream>, UnixStream) {
    let (stream, peer) = unwatched_pair();
    let stream = AsyncFd::with_interest(stream, Interest::READABLE);
    (stream.unwrap(), peer)
}

/// Reads a byte, if the descriptor is still ready.
fn attempt(guard: &mut AsyncFdReadyGuard<'_, UnixStream>) -> Result<io::Result<usize>, TryIoError> {
    guard.try_io(|stream| stream.get_ref().read(&mut [0]))
}

async fn read(stream: &AsyncFd<UnixStream>, buffer: &mut [u8]) -> io::Result<usize> {
    stream
        .async_io(Interest::READABLE, |mut stream| stream.read(buffer))
        .await
}

/// Whether the future is still not ready after a few I/O checks.
async fn waits<F: Future>(future: F) -> bool {
    timeout(Duration::from_millis(50), future).await.is_err()
}

#[evenkeel::test(workers = 2)]
async fn bytes_arrive_in_order_in_both_directions() {
    watch_descriptors();
    within(async {
        let (one, other) = unwatched_pair();
        let ends = [one, other].map(|end| Arc::new(AsyncFd::new(end).unwrap()));
        const COUNT: u32 = 100_000;
        let write = async |end: Arc<AsyncFd<UnixStream>>| {
            let bytes: Vec<u8> = (0..COUNT).flat_map(u32::to_le_bytes).collect();
            let mut left = &bytes[..];
            while !left.is_empty() {
                let written = end.async_io(Interest::WRITABLE, |mut end| end.write(left));
                left = &left[written.await.unwrap()..];
            }
        };
        let read_all = async |end: Arc<AsyncFd<UnixStream>>| {
            let mut bytes = Vec::new();
            let mut buffer = [0; 4_000];
            while bytes.len() < COUNT as usize * 4 {
                let length = read(&end, &mut buffer).await.unwrap();
                bytes.extend_from_slice(&buffer[..length]);
            }
            let numbers = bytes
                .chunks(4)
                .map(|n| u32::from_le_bytes(n.try_into().unwrap()));
            assert!(numbers.eq(0..COUNT));
        };
        let [one, other] = ends;
        let tasks = [
            evenkeel::spawn(write(Arc::clone(&one))),
            evenkeel::spawn(read_all(Arc::clone(&other))),
            evenkeel::spawn(write(Arc::clone(&other))),
            evenkeel::spawn(read_all(Arc::clone(&one))),
        ];
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn readiness_lasts_until_an_attempt_would_block() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        assert!(waits(stream.readable()).await);
        peer.write_all(b"ab").unwrap();
        for _ in 0..2 {
            let mut guard = stream.readable().await.unwrap();
            assert!(guard.ready().is_readable());
            assert_eq!(attempt(&mut guard).unwrap().unwrap(), 1);
        }
        // It is not known yet that nothing is left.
        let mut guard = stream.readable().await.unwrap();
        attempt(&mut guard).unwrap_err();
        assert!(guard.ready().is_empty());
        assert!(waits(stream.readable()).await);
        let tried = stream.try_io(Interest::READABLE, |_| -> io::Result<()> {
            panic!("the descriptor is known to be empty")
        });
        assert_eq!(tried.unwrap_err().kind(), ErrorKind::WouldBlock);
        peer.write_all(b"c").unwrap();
        assert!(stream.readable().await.unwrap().ready().is_readable());
        let tried = stream.try_io(Interest::READABLE, |mut stream| stream.read(&mut [0]));
        assert_eq!(tried.unwrap(), 1);
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn clearing_is_the_users_and_leaves_closed_sides() {
    watch_descriptors();
    within(async {
        let (mut stream, mut peer) = pair();
        peer.write_all(b"a").unwrap();
        let mut guard = stream.readable().await.unwrap();
        guard.retain_ready();
        guard.clear_ready();
        assert!(waits(stream.readable()).await, "the event was taken back");
        drop(peer);
        for _ in 0..3 {
            let mut guard = stream.readable_mut().await.unwrap();
            assert!(guard.ready().is_read_closed());
            guard.clear_ready();
            // Not cleared either: it is none of the user's business.
            guard.clear_ready_matching(Ready::READ_CLOSED);
        }
        assert_eq!(read(&stream, &mut [0; 8]).await.unwrap(), 1);
        assert_eq!(read(&stream, &mut [0; 8]).await.unwrap(), 0);
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn a_part_of_readiness_is_cleared() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        peer.write_all(b"a").unwrap();
        stream.readable().await.unwrap().retain_ready();
        let both = Interest::READABLE | Interest::WRITABLE;
        let mut guard = stream.ready(both).await.unwrap();
        assert_eq!(guard.ready(), Ready::READABLE | Ready::WRITABLE);
        guard.clear_ready_matching(Ready::READABLE);
        assert_eq!(guard.ready(), Ready::WRITABLE);
        assert_eq!(
            guard.get_ref().get_ref().as_raw_fd(),
            guard.get_inner().as_raw_fd()
        );
        assert!(waits(stream.readable()).await);
        stream.writable().await.unwrap().retain_ready();
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn the_mutable_side_does_the_same() {
    watch_descriptors();
    within(async {
        let (mut stream, mut peer) = pair();
        let written = stream.async_io_mut(Interest::WRITABLE, |stream| stream.write(b"x"));
        assert_eq!(written.await.unwrap(), 1);
        peer.write_all(b"yz").unwrap();
        let mut guard = stream.ready_mut(Interest::READABLE).await.unwrap();
        let result = guard.try_io(|stream| stream.get_mut().read(&mut [0]));
        assert_eq!(result.unwrap().unwrap(), 1);
        assert_eq!(guard.get_inner_mut().read(&mut [0]).unwrap(), 1);
        guard.get_mut().get_mut().write_all(b"more").unwrap();
        let result = guard.try_io(|stream| stream.get_mut().read(&mut [0]));
        result.unwrap_err();
        let tried = stream.try_io_mut(Interest::WRITABLE, |stream| stream.write(b"!"));
        assert_eq!(tried.unwrap(), 1);
        poll_fn(|cx| stream.poll_write_ready_mut(cx).map_ok(drop))
            .await
            .unwrap();
        peer.write_all(b"end").unwrap();
        poll_fn(|cx| stream.poll_read_ready_mut(cx).map_ok(drop))
            .await
            .unwrap();
        stream.writable_mut().await.unwrap().retain_ready();
    })
    .await;
}

#[evenkeel::test(workers = 2)]
async fn any_number_of_tasks_waits_at_once() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        let stream = Arc::new(stream);
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let stream = Arc::clone(&stream);
                evenkeel::spawn(async move { stream.readable().await.map(drop) })
            })
            .collect();
        sleep(Duration::from_millis(5)).await;
        peer.write_all(b"a").unwrap();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    })
    .await;
}

/// Whoever is woken may have something to do that whoever came first has not done.
#[evenkeel::test]
async fn an_event_ends_all_waits_though_one_takes_it_back() {
    let (stream, peer) = pair_for_reading();
    let mut one = pin!(stream.readable());
    let mut other = pin!(stream.readable());
    assert!(waits(one.as_mut()).await);
    assert!(waits(other.as_mut()).await);
    (&peer).write_all(b"1").unwrap();
    within(one).await.unwrap().clear_ready();
    let mut guard = within(other).await.unwrap();
    assert_eq!(attempt(&mut guard).unwrap().unwrap(), 1);
    guard.clear_ready();
    assert!(waits(stream.readable()).await, "the event has been served");
}

#[evenkeel::test(workers = 1)]
async fn the_latest_poll_of_a_direction_is_woken() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(stream.poll_read_ready(&mut nobody).is_pending());
        let mut wrote = Some(());
        let guard = poll_fn(|cx| match stream.poll_read_ready(cx) {
            Poll::Pending => {
                wrote
                    .take()
                    .into_iter()
                    .for_each(|()| peer.write_all(b"a").unwrap());
                Poll::Pending
            }
            ready => ready,
        });
        assert!(guard.await.unwrap().ready().is_readable());
        let guard = poll_fn(|cx| stream.poll_write_ready(cx)).await.unwrap();
        assert!(guard.ready().is_writable());
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn waiting_is_cancel_safe() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        assert_cancel_safe(
            || read_one(&stream),
            || peer.write_all(b"a").unwrap(),
            async |length| assert_eq!(length, 1),
        )
        .await;
    })
    .await;
}

async fn read_one(stream: &AsyncFd<UnixStream>) -> usize {
    read(stream, &mut [0]).await.unwrap()
}

/// On one worker, so that the busy task is in the way of all others.
#[evenkeel::test(workers = 1)]
async fn a_descriptor_that_is_ready_for_ever_holds_up_nobody() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        peer.write_all(b"never read").unwrap();
        let busy = evenkeel::spawn(async move {
            loop {
                stream.readable().await.unwrap().retain_ready();
            }
        });
        let (other, mut peer) = pair();
        let others = evenkeel::spawn(async move {
            for _ in 0..20 {
                peer.write_all(b"a").unwrap();
                read_one(&other).await;
                sleep(Duration::from_millis(1)).await;
            }
        });
        others.await.unwrap();
        busy.abort();
        assert!(busy.await.unwrap_err().is_cancelled());
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn files_and_directories_are_refused_with_the_reason() {
    watch_descriptors();
    for path in [std::env::current_exe().unwrap(), std::env::temp_dir()] {
        let file = File::open(path).unwrap();
        let number = file.as_raw_fd();
        let error = AsyncFd::try_new(file).unwrap_err();
        assert!(error.to_string().contains("regular files"), "{error}");
        let (file, error) = error.into_parts();
        assert_eq!(file.as_raw_fd(), number);
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let error = AsyncFd::new(file).unwrap_err();
        assert!(error.to_string().contains("spawn_blocking"), "{error}");
    }
}

#[evenkeel::test(workers = 1)]
async fn other_directions_than_the_interest_are_refused() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair_for_reading();
        let error = stream.writable().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let error = poll_fn(|cx| stream.poll_write_ready(cx)).await.unwrap_err();
        assert!(error.to_string().contains("for reading only"), "{error}");
        let both = Interest::READABLE | Interest::WRITABLE;
        assert_eq!(
            stream.ready(both).await.unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        peer.write_all(b"a").unwrap();
        assert_eq!(read_one(&stream).await, 1);
    })
    .await;
}

/// The kernel reports all that is there with the event of one direction, so the interest shows in
/// what is reported without that event.
#[evenkeel::test(workers = 1)]
async fn events_of_other_directions_are_not_asked_for() {
    watch_descriptors();
    within(async {
        let (one, _other) = pair_for_reading();
        sleep(Duration::from_millis(20)).await;
        let both = Interest::READABLE | Interest::WRITABLE;
        let tried = one.try_io(both, |_| Ok(()));
        assert_eq!(tried.unwrap_err().kind(), ErrorKind::WouldBlock);
    })
    .await;
}

/// With one worker both registrations meet in the same readiness queue.
#[evenkeel::test(workers = 1)]
async fn a_descriptor_is_watched_once_at_a_time() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        let error = AsyncFd::new(stream.as_raw_fd()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("duplicate"), "{error}");
        // The refused one has not disturbed it.
        peer.write_all(b"a").unwrap();
        assert_eq!(read_one(&stream).await, 1);
        let stream = AsyncFd::new(stream.into_inner()).unwrap();
        peer.write_all(b"a").unwrap();
        assert_eq!(read_one(&stream).await, 1);
    })
    .await;
}

#[evenkeel::test(workers = 1)]
async fn duplicates_are_watched_each_for_itself() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = pair();
        let second = AsyncFd::new(stream.get_ref().try_clone().unwrap()).unwrap();
        peer.write_all(b"a").unwrap();
        stream.readable().await.unwrap().retain_ready();
        second.readable().await.unwrap().retain_ready();
        assert_eq!(read_one(&second).await, 1);
        // The first still believes in its event, until it tries.
        let mut guard = stream.readable().await.unwrap();
        attempt(&mut guard).unwrap_err();
        drop(second);
        peer.write_all(b"b").unwrap();
        assert_eq!(read_one(&stream).await, 1);
    })
    .await;
}

/// A descriptor that somebody else owns and closes.
struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

#[evenkeel::test(workers = 1)]
async fn a_descriptor_closed_underneath_disturbs_no_other() {
    watch_descriptors();
    within(async {
        let (stream, mut peer) = unwatched_pair();
        // The duplicate keeps the kernel's watch alive after the close.
        let duplicate = stream.try_clone().unwrap();
        let number = stream.into_raw_fd();
        let watched = AsyncFd::new(Borrowed(number)).unwrap();
        nix::unistd::close(number).unwrap();
        // The slot is free again, and goes to the next descriptor.
        drop(watched);
        let (silent, _its_peer) = pair();
        peer.write_all(b"for nobody").unwrap();
        assert!(
            waits(silent.readable()).await,
            "told of the closed one's event"
        );
        drop(duplicate);
        assert!(waits(read_one(&silent)).await);
    })
    .await;
}

#[test]
fn a_waiter_ends_with_its_runtime() {
    let other = Builder::new().workers(1).build().unwrap();
    let runtime = Builder::new().workers(1).build().unwrap();
    let (stream, mut peer) = runtime.block_on(async { pair() });
    let stream = Arc::new(stream);
    let waiter = Arc::clone(&stream);
    let task = other.spawn(async move { waiter.readable().await.map(drop) });
    std::thread::sleep(Duration::from_millis(5));
    runtime.shutdown(Duration::from_secs(60)).unwrap();
    let error = other.block_on(within(task)).unwrap().unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
    // A live runtime takes the descriptor over.
    let stream = Arc::into_inner(stream).unwrap().into_inner();
    other.block_on(within(async {
        let stream = AsyncFd::new(stream).unwrap();
        peer.write_all(b"a").unwrap();
        assert_eq!(read_one(&stream).await, 1);
    }));
}

#[test]
fn without_a_runtime_there_is_an_error() {
    let (stream, _peer) = UnixStream::pair().unwrap();
    let error = AsyncFd::new(stream).unwrap_err();
    assert!(error.to_string().contains("no evenkeel runtime"), "{error}");
}

#[evenkeel::test(workers = 1)]
async fn an_operation_that_needs_both_directions_is_tried_at_either() {
    watch_descriptors();
    within(async {
        let (one, other) = UnixDatagram::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        let one = AsyncFd::new(one).unwrap();
        while one.get_ref().send(b"fill").is_ok() {}
        let both = Interest::READABLE | Interest::WRITABLE;
        let mut operation = pin!(one.async_io(both, |one| one.send(b"last")));
        assert!(waits(operation.as_mut()).await);
        while other.recv(&mut [0; 8]).is_ok() {}
        assert_eq!(operation.await.unwrap(), 4);
    })
    .await;
}
