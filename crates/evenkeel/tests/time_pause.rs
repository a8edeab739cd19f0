//! Time that stands while anything can run, and jumps when all wait.

#[path = "support/hang.rs"]
mod hang;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use evenkeel::net::{Delivery, TcpListener, TcpStream, UnixStream};
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::{JoinSet, yield_now};
use evenkeel::time::{
    Instant, MissedTickBehavior, advance, interval, pause, resume, sleep, sleep_until, timeout,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn paused() -> Runtime {
    Builder::new().start_paused(true).build().unwrap()
}

/// A test that hangs is ended by a thread that no clock stops.
fn watched<R>(body: impl FnOnce() -> R) -> R {
    hang::watched(thread::current().name().unwrap_or_default(), body)
}

/// Runs a test on a runtime of its own.
fn run<F: Future>(test: F) -> F::Output {
    watched(|| paused().block_on(test))
}

/// The text of a panic.
fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).unwrap_err();
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[evenkeel::test(start_paused = true)]
async fn a_long_sleep_takes_no_time_and_is_exact() {
    let start = Instant::now();
    sleep(1_000_000 * HOUR).await;
    assert_eq!(start.elapsed(), 1_000_000 * HOUR);
    evenkeel::spawn(sleep(HOUR)).await.unwrap();
    assert_eq!(start.elapsed(), 1_000_001 * HOUR);
}

