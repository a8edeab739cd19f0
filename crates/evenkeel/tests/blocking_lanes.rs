//! Lanes of the user's own: bounds, order, accounts, and work that is not done.

#[path = "support/hang.rs"]
mod hang;

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use evenkeel::blocking::{Lane, LaneBuildError, LaneError};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::LaneStats;
use evenkeel::time::{sleep, timeout};
use evenkeel::{Class, ClassConfig, spawn_in};
use hang::watched;
use tokio::sync::oneshot;

fn stats(name: &str) -> LaneStats {
    Handle::current().stats().lane(name).unwrap().clone()
}

/// Waits until a condition holds for a lane.
async fn until(name: &str, holds: impl Fn(&LaneStats) -> bool) {
    while !holds(&stats(name)) {
        sleep(Duration::from_micros(200)).await;
    }
}

/// Occupies a thread of a lane until it is dropped.
async fn occupy(lane: &Lane) -> mpsc::Sender<()> {
    // In the class that goes last, as its time is charged to the class.
    occupy_as(Class::BULK, lane).await
}

async fn occupy_as(class: Class, lane: &Lane) -> mpsc::Sender<()> {
    let (hold, held) = mpsc::channel::<()>();
    // The work itself reports: the lane's busy threads may include one that is just ending.
    let (begins, begun) = oneshot::channel();
    let work = {
        let lane = lane.clone();
        async move {
            let occupying = lane.run(move || {
                let _ = begins.send(());
                held.recv()
            });
            let _ = occupying.await.unwrap();
        }
    };
    drop(spawn_in(class, work));
    begun.await.unwrap();
    hold
}

#[test]
fn outputs_panics_and_accounts() {
    watched("outputs", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("own").threads(2).build().unwrap();
            assert_eq!(lane.run(|| 7).await.unwrap(), 7);
            let error = lane.run(|| panic!("on purpose")).await.unwrap_err();
            assert!(error.to_string().contains("on purpose"), "{error}");
            let LaneError::Panicked(error) = error else {
                panic!("{error}")
            };
            assert!(error.is_panic());
            let lane = stats("own");
            assert_eq!((lane.done, lane.refused, lane.expired), (2, 0, 0));
            assert_eq!((lane.waits.count(), lane.runs.count()), (2, 2));
            assert_eq!((lane.limit, lane.queued), (2, 0));
        });
    });
}

/// Notes how much a lane had done when it was woken.
struct DoneAtWake {
    handle: Handle,
    done: AtomicUsize,
}

impl Wake for DoneAtWake {
    fn wake(self: Arc<Self>) {
        let stats = self.handle.stats();
        let done = stats.lane("own").map_or(0, |lane| lane.done);
        self.done.store(done as usize, SeqCst);
    }
}

#[test]
fn work_is_counted_before_its_output_is_there() {
    watched("counted", || {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        let (let_go, held) = mpsc::channel::<()>();
        let lane = runtime
            .block_on(async { Lane::builder("own").build() })
            .unwrap();
        let mut work = pin!(lane.run(move || held.recv().is_ok()));
        let done = AtomicUsize::new(usize::MAX);
        let keeper = Arc::new(DoneAtWake {
            handle: handle.clone(),
            done,
        });
        let waker = keeper.clone().into();
        assert!(
            work.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        let_go.send(()).unwrap();
        while keeper.done.load(SeqCst) == usize::MAX {
            thread::yield_now();
        }
        assert_eq!(keeper.done.load(SeqCst), 1);
    });
}

#[test]
fn a_lane_that_hangs_holds_up_no_other() {
    watched("apart", || {
        Runtime::new().unwrap().block_on(async {
            let hung = Lane::builder("hung").build().unwrap();
            let other = Lane::builder("other").build().unwrap();
            let hold = occupy(&hung).await;
            let waiting = hung.run(|| 1);
            for _ in 0..100 {
                assert_eq!(other.run(|| 2).await.unwrap(), 2);
                assert_eq!(evenkeel::spawn_blocking(|| 3).await.unwrap(), 3);
            }
            assert_eq!(stats("hung").queued, 1);
            drop(hold);
            assert_eq!(waiting.await.unwrap(), 1);
        });
    });
}

#[test]
fn a_full_lane_refuses_and_says_which() {
    watched("full", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("small").queue(2).build().unwrap();
            let hold = occupy(&lane).await;
            let waiting = [(); 2].map(|()| lane.run(|| 1));
            let error = lane.run(|| 1).await.unwrap_err();
            match &error {
                LaneError::QueueFull { lane, limit } => assert_eq!((&**lane, *limit), ("small", 2)),
                other => panic!("{other}"),
            }
            let error = std::io::Error::from(error);
            assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
            assert_eq!(stats("small").refused, 1);
            drop(hold);
            for work in waiting {
                assert_eq!(work.await.unwrap(), 1);
            }
            assert_eq!(lane.run(|| 2).await.unwrap(), 2, "there is room");
        });
    });
}

