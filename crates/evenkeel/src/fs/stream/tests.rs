//! Pumps and the tasks that wait for them, step by step.

use std::task::Waker;

use super::*;
use crate::runtime::{Builder, Runtime};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::thread;
use crate::sys::touchy::touchy_wakers;

#[derive(Default)]
struct Idle {
    woken: crate::sync::atomic::AtomicBool,
}

impl Idle {
    fn waker(self: &std::sync::Arc<Self>) -> Waker {
        Waker::from(std::sync::Arc::clone(self))
    }

    fn is_woken(&self) -> bool {
        self.woken.load(crate::sync::atomic::Ordering::SeqCst)
    }
}

impl std::task::Wake for Idle {
    fn wake(self: std::sync::Arc<Self>) {
        self.woken
            .store(true, crate::sync::atomic::Ordering::SeqCst);
    }
}

/// As after `tokio::io::split`.
#[test]
fn a_reader_and_a_writer_may_wait_at_once() {
    let path = std::env::temp_dir().join(format!("evenkeel-halves-{}", std::process::id()));
    Runtime::new().unwrap().block_on(async {
        let mut file = File::create(&path).await.unwrap();
        file.pipe.lock().pumping = true;
        let tasks: [_; 3] = std::array::from_fn(|_| std::sync::Arc::new(Idle::default()));
        let wakers = tasks.each_ref().map(Idle::waker);
        let [mut reads, mut writes, mut settles] = wakers.each_ref().map(Context::from_waker);
        let mut memory = [0];
        let mut buffer = ReadBuf::new(&mut memory);
        let read = Pin::new(&mut file).poll_read(&mut reads, &mut buffer);
        let written = Pin::new(&mut file).poll_write(&mut writes, b"x");
        let mut synced = std::pin::pin!(file.sync_data());
        let synced = synced.as_mut().poll(&mut settles);
        assert!(read.is_pending() && written.is_pending() && synced.is_pending());
        Pump::start(&file.inner, &file.pipe, Direction::Write, false);
        while file.pipe.lock().pumping || !tasks.iter().all(|task| task.is_woken()) {
            thread::yield_now();
        }
        std::fs::remove_file(&path).unwrap();
    });
}

