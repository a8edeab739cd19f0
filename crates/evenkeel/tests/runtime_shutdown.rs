//! Shutdown: what it ends, what it waits for, and its error when it cannot.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use evenkeel::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::task::JoinSet;
use hang::{until, watched};
use support::within;

const LONG: Duration = Duration::from_secs(60);

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// Held by every future of a test, to show that all of them are dropped.
#[derive(Clone, Debug, Default)]
struct Held(Arc<()>);

impl Held {
    fn others(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Futures that never end by themselves, each waiting for something else. Made inside a runtime.
#[expect(clippy::too_many_lines, reason = "a list, one entry a future")]
async fn waits() -> Vec<Boxed> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (served, _) = listener.accept().await.unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (unix, other_end) = UnixStream::pair().unwrap();
    let full = tokio::sync::mpsc::channel(1);
    full.0.try_send(()).unwrap();
    let empty = tokio::sync::mpsc::channel::<()>(1);
    let mutex = Arc::new(tokio::sync::Mutex::new(()));
    let locked = Arc::clone(&mutex).lock_owned().await;
    let mut set = JoinSet::new();
    set.spawn(pending::<()>());
    let year = Duration::from_secs(365 * 24 * 60 * 60);

    vec![
        Box::pin(pending()),
        Box::pin(async move { drop(listener.accept().await) }),
        Box::pin(async move {
            let _served = served;
            drop(stream.readable().await);
            let mut buf = [0; 1];
            while stream.try_read(&mut buf).is_err() {
                stream.readable().await.unwrap();
            }
        }),
        Box::pin(async move { drop(udp.recv_from(&mut [0]).await) }),
        Box::pin(async move {
            let _open = other_end;
            drop(unix.peek(&mut [0]).await);
        }),
        Box::pin(async move { evenkeel::time::sleep(year).await }),
        Box::pin(async move {
            let waited = evenkeel::time::timeout(year, pending::<()>()).await;
            waited.unwrap();
        }),
        Box::pin(async move {
            let mut ticks = evenkeel::time::interval(year);
            loop {
                ticks.tick().await;
            }
        }),
        Box::pin(async move {
            let (sender, _receiver) = full;
            sender.send(()).await.unwrap();
        }),
        Box::pin(async move {
            let (_sender, mut receiver) = empty;
            receiver.recv().await.unwrap();
        }),
        Box::pin(async move {
            let _locked = locked;
            drop(mutex.lock().await);
        }),
        Box::pin(async move { assert!(set.join_next().await.is_none()) }),
        Box::pin(async move { evenkeel::spawn(pending()).await.unwrap() }),
        Box::pin(async {
            loop {
                evenkeel::task::yield_now().await;
            }
        }),
        Box::pin(async {
            loop {
                evenkeel::task::checkpoint().await;
            }
        }),
        // It keeps its own waker: only the runtime's end releases it.
        Box::pin(async {
            let own: Arc<Mutex<Option<Waker>>> = Arc::default();
            poll_fn(move |cx| {
                *own.lock().unwrap() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await
        }),
    ]
}

/// When `Ok` is returned, everything has been dropped.
#[test]
fn every_future_is_dropped() {
    watched("every future", || {
        for workers in [1, 2, 4] {
            let runtime = runtime(workers);
            let held = Held::default();
            let begun = Arc::<AtomicUsize>::default();
            let spawned: Vec<_> = runtime
                .block_on(waits())
                .into_iter()
                .map(|mut wait| {
                    let (held, begun) = (held.clone(), Arc::clone(&begun));
                    let mut counts = 1;
                    runtime.spawn(async move {
                        poll_fn(|cx| {
                            let polled = wait.as_mut().poll(cx);
                            begun.fetch_add(std::mem::take(&mut counts), SeqCst);
                            polled
                        })
                        .await;
                        drop(held);
                    })
                })
                .collect();
            until("all wait", || begun.load(SeqCst) == spawned.len());
            runtime.shutdown(LONG).unwrap();
            assert_eq!(held.others(), 0);
            for task in spawned {
                assert!(task.is_finished());
                let error = within_nothing(task);
                assert!(error.is_cancelled(), "{error}");
            }
        }
    });
}

/// The output of a task that has ended, without any runtime.
fn within_nothing<T: std::fmt::Debug>(
    mut task: evenkeel::task::JoinHandle<T>,
) -> evenkeel::task::JoinError {
    match Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.unwrap_err(),
        Poll::Pending => panic!("the task has not ended"),
    }
}

/// Tasks in every sort of queue are dropped, without being polled or after a poll or two.
#[test]
fn what_lies_in_queues_is_dropped() {
    watched("queues", || {
        for round in 0..50 {
            let runtime = runtime(1 + round % 2);
            let held = Held::default();
            let (kept, keeps) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            let inside = held.clone();
            drop(runtime.spawn(async move {
                for _ in 0..1_000 {
                    let held = inside.clone();
                    drop(evenkeel::spawn(async move {
                        let _held = held;
                        evenkeel::task::yield_now().await;
                        pending::<()>().await;
                    }));
                }
                kept.send(()).unwrap();
                let _ = released.recv();
            }));
            keeps.recv().unwrap();
            for _ in 0..1_000 {
                let held = held.clone();
                drop(runtime.spawn(async move { drop(held) }));
            }
            let releasing = thread::spawn(move || drop(release));
            runtime.shutdown(LONG).unwrap();
            releasing.join().unwrap();
            assert_eq!(held.others(), 0);
        }
    });
}

/// Many threads spawn, wake and abort meanwhile: each task ends, and each future is dropped.
#[test]
fn the_end_in_the_midst_of_everything() {
    watched("midst", || {
        for round in 0..30 {
            let runtime = runtime(2);
            let held = Held::default();
            let stop = Arc::new(AtomicBool::new(false));
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let (handle, stop) = (runtime.handle().clone(), Arc::clone(&stop));
                    let held = held.clone();
                    thread::spawn(move || {
                        let mut tasks = Vec::new();
                        let mut number = 0u64;
                        while !stop.load(SeqCst) && tasks.len() < 20_000 {
                            number += 1;
                            let held = held.clone();
                            let task = handle.spawn(async move {
                                let _held = held;
                                match number % 4 {
                                    0 => evenkeel::task::yield_now().await,
                                    1 => evenkeel::time::sleep(Duration::from_millis(1)).await,
                                    2 => drop(evenkeel::spawn(async {}).await),
                                    _ => pending().await,
                                }
                            });
                            if number % 5 == thread {
                                task.abort();
                            }
                            tasks.push(task);
                        }
                        tasks
                    })
                })
                .collect();
            thread::sleep(Duration::from_micros(100 * round));
            runtime.shutdown(LONG).unwrap();
            stop.store(true, SeqCst);
            for thread in threads {
                for task in thread.join().unwrap() {
                    until("ended", || task.is_finished());
                }
            }
            assert_eq!(held.others(), 0);
        }
    });
}

