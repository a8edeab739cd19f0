//! Results and errors of the kernel's queue. Skipped where there is none.

use std::fs::File;
use std::future::poll_fn;
use std::io::{Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::task::Wake;
use std::time::Duration;

use super::*;
use crate::runtime::Runtime;
use crate::sys::touchy::touchy_wakers;

fn ring() -> Option<CompletionQueue<Arc<File>>> {
    let ring = CompletionQueue::start("ring-test".to_owned());
    ring.inspect_err(|error| eprintln!("skipped: no completion queue here: {error}"))
        .ok()
}

fn read(file: &Arc<File>, length: usize, offset: u64, exact: bool) -> Read<Arc<File>> {
    let keeper = (Arc::clone(file), file.as_raw_fd());
    Read::new(keeper, vec![0; length], (offset, 0), exact)
}

/// The result of a read.
fn answer(ring: &CompletionQueue<Arc<File>>, read: Read<Arc<File>>) -> io::Result<Vec<u8>> {
    let reply = read.reply();
    assert!(ring.submit(read).is_ok());
    Runtime::new()?.block_on(poll_fn(|cx| reply.poll(cx)))
}

#[test]
fn bytes_the_end_and_errors_reach_whoever_asked() {
    let Some(ring) = ring() else { return };
    let path = std::env::temp_dir().join(format!("evenkeel-ring-test-{}", std::process::id()));
    std::fs::write(&path, "0123456789").unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    let unreadable = Arc::new(File::options().append(true).open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();

    assert_eq!(answer(&ring, read(&file, 4, 2, true)).unwrap(), b"2345");
    assert_eq!(answer(&ring, read(&file, 9, 6, false)).unwrap(), b"6789");
    assert_eq!(answer(&ring, read(&file, 9, 10, false)).unwrap(), b"");
    let error = answer(&ring, read(&file, 9, 6, true)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    for exact in [true, false] {
        let error = answer(&ring, read(&unreadable, 4, 0, exact)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
    // An error leaves the others alone, and all are counted.
    assert_eq!(
        answer(&ring, read(&file, 10, 0, true)).unwrap(),
        b"0123456789"
    );
    assert_eq!(ring.done(), 7);
    assert_eq!(Arc::strong_count(&unreadable), 1, "nothing keeps it open");

    ring.close();
    assert!(
        ring.submit(read(&file, 4, 0, true)).is_err(),
        "it is closed"
    );
    assert!(ring.wait(clock::now() + Duration::from_secs(60)));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

/// All reads share the thread, which goes on.
#[test]
fn a_waker_that_panics_harms_no_other_read() {
    let Some(ring) = ring() else { return };
    let (end, mut writes) = pipe().unwrap();
    let one = Arc::new(File::from(OwnedFd::from(end)));
    let read_one = read(&one, 4, 0, false);
    let panicking = read_one.reply();
    let waker = Waker::from(Arc::new(Panics));
    assert!(
        panicking
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert!(ring.submit(read_one).is_ok());
    writes.write_all(b"one").unwrap();
    // Its answer is there when it has been woken, or a moment before.
    while panicking.0.lock().result.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    let (end, mut writes) = pipe().unwrap();
    let other = read(&Arc::new(File::from(OwnedFd::from(end))), 4, 0, false);
    let reply = other.reply();
    assert!(ring.submit(other).is_ok());
    writes.write_all(b"two").unwrap();
    let began = clock::now();
    while reply.0.lock().result.is_none() {
        let late = began.elapsed() > Duration::from_secs(20);
        assert!(!late, "it is forgotten");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Either may run any code, such as a look at the same read.
#[test]
fn no_waker_is_cloned_or_dropped_under_the_lock_of_a_read() {
    let reply = Arc::new(Reply::default());
    let lock = Arc::clone(&reply);
    let (wakers, misplaced) = touchy_wakers::<3>(move || lock.0.try_lock().is_some());
    for waker in &wakers {
        let mut cx = Context::from_waker(waker);
        assert!(reply.poll(&mut cx).is_pending());
        assert!(reply.poll(&mut cx).is_pending());
    }
    reply.give(Ok(b"read".to_vec()));
    let polled = reply.poll(&mut Context::from_waker(&wakers[0]));
    assert!(matches!(polled, Poll::Ready(Ok(read)) if read == b"read"));
    assert_eq!(misplaced.load(Ordering::SeqCst), 0);
}