/// Otherwise a file whose device hangs would keep every task that tried.
#[test]
fn a_dropped_wait_for_a_pump_leaves_nothing() {
    let path = std::env::temp_dir().join(format!("evenkeel-forget-{}", std::process::id()));
    Runtime::new().unwrap().block_on(async {
        let mut file = File::create(&path).await.unwrap();
        file.pipe.lock().pumping = true;
        let tasks: Vec<_> = (0..100)
            .map(|_| std::sync::Arc::new(Idle::default()))
            .collect();
        for task in &tasks {
            let waker = task.waker();
            let mut cx = Context::from_waker(&waker);
            assert!(Pin::new(&mut file).poll_flush(&mut cx).is_pending());
            let mut synced = std::pin::pin!(file.sync_data());
            assert!(synced.as_mut().poll(&mut cx).is_pending());
            assert!(synced.as_mut().poll(&mut cx).is_pending());
        }
        let kept = |task: &&_| std::sync::Arc::strong_count(task) > 1;
        assert_eq!(
            tasks.iter().filter(kept).count(),
            1,
            "the one that may wait still"
        );
        file.pipe.lock().pumping = false;
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn bytes_are_written_if_the_pump_ends_during_an_empty_write() {
    let path = std::env::temp_dir().join(format!("evenkeel-nothing-{}", std::process::id()));
    Runtime::new().unwrap().block_on(async {
        let file = File::create(&path).await.unwrap();
        {
            let mut pipe = file.pipe.lock();
            (pipe.pumping, pipe.writing) = (true, true);
            pipe.pending = b"taken over".to_vec();
        }
        // Used first for its length, and then while the pending bytes are out of the pipe.
        let looks = Cell::new(0);
        let nothing = std::iter::once_with(|| {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                Pump::start(&file.inner, &file.pipe, Direction::Write, false);
                while file.pipe.lock().pumping {
                    thread::yield_now();
                }
            }
            &[][..]
        });
        let mut cx = Context::from_waker(Waker::noop());
        let taken = file.poll_take_over(&mut cx, nothing);
        assert!(matches!(taken, Poll::Ready(Ok(0))), "{taken:?}");
        assert_eq!(looks.get(), 2);
        file.settle().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"taken over");
        std::fs::remove_file(&path).unwrap();
    });
}

/// The task that polled the seek last may give up.
#[test]
fn a_seek_wakes_all_waiting_tasks() {
    let path = std::env::temp_dir().join(format!("evenkeel-sought-{}", std::process::id()));
    Runtime::new().unwrap().block_on(async {
        let file = File::create(&path).await.unwrap();
        let tasks: [_; 2] = std::array::from_fn(|_| std::sync::Arc::new(Idle::default()));
        let wakers = tasks.each_ref().map(Idle::waker);
        let [mut reads, mut writes] = wakers.each_ref().map(Context::from_waker);
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let seeking = in_lane("held", file.inner.data_lane(), file.inner.handle(), {
            let tells = Sought(Arc::clone(&file.pipe));
            move || {
                let _tells = tells;
                let _ = held.recv();
                Ok(7)
            }
        });
        file.pipe.lock().seeking = Some(seeking);
        assert!(file.poll_seek(Waiter::Reader, &mut reads).is_pending());
        assert!(file.poll_seek(Waiter::Writer, &mut writes).is_pending());
        drop(hold);
        while !tasks.iter().all(|task| task.is_woken()) {
            thread::yield_now();
        }
        let position = poll_fn(|cx| file.poll_seek(Waiter::Reader, cx)).await;
        assert_eq!(position.unwrap(), 7);
        std::fs::remove_file(&path).unwrap();
    });
}

/// When the lane ends under a pump that has written for long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// In the pump's last round.
    InTheLastRound,
    /// When the pump has yielded its thread, and waits to go on.
    BeforeTheNextPump,
}

/// Writes a byte whenever it is woken, and ends the lane.
struct Feeder {
    file: Mutex<Option<File>>,
    ends: Ends,
    accepted: AtomicUsize,
    refused: AtomicBool,
}

impl Feeder {
    fn new(ends: Ends) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self {
            file: Mutex::new(None),
            ends,
            accepted: AtomicUsize::new(1),
            refused: AtomicBool::new(false),
        })
    }

    fn end(&self, inner: &Arc<Inner>) {
        let close = {
            let inner = Arc::clone(inner);
            move || inner.data_lane().close(inner.handle().shared())
        };
        match (self.ends, self.accepted.load(Ordering::SeqCst)) {
            (Ends::InTheLastRound, ROUNDS_MAX) => close(),
            // Queued before the pump that is to go on; the lane has one thread.
            (Ends::BeforeTheNextPump, 1) => {
                let (lane, shared) = (inner.data_lane(), inner.handle().shared());
                let work = new_work(lane, called_from(), None, close);
                drop(InLane::new(lane, shared, work, Keep::Begun));
            }
            _ => {}
        }
    }
}

impl std::task::Wake for Feeder {
    fn wake(self: std::sync::Arc<Self>) {
        let Some(mut file) = self.file.try_lock() else {
            return;
        };
        let Some(file) = file.as_mut() else { return };
        self.end(&file.inner);
        let waker = Waker::from(std::sync::Arc::clone(&self));
        let mut cx = Context::from_waker(&waker);
        match Pin::new(&mut *file).poll_write(&mut cx, b"x") {
            Poll::Pending => {}
            Poll::Ready(Err(_)) => self.refused.store(true, Ordering::SeqCst),
            Poll::Ready(Ok(count)) => {
                self.accepted.fetch_add(count, Ordering::SeqCst);
                assert!(Pin::new(file).poll_flush(&mut cx).is_pending());
            }
        }
    }
}

