//! Every public future may be dropped after any number of its polls, in a task or outside of one,
//! and leaves nothing behind: no descriptor, no waiting task, no lost wake-up.
//!
//! The tests of each module check that a dropped operation loses no data; this one checks that it
//! leaves the runtime as it was.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use evenkeel::io::Interest;
use evenkeel::io::unix::AsyncFd;
use evenkeel::net::{
    TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream, handover,
    lookup_host, splice,
};
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::signal::unix::{SignalKind, signal};
use evenkeel::task::{JoinSet, checkpoint, yield_now};
use evenkeel::time::{interval, sleep, sleep_until, timeout, timeout_at};
use hang::{until, watched};
use support::{SocketPath, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The sockets that operations work on: all are connected, and none has data to read.
struct World {
    address: SocketAddr,
    listener: TcpListener,
    stream: TcpStream,
    served: TcpStream,
    udp: UdpSocket,
    path: SocketPath,
    unix_listener: UnixListener,
    unix: UnixStream,
    unix_end: UnixStream,
    datagram: UnixDatagram,
    datagram_end: UnixDatagram,
    /// One of two ends, of which the other says nothing.
    quiet: std::os::unix::net::UnixStream,
    _quiet_end: std::os::unix::net::UnixStream,
}

impl World {
    async fn new(number: usize) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let (served, _) = listener.accept().await.unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        udp.connect(udp.local_addr().unwrap()).await.unwrap();
        let path = SocketPath::new(&format!("cancel-{number}"));
        let unix_listener = UnixListener::bind(&path).unwrap();
        let (unix, unix_end) = UnixStream::pair().unwrap();
        let (datagram, datagram_end) = UnixDatagram::pair().unwrap();
        let (quiet, _quiet_end) = std::os::unix::net::UnixStream::pair().unwrap();
        let world = Self {
            address,
            listener,
            stream,
            served,
            udp,
            path,
            unix_listener,
            unix,
            unix_end,
            datagram,
            datagram_end,
            quiet,
            _quiet_end,
        };
        // Nothing can be written either, until the peer reads.
        let full = [0; 65_536];
        while world.served.try_write(&full).is_ok() {}
        while world.unix_end.try_write(&full).is_ok() {}
        Arc::new(world)
    }
}

/// Names an operation and creates it.
type Constructor = (&'static str, fn(Arc<World>) -> Boxed);

macro_rules! operations {
    ($($name:literal: |$world:ident| $operation:expr;)*) => {
        vec![$(($name, (|$world: Arc<World>| {
            Box::pin(async move {
                let $world = &$world;
                let _ = $world;
                let _ = $operation;
            }) as Boxed
        }) as fn(Arc<World>) -> Boxed)),*]
    };
}

const SOON: Duration = Duration::from_millis(1);
const NEVER: Duration = Duration::from_secs(100_000);

fn tcp_operations() -> Vec<Constructor> {
    operations! {
        "TcpListener::bind": |_w| TcpListener::bind("127.0.0.1:0").await;
        "TcpListener::bind_per_worker": |_w| TcpListener::bind_per_worker("127.0.0.1:0").await;
        "TcpListener::accept": |w| w.listener.accept().await;
        "TcpStream::connect": |w| TcpStream::connect(w.address).await;
        "TcpStream::connect by name": |w| TcpStream::connect(("localhost", w.address.port())).await;
        "TcpSocket::connect": |w| TcpSocket::new_v4().unwrap().connect(w.address).await;
        "TcpStream::peek": |w| w.stream.peek(&mut [0; 1 << 20]).await;
        "TcpStream::readable": |w| w.listener.accept().await.map(|_| ());
        "TcpStream::writable": |w| w.served.writable().await;
        "TcpStream::ready": |w| w.served.ready(Interest::WRITABLE).await;
        "read of a new stream": |w| {
            let (client, server) = pair(w).await;
            let (mut read, write) = client.into_split();
            let _open = (server, write);
            read.read(&mut [0; 16]).await.map(|_| ())
        };
        "write_all of more than fits": |w| {
            let (mut client, server) = pair(w).await;
            let _open = server;
            client.write_all(&vec![0; 64 << 20]).await
        };
        "read_to_end": |w| {
            let (mut client, server) = pair(w).await;
            let _open = server;
            client.read_to_end(&mut Vec::new()).await.map(|_| ())
        };
        "shutdown": |w| {
            let (mut client, _server) = pair(w).await;
            client.shutdown().await
        };
        "splice": |w| splice::splice(&w.stream, &w.served, 100_000).await;
        "splice_bidirectional": |w| {
            let ((mut a, _client), (mut b, _server)) = (pair(w).await, pair(w).await);
            splice::splice_bidirectional(&mut a, &mut b).await
        };
        "copy_bidirectional": |w| {
            let ((mut a, _client), (mut b, _server)) = (pair(w).await, pair(w).await);
            splice::copy_bidirectional(&mut a, &mut b).await
        };
        "handover::send": |w| handover::send(&w.unix_end, &[("a", w.listener.as_fd())]).await;
        "handover::receive": |w| handover::receive(&w.unix_end).await;
        "lookup_host": |_w| lookup_host("localhost:80").await.map(|_| ());
    }
}

/// A new connection, so that those of the world are not used up.
async fn pair(world: &World) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let _ = world.address;
    (client, server)
}