#[test]
fn what_waits_too_long_is_not_done() {
    watched("expired", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("slow").wait_limit(Duration::from_millis(20));
            let lane = lane.build().unwrap();
            let hold = occupy(&lane).await;
            for _ in 0..3 {
                let ran = Arc::new(AtomicUsize::new(0));
                let work = {
                    let ran = Arc::clone(&ran);
                    lane.run(move || ran.fetch_add(1, SeqCst))
                };
                let error = work.await.unwrap_err();
                assert!(matches!(error, LaneError::WaitedTooLong { .. }), "{error}");
                assert_eq!(
                    std::io::Error::from(error).kind(),
                    std::io::ErrorKind::TimedOut
                );
                assert_eq!(Arc::strong_count(&ran), 1, "the work is dropped");
                assert_eq!(ran.load(SeqCst), 0);
            }
            assert_eq!(stats("slow").expired, 3);
            drop(hold);
            assert_eq!(lane.run(|| 5).await.unwrap(), 5);
        });
    });
}

#[test]
fn the_urgent_goes_first_and_order_holds_within_a_class() {
    watched("order", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("ordered").build().unwrap();
            let hold = occupy(&lane).await;
            let done = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            let classes = [Class::BULK, Class::NORMAL, Class::URGENT];
            for (number, class) in (0..9).zip(classes.into_iter().cycle()) {
                let (lane, done) = (lane.clone(), Arc::clone(&done));
                tasks.push(spawn_in(class, async move {
                    lane.run(move || done.lock().unwrap().push(number)).await
                }));
                until("ordered", |lane| lane.queued == number + 1).await;
            }
            drop(hold);
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            assert_eq!(*done.lock().unwrap(), [2, 5, 8, 1, 4, 7, 0, 3, 6]);
        });
    });
}

/// Queues 20 pieces of work of 5 ms in each of two classes behind work that occupies a lane, then
/// changes the share and target of a class, and returns the order in which the work was done.
fn done_after_a_change(class: Class, change: ClassConfig) -> Vec<Class> {
    Runtime::new().unwrap().block_on(async {
        let lane = Lane::builder("changed").threads(1).build().unwrap();
        let hold = occupy_as(Class::URGENT, &lane).await;
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..20 {
            for class in [Class::NORMAL, Class::BULK] {
                let (lane, done) = (lane.clone(), Arc::clone(&done));
                let work = move || {
                    std::thread::sleep(Duration::from_millis(5));
                    done.lock().unwrap().push(class);
                };
                tasks.push(spawn_in(class, async move { lane.run(work).await }));
            }
            until("changed", |lane| lane.queued == 2 * number + 2).await;
        }
        Handle::current().set_class(class, change).unwrap();
        drop(hold);
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        Arc::into_inner(done).unwrap().into_inner().unwrap()
    })
}

#[test]
fn what_classes_are_entitled_to_changes_for_what_waits() {
    watched("changed", || {
        // By the present shares, normal work goes first.
        let first = ClassConfig::new().latency_target(Duration::from_micros(10));
        let done = done_after_a_change(Class::BULK, first);
        assert_eq!(done[0], Class::BULK, "{done:?}");
        let hardly_any = ClassConfig::new().share(1);
        let done = done_after_a_change(Class::NORMAL, hardly_any);
        assert_eq!(done[39], Class::NORMAL, "{done:?}");
    });
}

#[test]
fn work_that_is_given_up_is_cancelled_unless_it_has_begun() {
    watched("given up", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("off").build().unwrap();
            let hold = occupy(&lane).await;
            let ran = Arc::new(AtomicUsize::new(0));
            for _ in 0..5 {
                let ran = Arc::clone(&ran);
                drop(lane.run(move || ran.fetch_add(1, SeqCst)));
            }
            drop(hold);
            assert_eq!(lane.run(|| 1).await.unwrap(), 1);
            assert_eq!(ran.load(SeqCst), 0);
            assert_eq!(Arc::strong_count(&ran), 1);
            until("off", |lane| lane.busy == 0).await;
            let (go, gone) = mpsc::channel::<()>();
            let (begins, begun) = mpsc::channel();
            let running = lane.run({
                let ran = Arc::clone(&ran);
                move || {
                    begins.send(()).unwrap();
                    let _ = gone.recv();
                    ran.fetch_add(1, SeqCst)
                }
            });
            // A thread that is busy with it may not have begun it yet.
            while begun.try_recv().is_err() {
                sleep(Duration::from_micros(200)).await;
            }
            drop(running);
            drop(go);
            while ran.load(SeqCst) == 0 {
                sleep(Duration::from_micros(200)).await;
            }
        });
    });
}