fn all_is_written_though_the_lane(ends: Ends, name: &str) {
    let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
    let runtime = Builder::new().disk_threads(1).build().unwrap();
    runtime.block_on(async {
        let mut file = File::create(&path).await.unwrap();
        let feeder = Feeder::new(ends);
        let (inner, pipe) = (Arc::clone(&file.inner), Arc::clone(&file.pipe));
        {
            let mut pipe = pipe.lock();
            (pipe.pumping, pipe.writing) = (true, true);
            pipe.pending = b"x".to_vec();
        }
        let waker = Waker::from(std::sync::Arc::clone(&feeder));
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut file).poll_flush(&mut cx).is_pending());
        *feeder.file.lock() = Some(file);
        Pump::start(&inner, &pipe, Direction::Write, false);
        while pipe.lock().pumping {
            thread::yield_now();
        }
        let accepted = feeder.accepted.load(Ordering::SeqCst);
        let written = std::fs::read(&path).unwrap();
        assert!(accepted > ROUNDS_MAX);
        assert_eq!(written, vec![b'x'; accepted]);
        while !feeder.refused.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        assert_eq!(feeder.accepted.load(Ordering::SeqCst), accepted);
        drop(feeder.file.lock().take());
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn what_was_taken_over_is_written_though_the_lane_closes_under_a_long_writer() {
    all_is_written_though_the_lane(Ends::InTheLastRound, "long");
}

#[test]
fn what_was_taken_over_is_written_though_the_lane_closes_before_a_long_writer_goes_on() {
    all_is_written_though_the_lane(Ends::BeforeTheNextPump, "goes-on");
}

/// Either may run any code, such as a look at the same file.
#[test]
fn no_waker_is_cloned_or_dropped_under_the_lock_of_a_file() {
    let path = std::env::temp_dir().join(format!("evenkeel-touchy-{}", std::process::id()));
    Runtime::new().unwrap().block_on(async {
        let mut file = File::create(&path).await.unwrap();
        let pipe = Arc::clone(&file.pipe);
        let (wakers, misplaced) = touchy_wakers::<3>(move || pipe.try_lock().is_some());
        let mut memory = [0];
        // Different wakers than before, so that the former are dropped.
        file.pipe.lock().pumping = true;
        for waker in &wakers {
            let mut cx = Context::from_waker(waker);
            let mut buffer = ReadBuf::new(&mut memory);
            let read = Pin::new(&mut file).poll_read(&mut cx, &mut buffer);
            let written = Pin::new(&mut file).poll_write(&mut cx, b"x");
            let flushed = Pin::new(&mut file).poll_flush(&mut cx);
            assert!(read.is_pending() && written.is_pending() && flushed.is_pending());
        }
        {
            let mut synced = std::pin::pin!(file.sync_data());
            for waker in &wakers {
                let polled = synced.as_mut().poll(&mut Context::from_waker(waker));
                assert!(polled.is_pending());
            }
        }
        assert_eq!(misplaced.load(Ordering::SeqCst), 0, "while a pump runs");
        // As if the pump were being cancelled.
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (lane, handle) = (file.inner.data_lane(), file.inner.handle());
        let pump = in_lane("held", lane, handle, move || _ = held.recv());
        {
            let mut pipe = file.pipe.lock();
            (pipe.pumping, pipe.stopped, pipe.pump) = (false, true, Some(pump));
        }
        for waker in &wakers {
            let mut cx = Context::from_waker(waker);
            assert!(Pin::new(&mut file).poll_flush(&mut cx).is_pending());
        }
        while file.inner.data_lane().running().is_empty() {
            thread::yield_now();
        }
        drop(hold);
        // Until its thread no longer touches wakers.
        while !file.inner.data_lane().running().is_empty() {
            thread::yield_now();
        }
        let mut cx = Context::from_waker(&wakers[0]);
        assert!(Pin::new(&mut file).poll_flush(&mut cx).is_ready());
        assert_eq!(misplaced.load(Ordering::SeqCst), 0, "when one has stopped");
        std::fs::remove_file(&path).unwrap();
    });
}