/// Drops that spawn, wake, open sockets and set timers during shutdown.
#[test]
fn drops_that_use_the_runtime_that_ends() {
    struct Busy {
        held: Held,
        waker: Arc<Mutex<Option<Waker>>>,
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            if let Some(waker) = self.waker.lock().unwrap().take() {
                waker.wake();
            }
            let held = self.held.clone();
            drop(evenkeel::spawn(async move { drop(held) }));
            let held = self.held.clone();
            drop(evenkeel::spawn_blocking(move || drop(held)));
            drop(evenkeel::time::sleep(LONG));
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            drop(UdpSocket::from_std(socket));
        }
    }

    watched("drops", || {
        for round in 0..20 {
            let runtime = runtime(2);
            let held = Held::default();
            // Each future, when dropped, wakes the next one's task.
            let wakers: Vec<_> = (0..20).map(|_| Arc::default()).collect();
            for index in 0..wakers.len() {
                let busy = Busy {
                    held: held.clone(),
                    waker: Arc::clone(&wakers[(index + 1) % wakers.len()]),
                };
                let own: Arc<Mutex<Option<Waker>>> = Arc::clone(&wakers[index]);
                drop(runtime.spawn(async move {
                    let _busy = busy;
                    poll_fn(|cx| {
                        own.lock()
                            .unwrap()
                            .get_or_insert_with(|| cx.waker().clone());
                        Poll::<()>::Pending
                    })
                    .await
                }));
            }
            if round % 2 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            runtime.shutdown(LONG).unwrap();
            assert_eq!(held.others(), 0);
        }
    });
}

