//! Blocking work: its threads, their bounds, and work that cannot be done.

#[path = "support/hang.rs"]
mod hang;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::JoinHandle;
use hang::{until, watched};

fn runtime(threads: usize, queue: usize, keep_alive: Duration) -> Runtime {
    let mut builder = Builder::new();
    builder.workers(1).max_blocking_threads(threads);
    builder
        .blocking_queue_limit(queue)
        .blocking_keep_alive(keep_alive)
        .build()
        .unwrap()
}

const LONG: Duration = Duration::from_secs(600);

/// Work that has begun and continues until it is told to end.
struct Busy {
    release: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Busy {
    fn begin(runtime: &Runtime) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        let task = runtime.spawn_blocking(move || {
            begins.send(()).unwrap();
            let _ = released.recv();
        });
        begun.recv().unwrap();
        Self { release, task }
    }

    fn end(self, runtime: &Runtime) {
        drop(self.release);
        runtime.block_on(self.task).unwrap();
    }
}

#[test]
fn outputs_and_panics_reach_the_handle() {
    watched("outputs", || {
        let runtime = runtime(2, 100, LONG);
        assert_eq!(
            runtime.block_on(runtime.spawn_blocking(|| "done")).unwrap(),
            "done"
        );
        let error = runtime
            .block_on(runtime.spawn_blocking(|| panic!("on purpose")))
            .unwrap_err();
        assert!(error.is_panic());
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert_eq!(
            *error.into_panic().downcast::<&str>().unwrap(),
            "on purpose"
        );
        assert_eq!(
            runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(),
            1,
            "it goes on"
        );
    });
}

#[test]
fn no_more_threads_than_allowed() {
    watched("threads", || {
        let runtime = runtime(3, 1000, LONG);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ids = Arc::new(Mutex::new(HashSet::new()));
        // The first three meet: three threads are used, too.
        let meeting = Arc::new(Barrier::new(3));
        let tasks: Vec<_> = (0..60)
            .map(|number| {
                let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                let (ids, meeting) = (Arc::clone(&ids), Arc::clone(&meeting));
                runtime.spawn_blocking(move || {
                    most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    ids.lock().unwrap().insert(thread::current().id());
                    if number < 3 {
                        meeting.wait();
                    }
                    now.fetch_sub(1, SeqCst);
                })
            })
            .collect();
        tasks
            .into_iter()
            .for_each(|task| runtime.block_on(task).unwrap());
        assert_eq!(most.load(SeqCst), 3);
        assert_eq!(ids.lock().unwrap().len(), 3);
        assert_eq!(runtime.stats().blocking.threads, 3);
    });
}

#[test]
fn work_waits_in_the_order_of_coming() {
    watched("order", || {
        let runtime = runtime(1, 100, LONG);
        let busy = Busy::begin(&runtime);
        let done = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..50)
            .map(|number| {
                let done = Arc::clone(&done);
                runtime.spawn_blocking(move || done.lock().unwrap().push(number))
            })
            .collect();
        assert_eq!(runtime.stats().blocking.queued, 50);
        busy.end(&runtime);
        tasks
            .into_iter()
            .for_each(|task| runtime.block_on(task).unwrap());
        assert!(done.lock().unwrap().iter().copied().eq(0..50));
    });
}

/// What a pool's thread spawns is for the task that has asked for the work.
#[test]
fn what_blocking_work_spawns_inherits_its_class() {
    watched("class", || {
        let runtime = runtime(1, 100, LONG);
        let classes = || {
            evenkeel::spawn_blocking(|| {
                let spawned = evenkeel::spawn(async { evenkeel::task::class() });
                (evenkeel::task::class(), spawned)
            })
        };
        for class in [Class::BULK, Class::URGENT] {
            let task = runtime.spawn_in(class, async move {
                let (here, spawned) = classes().await.unwrap();
                (here, spawned.await.unwrap())
            });
            assert_eq!(runtime.block_on(task).unwrap(), (Some(class), Some(class)));
        }
    });
}

#[test]
fn a_full_queue_refuses() {
    watched("full", || {
        let runtime = runtime(1, 2, LONG);
        let busy = Busy::begin(&runtime);
        let waiting = [(); 2].map(|()| runtime.spawn_blocking(|| 1));
        let canary = Arc::new(());
        let refused = {
            let canary = Arc::clone(&canary);
            runtime.spawn_blocking(move || drop(canary))
        };
        assert!(refused.is_finished(), "refused at once");
        assert_eq!(Arc::strong_count(&canary), 1, "the work is dropped");
        let error = runtime.block_on(refused).unwrap_err();
        assert!(error.is_refused() && !error.is_cancelled() && !error.is_panic());
        assert!(
            error.to_string().contains("blocking_queue_limit"),
            "{error}"
        );
        busy.end(&runtime);
        for task in waiting {
            assert_eq!(runtime.block_on(task).unwrap(), 1);
        }
        assert_eq!(
            runtime.block_on(runtime.spawn_blocking(|| 2)).unwrap(),
            2,
            "there is room"
        );
    });
}

