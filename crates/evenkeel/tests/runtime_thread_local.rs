//! A runtime in a thread-local, which ends with its thread.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};

/// Runs this test again in a process of its own, which may abort. True in that process.
fn is_child(test: &str) -> bool {
    if std::env::var_os("THREAD_LOCAL_CHILD").is_some() {
        return true;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("THREAD_LOCAL_CHILD", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}: {said}", child.status);
    false
}

fn one_worker() -> Runtime {
    Builder::new().workers(1).build().unwrap()
}

#[test]
fn a_runtime_may_live_in_a_thread_local() {
    if !is_child("a_runtime_may_live_in_a_thread_local") {
        return;
    }
    thread::spawn(|| {
        thread_local! {
            static RUNTIME: Runtime = one_worker();
        }
        RUNTIME.with(|runtime| runtime.block_on(async {}));
    })
    .join()
    .unwrap();
}

/// Drops a runtime, also on a panic.
struct Careful(RefCell<Option<Runtime>>);

impl Drop for Careful {
    fn drop(&mut self) {
        let runtime = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(runtime)));
    }
}

#[test]
fn a_waker_outlives_the_runtime_of_a_thread_local() {
    if !is_child("a_waker_outlives_the_runtime_of_a_thread_local") {
        return;
    }
    let (waker, wakers) = mpsc::channel();
    thread::spawn(move || {
        thread_local! {
            static RUNTIME: Careful = const { Careful(RefCell::new(None)) };
        }
        RUNTIME.with(|careful| {
            let runtime = one_worker();
            runtime.block_on(async {});
            drop(runtime.spawn(std::future::poll_fn(move |cx| {
                let _ = waker.send(cx.waker().clone());
                std::task::Poll::<()>::Pending
            })));
            thread::sleep(Duration::from_millis(50));
            *careful.0.borrow_mut() = Some(runtime);
        });
    })
    .join()
    .unwrap();
    // The worker has ended, and so has the runtime.
    thread::sleep(Duration::from_millis(300));
    let waker = wakers.recv().unwrap();
    waker.wake();
}

/// The runtime's own thread for blocking work ends, and takes the runtime with it.
#[test]
fn a_runtime_may_live_in_a_local_of_its_own_thread() {
    if !is_child("a_runtime_may_live_in_a_local_of_its_own_thread") {
        return;
    }
    thread_local! {
        static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
    }
    let runtime = Builder::new()
        .workers(1)
        .blocking_keep_alive(Duration::from_millis(1))
        .build()
        .unwrap();
    let task = runtime.spawn(std::future::pending::<()>());
    let handle = runtime.handle().clone();
    let put = handle.spawn_blocking(move || RUNTIME.set(Some(runtime)));
    handle.block_on(put).unwrap();
    while !task.is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
}
