//! A task's class, changed by others: from a handle, whatever the task does just then.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::{self, yield_now};
use evenkeel::{Class, ClassConfig};
use hang::{until, watched};
use hogs::compute_until_handed_off;
use support::within;

/// With one worker, which does not lose its seat in a poll that waits for this test.
fn one_worker() -> Runtime {
    let mut builder = Builder::new();
    builder
        .workers(1)
        .hand_off_after(Some(Duration::from_secs(10)));
    builder.build().unwrap()
}

fn polls(runtime: &Runtime) -> [u64; 3] {
    let stats = runtime.stats();
    [0, 1, 2].map(|class| stats.classes[class].polls)
}

fn alive(runtime: &Runtime) -> [usize; 3] {
    let stats = runtime.stats();
    [0, 1, 2].map(|class| stats.classes[class].alive)
}

/// The classes in which a task was polled.
type Seen = Arc<Mutex<Vec<Class>>>;

/// Notes the class of each poll, until it is the last one.
async fn until_in(last: Class, seen: Seen) {
    poll_fn(|_| {
        let class = task::class().unwrap();
        seen.lock().unwrap().push(class);
        if class == last {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[test]
fn a_task_that_waits_is_polled_in_the_new_class() {
    watched("waiting", || {
        let (runtime, seen) = (one_worker(), Seen::default());
        let waiting = runtime.spawn(until_in(Class::URGENT, Arc::clone(&seen)));
        until("it waits", || alive(&runtime) == [0, 1, 0]);
        waiting.change_class(Class::BULK);
        until("it is counted anew", || alive(&runtime) == [0, 0, 1]);
        until("it is polled there", || polls(&runtime) == [0, 1, 1]);
        waiting.abort_handle().change_class(Class::URGENT);
        runtime.block_on(within(waiting)).unwrap();
        let classes = [Class::NORMAL, Class::BULK, Class::URGENT];
        assert_eq!(*seen.lock().unwrap(), classes);
        assert_eq!((polls(&runtime), alive(&runtime)), ([1, 1, 1], [0; 3]));
    });
}

#[test]
fn a_task_in_a_queue_is_not_polled_in_the_old_class() {
    watched("queued", || {
        let (runtime, seen) = (one_worker(), Seen::default());
        let noted = Arc::clone(&seen);
        let parent = runtime.spawn(async move {
            let queued =
                [(); 3].map(|()| evenkeel::spawn(until_in(Class::BULK, Arc::clone(&noted))));
            for task in &queued {
                task.change_class(Class::URGENT);
                task.change_class(Class::BULK);
            }
            for task in queued {
                task.await.unwrap();
            }
        });
        runtime.block_on(within(parent)).unwrap();
        assert_eq!(*seen.lock().unwrap(), [Class::BULK; 3]);
        assert_eq!(polls(&runtime)[2], 3);
    });
}

#[test]
fn a_poll_under_way_counts_for_the_class_in_which_it_began() {
    watched("running", || {
        let runtime = one_worker();
        let (arrived, changed) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (arrives, changes) = (Arc::clone(&arrived), Arc::clone(&changed));
        let task = runtime.spawn(async move {
            arrives.store(true, SeqCst);
            while !changes.load(SeqCst) {
                thread::yield_now();
            }
            let then = (
                task::class(),
                evenkeel::spawn(async { task::class() }).await.unwrap(),
            );
            yield_now().await;
            (
                then,
                task::class(),
                evenkeel::spawn(async { task::class() }).await.unwrap(),
            )
        });
        until("it runs", || arrived.load(SeqCst));
        task.change_class(Class::BULK);
        changed.store(true, SeqCst);
        let [normal, bulk] = [Class::NORMAL, Class::BULK].map(Some);
        let seen = runtime.block_on(within(task)).unwrap();
        assert_eq!(seen, ((normal, normal), bulk, bulk));
        // Its first poll, and that of the first task that it spawned.
        assert_eq!(polls(&runtime)[1], 2);
        assert_eq!(alive(&runtime), [0; 3]);
    });
}

#[test]
fn a_hog_is_moved_while_it_is_polled_in_the_heavy_pool() {
    watched("hog", || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let (arrives, arrived) = mpsc::channel();
        let (changes, changed) = mpsc::channel::<()>();
        let hog = runtime.spawn(async move {
            compute_until_handed_off();
            yield_now().await;
            arrives.send(()).unwrap();
            // Until the other end is dropped.
            let _ = changed.recv();
            let then = task::class();
            yield_now().await;
            (then, task::class())
        });
        arrived.recv_timeout(Duration::from_secs(60)).unwrap();
        hog.change_class(Class::BULK);
        drop(changes);
        let seen = runtime.block_on(within(hog)).unwrap();
        assert_eq!(seen, (Some(Class::NORMAL), Some(Class::BULK)));
        assert_eq!(alive(&runtime), [0; 3]);
    });
}

#[test]
fn what_has_no_class_to_change_stays_as_it_is() {
    watched("nothing to change", || {
        let runtime = one_worker();
        let ended = runtime.spawn(async {});
        until("it has ended", || ended.is_finished());
        ended.change_class(Class::BULK);
        runtime.block_on(within(ended)).unwrap();

        let work = runtime.spawn_blocking(task::class);
        work.change_class(Class::BULK);
        assert_eq!(runtime.block_on(within(work)).unwrap(), Some(Class::NORMAL));

        // A class that only another runtime has.
        let other = Builder::new()
            .workers(1)
            .class("video", ClassConfig::new())
            .build()
            .unwrap();
        let video = other.handle().class("video").unwrap();
        let seen = Seen::default();
        let waiting = runtime.spawn(until_in(Class::BULK, Arc::clone(&seen)));
        until("it waits", || alive(&runtime) == [0, 1, 0]);
        waiting.change_class(video);
        until("it was polled once more", || {
            seen.lock().unwrap().len() == 2
        });
        assert_eq!(*seen.lock().unwrap(), [Class::NORMAL; 2]);
        waiting.change_class(Class::BULK);
        runtime.block_on(within(waiting)).unwrap();
    });
}

#[test]
fn tasks_that_are_changed_by_many_stay_counted() {
    const TASKS: usize = 20;
    const CHANGES: usize = 2_000;
    const CLASSES: [Class; 3] = [Class::URGENT, Class::NORMAL, Class::BULK];
    watched("by many", || {
        let runtime = &Builder::new().workers(2).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let stop = Arc::clone(&stop);
                runtime.spawn(async move {
                    while !stop.load(SeqCst) {
                        if number % 2 == 0 {
                            task::change_class(CLASSES[number % 3]).unwrap();
                        }
                        yield_now().await;
                    }
                })
            })
            .collect();
        until("all have waited", || {
            alive(runtime).iter().sum::<usize>() == TASKS
        });
        thread::scope(|scope| {
            for changer in 0..2 {
                let tasks = &tasks;
                scope.spawn(move || {
                    for change in 0..CHANGES {
                        let number = change * (changer + 3);
                        tasks[number % TASKS].change_class(CLASSES[number % 7 % 3]);
                        if change % 16 == 0 {
                            // At every moment each is counted once.
                            assert_eq!(alive(runtime).iter().sum::<usize>(), TASKS);
                        }
                    }
                });
            }
        });
        tasks.iter().for_each(|task| task.change_class(Class::BULK));
        // Those that do not change it themselves stay where the last one wanted them.
        until("all are in one class", || alive(runtime)[2] >= TASKS / 2);
        for task in tasks.iter().step_by(3) {
            task.change_class(Class::URGENT);
            task.abort();
            task.change_class(Class::NORMAL);
        }
        stop.store(true, SeqCst);
        for (number, task) in tasks.into_iter().enumerate() {
            let ended = runtime.block_on(within(task));
            assert!(ended.is_ok() || number % 3 == 0, "{ended:?}");
        }
        assert_eq!(alive(runtime), [0; 3]);
    });
}