/// Cancelled work behind work that hangs takes up no room and keeps no memory.
#[test]
fn aborted_work_leaves_the_queue_before_a_thread_comes_for_it() {
    watched("room", || {
        let runtime = runtime(1, 4, LONG);
        let busy = Busy::begin(&runtime);
        let captured = Arc::new(());
        for round in 0..100 {
            let captured_here = Arc::clone(&captured);
            let work = runtime.spawn_blocking(move || drop(captured_here));
            work.abort_handle().abort();
            assert_eq!(Arc::strong_count(&captured), 1, "{round}");
            assert!(
                runtime.block_on(work).unwrap_err().is_cancelled(),
                "{round}"
            );
        }
        assert_eq!(runtime.handle().stats().blocking.queued, 0);
        busy.end(&runtime);
    });
}

#[test]
fn work_that_has_not_begun_can_be_aborted() {
    watched("abort", || {
        let runtime = runtime(1, 10, LONG);
        let busy = Busy::begin(&runtime);
        let ran = Arc::new(AtomicUsize::new(0));
        let work = || {
            let ran = Arc::clone(&ran);
            runtime.spawn_blocking(move || ran.fetch_add(1, SeqCst))
        };
        let (aborted, detached, kept) = (work(), work(), work());
        aborted.abort();
        detached.abort();
        drop(detached);
        busy.task.abort();
        busy.end(&runtime);
        assert!(runtime.block_on(aborted).unwrap_err().is_cancelled());
        assert_eq!(
            runtime.block_on(kept).unwrap(),
            0,
            "it is the first that runs"
        );
        assert_eq!(
            Arc::strong_count(&ran),
            1,
            "the work that was aborted is dropped"
        );
    });
}

#[test]
fn a_detached_work_goes_on() {
    watched("detached", || {
        let runtime = runtime(1, 10, LONG);
        let (tell, told) = mpsc::channel();
        drop(runtime.spawn_blocking(move || tell.send(7).unwrap()));
        assert_eq!(told.recv().unwrap(), 7);
    });
}

#[test]
fn threads_end_when_they_have_been_idle_and_come_back() {
    watched("keep alive", || {
        for keep_alive in [Duration::ZERO, Duration::from_millis(1)] {
            let runtime = runtime(4, 100, keep_alive);
            for _ in 0..20 {
                let tasks = [(); 4].map(|()| runtime.spawn_blocking(|| ()));
                tasks
                    .into_iter()
                    .for_each(|task| runtime.block_on(task).unwrap());
                until("ended", || runtime.stats().blocking.threads == 0);
            }
        }
    });
}

#[test]
fn an_idle_thread_is_used_again() {
    watched("idle", || {
        let runtime = runtime(64, 100, LONG);
        let mut ids = HashSet::new();
        for _ in 0..50 {
            let task = runtime.spawn_blocking(|| thread::current().id());
            ids.insert(runtime.block_on(task).unwrap());
            until("idle", || runtime.stats().blocking.idle == 1);
        }
        assert_eq!(ids.len(), 1);
    });
}

/// Many short pieces of work from many spawners while threads come and go: none is lost.
#[test]
fn no_work_is_lost_while_threads_come_and_go() {
    watched("come and go", || {
        let runtime = runtime(3, 100_000, Duration::ZERO);
        let done = Arc::new(AtomicUsize::new(0));
        let spawners: Vec<_> = (0..3)
            .map(|_| {
                let (handle, done) = (runtime.handle().clone(), Arc::clone(&done));
                thread::spawn(move || {
                    for number in 0..300 {
                        let done = Arc::clone(&done);
                        let task = handle.spawn_blocking(move || done.fetch_add(1, SeqCst));
                        if number % 3 == 0 {
                            handle.block_on(task).unwrap();
                        }
                    }
                })
            })
            .collect();
        spawners
            .into_iter()
            .for_each(|spawner| spawner.join().unwrap());
        until("all done", || done.load(SeqCst) == 900);
        until("ended", || runtime.stats().blocking.threads == 0);
    });
}

/// Blocking work may wait for other blocking work, as long as there are threads.
#[test]
fn work_may_wait_for_work() {
    watched("nested", || {
        let runtime = runtime(8, 100, LONG);
        fn nest(depth: u32) -> u32 {
            if depth == 0 {
                return 0;
            }
            let task = evenkeel::spawn_blocking(move || nest(depth - 1));
            1 + evenkeel::runtime::Handle::current().block_on(task).unwrap()
        }
        assert_eq!(
            runtime
                .block_on(runtime.spawn_blocking(|| nest(7)))
                .unwrap(),
            7
        );
    });
}

/// Work that comes when the last thread has decided to end is done all the same.
#[test]
fn work_for_a_thread_that_leaves_is_not_stranded() {
    watched("leaving", || {
        let task: Arc<Mutex<Option<JoinHandle<u32>>>> = Arc::default();
        let runtime = {
            let task = Arc::clone(&task);
            Builder::new()
                .workers(1)
                .max_blocking_threads(1)
                .blocking_keep_alive(Duration::ZERO)
                .on_thread_stop(move || {
                    // The runtime has only the threads for blocking work inside, not the workers.
                    if let Ok(handle) = evenkeel::runtime::Handle::try_current() {
                        let mut task = task.lock().unwrap();
                        if task.is_none() {
                            *task = Some(handle.spawn_blocking(|| 5));
                        }
                    }
                })
                .build()
                .unwrap()
        };
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        until("spawned by the hook", || task.lock().unwrap().is_some());
        let late = task.lock().unwrap().take().unwrap();
        *task.lock().unwrap() = Some(runtime.spawn_blocking(|| 0));
        assert_eq!(runtime.block_on(late).unwrap(), 5);
    });
}
