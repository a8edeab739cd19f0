//! `block_in_place`, also where one call is within another, and in a runtime with one worker.

use std::sync::mpsc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::block_in_place;

fn runtime(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn the_only_worker_goes_on() {
    let runtime = runtime(1);
    let sum = runtime.block_on(runtime.spawn(async {
        let (tell, told) = mpsc::channel();
        let before = tell.clone();
        tokio::spawn(async move { before.send(1).unwrap() });
        block_in_place(move || {
            tokio::spawn(async move { tell.send(2).unwrap() });
            told.recv().unwrap() + told.recv().unwrap()
        })
    }));
    assert_eq!(sum.unwrap(), 3);
}

#[test]
fn a_future_inside_waits_for_tasks_and_timers_and_may_block_again() {
    let runtime = runtime(1);
    let output = runtime.block_on(runtime.spawn(async {
        let blocks = |value| {
            block_in_place(move || {
                Handle::current().block_on(async move {
                    block_in_place(|| ());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    tokio::spawn(async move { value }).await.unwrap()
                })
            })
        };
        blocks(20) + blocks(22)
    }));
    assert_eq!(output.unwrap(), 42);
}

#[test]
fn a_panic_inside_is_the_tasks() {
    let runtime = runtime(1);
    let panics = runtime.spawn(async { block_in_place(|| panic!("on purpose")) });
    assert!(runtime.block_on(panics).unwrap_err().is_panic());
    let works = runtime.spawn(async { block_in_place(|| 1) });
    assert_eq!(runtime.block_on(works).unwrap(), 1);
}

#[test]
fn many_wait_for_each_other() {
    const MANY: usize = 40;
    let runtime = runtime(2);
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(MANY));
    let tasks: Vec<_> = (0..MANY)
        .map(|_| {
            let barrier = barrier.clone();
            runtime.spawn(async move { block_in_place(|| barrier.wait().is_leader()) })
        })
        .collect();
    let leads = |task: tokio::task::JoinHandle<bool>| usize::from(runtime.block_on(task).unwrap());
    assert_eq!(tasks.into_iter().map(leads).sum::<usize>(), 1);
}

#[test]
fn a_runtime_that_ends_meanwhile_lets_the_function_end() {
    let runtime = runtime(1);
    let (tell, told) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    runtime.spawn(async move {
        block_in_place(|| {
            begins.send(()).unwrap();
            _ = released.recv();
            tell.send("ended").unwrap();
        });
    });
    begun.recv().unwrap();
    runtime.shutdown_timeout(Duration::from_millis(20));
    drop(release);
    assert_eq!(told.recv().unwrap(), "ended");
}

/// What it waits for ends with its runtime, so that dropping that returns.
#[test]
fn it_gives_up_the_seat_though_another_runtime_was_entered() {
    // Tokio runs workers of `one` in the pool of `other`, so `one` has to end first.
    let (other, one) = (runtime(1), runtime(1));
    let (tell, told) = mpsc::channel();
    let entered = other.handle().clone();
    let task = one.spawn(async move {
        let _entered = entered.enter();
        block_in_place(move || told.recv().unwrap())
    });
    // The only worker has to run this one, too.
    one.spawn(async move { tell.send(1).unwrap() });
    assert_eq!(one.block_on(task).unwrap(), 1);
}
