//! Descriptors that move from worker to worker, and those that do not.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::net::{TcpListener, UnixStream};
use crate::runtime::Builder;
use crate::sched::context;
use crate::sched::placement::Level;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, thread};

const WORKERS: usize = 3;
const PAIRS: usize = 32;
/// In how many steps each worker is to have descriptors.
const STEPS: usize = 100;

async fn give(stream: &UnixStream) {
    while stream.try_write(&[0]).is_err() {
        stream.writable().await.unwrap();
    }
}

/// Returns false at the end of the stream.
async fn take(stream: &UnixStream) -> bool {
    loop {
        match stream.try_read(&mut [0]) {
            Ok(count) => return count == 1,
            Err(_) => stream.readable().await.unwrap(),
        }
    }
}

async fn ping(stream: UnixStream, done: Arc<AtomicBool>) {
    while !done.load(Ordering::Relaxed) {
        give(&stream).await;
        assert!(take(&stream).await);
    }
}

async fn pong(stream: UnixStream) {
    while take(&stream).await {
        give(&stream).await;
    }
}

/// Descriptors are driven from worker to worker while bytes pass. If an event is lost, or no
/// descriptor moves, the test does not end.
#[test]
fn descriptors_that_move_lose_no_event_and_leave_nothing() {
    let runtime = Builder::new().workers(WORKERS).build().unwrap();
    let shared = Arc::clone(runtime.handle().shared());
    let done = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..PAIRS)
        .flat_map(|_| {
            let (one, other) = runtime.block_on(async { UnixStream::pair().unwrap() });
            let pings = runtime.spawn(ping(one, Arc::clone(&done)));
            [pings, runtime.spawn(pong(other))]
        })
        .collect();
    let levels = [Level::Overloaded, Level::Ordinary, Level::Roomy];
    let mut had_some = [0; WORKERS];
    for step in 0.. {
        if had_some.iter().all(|&steps| steps >= STEPS) {
            break;
        }
        for (worker, steps) in had_some.iter_mut().enumerate() {
            *steps += usize::from(shared.driver(worker).descriptors() > 0);
            let level = levels[(step / 3_usize.pow(worker as u32)) % 3];
            shared.placement.note(worker, level, u64::MAX / 2);
        }
        thread::sleep(Duration::from_micros(50));
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    let left: usize = (0..WORKERS).map(|at| shared.driver(at).descriptors()).sum();
    assert_eq!(left, 0);
}

const MOVED: usize = 1 << 20;
const ROUNDS: usize = 40;

/// Writes more than the buffers take, so that it waits for room.
async fn fill(stream: &UnixStream) {
    let bytes = vec![0; MOVED];
    let mut written = 0;
    while written < MOVED {
        match stream.try_write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(_) => stream.writable().await.unwrap(),
        }
    }
}

async fn drain(stream: &UnixStream) {
    let mut bytes = vec![0; MOVED];
    let mut read = 0;
    while read < MOVED {
        match stream.try_read(&mut bytes) {
            Ok(count) => read += count,
            Err(_) => stream.readable().await.unwrap(),
        }
    }
}

