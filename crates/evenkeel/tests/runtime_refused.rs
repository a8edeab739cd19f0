//! A task that is refused during shutdown is cancelled at once, also if the drop of one task waits
//! for another to end.

#[path = "support/hang.rs"]
mod hang;

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::task::JoinHandle;
use hang::{until, watched};

const LONG: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new().workers(1).build().unwrap()
}

fn ended() -> Handle {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    runtime.shutdown(LONG).unwrap();
    handle
}

/// Whether a task has ended as cancelled, so that a waiting task continues. It does not wait, so a
/// test that fails does not hang.
fn has_been_cancelled(mut task: JoinHandle<()>) -> bool {
    match Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.is_err_and(|error| error.is_cancelled()),
        Poll::Pending => false,
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Spawns a task when it is dropped, whose drop spawns another, and so on. Counts the tasks that
/// had ended when spawning them returned.
struct Spawns {
    handle: Handle,
    left: usize,
    dropped: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Spawns {
    fn new(handle: &Handle, left: usize) -> Self {
        Self {
            handle: handle.clone(),
            left,
            dropped: Arc::default(),
            ended: Arc::default(),
        }
    }
}

impl Drop for Spawns {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, SeqCst);
        if self.left == 0 {
            return;
        }
        let next = Self {
            handle: self.handle.clone(),
            left: self.left - 1,
            dropped: Arc::clone(&self.dropped),
            ended: Arc::clone(&self.ended),
        };
        let task = self.handle.spawn(async move { drop(next) });
        let ended = usize::from(has_been_cancelled(task));
        self.ended.fetch_add(ended, SeqCst);
    }
}

/// The drop of a refused task spawns another, which is refused as well, and waits for its end,
/// which no other thread would bring about.
#[test]
fn what_a_refused_task_spawns_has_ended_when_that_returns() {
    watched("spawned in a drop", || {
        const TASKS: usize = 10;
        let spawns = Spawns::new(&ended(), TASKS);
        let (dropped, ended) = (Arc::clone(&spawns.dropped), Arc::clone(&spawns.ended));
        drop(spawns);
        assert_eq!(dropped.load(SeqCst), TASKS + 1);
        assert_eq!(ended.load(SeqCst), TASKS);
    });
}

/// However many there are, they need not all fit on one stack.
#[test]
fn drops_that_spawn_drops_that_spawn_end_however_many_they_are() {
    watched("a chain of drops", || {
        const TASKS: usize = 20_000;
        let spawns = Spawns::new(&ended(), TASKS);
        let dropped = Arc::clone(&spawns.dropped);
        let small = thread::Builder::new().stack_size(256 << 10);
        let dropping = small.spawn(move || drop(spawns)).unwrap();
        dropping.join().unwrap();
        assert_eq!(dropped.load(SeqCst), TASKS + 1);
    });
}

/// The drop of a task that is woken during shutdown aborts another, which is waiting, and waits for
/// its end.
#[test]
fn what_a_refused_task_aborts_has_ended_when_that_returns() {
    watched("aborted in a drop", || {
        let runtime = runtime();
        // The first to be dropped: meanwhile shutdown reaches no other task.
        let (begins, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let slow = OnDrop(move || {
            begins.send(()).unwrap();
            let _ = released.recv();
        });
        let holds_up = runtime.spawn(async move {
            let _slow = slow;
            pending::<()>().await;
        });
        until("the first waits", || runtime.stats().tasks_waiting == 1);
        let mut child = Some(runtime.spawn(pending::<()>()));
        until("the child waits", || runtime.stats().tasks_waiting == 2);
        let (tell, told) = mpsc::channel();
        let guard = OnDrop(move || {
            let child = child.take().expect("it is dropped once");
            child.abort();
            tell.send(has_been_cancelled(child)).unwrap();
        });
        let (wake, woken) = tokio::sync::oneshot::channel::<()>();
        let waits = runtime.spawn(async move {
            let _guard = guard;
            drop(woken.await);
        });
        until("all wait", || runtime.stats().tasks_waiting == 3);
        let ending = thread::spawn(move || runtime.shutdown(LONG));
        begun.recv().unwrap();
        wake.send(()).unwrap();
        assert!(told.recv().unwrap(), "the child had not ended");
        assert!(has_been_cancelled(waits));
        drop(release);
        ending.join().unwrap().unwrap();
        assert!(has_been_cancelled(holds_up));
    });
}

/// A task that wakes another with a lock held when it is dropped, as the streams of a connection
/// of HTTP/2 do. The other one's drop takes the lock, too.
struct Locked {
    wakers: Arc<Mutex<[Option<Waker>; 2]>>,
    own: usize,
}

impl Future for Locked {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.wakers.lock().unwrap()[self.own] = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut wakers = self.wakers.lock().unwrap();
        wakers[self.own] = None;
        let other = wakers[1 - self.own].take();
        other.into_iter().for_each(Waker::wake);
    }
}

#[test]
fn a_task_that_is_woken_with_a_lock_held_is_dropped_without_it() {
    watched("a shutdown", || {
        for _ in 0..20 {
            let runtime = runtime();
            let wakers = Arc::new(Mutex::new([None, None]));
            let tasks = [0, 1].map(|own| {
                let wakers = Arc::clone(&wakers);
                runtime.spawn(Locked { wakers, own })
            });
            until("both wait", || {
                wakers.lock().unwrap().iter().all(Option::is_some)
            });
            runtime.shutdown(LONG).unwrap();
            for task in tasks {
                assert!(has_been_cancelled(task));
            }
            assert_eq!(Arc::strong_count(&wakers), 1);
        }
    });
}
