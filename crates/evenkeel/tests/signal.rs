//! Signals. Each test has a signal of its own, since signals belong to the process.
#![cfg(unix)]

mod support;

use evenkeel::runtime::Builder;
use evenkeel::signal::ctrl_c;
use evenkeel::signal::unix::{SignalKind, signal};
use support::{assert_cancel_safe, within};

/// Sends a signal to the calling thread, which handles it before this returns.
fn raise(kind: SignalKind) {
    let signal = nix::sys::signal::Signal::try_from(kind.as_raw_value()).unwrap();
    nix::sys::signal::raise(signal).unwrap();
}

fn is_pending(signal: &mut evenkeel::signal::unix::Signal) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    signal.poll_recv(&mut cx).is_pending()
}

#[evenkeel::test]
async fn every_listener_hears_of_a_delivery_and_deliveries_coalesce() {
    support::watch_descriptors();
    let kind = SignalKind::user_defined1();
    let mut one = signal(kind).unwrap();
    let mut other = signal(kind).unwrap();
    assert_eq!(one.kind(), kind);
    assert!(is_pending(&mut one));
    raise(kind);
    within(one.recv()).await.unwrap();
    within(other.recv()).await.unwrap();
    assert!(is_pending(&mut one) && is_pending(&mut other));

    // More than the socket between handler and listener holds.
    for _ in 0..2_000 {
        raise(kind);
    }
    within(one.recv()).await.unwrap();
    assert!(is_pending(&mut one));

    drop(one);
    raise(kind);
    within(other.recv()).await.unwrap();
}

#[evenkeel::test]
async fn a_waiting_listener_is_woken() {
    support::watch_descriptors();
    let mut signals = signal(SignalKind::user_defined2()).unwrap();
    let waiting = evenkeel::spawn(async move {
        for _ in 0..3 {
            signals.recv().await.unwrap();
        }
        signals
    });
    let raising = evenkeel::spawn(async move {
        while !waiting.is_finished() {
            raise(SignalKind::user_defined2());
            evenkeel::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        waiting.await.unwrap()
    });
    within(raising).await.unwrap();
}

#[evenkeel::test]
async fn ctrl_c_is_heard() {
    support::watch_descriptors();
    // The listener keeps SIGINT from ending this process, whichever comes first.
    let mut interrupts = signal(SignalKind::interrupt()).unwrap();
    let waiting = evenkeel::spawn(ctrl_c());
    let raising = evenkeel::spawn(async move {
        while !waiting.is_finished() {
            raise(SignalKind::interrupt());
            evenkeel::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        waiting.await.unwrap()
    });
    within(raising).await.unwrap().unwrap();
    within(interrupts.recv()).await.unwrap();
}

#[evenkeel::test]
async fn a_dropped_wait_loses_no_delivery() {
    support::watch_descriptors();
    let kind = SignalKind::hangup();
    let signals = tokio::sync::Mutex::new(signal(kind).unwrap());
    assert_cancel_safe(
        || async { signals.lock().await.recv().await },
        || raise(kind),
        async |received| received.unwrap(),
    )
    .await;
}

#[test]
fn several_runtimes_hear_of_one_delivery() {
    let kind = SignalKind::alarm();
    let runtimes = [(); 3].map(|()| Builder::new().workers(1).build().unwrap());
    let mut listeners: Vec<_> = runtimes
        .iter()
        .map(|runtime| runtime.block_on(async { signal(kind).unwrap() }))
        .collect();
    raise(kind);
    for (runtime, listener) in runtimes.iter().zip(&mut listeners) {
        runtime.block_on(within(listener.recv())).unwrap();
    }
    // One runtime ends with its listener, and the others still get signals.
    let mut runtimes = Vec::from(runtimes);
    drop((listeners.remove(0), runtimes.remove(0)));
    raise(kind);
    for (runtime, listener) in runtimes.iter().zip(&mut listeners) {
        runtime.block_on(within(listener.recv())).unwrap();
    }
}

/// By default it would end the process.
#[evenkeel::test]
async fn a_signal_that_nobody_listens_to_any_more_is_ignored() {
    support::watch_descriptors();
    let kind = SignalKind::quit();
    drop(signal(kind).unwrap());
    raise(kind);
    let mut later = signal(kind).unwrap();
    assert!(is_pending(&mut later), "it listens from now on");
    raise(kind);
    within(later.recv()).await.unwrap();
}

#[test]
fn a_listener_whose_runtime_ends_hears_of_that() {
    let [ends, alive] = [(); 2].map(|()| Builder::new().workers(1).build().unwrap());
    let mut listener = ends.block_on(async { signal(SignalKind::pipe()).unwrap() });
    let waiting = alive.spawn(async move { listener.recv().await });
    ends.shutdown(std::time::Duration::from_secs(60)).unwrap();
    assert_eq!(alive.block_on(within(waiting)).unwrap(), None);
}

#[evenkeel::test]
async fn signals_that_cannot_be_heard_are_refused() {
    support::watch_descriptors();
    for number in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, -1, 4_096] {
        let error = signal(SignalKind::from_raw(number)).unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::InvalidInput,
            "{number}: {error}"
        );
    }
}
