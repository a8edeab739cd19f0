//! What runtimes that have ended leave behind.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
use tokio::runtime::Builder;

/// The system's, and how many pieces of memory are taken.
struct Counting;

// Relaxed: a count, which is read when all threads that take memory have ended.
static TAKEN: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator does the work, with the arguments as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes so many runtimes, one after the other, each with a task and a driver's thread.
fn make(runtimes: usize) {
    for _ in 0..runtimes {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(runtime.spawn(async {})).unwrap();
    }
}

/// A server that makes a runtime for each job makes any number of them.
#[test]
fn runtimes_that_have_ended_leave_nothing_behind() {
    const RUNTIMES: usize = 64;
    // What is made once, and lists that keep their length.
    make(8);
    let before = TAKEN.load(Relaxed);
    make(RUNTIMES);
    let left = TAKEN.load(Relaxed) - before;
    assert!(
        left < RUNTIMES as isize / 2,
        "{left} pieces of {RUNTIMES} runtimes"
    );
}
