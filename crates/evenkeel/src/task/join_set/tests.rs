//! Behaviour of a set, and that completions are found without polling all tasks.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Wake;

use super::*;
use crate::runtime::Runtime;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::{Duration, sleep};

fn block_on<F: Future>(future: F) -> F::Output {
    Runtime::new()
        .expect("a runtime can be built")
        .block_on(future)
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tells when it is dropped.
struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits until `count` reaches `expected`; a test that cannot get there hangs and is killed.
async fn reaches(count: &AtomicUsize, expected: usize) {
    while count.load(Ordering::SeqCst) < expected {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn every_output_is_returned_once() {
    block_on(async {
        let mut set: JoinSet<u64> = (0..500).map(|n| async move { n }).collect();
        set.spawn_in(Class::BULK, async { 500 });
        set.spawn_blocking(|| 501);
        assert_eq!(set.len(), 502);
        let mut outputs = Vec::new();
        while let Some(output) = set.join_next().await {
            outputs.push(output.expect("nothing panics"));
        }
        outputs.sort_unstable();
        assert!(outputs.into_iter().eq(0..502));
        assert!(set.is_empty());
        assert!(set.join_next().await.is_none());
        assert!(set.try_join_next().is_none());
    });
}

#[test]
fn outputs_come_in_the_order_of_completion() {
    block_on(async {
        let mut set = JoinSet::new();
        let go = Arc::new(AtomicUsize::new(0));
        let wait = Arc::clone(&go);
        set.spawn(async move {
            reaches(&wait, 1).await;
            "second"
        });
        set.spawn(async { "first" });
        assert_eq!(
            set.join_next().await.expect("two tasks").expect("no panic"),
            "first"
        );
        go.store(1, Ordering::SeqCst);
        assert_eq!(
            set.join_next().await.expect("a task").expect("no panic"),
            "second"
        );
    });
}

#[test]
fn a_member_added_after_a_poll_wakes_the_waiter() {
    block_on(async {
        let mut set = JoinSet::new();
        set.spawn(pending());
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        // The first poll gives the handle its notice.
        assert!(set.poll_join_next(&mut cx).is_pending());
        set.spawn(async { 7 });
        reaches(&count.0, 1).await;
        let output = loop {
            match set.poll_join_next(&mut cx) {
                Poll::Ready(output) => break output,
                Poll::Pending => sleep(Duration::from_millis(1)).await,
            }
        };
        assert_eq!(output.expect("a task completed").expect("no panic"), 7);
    });
}

#[test]
fn a_completion_polls_one_handle_and_not_all() {
    block_on(async {
        let mut set = JoinSet::new();
        (0..100).for_each(|_| _ = set.spawn(pending()));
        assert!(set.try_join_next().is_none());
        assert_eq!(set.ready.len(), 0, "all handles know their notices");
        let done = set.spawn(async {});
        while !done.is_finished() {
            sleep(Duration::from_millis(1)).await;
        }
        let listed = set.ready.len();
        assert_eq!(
            listed, 1,
            "the new member, be it on account of its insertion or completion"
        );
        assert!(set.try_join_next().expect("a task completed").is_ok());
        assert_eq!(set.len(), 100);
    });
}

#[test]
fn a_stale_notice_is_harmless() {
    block_on(async {
        let mut set = JoinSet::new();
        set.spawn(async { 1 });
        let old = Arc::clone(&set.members[0].notice);
        assert_eq!(set.join_next().await.expect("a task").expect("no panic"), 1);
        old.list(); // no member at the index
        assert!(set.try_join_next().is_none());
        set.spawn(pending());
        old.unlist();
        old.list(); // another member at the index
        assert!(set.try_join_next().is_none());
        assert_eq!(set.len(), 1);
    });
}

#[test]
fn panics_and_aborts_are_told_apart() {
    block_on(async {
        let mut set: JoinSet<()> = JoinSet::new();
        set.spawn(async { panic!("a task panics on purpose") });
        let error = set
            .join_next()
            .await
            .expect("a task")
            .expect_err("it panicked");
        assert!(error.is_panic());
        set.spawn(pending()).abort();
        let error = set
            .join_next()
            .await
            .expect("a task")
            .expect_err("it was aborted");
        assert!(error.is_cancelled());
    });
}

#[test]
fn dropping_a_set_drops_its_futures_and_detaching_does_not() {
    block_on(async {
        let dropped = Arc::new(AtomicUsize::new(0));
        let wait = |guard: OnDrop| async move {
            let _guard = guard;
            pending::<()>().await;
        };
        let mut set = JoinSet::new();
        (0..10).for_each(|_| _ = set.spawn(wait(OnDrop(Arc::clone(&dropped)))));
        drop(set);
        reaches(&dropped, 10).await;

        let ended = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        let guard = OnDrop(Arc::clone(&ended));
        set.spawn(async move {
            sleep(Duration::from_millis(5)).await;
            drop(guard);
        });
        set.detach_all();
        assert!(set.is_empty());
        drop(set);
        reaches(&ended, 1).await;
    });
}

#[test]
fn shutdown_waits_for_every_future_to_be_dropped() {
    block_on(async {
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let guard = OnDrop(Arc::clone(&dropped));
            set.spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            });
        }
        set.shutdown().await;
        assert!(set.is_empty());
        assert_eq!(dropped.load(Ordering::SeqCst), 10);
    });
}

#[test]
fn join_all_returns_all_or_panics_as_a_task_did() {
    let mut outputs = block_on(async {
        let set: JoinSet<u32> = (0..20).map(|n| async move { n }).collect();
        set.join_all().await
    });
    outputs.sort_unstable();
    assert!(outputs.into_iter().eq(0..20));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        block_on(async {
            let mut set = JoinSet::new();
            set.spawn(async { panic!("a task panics on purpose") });
            set.spawn(pending::<()>());
            set.join_all().await
        })
    }));
    let message = panicked.expect_err("the panic is passed on");
    assert_eq!(message.downcast_ref(), Some(&"a task panics on purpose"));
}

#[test]
fn a_dropped_join_next_loses_nothing() {
    block_on(async {
        let go = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        let wait = Arc::clone(&go);
        set.spawn(async move {
            reaches(&wait, 1).await;
            9
        });
        for _ in 0..3 {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(pin!(set.join_next()).poll(&mut cx).is_pending());
        }
        go.store(1, Ordering::SeqCst);
        assert_eq!(set.join_next().await.expect("a task").expect("no panic"), 9);
    });
}
