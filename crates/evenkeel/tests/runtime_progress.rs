//! A ready task is polled as long as a worker is free, whatever other tasks do.

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::{BusyWait, Class};
use hang::{until, watched};
use support::within;
use tokio::sync::Notify;

/// The classes of every runtime.
const ALL: [Class; 3] = [Class::URGENT, Class::NORMAL, Class::BULK];

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// One task does not return from its poll until another one has run, which is spawned from outside
/// directly after it: the second worker has to run that one, though it was asleep or waking up.
#[test]
fn a_worker_that_is_kept_keeps_nothing_that_came_from_outside() {
    watched("kept, outside", || {
        for level in [BusyWait::None, BusyWait::Medium] {
            let runtime = Builder::new().workers(2).busy_wait(level).build().unwrap();
            for round in 0..500 {
                let (release, released) = mpsc::channel();
                let keeper = runtime.spawn(async move { released.recv().unwrap() });
                if round % 2 == 0 {
                    // Sometimes the first worker is polling already, sometimes not.
                    thread::yield_now();
                }
                let other = runtime.spawn(async move { release.send(()).unwrap() });
                runtime.block_on(keeper).unwrap();
                runtime.block_on(other).unwrap();
            }
        }
    });
}

/// A task spawns another and waits for it without returning from its poll.
#[test]
fn a_worker_that_is_kept_keeps_nothing_that_it_spawned() {
    watched("kept, spawned", || {
        let runtime = runtime(2);
        for _ in 0..200 {
            let task = runtime.spawn(async {
                let (release, released) = mpsc::channel();
                drop(evenkeel::spawn(async move { release.send(()).unwrap() }));
                released.recv().unwrap();
            });
            runtime.block_on(task).unwrap();
        }
    });
}

/// A task wakes another and then does not return from its poll until that one has run.
#[test]
fn a_worker_that_is_kept_keeps_nothing_that_it_woke() {
    watched("kept, woken", || {
        let runtime = runtime(2);
        for _ in 0..200 {
            let (wake, woken) = tokio::sync::oneshot::channel();
            let (release, released) = mpsc::channel();
            let waiting = runtime.spawn(async move {
                woken.await.unwrap();
                release.send(()).unwrap();
            });
            let keeper = runtime.spawn(async move {
                wake.send(()).unwrap();
                released.recv().unwrap();
            });
            runtime.block_on(keeper).unwrap();
            runtime.block_on(waiting).unwrap();
        }
    });
}

/// An event for a descriptor of a worker that is held up reaches its task through the other worker.
#[test]
fn a_worker_that_is_kept_keeps_no_event() {
    use tokio::io::AsyncReadExt;

    watched("kept, event", || {
        let runtime = runtime(2);
        for _ in 0..50 {
            let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let (tell, told) = mpsc::channel();
            let (release, released) = mpsc::channel();
            // Reads in the task that then holds the worker up: the descriptor is at that worker.
            let keeper = runtime.spawn(async move {
                let mut stream = evenkeel::net::UnixStream::from_std(here).unwrap();
                stream.read_u8().await.unwrap();
                let reader = evenkeel::spawn(async move {
                    stream.read_u8().await.unwrap();
                    release.send(()).unwrap();
                });
                evenkeel::task::yield_now().await;
                tell.send(()).unwrap();
                released.recv().unwrap();
                vec![reader]
            });
            use std::io::Write;
            there.write_all(&[1]).unwrap();
            told.recv().unwrap();
            there.write_all(&[2]).unwrap();
            for reader in runtime.block_on(keeper).unwrap() {
                runtime.block_on(reader).unwrap();
            }
        }
    });
}

/// A timer of a worker that is held up fires through the other worker.
#[test]
fn a_worker_that_is_kept_keeps_no_timer() {
    watched("kept, timer", || {
        let runtime = runtime(2);
        for _ in 0..20 {
            let (release, released) = mpsc::channel();
            let (tell, told) = mpsc::channel();
            let keeper = runtime.spawn(async move {
                drop(evenkeel::spawn(async move {
                    tell.send(()).unwrap();
                    evenkeel::time::sleep(Duration::from_millis(2)).await;
                    release.send(()).unwrap();
                }));
                evenkeel::task::yield_now().await;
                released.recv().unwrap();
            });
            told.recv().unwrap();
            runtime.block_on(keeper).unwrap();
        }
    });
}