/// A device that hangs keeps all threads of its lane, while callers cancel work and come again.
#[test]
fn what_is_cancelled_behind_a_lane_that_hangs_leaves_the_queue_with_all_it_captured() {
    watched("room", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("hung").queue(4).build().unwrap();
            let hold = occupy(&lane).await;
            let captured = Arc::new(());
            let wanted = lane.run(|| 1);
            for round in 0..1_000 {
                let captured_here = Arc::clone(&captured);
                let work = lane.run(move || drop(captured_here));
                assert_eq!(stats("hung").queued, 2, "{round}");
                let waited = timeout(Duration::ZERO, work).await;
                assert!(waited.is_err(), "{round}: {waited:?}");
                assert_eq!(Arc::strong_count(&captured), 1, "{round}");
                assert_eq!(stats("hung").queued, 1, "{round}");
            }
            assert_eq!(stats("hung").refused, 0);
            drop(hold);
            assert_eq!(wanted.await.unwrap(), 1);
        });
    });
}

/// Values that work captured may use the lane again when they are dropped, and may panic.
#[test]
fn cancelled_work_is_dropped_under_no_lock_and_its_panics_reach_nobody() {
    struct Uses(Lane);
    impl Drop for Uses {
        fn drop(&mut self) {
            drop(self.0.run(|| ()));
            assert_eq!(stats("hung").queued, 0);
            panic!("on purpose");
        }
    }
    watched("lock", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("hung").build().unwrap();
            let hold = occupy(&lane).await;
            let uses = Uses(lane.clone());
            drop(lane.run(move || drop(uses)));
            assert_eq!(stats("hung").queued, 0);
            drop(hold);
            assert_eq!(lane.run(|| 1).await.unwrap(), 1);
        });
    });
}

/// It affects neither the count of work done nor the histograms.
#[test]
fn cancelled_work_is_not_counted_as_done() {
    watched("cancelled", || {
        Runtime::new().unwrap().block_on(async {
            let lane = Lane::builder("own").build().unwrap();
            let hold = occupy(&lane).await;
            for _ in 0..10 {
                drop(lane.run(|| ()));
            }
            drop(hold);
            lane.run(|| ()).await.unwrap();
            let lane = stats("own");
            assert_eq!(lane.done, 2);
            assert_eq!((lane.waits.count(), lane.runs.count()), (2, 2));
        });
    });
}

/// Work that was given to a dropped lane is done, and the lane's name becomes free.
#[test]
fn a_dropped_lane_does_what_waits() {
    watched("dropped", || {
        let mut builder = Builder::new();
        let keep_alive = Duration::from_millis(1);
        let runtime = builder.blocking_keep_alive(keep_alive).build().unwrap();
        runtime.block_on(async {
            let lane = Lane::builder("short-lived").build().unwrap();
            let again = Lane::builder("short-lived").build().unwrap_err();
            assert!(matches!(again, LaneBuildError::NameTaken(_)), "{again}");
            let work = lane.run(|| 9);
            drop(lane);
            assert_eq!(work.await.unwrap(), 9);
            while Lane::builder("short-lived").build().is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        });
    });
}

#[test]
fn lanes_are_bounded_and_nonsense_is_refused() {
    watched("bounds", || {
        let error = Lane::builder("outside").build().unwrap_err();
        assert!(matches!(error, LaneBuildError::NoRuntime(_)), "{error}");
        Runtime::new().unwrap().block_on(async {
            for name in ["", "two words", "a\0b", &"x".repeat(33)] {
                assert!(Lane::builder(name).build().is_err(), "{name:?}");
            }
            assert!(Lane::builder("a").threads(0).build().is_err());
            assert!(Lane::builder("a").threads(40_000).build().is_err());
            assert!(Lane::builder("a").queue(0).build().is_err());
            assert!(
                Lane::builder("a")
                    .wait_limit(Duration::ZERO)
                    .build()
                    .is_err()
            );
            let lanes: Vec<_> = (0..256)
                .map(|number| Lane::builder(format!("lane-{number}")).build().unwrap())
                .collect();
            let error = Lane::builder("one-more").build().unwrap_err();
            assert!(matches!(error, LaneBuildError::TooMany), "{error}");
            drop(lanes);
            Lane::builder("one-more").build().unwrap();
        });
    });
}

#[test]
fn shutdown_cancels_work_that_waits_and_refuses_more() {
    watched("shutdown", || {
        let runtime = Runtime::new().unwrap();
        let (lane, hold) = runtime.block_on(async {
            let lane = Lane::builder("ending").wait_limit(None).build().unwrap();
            let hold = occupy(&lane).await;
            (lane, hold)
        });
        let waiting = lane.run(|| 1);
        let error = runtime.shutdown(Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("evenkeel-ending"), "{error}");
        let other = Runtime::new().unwrap();
        let error = other.block_on(waiting).unwrap_err();
        assert!(matches!(error, LaneError::ShutDown { .. }), "{error}");
        let error = other.block_on(lane.run(|| 2)).unwrap_err();
        assert!(matches!(error, LaneError::ShutDown { .. }), "{error}");
        drop(hold);
    });
}
