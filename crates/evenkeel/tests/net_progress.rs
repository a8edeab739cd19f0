//! A task that yields to others still makes progress.

mod support;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::{Builder, Handle};
use support::within;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

/// Longer than a task may run before it has to yield, and not so long that it hogs.
const COMPUTES: Duration = Duration::from_micros(400);

fn compute() {
    let start = Instant::now();
    while start.elapsed() < COMPUTES {
        std::hint::spin_loop();
    }
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    (client, listener.accept().await.unwrap().0)
}

#[evenkeel::test(workers = 1)]
async fn a_future_that_computes_before_it_reads_reads() {
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    client.write_all(b"!").await.unwrap();
    let reading = evenkeel::spawn(poll_fn(move |cx| {
        // Repeated at each poll, as by a future that prepares its buffer first.
        compute();
        let mut byte = [0];
        Pin::new(&mut server)
            .poll_read(cx, &mut ReadBuf::new(&mut byte))
            .map_ok(|()| byte)
    }));
    assert_eq!(within(reading).await.unwrap().unwrap(), *b"!");
}

/// The same in the heavy pool, where such a long poll belongs.
#[evenkeel::test(workers = 1)]
async fn a_hog_that_computes_before_it_reads_reads() {
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    client.write_all(b"!").await.unwrap();
    let (mut handed_off, mut polls) = (false, 0);
    let reading = evenkeel::spawn(poll_fn(move |cx| {
        polls += 1;
        while !handed_off {
            handed_off = Handle::current().stats().heavy.hand_offs > 0;
            compute();
        }
        compute();
        let mut byte = [0];
        Pin::new(&mut server)
            .poll_read(cx, &mut ReadBuf::new(&mut byte))
            .map_ok(|()| (byte, polls))
    }));
    let (byte, polls) = within(reading).await.unwrap().unwrap();
    assert_eq!(byte, *b"!");
    // Handed off and asked to yield in the first, and perhaps unaware of the byte in the second.
    assert!(polls <= 3, "{polls} polls");
}

#[evenkeel::test(workers = 1)]
async fn a_future_that_computes_between_two_waits_gets_to_the_second() {
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    let (_silent_client, mut silent) = connected().await;
    client.write_all(b"!").await.unwrap();
    let reading = evenkeel::spawn(poll_fn(move |cx| {
        // As in a `select`: the first branch waits, the second computes, and the third is ready.
        let mut byte = [0];
        let first = Pin::new(&mut silent).poll_read(cx, &mut ReadBuf::new(&mut byte));
        assert!(first.is_pending());
        compute();
        let second = Pin::new(&mut server).poll_read(cx, &mut ReadBuf::new(&mut byte));
        match second {
            Poll::Ready(result) => Poll::Ready(result.map(|()| byte)),
            Poll::Pending => Poll::Pending,
        }
    }));
    assert_eq!(within(reading).await.unwrap().unwrap(), *b"!");
}