/// Tasks that yield for ever starve no other work: tasks from outside, a timer, a task of another
/// class, or each other.
#[test]
fn tasks_that_yield_for_ever_keep_nothing() {
    watched("yielding", || {
        let runtime = runtime(2);
        let stop = Arc::new(AtomicBool::new(false));
        let polls: Vec<_> = (0..16).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let hogs: Vec<_> = polls
            .iter()
            .enumerate()
            .map(|(number, polls)| {
                let (stop, polls) = (Arc::clone(&stop), Arc::clone(polls));
                runtime.spawn_in(ALL[number % 3], async move {
                    while !stop.load(SeqCst) {
                        polls.fetch_add(1, SeqCst);
                        evenkeel::task::yield_now().await;
                    }
                })
            })
            .collect();
        for class in ALL {
            for _ in 0..20 {
                let work = async {
                    evenkeel::time::sleep(Duration::from_millis(1)).await;
                    evenkeel::spawn(async { 3 }).await.unwrap()
                };
                assert_eq!(runtime.block_on(runtime.spawn_in(class, work)).unwrap(), 3);
            }
        }
        for polls in &polls {
            let before = polls.load(SeqCst);
            until("each is polled", || polls.load(SeqCst) > before + 2);
        }
        stop.store(true, SeqCst);
        hogs.into_iter()
            .for_each(|hog| runtime.block_on(hog).unwrap());
    });
}

/// Two tasks that wake each other for ever starve no other task.
#[test]
fn tasks_that_wake_each_other_for_ever_keep_nothing() {
    watched("ping-pong", || {
        let runtime = runtime(1);
        let stop = Arc::new(AtomicBool::new(false));
        let (to_first, from_second) = tokio::sync::mpsc::channel::<()>(1);
        let (to_second, from_first) = tokio::sync::mpsc::channel::<()>(1);
        to_first.try_send(()).unwrap();
        let players = [(to_second, from_second), (to_first, from_first)].map(|(to, mut from)| {
            let stop = Arc::clone(&stop);
            runtime.spawn(async move {
                while !stop.load(SeqCst) && from.recv().await.is_some() {
                    let _ = to.send(()).await;
                }
            })
        });
        for _ in 0..20 {
            let nap = evenkeel::time::sleep(Duration::from_millis(1));
            runtime.block_on(runtime.spawn(within(nap))).unwrap();
        }
        stop.store(true, SeqCst);
        for player in players {
            runtime.block_on(player).unwrap();
        }
    });
}

/// A storm of a worker's own wake-ups, each of which would go before every task that yielded: those
/// are polled all the same.
#[test]
fn a_storm_of_a_workers_own_wakes_starves_no_task_that_yields() {
    watched("storm", || {
        for class in ALL {
            let runtime = runtime(1);
            let stop = Arc::new(AtomicBool::new(false));
            let storm: Arc<Vec<_>> = Arc::new((0..32).map(|_| Notify::new()).collect());
            let mut tasks: Vec<_> = (0..storm.len())
                .map(|number| {
                    let (stop, storm) = (Arc::clone(&stop), Arc::clone(&storm));
                    runtime.spawn_in(class, async move {
                        while !stop.load(SeqCst) {
                            // Two for each: from the next-task slot one is displaced to the run
                            // queue.
                            storm[(number + 1) % storm.len()].notify_one();
                            storm[(number + 7) % storm.len()].notify_one();
                            storm[number].notified().await;
                        }
                        storm.iter().for_each(Notify::notify_one);
                    })
                })
                .collect();
            let polls = Arc::new(AtomicUsize::new(0));
            let (stopped, count) = (Arc::clone(&stop), Arc::clone(&polls));
            tasks.push(runtime.spawn_in(class, async move {
                while !stopped.load(SeqCst) {
                    count.fetch_add(1, SeqCst);
                    evenkeel::task::yield_now().await;
                }
            }));
            until("it is polled", || polls.load(SeqCst) > 20);
            stop.store(true, SeqCst);
            for task in tasks {
                runtime.block_on(within(task)).unwrap();
            }
        }
    });
}

/// Tasks that come from outside in one burst, each of which holds up its worker until all run:
/// every sleeping worker has to be woken.
#[test]
fn a_burst_from_outside_reaches_every_worker_that_sleeps() {
    watched("burst", || {
        const WORKERS: usize = 3;
        let runtime = Builder::new()
            .workers(WORKERS)
            .busy_wait(BusyWait::None)
            // Otherwise another thread would take the seat of a waiting one, and reach the rest.
            .hand_off_after(None)
            .build()
            .unwrap();
        for round in 0..100 {
            if round % 2 == 0 {
                // Usually long enough for all to be asleep.
                thread::sleep(Duration::from_millis(1));
            }
            let all = Arc::new(Barrier::new(WORKERS));
            let burst: Vec<_> = (0..WORKERS)
                .map(|number| {
                    let all = Arc::clone(&all);
                    runtime.spawn_in(ALL[number % 3], async move { all.wait() })
                })
                .collect();
            // Without a time limit, whose timer would wake a worker as well.
            for task in burst {
                runtime.block_on(task).unwrap();
            }
        }
    });
}

