//! Pumps, and who waits for them, step by step.

use std::task::Waker;

use super::*;
use crate::runtime::Runtime;
use crate::sync::thread;

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

/// As by `tokio::io::split`.
#[test]
fn one_who_reads_and_one_who_writes_may_wait_at_a_time() {
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
        Pump::start(&file.inner, &file.pipe, Direction::Write);
        while file.pipe.lock().pumping || !tasks.iter().all(|task| task.is_woken()) {
            thread::yield_now();
        }
        std::fs::remove_file(&path).unwrap();
    });
}

/// Else a file whose device hangs would keep a task for each that tried.
#[test]
fn those_who_give_up_waiting_for_a_pump_are_forgotten() {
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
fn what_was_taken_over_is_written_though_the_pump_ends_during_a_write_of_nothing() {
    let path = std::env::temp_dir().join(format!("evenkeel-nothing-{}", std::process::id()));
    Runtime::new().unwrap().block_on(async {
        let file = File::create(&path).await.unwrap();
        {
            let mut pipe = file.pipe.lock();
            (pipe.pumping, pipe.writing) = (true, true);
            pipe.pending = b"taken over".to_vec();
        }
        // Looked at for its length first, and then while what is pending is out of the pipe.
        let looks = Cell::new(0);
        let nothing = std::iter::once_with(|| {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                Pump::start(&file.inner, &file.pipe, Direction::Write);
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

/// The last who asked for the outcome of a seek may give up.
#[test]
fn all_who_wait_for_a_seek_hear_of_its_end() {
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