/// Two futures in one task, of which the first always has something to do and computes for longer
/// than a slice each time.
#[evenkeel::test(workers = 1)]
async fn one_half_of_a_task_that_computes_leaves_the_other_its_turn() {
    const ROUNDS: usize = 100;
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    client.write_all(b"!").await.unwrap();
    let both = evenkeel::spawn(async move {
        let mut busy = pin!(async {
            for _ in 0..ROUNDS {
                evenkeel::task::checkpoint().await;
                compute();
            }
        });
        let mut busy_ends = false;
        poll_fn(|cx| {
            busy_ends = busy_ends || busy.as_mut().poll(cx).is_ready();
            let mut byte = [0];
            let read = Pin::new(&mut server).poll_read(cx, &mut ReadBuf::new(&mut byte));
            match read {
                Poll::Ready(result) => Poll::Ready(result.map(|()| busy_ends)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    });
    let busy_ended = within(both).await.unwrap().unwrap();
    assert!(!busy_ended, "the other half did not run in {ROUNDS} rounds");
}

/// A future that was once asked to yield may go on until it has made progress, and no longer.
#[evenkeel::test(workers = 1)]
async fn a_task_that_was_cut_short_gives_way_again() {
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    client.write_all(b"!!").await.unwrap();
    let (go, gone) = tokio::sync::oneshot::channel();
    let mut reading = Box::pin(async move {
        compute();
        assert_eq!(server.read_u8().await.unwrap(), b'!');
        gone.await.unwrap();
        compute();
        server.read_u8().await.unwrap()
    });
    let (polled, polls) = std::sync::mpsc::channel();
    let reading = evenkeel::spawn(poll_fn(move |cx| {
        let result = reading.as_mut().poll(cx);
        polled.send(()).unwrap();
        result
    }));
    // Asked to yield in the first poll, it has read in the second, and waits.
    let mut count = 0;
    while count < 2 {
        evenkeel::time::sleep(Duration::from_millis(1)).await;
        count += polls.try_iter().count();
    }
    assert_eq!(count, 2);
    go.send(()).unwrap();
    assert_eq!(within(reading).await.unwrap(), b'!');
    // On a thread that has lost its seat, the slice begins again once in each poll.
    let heavy = evenkeel::runtime::Handle::current().stats().heavy;
    if heavy.hand_offs == 0 {
        assert_eq!(count + polls.try_iter().count(), 4);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread on a future, as other crates' executors do. Also returns the number of polls.
fn block_here<F: Future>(future: F) -> (F::Output, usize) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    for polls in 1..=100_000 {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return (output, polls),
            Poll::Pending => thread::park(),
        }
    }
    panic!("it is told to come again, and again");
}

/// A task whose slice is used up blocks its thread on a socket and on a timer, so the poll in which
/// these would ask it to yield does not end before they are ready.
#[evenkeel::test(workers = 1)]
async fn a_task_that_blocks_on_what_has_it_give_way_gets_on() {
    const ROUNDS: usize = 3;
    support::watch_descriptors();
    let (mut client, mut server) = connected().await;
    let (waits, mut waiting) = tokio::sync::mpsc::unbounded_channel();
    let reading = evenkeel::spawn(async move {
        (0..ROUNDS).fold(0, |polls, _| {
            compute();
            waits.send(()).unwrap();
            let (byte, first) = block_here(server.read_u8());
            assert_eq!(byte.unwrap(), b'!');
            compute();
            let ((), second) = block_here(evenkeel::time::sleep(COMPUTES));
            polls + first + second
        })
    });
    let writing = async {
        while let Some(()) = waiting.recv().await {
            evenkeel::time::sleep(COMPUTES).await;
            client.write_all(b"!").await.unwrap();
        }
    };
    let (polls, ()) = within(async { tokio::join!(reading, writing) }).await;
    let polls = polls.unwrap();
    assert!(polls <= ROUNDS * 2 * 2_000, "{polls} polls");
}

/// Many futures in one task, each of which always has something to do. A task that is asked so
/// often to yield in one poll is taken for one that blocks, and yet the poll ends.
#[test]
fn a_task_of_very_many_futures_gives_way() {
    // A poll that did not end would keep the only worker.
    let mut builder = Builder::new();
    let runtime = builder.workers(1).hand_off_after(None).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, polls) = (Arc::clone(&stop), Arc::new(AtomicUsize::new(0)));
    let of_others = Arc::clone(&polls);
    let busy = runtime.spawn(async move {
        let mut busy: Vec<_> = (0..3_000)
            .map(|_| {
                let stopped = &stopped;
                Box::pin(async move {
                    while !stopped.load(SeqCst) {
                        evenkeel::task::checkpoint().await;
                    }
                })
            })
            .collect();
        poll_fn(|cx| {
            // Futures that are ready are not polled again.
            busy.retain_mut(|future| future.as_mut().poll(cx).is_pending());
            if busy.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
    let other = runtime.spawn(async move {
        for _ in 0..10 {
            of_others.fetch_add(1, SeqCst);
            evenkeel::task::yield_now().await;
        }
        stop.store(true, SeqCst);
    });
    runtime.block_on(within(other)).unwrap();
    runtime.block_on(within(busy)).unwrap();
    assert_eq!(polls.load(SeqCst), 10);
}
