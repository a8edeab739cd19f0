//! Timeouts.

use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use evenkeel::runtime::Runtime;
use evenkeel::time::{Duration, Instant, sleep, sleep_until, timeout, timeout_at};

fn block_on<F: Future>(future: F) -> F::Output {
    Runtime::new()
        .expect("a runtime can be built")
        .block_on(future)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_future_in_time_gives_its_output() {
    block_on(async {
        assert_eq!(timeout(Duration::from_secs(60), ready(7)).await, Ok(7));
        let output = timeout(Duration::from_secs(60), async {
            sleep(ms(5)).await;
            "done"
        });
        assert_eq!(output.await, Ok("done"));
    });
}

#[test]
fn a_future_that_is_late_is_given_up_and_never_early() {
    block_on(async {
        let start = Instant::now();
        let error = timeout(ms(20), pending::<()>())
            .await
            .expect_err("it never completes");
        assert!(start.elapsed() >= ms(20));
        assert_eq!(
            std::io::Error::from(error).kind(),
            std::io::ErrorKind::TimedOut
        );
        let deadline = Instant::now() + ms(20);
        assert!(timeout_at(deadline, pending::<()>()).await.is_err());
        assert!(Instant::now() >= deadline);
    });
}

#[test]
fn a_ready_future_wins_over_a_limit_that_has_passed() {
    block_on(async {
        assert_eq!(timeout(Duration::ZERO, ready(7)).await, Ok(7));
        assert_eq!(timeout_at(Instant::now(), ready(7)).await, Ok(7));
        assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
    });
}

#[test]
fn a_ready_future_needs_no_runtime() {
    let mut limited = pin!(timeout(Duration::from_secs(60), ready(7)));
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(limited.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));
}

#[test]
fn the_longest_limit_does_not_overflow() {
    block_on(async {
        assert_eq!(
            timeout(Duration::MAX, async { sleep(ms(2)).await }).await,
            Ok(())
        );
    });
}

#[test]
fn a_future_that_is_always_woken_is_still_given_up() {
    block_on(async {
        // It is always busy: it wakes its task in each poll and never completes.
        let busy = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(timeout(ms(10), busy).await.is_err());
    });
}

#[test]
fn the_future_can_be_had_back() {
    block_on(async {
        let deadline = Instant::now() + ms(30);
        let mut limited = timeout(ms(1), sleep_until(deadline));
        assert!(
            (&mut limited).await.is_err(),
            "a timeout of what is `Unpin` is `Unpin`"
        );
        assert_eq!(limited.get_ref().deadline(), deadline);
        limited.into_inner().await;
        assert!(Instant::now() >= deadline);
    });
}

#[test]
fn dropping_a_timeout_drops_its_future() {
    block_on(async {
        let held = Arc::new(());
        let guard = Arc::clone(&held);
        let mut limited = Box::pin(timeout(Duration::from_secs(60), async move {
            pending::<()>().await;
            drop(guard);
        }));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(limited.as_mut().poll(&mut cx).is_pending());
        assert_eq!(Arc::strong_count(&held), 2);
        drop(limited);
        assert_eq!(Arc::strong_count(&held), 1);
    });
}
