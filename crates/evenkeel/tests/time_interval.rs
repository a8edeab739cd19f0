//! Intervals. A task that misses ticks does so by blocking its thread, which sleeps for at least as
//! long as requested.

use std::future::{Future, poll_fn};
use std::task::Poll;

use evenkeel::runtime::Runtime;
use evenkeel::time::{
    Duration, Instant, Interval, MissedTickBehavior, interval, interval_at, timeout,
};

const PERIOD: Duration = Duration::from_millis(20);

fn block_on<F: Future>(future: F) -> F::Output {
    Runtime::new()
        .expect("a runtime can be built")
        .block_on(future)
}

/// An interval, its first tick, and when the second was taken: over three periods late.
async fn late(behavior: MissedTickBehavior) -> (Interval, Instant, Instant) {
    let mut interval = interval(PERIOD);
    interval.set_missed_tick_behavior(behavior);
    assert_eq!(interval.missed_tick_behavior(), behavior);
    let first = interval.tick().await;
    // Counted from the tick's own time, so that later ticks do not depend on when it was taken.
    let behind = (first + PERIOD * 4 + PERIOD / 2).duration_since(Instant::now());
    std::thread::sleep(behind);
    assert_eq!(
        interval.tick().await,
        first + PERIOD,
        "the late tick is returned as it was due"
    );
    (interval, first, Instant::now())
}

#[test]
fn ticks_at_once_and_then_each_period_and_never_early() {
    block_on(async {
        let start = Instant::now();
        let mut interval = interval(PERIOD);
        assert_eq!(interval.period(), PERIOD);
        let first = interval.tick().await;
        assert!(first >= start);
        for _ in 0..5 {
            let due = interval.tick().await;
            assert!(Instant::now() >= due);
        }
        assert!(Instant::now() >= first + PERIOD * 5);
    });
}

#[test]
fn the_first_tick_may_be_later() {
    block_on(async {
        let start = Instant::now() + PERIOD;
        let mut interval = interval_at(start, PERIOD);
        assert_eq!(interval.tick().await, start);
        assert!(Instant::now() >= start);
    });
}

#[test]
fn burst_makes_up_for_every_missed_tick() {
    block_on(async {
        let (mut interval, first, _) = late(MissedTickBehavior::Burst).await;
        for tick in 2..8 {
            assert_eq!(interval.tick().await, first + PERIOD * tick);
        }
    });
}

#[test]
fn a_missed_tick_is_made_up_for_without_waiting() {
    block_on(async {
        let (mut interval, ..) = late(MissedTickBehavior::Burst).await;
        poll_fn(|cx| {
            assert!(interval.poll_tick(cx).is_ready());
            assert!(interval.poll_tick(cx).is_ready());
            Poll::Ready(())
        })
        .await;
    });
}

#[test]
fn delay_keeps_the_distance_from_the_late_tick() {
    block_on(async {
        let (mut interval, first, taken) = late(MissedTickBehavior::Delay).await;
        let next = interval.tick().await;
        // The interval looked at the clock after the tick was due and before `taken`.
        assert!(next >= first + PERIOD * 5 + PERIOD / 2);
        assert!(next <= taken + PERIOD);
    });
}

#[test]
fn skip_leaves_missed_ticks_out_and_keeps_the_times() {
    block_on(async {
        let (mut interval, first, _) = late(MissedTickBehavior::Skip).await;
        let next = interval.tick().await;
        assert!(
            next >= first + PERIOD * 5,
            "the ticks 2 to 4 were due before"
        );
        let since_first = next.duration_since(first).as_nanos();
        assert_eq!(
            since_first % PERIOD.as_nanos(),
            0,
            "a multiple of the period"
        );
    });
}

#[test]
fn resets_move_the_next_tick() {
    block_on(async {
        let hour = Duration::from_secs(3_600);
        let mut interval = interval(hour);
        interval.tick().await;

        let before = Instant::now();
        interval.reset_after(PERIOD);
        assert!(interval.tick().await >= before + PERIOD);

        let at = Instant::now() + PERIOD;
        interval.reset_at(at);
        assert_eq!(interval.tick().await, at);

        let before = Instant::now();
        interval.reset_immediately();
        let now = interval.tick().await;
        assert!(now >= before && now <= Instant::now());

        interval.reset();
        assert!(
            timeout(PERIOD, interval.tick()).await.is_err(),
            "an hour from now"
        );
    });
}

#[test]
fn a_tick_that_was_given_up_is_not_lost() {
    block_on(async {
        let start = Instant::now() + PERIOD * 2;
        let mut interval = interval_at(start, PERIOD);
        let mut given_up = 0;
        let due = loop {
            match timeout(Duration::from_millis(1), interval.tick()).await {
                Ok(due) => break due,
                Err(_) => given_up += 1,
            }
        };
        assert_eq!(due, start, "after giving up {given_up} times");
    });
}

#[test]
fn the_longest_period_does_not_overflow() {
    block_on(async {
        for behavior in [
            MissedTickBehavior::Burst,
            MissedTickBehavior::Delay,
            MissedTickBehavior::Skip,
        ] {
            let mut interval = interval(Duration::MAX);
            interval.set_missed_tick_behavior(behavior);
            interval.tick().await;
            assert!(
                timeout(Duration::from_millis(1), interval.tick())
                    .await
                    .is_err()
            );
        }
    });
}
