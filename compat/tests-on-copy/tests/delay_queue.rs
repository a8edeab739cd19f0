//! `DelayQueue` of tokio-util in real time, as its own tests pause the clock, which is Tokio's.

use std::future::poll_fn;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::time::DelayQueue;

/// No wait takes longer, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(60);

fn after(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Takes all that is in the queue: what it is, when it was to come, and whether it came before.
async fn expired<T>(queue: &mut DelayQueue<T>) -> Vec<(T, Instant, bool)> {
    let mut all = Vec::new();
    while let Some(next) = timeout(LIMIT, poll_fn(|cx| queue.poll_expired(cx)))
        .await
        .unwrap()
    {
        let (due, now) = (next.deadline(), Instant::now());
        all.push((next.into_inner(), due, now < due));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_inserted_reset_and_removed_expires_in_order_and_not_before_its_time() {
    // In a task, so that a worker's timers are asked.
    let found = tokio::spawn(async {
        let mut queue = DelayQueue::new();
        let began = Instant::now();
        let later = queue.insert("later", after(5));
        let sooner = queue.insert("sooner", Duration::from_secs(3600));
        let removed = queue.insert("removed", after(10));
        // In this order, so that a delay between two only makes the gaps wider.
        queue.reset(&sooner, after(20));
        queue.insert("between", after(40));
        queue.reset(&later, after(80));
        assert_eq!(queue.remove(&removed).into_inner(), "removed");
        (began, expired(&mut queue).await)
    });
    let (began, found) = found.await.unwrap();
    let names: Vec<_> = found.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["sooner", "between", "later"]);
    for ((name, due, is_early), ms) in found.iter().zip([20, 40, 80]) {
        assert!(!is_early, "{name} came too early");
        assert!(*due >= began + after(ms), "{name} was due too early");
    }
}

/// The queue moves its one timer from one task to another, and forth and back in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_waits_hears_of_what_comes_sooner() {
    let mut queue = DelayQueue::new();
    queue.insert(0, Duration::from_secs(3600));
    for round in 1..=20 {
        let found = tokio::spawn(async move {
            // It waits for the hour first.
            let waits = timeout(after(1), poll_fn(|cx| queue.poll_expired(cx))).await;
            assert!(waits.is_err(), "an hour is not over");
            let key = queue.insert(round, after(2));
            let next = timeout(LIMIT, poll_fn(|cx| queue.poll_expired(cx))).await;
            let next = next.unwrap().unwrap();
            assert_eq!((next.key(), *next.get_ref()), (key, round));
            assert!(Instant::now() >= next.deadline(), "too early");
            queue
        });
        queue = found.await.unwrap();
    }
    assert_eq!(queue.len(), 1);
    queue.clear();
    assert!(expired(&mut queue).await.is_empty());
}