#[test]
fn tasks_wake_at_their_times_in_order() {
    run(async {
        let start = Instant::now();
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for task in 0..200_u64 {
            let woken = Arc::clone(&woken);
            drop(tasks.spawn(async move {
                for round in 0..5 {
                    let length = (task * 7_919 + round * 104_729) % 100_000;
                    let due = Instant::now() + MS * length as u32;
                    sleep_until(due).await;
                    assert_eq!(Instant::now(), due, "not a tick late");
                    woken.lock().unwrap().push(due);
                }
            }));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let woken = woken.lock().unwrap();
        assert_eq!(woken.len(), 1_000);
        assert!(woken.is_sorted());
        assert_eq!(*woken.last().unwrap(), Instant::now());
        assert!(start.elapsed() > 100 * SECOND);
    });
}

#[test]
fn time_stands_while_a_task_runs() {
    run(async {
        let start = Instant::now();
        let sleeper = evenkeel::spawn(sleep(MS));
        let runner = evenkeel::spawn(async move {
            for _ in 0..10_000 {
                yield_now().await;
            }
            // One that blocks its thread, too.
            thread::sleep(20 * MS);
            yield_now().await;
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
        runner.await.unwrap();
        assert!(!sleeper.is_finished());
        sleeper.await.unwrap();
        assert_eq!(start.elapsed(), MS);
    });
}

#[test]
fn time_stands_while_a_thread_in_block_on_runs() {
    run(async {
        let start = Instant::now();
        let sleeper = evenkeel::spawn(sleep(MS));
        for _ in 0..10 {
            thread::sleep(3 * MS);
            yield_now().await;
        }
        assert!(!sleeper.is_finished());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn time_stands_while_anybody_is_about_to_wake() {
    run(async {
        let start = Instant::now();
        let (ping, mut pinged) = mpsc::channel(1);
        let (pong, mut ponged) = mpsc::channel(1);
        let echo = evenkeel::spawn(async move {
            while let Some(number) = pinged.recv().await {
                pong.send(number).await.unwrap();
            }
        });
        for round in 0..2_000 {
            ping.send(round).await.unwrap();
            let answer = timeout(MS, ponged.recv()).await;
            assert_eq!(answer, Ok(Some(round)));
        }
        drop(ping);
        timeout(MS, echo).await.unwrap().unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn time_stands_while_blocking_work_is_under_way() {
    run(async {
        let start = Instant::now();
        for _ in 0..20 {
            let work = evenkeel::spawn_blocking(|| thread::sleep(3 * MS));
            timeout(MS, work).await.expect("time stands").unwrap();
        }
        // More than there are threads at first, queued.
        let mut works: Vec<_> = (0..50)
            .map(|_| evenkeel::spawn_blocking(|| thread::sleep(MS)))
            .collect();
        let task = evenkeel::spawn(async move {
            for work in works.drain(..) {
                timeout(MS, work).await.expect("time stands").unwrap();
            }
        });
        task.await.unwrap();
        let program = std::env::current_exe().unwrap();
        let bytes = timeout(MS, evenkeel::fs::read(program)).await;
        assert!(!bytes.expect("time stands").unwrap().is_empty());
        let address = timeout(MS, evenkeel::net::lookup_host("localhost:80")).await;
        drop(address.expect("time stands"));
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleep(MS).await;
        assert_eq!(start.elapsed(), MS, "and goes on behind it");
    });
}

#[test]
fn work_that_is_cancelled_or_refused_does_not_hold_time() {
    watched(|| {
        let runtime = Builder::new()
            .start_paused(true)
            .max_blocking_threads(1)
            .blocking_queue_limit(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (hold, held) = std::sync::mpsc::channel::<()>();
            let (tell, told) = tokio::sync::oneshot::channel();
            let running = evenkeel::spawn_blocking(move || {
                tell.send(()).unwrap();
                held.recv()
            });
            told.await.unwrap();
            let queued = evenkeel::spawn_blocking(|| ());
            let refused = evenkeel::spawn_blocking(|| ());
            assert!(refused.await.unwrap_err().is_refused());
            queued.abort();
            assert!(queued.await.unwrap_err().is_cancelled());
            drop(hold);
            running.await.unwrap().unwrap_err();
            sleep(HOUR).await;
        });
    });
}

#[test]
fn time_stands_while_a_descriptor_has_an_event() {
    run(async {
        let start = Instant::now();
        // Bytes are at the other end of such a pair as soon as they are sent.
        let (mut client, mut stream) = UnixStream::pair().unwrap();
        let server = evenkeel::spawn(async move {
            let mut buffer = [0; 4];
            while stream.read_exact(&mut buffer).await.is_ok() {
                stream.write_all(&buffer).await.unwrap();
            }
        });
        for round in 0..500_u32 {
            let sent = round.to_le_bytes();
            client.write_all(&sent).await.unwrap();
            let mut buffer = [0; 4];
            let read = timeout(MS, client.read_exact(&mut buffer)).await;
            read.expect("time stands").unwrap();
            assert_eq!(buffer, sent);
        }
        drop(client);
        server.await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_reader_that_is_held_back_gets_its_data_by_a_jump() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (mut reader, _) = listener.accept().await.unwrap();
        let delay = 100 * MS;
        reader
            .set_delivery(Delivery::Coalesce {
                delay,
                bytes: 1 << 20,
            })
            .unwrap();
        let start = Instant::now();
        for round in 1..=5 {
            let reading = evenkeel::spawn(async move {
                reader.read_u8().await.unwrap();
                reader
            });
            yield_now().await;
            sender.write_all(&[1]).await.unwrap();
            reader = reading.await.unwrap();
            assert!(start.elapsed() <= round * (delay + MS));
        }
    });
}

#[test]
fn intervals_and_timeouts_go_by_it() {
    run(async {
        let start = Instant::now();
        let mut ticks = interval(10 * SECOND);
        for tick in 0..100 {
            assert_eq!(ticks.tick().await, start + tick * 10 * SECOND);
            assert_eq!(Instant::now(), start + tick * 10 * SECOND);
        }
        let began = Instant::now();
        timeout(5 * SECOND, std::future::pending::<()>())
            .await
            .unwrap_err();
        assert_eq!(began.elapsed(), 5 * SECOND);
    });
}

#[test]
fn advancing_runs_what_is_due_and_no_more() {
    run(async {
        // The tasks have not begun when this advances; all the same their sleeps begin before.
        let early = evenkeel::spawn(sleep(SECOND));
        let late = evenkeel::spawn(async {
            sleep(SECOND).await;
            sleep(SECOND).await;
            yield_now().await;
        });
        let start = Instant::now();
        advance(SECOND - MS).await;
        assert_eq!(start.elapsed(), SECOND - MS);
        assert!(!early.is_finished());
        advance(MS).await;
        assert!(early.is_finished() && !late.is_finished());
        advance(SECOND).await;
        assert!(late.is_finished());
        assert_eq!(start.elapsed(), 2 * SECOND);
        // From a task.
        evenkeel::spawn(advance(HOUR)).await.unwrap();
        assert_eq!(start.elapsed(), 2 * SECOND + HOUR);
    });
}

#[test]
fn an_interval_misses_ticks_in_one_jump() {
    run(async {
        for (behavior, due) in [
            (MissedTickBehavior::Burst, 2 * SECOND),
            (MissedTickBehavior::Skip, 11 * SECOND),
        ] {
            let start = Instant::now();
            let mut ticks = interval(SECOND);
            ticks.set_missed_tick_behavior(behavior);
            ticks.tick().await;
            advance(10 * SECOND).await;
            ticks.tick().await;
            assert_eq!(ticks.tick().await, start + due);
        }
    });
}

#[test]
fn it_can_be_resumed_and_paused_again() {
    run(async {
        resume();
        let (start, began) = (Instant::now(), std::time::Instant::now());
        sleep(5 * MS).await;
        assert!(began.elapsed() >= 5 * MS, "it goes at the system's pace");
        assert!(start.elapsed() >= 5 * MS);
        // A sleep that is under way is cut short by a pause.
        let sleeper = evenkeel::spawn(sleep(HOUR));
        yield_now().await;
        pause();
        sleeper.await.unwrap();
        assert!(start.elapsed() >= HOUR);
    });
}

#[test]
fn outside_of_block_on_it_stands() {
    watched(|| {
        let runtime = paused();
        let task = runtime.spawn(sleep(MS));
        thread::sleep(30 * MS);
        assert!(!task.is_finished());
        runtime.block_on(task).unwrap();
    });
}

#[test]
fn several_threads_wait_for_one_time() {
    watched(|| {
        let runtime = paused();
        let start = runtime.block_on(async { Instant::now() });
        // All are inside before the first waits.
        let inside = std::sync::Barrier::new(3);
        thread::scope(|scope| {
            for step in [1, 2, 5] {
                let (runtime, inside) = (&runtime, &inside);
                scope.spawn(move || {
                    runtime.block_on(async {
                        inside.wait();
                        for round in 1..=20 / step {
                            sleep(step * SECOND).await;
                            assert_eq!(start.elapsed(), round * step * SECOND);
                        }
                    });
                });
            }
        });
    });
}

/// The waker outlives its `block_on`.
#[test]
fn a_late_wake_up_counts_for_nothing() {
    watched(|| {
        let runtime = paused();
        let kept = Arc::new(Mutex::new(None));
        runtime.block_on(std::future::poll_fn(|cx| {
            *kept.lock().unwrap() = Some(cx.waker().clone());
            cx.waker().wake_by_ref();
            std::task::Poll::Ready(())
        }));
        let waker = kept.lock().unwrap().take().unwrap();
        for _ in 0..3 {
            waker.wake_by_ref();
        }
        runtime.block_on(sleep(HOUR));
    });
}

#[test]
fn a_panic_in_block_on_does_not_hold_time() {
    watched(|| {
        let runtime = paused();
        assert_eq!(
            panic_of(|| runtime.block_on(async { panic!("of the test") })),
            "of the test"
        );
        runtime.block_on(sleep(HOUR));
    });
}

#[test]
fn a_jump_makes_no_hog() {
    watched(|| {
        let runtime = paused();
        let task = runtime.spawn(async {
            for _ in 0..10 {
                sleep(HOUR).await;
                thread::sleep(5 * MS);
            }
        });
        runtime.block_on(task).unwrap();
        let stats = runtime.stats();
        assert!(stats.hogs.is_empty(), "{:?}", stats.hogs);
        assert_eq!(stats.heavy.hand_offs, 0);
        for worker in &stats.workers {
            assert!(worker.wall < HOUR, "the accounts are of the system's time");
        }
    });
}

#[test]
fn a_runtime_ends_while_time_stands() {
    watched(|| {
        let runtime = paused();
        for _ in 0..10 {
            drop(runtime.spawn(sleep(HOUR)));
        }
        runtime.block_on(yield_now());
        runtime.shutdown(Duration::from_secs(60)).unwrap();
    });
}

#[test]
fn mistakes_are_told_what_is_right() {
    let error = Builder::new()
        .workers(2)
        .start_paused(true)
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("use one"), "{error}");
    Builder::new()
        .workers(1)
        .start_paused(true)
        .build()
        .unwrap();

    let ordinary = Runtime::new().unwrap();
    for mistake in [|| pause(), || resume()] {
        let text = panic_of(|| ordinary.block_on(async { mistake() }));
        assert!(
            text.contains("#[evenkeel::test(start_paused = true)]"),
            "{text}"
        );
    }
    let text = panic_of(pause);
    assert!(text.contains("no evenkeel runtime"), "{text}");

    let runtime = paused();
    let text = panic_of(|| runtime.block_on(async { pause() }));
    assert!(text.contains("paused already"), "{text}");
    runtime.block_on(async { resume() });
    let text = panic_of(|| runtime.block_on(async { resume() }));
    assert!(text.contains("is not paused"), "{text}");
    let text = panic_of(|| runtime.block_on(advance(SECOND)));
    assert!(text.contains("cannot be advanced"), "{text}");
    let text = panic_of(|| paused().block_on(advance(Duration::MAX)));
    assert!(text.contains("some hundred years"), "{text}");
}