fn other_socket_operations() -> Vec<Constructor> {
    operations! {
        "UdpSocket::bind": |_w| UdpSocket::bind("127.0.0.1:0").await;
        "UdpSocket::connect": |w| {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.connect(w.address).await
        };
        "UdpSocket::recv": |w| w.udp.recv(&mut [0]).await;
        "UdpSocket::recv_from": |w| w.udp.recv_from(&mut [0]).await;
        "UdpSocket::peek": |w| w.udp.peek(&mut [0]).await;
        "UdpSocket::peek_from": |w| w.udp.peek_from(&mut [0]).await;
        "UdpSocket::readable": |w| w.udp.readable().await;
        "UdpSocket::writable": |w| w.udp.writable().await;
        "UdpSocket::send_to": |w| {
            let sink = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let _ = w.address;
            socket.send_to(&[1], sink.local_addr().unwrap()).await
        };
        "UnixListener::accept": |w| w.unix_listener.accept().await;
        "UnixStream::connect": |w| UnixStream::connect(&w.path).await;
        "UnixStream::peek": |w| w.unix.peek(&mut []).await;
        "UnixStream::writable": |w| w.unix_end.writable().await;
        "UnixStream read": |_w| {
            let (mut one, _other) = UnixStream::pair().unwrap();
            one.read_u8().await
        };
        "UnixDatagram::recv": |w| w.datagram.recv(&mut [0]).await;
        "UnixDatagram::recv_from": |w| w.datagram_end.recv_from(&mut [0]).await;
        "UnixDatagram::send": |_w| {
            let (one, other) = UnixDatagram::pair().unwrap();
            while one.try_send(&[0; 1024]).is_ok() {}
            let sent = one.send(&[1]).await;
            drop(other);
            sent
        };
        "AsyncFd::readable": |w| {
            let quiet = AsyncFd::new(w.quiet.try_clone().unwrap()).unwrap();
            quiet.readable().await.map(drop)
        };
        "Signal::recv": |_w| signal(SignalKind::window_change()).unwrap().recv().await;
        "ctrl_c": |_w| evenkeel::signal::ctrl_c().await;
    }
}

fn time_and_task_operations() -> Vec<Constructor> {
    operations! {
        "sleep": |_w| sleep(SOON).await;
        "sleep for long": |_w| sleep(NEVER).await;
        "sleep_until": |_w| sleep_until(evenkeel::time::Instant::now() + SOON).await;
        "timeout": |_w| timeout(SOON, pending::<()>()).await;
        "timeout of something ready": |_w| timeout(NEVER, yield_now()).await;
        "timeout_at": |_w| timeout_at(evenkeel::time::Instant::now() + NEVER, sleep(SOON)).await;
        "Interval::tick": |_w| {
            let mut ticks = interval(SOON);
            ticks.tick().await;
            ticks.tick().await
        };
        "yield_now": |_w| yield_now().await;
        "checkpoint": |_w| checkpoint().await;
        "JoinHandle": |_w| evenkeel::spawn(sleep(SOON)).await;
        "JoinHandle of blocking work": |_w| evenkeel::spawn_blocking(std::thread::yield_now).await;
        "JoinSet::join_next": |_w| {
            let mut set = JoinSet::new();
            set.spawn(sleep(SOON));
            set.spawn(pending());
            set.join_next().await.is_some()
        };
        "JoinSet::join_all": |_w| {
            let mut set = JoinSet::new();
            (0..3).for_each(|_| drop(set.spawn(sleep(SOON))));
            set.join_all().await
        };
        "JoinSet::shutdown": |_w| {
            let mut set = JoinSet::new();
            set.spawn(pending::<()>());
            set.shutdown().await
        };
    }
}

