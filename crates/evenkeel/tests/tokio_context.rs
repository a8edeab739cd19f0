//! A runtime of Tokio's beside this one, for crates that need it.
#![cfg(feature = "tokio-context")]

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::future::pending;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::task::yield_now;
use hang::{until, watched};
use support::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const MS: Duration = Duration::from_millis(1);

fn both(name: &str) -> Runtime {
    let mut builder = Builder::new();
    builder.workers(2).thread_name(name).tokio_context(true);
    builder.build().unwrap()
}

/// Uses Tokio's sockets, timers and tasks, as a crate does that knows no other runtime.
async fn use_tokio() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    });
    let mut stream = TcpStream::connect(address).await.unwrap();
    let sent: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
    let (mut read, mut write) = stream.split();
    write.write_all(&sent).await.unwrap();
    write.shutdown().await.unwrap();
    let mut bytes = Vec::new();
    read.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes == sent);
    server.await.unwrap();

    let began = Instant::now();
    tokio::time::sleep(2 * MS).await;
    assert!(began.elapsed() >= 2 * MS);
    let late = tokio::time::timeout(MS, pending::<()>()).await;
    late.unwrap_err();
    assert_eq!(tokio::task::spawn_blocking(|| 7).await.unwrap(), 7);
}

#[test]
fn tokio_works_in_tasks_and_in_block_on() {
    watched("tokio_works_in_tasks_and_in_block_on", || {
        let runtime = both("in-tasks");
        runtime.block_on(within(use_tokio()));
        let tasks: Vec<_> = (0..20).map(|_| runtime.spawn(use_tokio())).collect();
        for task in tasks {
            runtime.block_on(within(task)).unwrap();
        }
        // Nobody is entered any more.
        assert!(tokio::runtime::Handle::try_current().is_err());
    });
}

/// Where a task may be besides: on the thread that took a worker over, in the heavy pool, and in
/// blocking work.
#[test]
fn tokio_works_on_every_thread_of_the_runtime() {
    watched("tokio_works_on_every_thread_of_the_runtime", || {
        let runtime = both("everywhere");
        let hogs: Vec<_> = (0..8)
            .map(|_| {
                runtime.spawn(async {
                    for _ in 0..3 {
                        thread::sleep(5 * MS);
                        while Handle::current().stats().heavy.hand_offs == 0 {
                            thread::sleep(MS);
                        }
                        // Made on a thread that has lost its worker, at least once.
                        tokio::time::sleep(MS).await;
                        yield_now().await;
                    }
                    use_tokio().await;
                })
            })
            .collect();
        for hog in hogs {
            runtime.block_on(within(hog)).unwrap();
        }
        let work = runtime.spawn(async {
            let handle = evenkeel::spawn_blocking(tokio::runtime::Handle::current);
            let spawned = handle.await.unwrap().spawn(async { 7 });
            spawned.await.unwrap()
        });
        assert_eq!(runtime.block_on(within(work)).unwrap(), 7);
    });
}

#[test]
fn what_tokio_spawns_may_use_this_runtime() {
    watched("what_tokio_spawns_may_use_this_runtime", || {
        let runtime = both("the-other-way");
        runtime.block_on(within(async {
            let spawned = tokio::spawn(async {
                evenkeel::time::sleep(MS).await;
                let (one, other) = evenkeel::net::UnixStream::pair().unwrap();
                one.try_write(b"x").unwrap();
                other.readable().await.unwrap();
                evenkeel::spawn(use_tokio()).await.unwrap();
                thread::current().name().unwrap_or_default().to_owned()
            });
            assert_eq!(spawned.await.unwrap(), "the-other-way-tokio");
        }));
    });
}

/// A client that others are built on, reqwest among them.
#[cfg(feature = "serve")]
#[test]
fn a_client_that_needs_tokio_asks_a_server_of_this_runtime() {
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Bytes;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    watched("a_client_that_needs_tokio", || {
        let runtime = both("client");
        let server = async {
            let hello = axum::Router::new().route("/", axum::routing::get(async || "hello"));
            let listener = evenkeel::net::TcpListener::bind("127.0.0.1:0")
                .await
                .unwrap();
            let address = listener.local_addr().unwrap();
            (
                address,
                evenkeel::spawn(evenkeel::serve(listener, hello).into_future()),
            )
        };
        let task = runtime.spawn(within(async {
            let (address, server) = server.await;
            let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
            for _ in 0..10 {
                let uri = format!("http://localhost:{}/", address.port())
                    .parse()
                    .unwrap();
                let answer = client.get(uri).await.unwrap();
                assert_eq!(answer.collect().await.unwrap().to_bytes(), "hello");
            }
            server.abort();
        }));
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn without_the_option_there_is_no_tokio() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let there = async || tokio::runtime::Handle::try_current().is_ok();
    assert!(!runtime.block_on(there()));
    assert!(!runtime.block_on(runtime.spawn(there())).unwrap());
}

#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let named = threads.filter(|thread| {
        let path = thread.as_ref().unwrap().path().join("comm");
        std::fs::read_to_string(path).is_ok_and(|comm| comm.trim_end() == name)
    });
    named.count()
}

#[cfg(target_os = "linux")]
#[test]
fn it_ends_with_the_runtime_and_drops_what_it_holds() {
    watched("it_ends_with_the_runtime", || {
        let runtime = both("ends");
        let (held, mut dropped) = oneshot::channel::<()>();
        runtime.block_on(within(async {
            let (begin, begun) = oneshot::channel();
            drop(tokio::spawn(async move {
                let _held = held;
                begin.send(()).unwrap();
                pending::<()>().await;
            }));
            begun.await.unwrap();
            // Its drop needs Tokio's reactor.
            drop(evenkeel::spawn(async {
                let _listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tokio::time::sleep(Duration::from_secs(1_000)).await;
            }));
            evenkeel::time::sleep(2 * MS).await;
        }));
        assert_eq!(threads_named("ends-tokio"), 1);
        runtime.shutdown(Duration::from_secs(60)).unwrap();
        // A thread that has been joined may be listed for a moment longer.
        until("the thread has ended", || threads_named("ends-tokio") == 0);
        assert_eq!(
            dropped.try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        );
    });
}

#[test]
fn a_poll_of_tokios_that_does_not_return_holds_up_the_end_for_a_moment_only() {
    watched("a_poll_of_tokios_that_does_not_return", || {
        let runtime = both("stuck");
        let (hold, held) = std::sync::mpsc::channel::<()>();
        runtime.block_on(within(async {
            let (begin, begun) = oneshot::channel();
            drop(tokio::spawn(async move {
                begin.send(()).unwrap();
                let _ = held.recv();
            }));
            begun.await.unwrap();
        }));
        drop(runtime);
        drop(hold);
    });
}

#[test]
fn the_runtime_may_end_on_tokios_thread() {
    watched("the_runtime_may_end_on_tokios_thread", || {
        let runtime = both("inside");
        let tokio = runtime.block_on(async { tokio::runtime::Handle::current() });
        let (done, ended) = std::sync::mpsc::channel();
        drop(tokio.spawn(async move {
            drop(runtime);
            done.send(()).unwrap();
        }));
        ended.recv().unwrap();
    });
}