/// A chain of tasks, as long as memory allows, each of which waits for the one before: cancelling a
/// task wakes and cancels the next, and they do not all fit on one stack.
#[test]
fn tasks_that_wait_for_each_other_end_however_many_they_are() {
    const TASKS: usize = 20_000;
    watched("a chain", || {
        let runtime = runtime(1);
        let held = Held::default();
        let mut last = runtime.spawn(pending::<()>());
        for _ in 1..TASKS {
            let (before, held) = (last, held.clone());
            last = runtime.spawn(async move {
                let _held = held;
                drop(before.await);
                pending().await
            });
        }
        until("all wait", || runtime.stats().tasks_waiting == TASKS);
        let small = thread::Builder::new().stack_size(256 << 10);
        let ending = small.spawn(move || runtime.shutdown(LONG)).unwrap();
        ending.join().unwrap().unwrap();
        assert_eq!(held.others(), 0);
        assert!(within_nothing(last).is_cancelled());
    });
}

/// Reports whether there is a runtime where it is dropped.
struct Asks(mpsc::Sender<bool>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.0.send(Handle::try_current().is_ok()).unwrap();
    }
}

/// The thread that ends the runtime drops a task that waits in the heavy pool.
#[test]
fn the_drop_of_a_hog_that_waits_may_use_the_runtime() {
    watched("a hog that waits", || {
        // Room for one hog, so that another waits.
        let mut builder = Builder::new();
        let runtime = builder.workers(1).heavy_threads(1).build().unwrap();
        let (tell, told) = mpsc::channel();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let asks = Asks(tell);
        let waits = runtime.spawn(async move {
            let _asks = asks;
            hogs::compute_until_handed_off();
            drop(gone.await);
            pending::<()>().await;
        });
        until("it hogged", || runtime.stats().heavy.hand_offs == 1);
        until("it waits", || runtime.stats().tasks_waiting == 1);
        let mut gate = hogs::Gate::closed();
        let entrance = gate.entrance();
        let hogs = runtime.spawn(async move {
            hogs::compute_until_handed_off();
            // One that sleeps would be found blocked, and leave room in the pool.
            entrance.wait(hogs::Hold::Spins);
        });
        until("the lane is full", || gate.arrived() == 1);
        go.send(()).unwrap();
        until("it is queued", || runtime.stats().heavy.queued == 1);
        let ending = thread::spawn(move || runtime.shutdown(LONG));
        assert!(told.recv().unwrap(), "dropped outside the runtime");
        gate.open();
        ending.join().unwrap().unwrap();
        assert!(within_nothing(waits).is_cancelled());
        drop(hogs);
    });
}

/// If a task is woken from outside when its runtime accepts no more tasks, the waking thread drops
/// it.
#[test]
fn the_drop_of_what_is_woken_at_the_end_may_use_the_runtime() {
    watched("woken at the end", || {
        let (gate, runtime) = (Arc::new(Gate::default()), runtime(1));
        // The second of its kind waits for the gate.
        gate.waited.store(1, SeqCst);
        let slow = Slow(Arc::clone(&gate));
        let holds_up = runtime.spawn(async move {
            let _slow = slow;
            pending::<()>().await;
        });
        until("the first waits", || runtime.stats().tasks_waiting == 1);
        let (tell, told) = mpsc::channel();
        let (wake, woken) = tokio::sync::oneshot::channel::<()>();
        let asks = Asks(tell);
        let waits = runtime.spawn(async move {
            let _asks = asks;
            drop(woken.await);
        });
        until("both wait", || runtime.stats().tasks_waiting == 2);
        let ending = thread::spawn(move || runtime.shutdown(LONG));
        until("the first is dropped", || gate.waited.load(SeqCst) == 2);
        wake.send(()).unwrap();
        assert!(told.recv().unwrap(), "dropped outside the runtime");
        *gate.open.lock().unwrap() = true;
        gate.changed.notify_all();
        ending.join().unwrap().unwrap();
        assert!(within_nothing(waits).is_cancelled());
        drop(holds_up);
    });
}

