//! A waker that panics, on the thread that all reads share.

use std::io::{PipeReader, Write, pipe};
use std::os::fd::AsRawFd;
use std::task::Wake;
use std::time::{Duration, Instant};

use super::*;

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

fn read(file: PipeReader) -> Read<PipeReader> {
    let descriptor = file.as_raw_fd();
    Read::new((file, descriptor), vec![0; 4], (0, 0), false)
}

/// The thread is everybody's, and goes on.
#[test]
fn a_waker_that_panics_harms_no_other_read() {
    let Ok(ring) = Ring::start("ring-test".to_owned()) else {
        eprintln!("skipped: the kernel gives no completion queue");
        return;
    };
    let (one, mut writes_one) = pipe().unwrap();
    let (other, mut writes_other) = pipe().unwrap();
    let one = read(one);
    let panicking = one.reply();
    let waker = Waker::from(Arc::new(Panics));
    let mut cx = Context::from_waker(&waker);
    assert!(panicking.poll(&mut cx).is_pending());
    assert!(ring.submit(one).is_ok());
    writes_one.write_all(b"one").unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let began = Instant::now();
    let mut wait = |reply: &Reply| {
        loop {
            if let Poll::Ready(result) = reply.poll(&mut cx) {
                return result.unwrap();
            }
            assert!(began.elapsed() < Duration::from_secs(20), "it is forgotten");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let other = read(other);
    let reply = other.reply();
    while began.elapsed() < Duration::from_millis(50) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(ring.submit(other).is_ok());
    writes_other.write_all(b"two").unwrap();
    assert_eq!(wait(&reply), b"two");
    assert_eq!(wait(&panicking), b"one");
}
