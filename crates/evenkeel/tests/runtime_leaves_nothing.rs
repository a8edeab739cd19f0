//! After its shutdown, a runtime has closed every descriptor and ended every thread.
//!
//! One test in a process of its own, as it counts the descriptors and threads of the process.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::future::pending;
use std::time::Duration;

use evenkeel::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixStream};
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::signal::unix::{SignalKind, signal};
use hang::{until, watched};
use support::descriptors;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Tasks that hold sockets of every type, working and waiting; blocking work, done and queued.
fn use_everything(runtime: &Runtime) {
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..5 {
            let client = TcpStream::connect(address).await.unwrap();
            let (served, _) = listener.accept().await.unwrap();
            let (read, write) = client.into_split();
            drop(evenkeel::spawn(async move {
                let _write = write;
                read.readable().await.unwrap();
                pending::<()>().await;
            }));
            drop(evenkeel::spawn(async move { served.readable().await }));
        }
        drop(evenkeel::spawn(
            async move { listener.accept().await.map(drop) },
        ));
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        drop(evenkeel::spawn(async move { udp.recv(&mut [0]).await }));
        let (one, other) = UnixStream::pair().unwrap();
        drop(evenkeel::spawn(async move {
            let _other = other;
            one.readable().await
        }));
        let (one, other) = UnixDatagram::pair().unwrap();
        drop(evenkeel::spawn(async move {
            let _other = other;
            one.recv(&mut [0]).await
        }));
        let mut hangups = signal(SignalKind::hangup()).unwrap();
        drop(evenkeel::spawn(async move { hangups.recv().await }));
        drop(evenkeel::spawn(evenkeel::time::sleep(Duration::from_secs(
            1_000_000,
        ))));
        for _ in 0..20 {
            drop(evenkeel::spawn_blocking(std::thread::yield_now));
        }
        evenkeel::spawn_blocking(|| ()).await.unwrap();
        evenkeel::task::yield_now().await;
    });
}

fn runtime(workers: usize) -> Runtime {
    let mut builder = Builder::new();
    builder
        .workers(workers)
        .max_blocking_threads(3)
        .build()
        .unwrap()
}

#[test]
fn no_descriptor_and_no_thread_is_left() {
    watched("nothing is left", || {
        let threads_before = threads();
        // Descriptors that the process opens once and keeps, such as for signals.
        use_everything(&runtime(1));
        let before = (descriptors(), threads_before);
        let as_before = || (descriptors(), threads()) == before;
        for round in 0..30 {
            let runtime = runtime(1 + round % 3);
            use_everything(&runtime);
            match round % 4 {
                0 => {
                    runtime.shutdown(Duration::from_secs(60)).unwrap();
                    assert_eq!(descriptors(), before.0, "once `shutdown` has returned");
                }
                1 => {
                    drop(runtime);
                    assert_eq!(descriptors(), before.0, "once the drop has returned");
                }
                2 => {
                    let handle = runtime.handle().clone();
                    drop(handle.spawn(async move { drop(runtime) }));
                }
                _ => {
                    let handle = runtime.handle().clone();
                    drop(handle.spawn_blocking(move || drop(runtime)));
                }
            }
            // A joined thread may still be about to end in the kernel.
            until("descriptors and threads as before", as_before);
        }
        // A runtime that was never used.
        drop(Builder::new().workers(4).build().unwrap());
        until("descriptors and threads as before", as_before);
    });
}