/// Both sides read first, so that writing is added later, while the descriptors are driven from
/// worker to worker. If room is not heard of, the test does not end.
#[test]
fn writers_on_descriptors_that_move_hear_of_room() {
    let runtime = Builder::new().workers(WORKERS).build().unwrap();
    let shared = Arc::clone(runtime.handle().shared());
    let tasks: Vec<_> = (0..WORKERS * 2)
        .map(|_| {
            runtime.spawn(async {
                for _ in 0..ROUNDS {
                    let (one, other) = UnixStream::pair().unwrap();
                    let (one, other) = (Arc::new(one), Arc::new(other));
                    let sides = [Arc::clone(&one), Arc::clone(&other)];
                    let readers = sides.map(|side| crate::spawn(async move { drain(&side).await }));
                    crate::task::yield_now().await;
                    let writers =
                        [one, other].map(|side| crate::spawn(async move { fill(&side).await }));
                    for task in readers.into_iter().chain(writers) {
                        task.await.unwrap();
                    }
                }
            })
        })
        .collect();
    let levels = [Level::Overloaded, Level::Ordinary, Level::Roomy];
    for step in 0.. {
        if tasks.iter().all(|task| task.is_finished()) {
            break;
        }
        for worker in 0..WORKERS {
            let level = levels[(step / 3_usize.pow(worker as u32)) % 3];
            shared.placement.note(worker, level, u64::MAX / 2);
        }
        thread::sleep(Duration::from_micros(50));
    }
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

/// Without hand-off, a worker that is stuck in a poll keeps its seat. Another one visits its
/// queue now and then, which is no way to serve a connection for long.
#[test]
fn descriptors_leave_a_worker_that_is_stuck() {
    let mut builder = Builder::new();
    let runtime = builder.workers(2).hand_off_after(None).build().unwrap();
    let shared = Arc::clone(runtime.handle().shared());
    let done = Arc::new(AtomicBool::new(false));
    let (one, other) = runtime.block_on(async { UnixStream::pair().unwrap() });
    let pings = runtime.spawn(ping(one, Arc::clone(&done)));
    let pongs = runtime.spawn(pong(other));
    let stuck = {
        let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
        runtime.spawn(async move {
            while context::worker_index(&shared) != Some(0) || shared.driver(0).descriptors() == 0 {
                crate::task::yield_now().await;
            }
            while shared.driver(0).descriptors() > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            done.store(true, Ordering::Relaxed);
        })
    };
    for task in [stuck, pings, pongs] {
        runtime.block_on(task).unwrap();
    }
}

/// A worker counts as one with room until its poll has lasted for long.
#[test]
fn descriptors_do_not_go_to_a_worker_in_a_poll() {
    let mut builder = Builder::new();
    let runtime = builder.workers(2).hand_off_after(None).build().unwrap();
    let shared = Arc::clone(runtime.handle().shared());
    let way = || {
        for worker in 0..2 {
            shared.placement.note(worker, Level::Roomy, u64::MAX / 2);
        }
        shared.way_of_descriptor(1, Some(1))
    };
    let begun = Arc::new(AtomicBool::new(false));
    let gate = Arc::new(std::sync::Barrier::new(2));
    // Each holds up the worker that it is on, so that one of the two comes to the other worker.
    let polls = [(); 2].map(|()| {
        let (shared, begun, gate) = (shared.clone(), begun.clone(), gate.clone());
        runtime.spawn(async move {
            while !begun.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(100));
                let is_there = context::worker_index(&shared) == Some(0);
                if is_there && !begun.swap(true, Ordering::Relaxed) {
                    gate.wait();
                    gate.wait();
                }
                crate::task::yield_now().await;
            }
        })
    });
    gate.wait();
    let meanwhile = way();
    gate.wait();
    assert_eq!(meanwhile, None);
    for poll in polls {
        runtime.block_on(poll).unwrap();
    }
    while way() != Some(0) {
        thread::yield_now();
    }
}

/// Two listeners, of two workers. All descriptors are told to gather at the first worker.
#[test]
fn what_belongs_to_a_worker_does_not_gather() {
    let runtime = Builder::new().workers(2).build().unwrap();
    let shared = Arc::clone(runtime.handle().shared());
    let gather = || (0..2).for_each(|at| shared.placement.note(at, Level::Roomy, u64::MAX / 2));
    let descriptors = || [0, 1].map(|at| shared.driver(at).descriptors());
    let listeners = runtime.block_on(TcpListener::bind_per_worker("127.0.0.1:0"));
    let listeners = listeners.unwrap();
    let address = listeners[0].local_addr().unwrap();
    let workers: Vec<_> = listeners.iter().map(TcpListener::worker).collect();
    assert_eq!(workers, [Some(0), Some(1)]);
    for listener in listeners {
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                crate::spawn(async move {
                    let (mut read, mut write) = stream.into_split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
    }
    let until = Instant::now() + Duration::from_secs(60);
    let mut clients: Vec<std::net::TcpStream> = Vec::new();
    let mut ping_all = |add: bool| {
        assert!(Instant::now() < until, "{:?}", descriptors());
        gather();
        if add {
            clients.push(std::net::TcpStream::connect(address).unwrap());
        }
        for client in &mut clients {
            client.write_all(b"x").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        descriptors()
    };
    // The system spreads connections over the listeners.
    while ping_all(true)[1] < 3 {}
    // One that seems overloaded, as the system has not scheduled it, may be left for once.
    while {
        (0..20).for_each(|_| _ = ping_all(false));
        ping_all(false)[1] < 3
    } {
        ping_all(true);
    }
    drop(clients);
    while descriptors().iter().sum::<usize>() > 2 {
        assert!(Instant::now() < until, "{:?}", descriptors());
        gather();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        descriptors(),
        [1, 1],
        "each worker watches its own listener"
    );
}