/// Polls `operation` up to `polls` times, with time for events in between, and drops it. Returns
/// whether it was ready before that.
async fn dropped_after(mut operation: Boxed, polls: usize) -> bool {
    let mut done = 0;
    loop {
        if done == polls {
            return false;
        }
        done += 1;
        let ready = poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx).is_ready())).await;
        if ready {
            return true;
        }
        // From time to time long enough for a timer or an event.
        if done % 2 == 0 {
            sleep(SOON).await;
        } else {
            yield_now().await;
        }
    }
}

/// How many polls are tried for operations that wait for ever.
const POLLS_MAX: usize = 7;

fn runtime() -> Runtime {
    Builder::new()
        .workers(2)
        .blocking_keep_alive(Duration::ZERO)
        .build()
        .unwrap()
}

/// The runtime still works.
async fn assert_works() {
    let task = evenkeel::spawn(async {
        sleep(SOON).await;
        evenkeel::spawn_blocking(|| 2).await.unwrap()
    });
    assert_eq!(within(task).await.unwrap(), 2);
    let (mut one, mut other) = UnixStream::pair().unwrap();
    let writing = evenkeel::spawn(async move { other.write_all(b"works").await });
    let mut heard = String::new();
    within(one.read_to_string(&mut heard)).await.unwrap();
    within(writing).await.unwrap().unwrap();
    assert_eq!(heard, "works");
}

/// How many descriptors the process has but those of files, which the monitor and the name service
/// open for a moment, and those of pipes in the pool: a splice gives its pipe back or closes it, by
/// whether there were bytes in it, and so by time.
fn lasting_descriptors(runtime: &Runtime) -> usize {
    loop {
        let pooled = runtime.stats().splice.idle_pipes;
        let open = open_descriptors();
        let files = open.iter().filter(|name| name.starts_with('/')).count();
        // Otherwise a pipe may have been counted in one of the two only.
        if runtime.stats().splice.idle_pipes == pooled {
            return open.len() - files - 2 * pooled;
        }
    }
}

/// What the process's descriptors are of. One that is closed meanwhile is not among them.
fn open_descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// Drops every operation after every number of polls; `run` says where.
fn drop_everywhere(runtime: &Runtime, run: impl Fn(&Runtime, Boxed, usize) -> bool) {
    let groups = [
        tcp_operations(),
        other_socket_operations(),
        time_and_task_operations(),
    ];
    let operations = groups.concat();
    for round in 0..2 {
        let mut after_first = None;
        for (number, (name, operation)) in operations.iter().enumerate() {
            let before = lasting_descriptors(runtime);
            let world = runtime.block_on(World::new(number));
            for polls in 0..=POLLS_MAX {
                if run(runtime, operation(Arc::clone(&world)), polls) {
                    break;
                }
                let idle = || runtime.stats().tasks_waiting == 0 && Arc::strong_count(&world) == 1;
                until(&format!("{name} after {polls} polls: nothing waits"), idle);
                let no_work = || runtime.stats().blocking.queued == 0;
                until(
                    &format!("{name} after {polls} polls: no work waits"),
                    no_work,
                );
            }
            runtime.block_on(assert_works());
            drop(world);
            if round > 0 {
                // Descriptors that are opened only once, as for signals, were opened in round one.
                let began = open_descriptors();
                until(
                    &format!("{name}: {before} descriptors as before, of {began:?}"),
                    || lasting_descriptors(runtime) == before,
                );
            }
            after_first = Some(name);
        }
        assert!(after_first.is_some());
    }
}

/// All in one test, as it counts the descriptors of the whole process.
#[test]
fn every_future_may_be_dropped_after_every_poll() {
    watched("outside of a task", || {
        let runtime = runtime();
        drop_everywhere(&runtime, |runtime, operation, polls| {
            runtime.block_on(within(dropped_after(operation, polls)))
        });
        let timers = runtime.stats();
        assert_eq!(timers.readiness.descriptors, 0);
    });
    watched("in a task", || {
        let runtime = runtime();
        drop_everywhere(&runtime, |runtime, operation, polls| {
            let task = runtime.spawn(within(dropped_after(operation, polls)));
            runtime.block_on(task).unwrap()
        });
        assert_eq!(runtime.stats().readiness.descriptors, 0);
    });
    watched("by an abort", || {
        let runtime = runtime();
        drop_everywhere(&runtime, |runtime, operation, polls| {
            let task = runtime.spawn(operation);
            let abort = task.abort_handle();
            runtime.block_on(async move {
                for _ in 0..polls {
                    yield_now().await;
                }
                abort.abort();
                within(task).await.is_ok()
            })
        });
        assert_eq!(runtime.stats().readiness.descriptors, 0);
    });
}
