//! A listener for each worker, seen from outside.

mod support;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::net::TcpListener;
use evenkeel::runtime::Builder;
use evenkeel::task;
use support::within;
use tokio::io::AsyncWriteExt;

const WORKERS: usize = 3;
const CONNECTIONS: usize = 300;

/// Longer than an answer takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_system_spreads_connections_over_the_workers_which_serve_them() {
    let runtime = Builder::new().workers(WORKERS).build().unwrap();
    let listeners = runtime.block_on(TcpListener::bind_per_worker("127.0.0.1:0"));
    let listeners = listeners.unwrap();
    assert_eq!(listeners.len(), WORKERS);
    let address = listeners[0].local_addr().unwrap();
    let accepted: Arc<[AtomicUsize]> = (0..WORKERS).map(|_| AtomicUsize::new(0)).collect();
    let at_home = Arc::new(AtomicUsize::new(0));
    let accepting: Vec<_> = (listeners.into_iter().enumerate())
        .map(|(at, listener)| {
            assert_eq!(listener.worker(), Some(at));
            assert_eq!(listener.local_addr().unwrap(), address);
            let (accepted, at_home) = (Arc::clone(&accepted), Arc::clone(&at_home));
            runtime.spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    accepted[at].fetch_add(1, Ordering::Relaxed);
                    let at_home = Arc::clone(&at_home);
                    task::Builder::new().spawn(async move {
                        if task::worker() == Some(at) {
                            at_home.fetch_add(1, Ordering::Relaxed);
                        }
                        stream.write_all(b"hello").await.unwrap();
                    });
                }
            })
        })
        .collect();
    // Another worker takes a task now and then; on a machine without such a bond, a third of them
    // would be at home.
    let mut rounds = 0;
    while at_home.swap(0, Ordering::Relaxed) <= CONNECTIONS / 2 {
        assert!(
            rounds < 10,
            "none of {rounds} rounds had most of them at home"
        );
        rounds += 1;
        for _ in 0..CONNECTIONS {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(LIMIT)).unwrap();
            let mut heard = String::new();
            client.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "hello");
        }
    }
    let accepted: Vec<_> = accepted
        .iter()
        .map(|of| of.load(Ordering::Relaxed))
        .collect();
    assert_eq!(accepted.iter().sum::<usize>(), rounds * CONNECTIONS);
    assert!(accepted.iter().all(|&of| of > 0), "{accepted:?}");
    for task in accepting {
        task.abort();
        runtime.block_on(within(task)).unwrap_err();
    }
}

#[evenkeel::test]
async fn an_address_that_is_taken_is_an_error() {
    support::watch_descriptors();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = TcpListener::bind_per_worker(taken.local_addr().unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(taken.worker(), None);
}