/// More tasks than a worker's queue holds, spawned at once from inside and from outside.
#[test]
fn more_tasks_than_a_queue_holds() {
    watched("many", || {
        for workers in [1, 3] {
            let runtime = runtime(workers);
            let done = Arc::new(AtomicUsize::new(0));
            let inside = {
                let done = Arc::clone(&done);
                runtime.spawn(async move {
                    let tasks: Vec<_> = (0..5_000)
                        .map(|_| {
                            let done = Arc::clone(&done);
                            evenkeel::spawn(async move {
                                evenkeel::task::yield_now().await;
                                done.fetch_add(1, SeqCst);
                            })
                        })
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                })
            };
            for _ in 0..5_000 {
                let done = Arc::clone(&done);
                drop(runtime.spawn(async move { done.fetch_add(1, SeqCst) }));
            }
            runtime.block_on(within(inside)).unwrap();
            until("all done", || done.load(SeqCst) == 10_000);
        }
    });
}

struct PanicsWhenWoken(AtomicUsize);

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        panic!("a waker that panics on purpose");
    }
}

/// Wakers are the user's code. If one panics when a timer or an event wakes it, no worker ends, and
/// the tasks after it are woken.
#[test]
fn a_waker_that_panics_ends_no_worker() {
    watched("panicking waker", || {
        let runtime = runtime(1);
        for _ in 0..3 {
            let bad = Arc::new(PanicsWhenWoken(AtomicUsize::new(0)));
            let waker = Waker::from(Arc::clone(&bad));
            let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let stream = runtime
                .block_on(async { evenkeel::net::UnixStream::from_std(here) })
                .unwrap();
            let stream = Arc::new(stream);
            let waits = Arc::clone(&stream);
            // Not on a worker, where a poll may have to yield, and wakes by itself.
            let held = runtime.block_on(async move {
                let mut timer = evenkeel::time::sleep(Duration::from_millis(2));
                let mut bad = Context::from_waker(&waker);
                assert!(waits.try_read(&mut [0]).is_err());
                assert!(Pin::new(&mut timer).poll(&mut bad).is_pending());
                assert!(waits.poll_read_ready(&mut bad).is_pending());
                (timer, waits)
            });
            let good = {
                let stream = Arc::clone(&stream);
                runtime.spawn(async move { stream.readable().await })
            };
            until("the timer woke", || bad.0.load(SeqCst) >= 1);
            drop(there);
            until("the event woke", || bad.0.load(SeqCst) >= 2);
            runtime.block_on(within(good)).unwrap().unwrap();
            drop(held);
            let nap = evenkeel::time::sleep(Duration::from_millis(2));
            runtime.block_on(runtime.spawn(within(nap))).unwrap();
        }
    });
}

struct PanicsWhenDropped(Arc<AtomicUsize>);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        panic!("a drop that panics on purpose");
    }
}

/// A future or an output whose drop panics ends its own task, whose handle reports it, and no
/// worker: with one, all later tasks run on the same.
#[test]
fn a_drop_that_panics_ends_no_worker() {
    watched("panicking drop", || {
        let runtime = runtime(1);
        let drops = Arc::new(AtomicUsize::new(0));
        let panics = || PanicsWhenDropped(Arc::clone(&drops));

        let held = panics();
        let ends = runtime.spawn(async move {
            evenkeel::task::yield_now().await;
            let _held = held;
        });
        assert!(runtime.block_on(within(ends)).unwrap_err().is_panic());

        let held = panics();
        let aborted = runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        until("it waits", || runtime.stats().tasks_waiting == 1);
        aborted.abort();
        assert!(runtime.block_on(within(aborted)).unwrap_err().is_panic());

        let output = panics();
        drop(runtime.spawn(async move { output }));
        until("the output is dropped", || drops.load(SeqCst) == 3);
        assert_eq!(runtime.block_on(runtime.spawn(async { 8 })).unwrap(), 8);
        runtime.shutdown(Duration::from_secs(60)).unwrap();
    });
}

/// Wake-ups from many threads, of which none is lost: each counts down.
#[test]
fn wake_ups_from_everywhere_are_all_followed_by_a_poll() {
    watched("wake-ups", || {
        let runtime = runtime(2);
        let count = Arc::new(AtomicUsize::new(0));
        let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
        let task = {
            let (count, waker) = (Arc::clone(&count), Arc::clone(&waker));
            runtime.spawn(poll_fn(move |cx| {
                *waker.lock().unwrap() = Some(cx.waker().clone());
                if count.load(SeqCst) == 4_000 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }))
        };
        until("polled", || waker.lock().unwrap().is_some());
        let wakers: Vec<_> = (0..4)
            .map(|_| {
                let (count, waker) = (Arc::clone(&count), Arc::clone(&waker));
                thread::spawn(move || {
                    for _ in 0..1_000 {
                        count.fetch_add(1, SeqCst);
                        let waker = waker.lock().unwrap().clone();
                        waker.unwrap().wake();
                    }
                })
            })
            .collect();
        wakers.into_iter().for_each(|thread| thread.join().unwrap());
        runtime.block_on(within(task)).unwrap();
    });
}
