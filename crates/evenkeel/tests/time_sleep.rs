//! Sleeping. The only assertion about time is that nothing completes early.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use evenkeel::runtime::Runtime;
use evenkeel::task::JoinSet;
use evenkeel::time::{Duration, Instant, Sleep, sleep, sleep_until, timeout};

fn block_on<F: Future>(future: F) -> F::Output {
    Runtime::new()
        .expect("a runtime can be built")
        .block_on(future)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Counts its wake-ups.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn new() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll_with(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

/// Waits until `condition` holds, for a minute at most.
async fn eventually(condition: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < patience, "waited a minute in vain");
        sleep(ms(1)).await;
    }
}

#[test]
fn a_sleep_never_ends_early() {
    block_on(async {
        for duration_us in [0, 1, 400, 999, 1_000, 1_001, 2_500, 10_000, 70_000] {
            let duration = Duration::from_micros(duration_us);
            let start = Instant::now();
            sleep(duration).await;
            assert!(start.elapsed() >= duration, "{duration:?}");
            let deadline = Instant::now() + duration;
            sleep_until(deadline).await;
            assert!(Instant::now() >= deadline, "{duration:?}");
        }
    });
}

#[test]
fn ten_thousand_timers_all_end_and_none_early() {
    block_on(async {
        let mut set: JoinSet<Duration> = (0..10_000_u64)
            .map(|number| async move {
                let deadline = Instant::now() + ms(number * 7_919 % 301);
                sleep_until(deadline).await;
                deadline.saturating_duration_since(Instant::now())
            })
            .collect();
        let mut ended = 0;
        while let Some(early) = set.join_next().await {
            assert_eq!(early.expect("no task panics"), Duration::ZERO);
            ended += 1;
        }
        assert_eq!(ended, 10_000);
    });
}

#[test]
fn timers_of_one_task_end_in_the_order_of_their_deadlines() {
    block_on(async {
        let start = Instant::now();
        let mut sleeps: Vec<_> = [40, 10, 30, 20]
            .map(|at| sleep_until(start + ms(at)))
            .into();
        let mut ended = Vec::new();
        poll_fn(|cx| {
            let mut ready = Vec::new();
            sleeps.retain_mut(|sleep| match Pin::new(&mut *sleep).poll(cx) {
                Poll::Ready(()) => {
                    ready.push(sleep.deadline());
                    false
                }
                Poll::Pending => true,
            });
            // Several may be ready at once on a slow machine, and are polled in the order of the
            // vector then.
            ready.sort();
            ended.extend(ready);
            if sleeps.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        assert!(ended.is_sorted());
        assert_eq!(ended.len(), 4);
    });
}

#[test]
fn dropping_a_sleep_cancels_it() {
    block_on(async {
        let (count, waker) = Count::new();
        let deadline = Instant::now() + ms(30);
        let mut cancelled = sleep_until(deadline);
        assert!(poll_with(&mut cancelled, &waker).is_pending());
        drop((cancelled, waker));
        assert_eq!(
            Arc::strong_count(&count),
            1,
            "the waker is gone with the sleep"
        );
        sleep_until(deadline + ms(5)).await;
        assert_eq!(count.wakes(), 0);
    });
}

#[test]
fn a_sleep_wakes_once() {
    block_on(async {
        let (count, waker) = Count::new();
        let mut waiting = sleep(ms(10));
        assert!(poll_with(&mut waiting, &waker).is_pending());
        eventually(|| count.wakes() > 0).await;
        assert!(waiting.is_elapsed());
        assert!(poll_with(&mut waiting, &waker).is_ready());
        assert!(
            poll_with(&mut waiting, &waker).is_ready(),
            "ready stays ready"
        );
        sleep(ms(10)).await;
        assert_eq!(count.wakes(), 1);
    });
}

#[test]
fn the_latest_waker_is_woken() {
    block_on(async {
        let (first, first_waker) = Count::new();
        let (second, second_waker) = Count::new();
        let mut waiting = sleep(ms(200));
        assert!(poll_with(&mut waiting, &first_waker).is_pending());
        assert!(poll_with(&mut waiting, &second_waker).is_pending());
        eventually(|| second.wakes() == 1).await;
        assert_eq!(first.wakes(), 0);
    });
}

#[test]
fn a_sleep_may_move_to_another_task_after_it_was_polled() {
    block_on(async {
        let (count, waker) = Count::new();
        let deadline = Instant::now() + ms(50);
        let mut waiting = sleep_until(deadline);
        assert!(poll_with(&mut waiting, &waker).is_pending());
        evenkeel::spawn(async move {
            waiting.await;
            assert!(Instant::now() >= deadline);
        })
        .await
        .expect("the task completes");
        assert_eq!(count.wakes(), 0, "the task's waker has replaced this one");
    });
}

#[test]
fn a_reset_moves_the_deadline_of_a_sleep_that_waits() {
    block_on(async {
        let (count, waker) = Count::new();
        let mut waiting = sleep(Duration::from_secs(3_600));
        assert!(poll_with(&mut waiting, &waker).is_pending());
        // Earlier, and without another poll.
        let deadline = Instant::now() + ms(10);
        Pin::new(&mut waiting).reset(deadline);
        assert_eq!(waiting.deadline(), deadline);
        eventually(|| count.wakes() == 1).await;
        assert!(poll_with(&mut waiting, &waker).is_ready());
        // Later, after it has ended.
        let deadline = Instant::now() + ms(30);
        Pin::new(&mut waiting).reset(deadline);
        waiting.await;
        assert!(Instant::now() >= deadline);
    });
}

#[test]
fn a_reset_to_a_later_time_waits_for_it() {
    block_on(async {
        let (count, waker) = Count::new();
        let mut waiting = sleep(ms(2));
        assert!(poll_with(&mut waiting, &waker).is_pending());
        let deadline = Instant::now() + ms(60);
        Pin::new(&mut waiting).reset(deadline);
        waiting.await;
        assert!(Instant::now() >= deadline);
        // At most one: the first deadline may have come before the reset on a slow machine.
        assert!(count.wakes() <= 1);
    });
}

#[test]
fn the_longest_durations_wait() {
    block_on(async {
        for duration in [
            Duration::MAX,
            Duration::from_secs(u64::MAX / 2),
            ms(u64::MAX),
        ] {
            let limited = timeout(ms(2), sleep(duration));
            assert!(limited.await.is_err(), "{duration:?}");
        }
        assert!(sleep(Duration::MAX).deadline() > Instant::now() + ms(1 << 40));
    });
}

#[test]
#[should_panic(expected = "outside a runtime")]
fn waiting_outside_a_runtime_panics() {
    _ = poll_with(&mut sleep(Duration::from_secs(60)), Waker::noop());
}

#[test]
fn a_timer_added_by_another_thread_wakes_a_sleeping_worker() {
    block_on(async {
        // The workers sleep until the late timer, if at all; other threads add the early ones.
        let late = evenkeel::spawn(sleep(Duration::from_secs(3_600)));
        for _ in 0..50 {
            evenkeel::spawn(sleep(ms(1)))
                .await
                .expect("the task completes");
        }
        late.abort();
        assert!(late.await.is_err());
    });
}