#[test]
fn a_drop_that_panics_stops_nothing() {
    struct Panics(#[allow(dead_code, reason = "held until the drop")] Held);

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }

    watched("panicking drops", || {
        let runtime = runtime(2);
        let held = Held::default();
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let panics = Panics(held.clone());
                runtime.spawn(async move {
                    pending::<()>().await;
                    drop(panics);
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(2));
        runtime.shutdown(LONG).unwrap();
        assert_eq!(held.others(), 0);
        for task in tasks {
            assert!(within_nothing(task).is_panic());
        }
    });
}

#[test]
fn wakers_that_outlive_the_runtime_are_harmless() {
    watched("wakers", || {
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let runtime = runtime(2);
        for _ in 0..10 {
            let wakers = Arc::clone(&wakers);
            drop(runtime.spawn(poll_fn(move |cx| {
                wakers.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            })));
        }
        until("polled", || wakers.lock().unwrap().len() == 10);
        runtime.shutdown(LONG).unwrap();
        let threads: Vec<_> = std::mem::take(&mut *wakers.lock().unwrap())
            .into_iter()
            .map(|waker| {
                thread::spawn(move || {
                    waker.wake_by_ref();
                    let clone = waker.clone();
                    assert!(waker.will_wake(&clone));
                    clone.wake();
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn what_is_asked_of_a_runtime_that_has_ended_is_cancelled() {
    watched("handles", || {
        let runtime = runtime(2);
        let handle = runtime.handle().clone();
        runtime.shutdown(LONG).unwrap();
        let held = Held::default();
        let (one, two) = (held.clone(), held.clone());
        let task = handle.spawn(async move { drop(one) });
        let work = handle.spawn_blocking(move || drop(two));
        assert!(task.is_finished() && work.is_finished());
        assert_eq!(held.others(), 0);
        assert!(handle.block_on(task).unwrap_err().is_cancelled());
        assert!(handle.block_on(work).unwrap_err().is_cancelled());
        assert_eq!(
            handle.block_on(async { 4 }),
            4,
            "what needs no worker still works"
        );
        assert_eq!(handle.stats().tasks_waiting, 0);
    });
}

/// A socket that outlives its runtime reports this, registered or not, busy or idle.
#[test]
fn sockets_that_outlive_the_runtime_say_so() {
    watched("sockets", || {
        let ended = runtime(2);
        let (registered, unregistered, idle, ends) = ended.block_on(async {
            let (registered, first) = UnixStream::pair().unwrap();
            let (unregistered, second) = UnixStream::pair().unwrap();
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let wait = evenkeel::time::timeout(Duration::from_millis(1), registered.readable());
            // Both directions are ready at first; a read that finds nothing corrects that.
            assert!(registered.try_read(&mut [0]).is_err());
            assert!(wait.await.is_err(), "nothing comes");
            (registered, unregistered, udp, (first, second))
        });
        ended.shutdown(LONG).unwrap();

        let alive = runtime(1);
        let error = alive.block_on(within(async { registered.readable().await.unwrap_err() }));
        assert!(error.to_string().contains("has shut down"), "{error}");
        let error = alive.block_on(within(async {
            unregistered.peek(&mut [0]).await.unwrap_err()
        }));
        assert!(error.to_string().contains("has shut down"), "{error}");
        let error = alive.block_on(within(async { idle.recv(&mut [0]).await.unwrap_err() }));
        assert!(error.to_string().contains("has shut down"), "{error}");

        // As the error advises, they can be moved.
        let moved = unregistered.into_std().unwrap();
        let mut end = ends.1.into_std().unwrap();
        alive.block_on(within(async move {
            let moved = UnixStream::from_std(moved).unwrap();
            std::io::Write::write_all(&mut end, &[1]).unwrap();
            moved.readable().await.unwrap();
            assert_eq!(moved.try_read(&mut [0]).unwrap(), 1);
        }));
    });
}

/// An outside task that waits on a socket of the runtime gets an error at shutdown.
#[test]
fn whoever_waits_on_a_socket_of_the_runtime_hears_of_its_end() {
    watched("hears", || {
        let (ends, alive) = (runtime(1), runtime(1));
        let (stream, _end) = ends.block_on(async { UnixStream::pair().unwrap() });
        let waiting = alive.spawn(async move { stream.peek(&mut [0]).await.unwrap_err() });
        thread::sleep(Duration::from_millis(2));
        ends.shutdown(LONG).unwrap();
        let error = alive.block_on(within(waiting)).unwrap();
        assert!(error.to_string().contains("has shut down"), "{error}");
    });
}

/// The place of the call, for comparison with the error's text.
fn line_of(location: &std::panic::Location<'_>) -> u32 {
    assert_eq!(location.file(), file!());
    location.line()
}

#[test]
fn a_poll_that_does_not_return_is_named() {
    watched("stuck poll", || {
        let runtime = Builder::new()
            .workers(2)
            .thread_name("stuck")
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let held = Held::default();
        let (begins, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let held_by_stuck = held.clone();
        let went_on = Arc::new(AtomicBool::new(false));
        let goes_on = Arc::clone(&went_on);
        let line = line!() + 1;
        let stuck = runtime.spawn(async move {
            begins
                .send(thread::current().name().unwrap().to_owned())
                .unwrap();
            let _ = released.recv();
            evenkeel::task::yield_now().await;
            goes_on.store(true, SeqCst);
            drop(held_by_stuck);
        });
        let held_by_other = held.clone();
        let other = runtime.spawn(async move {
            pending::<()>().await;
            drop(held_by_other);
        });
        let name = begun.recv().unwrap();
        let error = runtime.shutdown(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.stuck().len(), 1, "{error}");
        assert_eq!(error.stuck()[0].thread, name);
        assert_eq!(line_of(error.stuck()[0].spawned_at), line);
        let text = error.to_string();
        assert!(
            text.contains(&name) && text.contains(&format!("{}:{line}", file!())),
            "{text}"
        );

        until("all others end", || other.is_finished());
        assert!(!stuck.is_finished());
        drop(release);
        until("it ends when its poll does", || stuck.is_finished());
        until("and is dropped", || held.others() == 0);
        assert!(!went_on.load(SeqCst), "it is not polled any more");
        let error = std::io::Error::from(error);
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert!(error.to_string().contains(&name), "{error}");
        assert!(handle.spawn(async {}).is_finished());
    });
}

#[test]
fn blocking_work_that_does_not_return_is_named() {
    watched("stuck work", || {
        let runtime = Builder::new()
            .workers(1)
            .thread_name("deep")
            .build()
            .unwrap();
        let (begins, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let line = line!() + 1;
        let stuck = runtime.spawn_blocking(move || {
            begins.send(()).unwrap();
            let _ = released.recv();
            3
        });
        begun.recv().unwrap();
        let error = runtime.shutdown(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.stuck().len(), 1, "{error}");
        assert_eq!(error.stuck()[0].thread, "deep-blocking");
        assert_eq!(line_of(error.stuck()[0].spawned_at), line);
        drop(release);
        until("it ends", || stuck.is_finished());
    });
}

/// Blocking work that waits for a thread is cancelled, also if a poll that waits for this very work
/// holds up the runtime.
#[test]
fn blocking_work_that_waits_is_cancelled() {
    watched("waiting work", || {
        let runtime = Builder::new()
            .workers(1)
            .max_blocking_threads(1)
            .build()
            .unwrap();
        let (begins, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let busy = runtime.spawn_blocking(move || {
            begins.send(()).unwrap();
            let _ = released.recv();
        });
        begun.recv().unwrap();
        let (drops, dropped) = mpsc::channel::<()>();
        let waiting = runtime.spawn_blocking(move || drop(drops));
        let kept = runtime.spawn(async move {
            // Returns when the queued work is dropped.
            assert!(dropped.recv().is_err());
        });
        let ending = thread::spawn(move || runtime.shutdown(LONG));
        until("cancelled", || waiting.is_finished());
        assert!(within_nothing(waiting).is_cancelled());
        until("the poll returned", || kept.is_finished());
        drop(release);
        ending.join().unwrap().unwrap();
        assert!(busy.is_finished());
    });
}

#[test]
fn a_timeout_without_end_is_a_timeout() {
    watched("timeouts", || {
        runtime(1).shutdown(Duration::MAX).unwrap();
        let idle = runtime(1);
        // Nothing has to be waited for, but there is no time: both results are right.
        let _ = idle.shutdown(Duration::ZERO);
    });
}

/// A runtime that is dropped on one of its own threads does not wait, but it does end.
#[test]
fn a_runtime_dropped_by_its_own_task_ends() {
    watched("own task", || {
        for workers in [1, 2] {
            let (ended, runtime) = (Held::default(), runtime(workers));
            let mut ends = Vec::new();
            for wait in runtime.block_on(waits()) {
                let held = ended.clone();
                drop(runtime.spawn(async move {
                    wait.await;
                    drop(held);
                }));
            }
            let work = ended.clone();
            ends.push(runtime.spawn_blocking(move || drop(work)));
            let handle = runtime.handle().clone();
            let last = handle.spawn(async move {
                drop(runtime);
                evenkeel::task::yield_now().await;
                Handle::current()
            });
            until("the last task ends", || last.is_finished());
            until("every future is dropped", || ended.others() == 0);
            assert!(
                handle.spawn(async {}).is_finished(),
                "it takes nothing any more"
            );
        }
    });
}

#[test]
fn a_runtime_dropped_by_its_own_blocking_work_ends() {
    watched("own work", || {
        let (held, runtime) = (Held::default(), runtime(2));
        for wait in runtime.block_on(waits()) {
            let held = held.clone();
            drop(runtime.spawn(async move {
                wait.await;
                drop(held);
            }));
        }
        let handle = runtime.handle().clone();
        let last = handle.spawn_blocking(move || {
            drop(runtime);
            6
        });
        until("the work ends", || last.is_finished());
        assert_eq!(handle.block_on(last).unwrap(), 6);
        until("every future is dropped", || held.others() == 0);
    });
}

#[test]
fn a_runtime_dropped_inside_its_own_block_on_ends() {
    watched("own block_on", || {
        let (held, runtime) = (Held::default(), runtime(2));
        let inside = held.clone();
        drop(runtime.spawn(async move {
            pending::<()>().await;
            drop(inside);
        }));
        let handle = runtime.handle().clone();
        handle.block_on(async move { drop(runtime) });
        assert_eq!(held.others(), 0);
    });
}

#[test]
fn a_runtime_dropped_by_a_task_of_another_ends() {
    watched("another's task", || {
        let (one, other) = (runtime(1), runtime(1));
        let held = Held::default();
        let inside = held.clone();
        drop(other.spawn(async move {
            pending::<()>().await;
            drop(inside);
        }));
        let task = one.spawn(async move {
            drop(other);
            evenkeel::spawn(async { 9 }).await.unwrap()
        });
        assert_eq!(one.block_on(task).unwrap(), 9);
        assert_eq!(held.others(), 0);
    });
}

/// Runtimes begin and end beside each other, repeatedly.
#[test]
fn many_runtimes_begin_and_end() {
    watched("many", || {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                thread::spawn(|| {
                    for round in 0..40 {
                        let runtime = runtime(1 + round % 3);
                        let count = Arc::new(AtomicUsize::new(0));
                        for _ in 0..20 {
                            let count = Arc::clone(&count);
                            drop(runtime.spawn(async move {
                                evenkeel::task::yield_now().await;
                                count.fetch_add(1, SeqCst);
                            }));
                        }
                        if round % 2 == 0 {
                            until("done", || count.load(SeqCst) == 20);
                        }
                        runtime.shutdown(LONG).unwrap();
                        assert_eq!(Arc::strong_count(&count), 1);
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

/// A gate at which drops wait.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    waited: AtomicUsize,
}

/// A value in a future whose drop waits for the gate.
struct Slow(Arc<Gate>);

impl Drop for Slow {
    fn drop(&mut self) {
        if self.0.waited.fetch_add(1, SeqCst) == 0 {
            // The first only takes longer than the time limit of the shutdown.
            return thread::sleep(Duration::from_millis(50));
        }
        let shut = self.0.open.lock().unwrap();
        drop(self.0.changed.wait_while(shut, |open| !*open).unwrap());
    }
}

/// The caller waits no longer than its limit, except for the one drop that is running, and the
/// remaining futures are dropped all the same.
#[test]
fn the_timeout_holds_while_futures_are_dropped() {
    watched("slow drops", || {
        const TASKS: usize = 20;
        let (gate, runtime) = (Arc::new(Gate::default()), runtime(2));
        let begun = Arc::new(AtomicUsize::new(0));
        for _ in 0..TASKS {
            let (slow, begun) = (Slow(Arc::clone(&gate)), Arc::clone(&begun));
            drop(runtime.spawn(async move {
                begun.fetch_add(1, SeqCst);
                pending::<()>().await;
                drop(slow);
            }));
        }
        until("all wait", || runtime.stats().tasks_waiting == TASKS);
        let error = runtime.shutdown(Duration::from_millis(10)).unwrap_err();
        assert!(error.to_string().contains("still being dropped"), "{error}");
        assert!(error.stuck().is_empty());
        *gate.open.lock().unwrap() = true;
        gate.changed.notify_all();
        until("the others are dropped", || {
            gate.waited.load(SeqCst) == TASKS && Arc::strong_count(&gate) == 1
        });
    });
}

/// A runtime that is ended by the first hook that finds it in the slot.
fn ends_in_a_hook(at_start: bool) -> (Runtime, mpsc::Sender<Runtime>, Arc<AtomicUsize>) {
    let (give, taken) = mpsc::channel::<Runtime>();
    let (taken, ended) = (Mutex::new(taken), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&ended);
    let hook = move || {
        // The second hook finds nothing any more.
        let Ok(runtime) = taken.lock().unwrap().recv() else {
            return;
        };
        // Without a time limit, it would wait for this very thread.
        runtime.shutdown(Duration::MAX).unwrap();
        count.fetch_add(1, SeqCst);
    };
    let mut builder = Builder::new();
    builder
        .workers(1)
        .blocking_keep_alive(Duration::from_millis(1));
    let builder = if at_start {
        builder.on_thread_start(hook)
    } else {
        builder.on_thread_stop(hook)
    };
    (builder.build().unwrap(), give, ended)
}

#[test]
fn a_runtime_ended_in_a_hook_of_its_own_does_not_wait_for_itself() {
    watched("start hook", || {
        // The worker itself stays in its hook until it is given the runtime.
        let (runtime, give, ended) = ends_in_a_hook(true);
        let task = runtime.spawn(pending::<()>());
        give.send(runtime).unwrap();
        drop(give);
        until("the runtime is ended", || ended.load(SeqCst) == 1);
        until("its tasks are dropped", || task.is_finished());
    });
    watched("stop hook", || {
        let (runtime, give, ended) = ends_in_a_hook(false);
        let task = runtime.spawn(pending::<()>());
        // The thread for this ends after it has been idle.
        drop(runtime.spawn_blocking(|| ()));
        give.send(runtime).unwrap();
        drop(give);
        until("the runtime is ended", || ended.load(SeqCst) == 1);
        until("its tasks are dropped", || task.is_finished());
    });
}
