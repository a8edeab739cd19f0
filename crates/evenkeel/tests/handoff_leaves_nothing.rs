//! After its shutdown, a runtime whose seats were handed over has closed every descriptor and ended
//! every thread.
//!
//! One test in a process of its own, as it counts the descriptors and threads of the process.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::future::pending;
use std::time::Duration;

use evenkeel::net::UdpSocket;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::yield_now;
use hang::{until, watched};
use hogs::{Gate, Hold, LONG, compute, compute_until_handed_off};
use support::descriptors;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// A hog whose first poll costs its worker the seat, with a socket and a timer there, and whose
/// later polls are in the pool.
async fn hog(then: impl Future<Output = ()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let waits = evenkeel::spawn(async move { socket.recv(&mut [0]).await });
    let timer = evenkeel::spawn(evenkeel::time::sleep(Duration::from_secs(1_000)));
    compute_until_handed_off();
    yield_now().await;
    compute(LONG);
    then.await;
    drop((waits, timer));
}

/// The thread that names hogs reads the program's file, and may have it open for a moment after the
/// runtime's end: so what is closed at once is looked at without it.
fn runtime(workers: usize, names_hogs: bool) -> Runtime {
    let mut builder = Builder::new();
    builder.workers(workers).hog_stacks(names_hogs);
    builder.build().unwrap()
}

#[test]
fn no_descriptor_and_no_thread_is_left_when_seats_were_handed_over() {
    watched("nothing is left", || {
        let threads_before = threads();
        // Descriptors that the process opens once and keeps.
        runtime(1, true)
            .block_on(async { UdpSocket::bind("127.0.0.1:0").await })
            .unwrap();
        let before = (descriptors(), threads_before);
        for round in 0..12 {
            let names_hogs = round % 3 == 1;
            let runtime = runtime(1 + round % 2, names_hogs);
            // Each hog is judged by its own polls: there is one at a time.
            let task = runtime.spawn(hog(async {}));
            runtime.block_on(task).unwrap();
            let hand_offs = || runtime.stats().heavy.hand_offs;
            let so_far = hand_offs();
            drop(runtime.spawn(hog(pending())));
            // No seat is taken away during shutdown.
            until("it was handed off", || hand_offs() > so_far);
            let so_far = hand_offs();
            let mut gate = Gate::closed();
            let entrance = gate.entrance();
            drop(runtime.spawn(async move { entrance.wait(Hold::Sleeps) }));
            until("it is stuck", || gate.arrived() == 1);
            if round % 3 == 0 {
                until("it was handed off", || hand_offs() > so_far);
            }
            if round % 4 < 2 {
                gate.open();
                runtime.shutdown(Duration::from_secs(60)).unwrap();
                if !names_hogs {
                    assert_eq!(descriptors(), before.0, "once `shutdown` has returned");
                }
            } else {
                let ending = std::thread::spawn(move || drop(runtime));
                std::thread::sleep(Duration::from_millis(5));
                assert!(!ending.is_finished(), "the drop waits for the hog");
                gate.open();
                ending.join().unwrap();
                if !names_hogs {
                    assert_eq!(descriptors(), before.0, "once the drop has returned");
                }
            }
            // A joined thread may still be about to end in the kernel.
            until("descriptors and threads as before", || {
                (descriptors(), threads()) == before
            });
        }
    });
}
