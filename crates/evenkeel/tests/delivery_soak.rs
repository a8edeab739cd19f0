//! The delivered bytes are the bytes sent, in order, for random segments, pauses, closes, buffers
//! and changes of the mode; and ten thousand silent connections cost no work.

mod support;

use std::time::Duration;

use evenkeel::net::{Delivery, TcpListener, TcpStream, UnixStream};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::task::JoinSet;
use evenkeel::time::sleep;
use proptest::prelude::*;
use support::within;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[derive(Clone, Debug)]
struct Segment {
    len: usize,
    pause: Duration,
}

#[derive(Clone, Debug)]
struct Plan {
    segments: Vec<Segment>,
    first: Delivery,
    /// Changes of the mode, each with the number of received bytes at which it is made.
    changes: Vec<(usize, Delivery)>,
    rooms: Vec<usize>,
    on_unix: bool,
}

fn mode() -> impl Strategy<Value = Delivery> {
    let delay = || (0_u64..30).prop_map(Duration::from_millis);
    prop_oneof![
        1 => Just(Delivery::Immediate),
        4 => (0_usize..60_000, delay()).prop_map(|(bytes, delay)| {
            Delivery::Coalesce { bytes, delay }
        }),
        2 => delay().prop_map(|max_delay| Delivery::Adaptive { max_delay }),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let pause = prop_oneof![
        6 => Just(Duration::ZERO),
        3 => (1_u64..4).prop_map(Duration::from_millis),
        1 => (20_u64..50).prop_map(Duration::from_millis),
    ];
    let len = prop_oneof![1_usize..100, 1_usize..3_000, 10_000_usize..100_000];
    let segment = (len, pause).prop_map(|(len, pause)| Segment { len, pause });
    (
        prop::collection::vec(segment, 1..40),
        mode(),
        prop::collection::vec((0_usize..50_000, mode()), 0..5),
        prop::collection::vec(1_usize..40_000, 1..5),
        any::<bool>(),
    )
        .prop_map(|(segments, first, changes, rooms, on_unix)| Plan {
            segments,
            first,
            changes,
            rooms,
            on_unix,
        })
}

/// A stream with a mode of delivery.
trait Paced: AsyncRead + AsyncWrite + Unpin + Send {
    fn set(&self, mode: Delivery);
}

impl Paced for TcpStream {
    fn set(&self, mode: Delivery) {
        self.set_delivery(mode).unwrap();
    }
}

impl Paced for UnixStream {
    fn set(&self, mode: Delivery) {
        self.set_delivery(mode).unwrap();
    }
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

async fn send(mut stream: impl AsyncWrite + Unpin, segments: Vec<Segment>) -> usize {
    let mut sent = 0;
    for segment in segments {
        let bytes: Vec<u8> = (sent..sent + segment.len).map(byte).collect();
        stream.write_all(&bytes).await.unwrap();
        sent += segment.len;
        if !segment.pause.is_zero() {
            sleep(segment.pause).await;
        }
    }
    sent
}

async fn receive(mut stream: impl Paced, plan: &Plan) -> usize {
    stream.set(plan.first);
    let (mut received, mut next_change) = (0, plan.first_change());
    for round in 0.. {
        let mut buf = vec![0; plan.rooms[round % plan.rooms.len()]];
        let len = within(stream.read(&mut buf)).await.unwrap();
        if len == 0 {
            break;
        }
        let is_next = |(at, &got): (usize, &u8)| got == byte(received + at);
        assert!(buf[..len].iter().enumerate().all(is_next), "at {received}");
        received += len;
        while let Some((change, at)) = next_change
            && received >= at
        {
            stream.set(plan.changes[change].1);
            next_change = plan.change_after(change, at);
        }
    }
    received
}

impl Plan {
    fn first_change(&self) -> Option<(usize, usize)> {
        self.changes.first().map(|(after, _)| (0, *after))
    }

    fn change_after(&self, change: usize, at: usize) -> Option<(usize, usize)> {
        let next = self.changes.get(change + 1)?;
        Some((change + 1, at + next.0))
    }
}

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    client.set_nodelay(true).unwrap();
    (client, listener.accept().await.unwrap().0)
}

async fn carry_out(plan: Plan) -> (usize, usize) {
    let segments = plan.segments.clone();
    if plan.on_unix {
        let (client, server) = UnixStream::pair().unwrap();
        let sender = evenkeel::spawn(send(client, segments));
        let received = receive(server, &plan).await;
        (within(sender).await.unwrap(), received)
    } else {
        let (client, server) = tcp_pair().await;
        let sender = evenkeel::spawn(send(client, segments));
        let received = receive(server, &plan).await;
        (within(sender).await.unwrap(), received)
    }
}

fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

#[test]
fn what_is_sent_is_delivered() {
    let runtime = runtime();
    let config = ProptestConfig::with_cases(40);
    let plans = prop::collection::vec(plan(), 1..8);
    proptest!(config, |(plans in plans)| {
        let outcomes = runtime.block_on(async {
            let mut connections = JoinSet::new();
            for plan in plans {
                connections.spawn(carry_out(plan));
            }
            let mut outcomes = Vec::new();
            while let Some(outcome) = within(connections.join_next()).await {
                outcomes.push(outcome.unwrap());
            }
            outcomes
        });
        for (sent, received) in outcomes {
            prop_assert_eq!(sent, received);
        }
    });
}

/// How many descriptors the sweeps have looked at.
fn swept() -> u64 {
    Handle::current().stats().delivery.swept
}

/// Reads until the peer closes, and counts the bytes.
async fn drain(mut stream: TcpStream) -> usize {
    let mut buf = [0; 4096];
    let mut total = 0;
    while let Ok(len @ 1..) = stream.read(&mut buf).await {
        total += len;
    }
    total
}

const MODE: Delivery = Delivery::Coalesce {
    bytes: 64 * 1024,
    delay: Duration::from_millis(10),
};

/// As many connections as a process may have that holds both ends of each, up to ten thousand. All
/// have sent something once. One continues.
#[test]
fn silent_connections_cost_no_sweep() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = hard.min(20_200);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).unwrap();
    let connections = (wanted.saturating_sub(200) / 2) as usize;
    assert!(connections >= 100, "a limit of {hard} descriptors");
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mut clients, mut readers) = (Vec::new(), JoinSet::new());
        for _ in 0..connections {
            let mut client = within(TcpStream::connect(address)).await.unwrap();
            let (server, _) = within(listener.accept()).await.unwrap();
            server.set_delivery(MODE).unwrap();
            readers.spawn(drain(server));
            client.write_all(b"hello").await.unwrap();
            clients.push(client);
        }
        // Until all have become silent, and the sweep has nothing to look at.
        let mut before = swept();
        within(async {
            loop {
                sleep(Duration::from_millis(300)).await;
                if std::mem::replace(&mut before, swept()) == before {
                    break;
                }
            }
        })
        .await;

        let mut speaker = clients.pop().unwrap();
        for _ in 0..500 {
            speaker.write_all(b"more").await.unwrap();
            sleep(Duration::from_millis(2)).await;
        }
        let looks = swept() - before;
        assert!(looks > 0, "the one that goes on is looked at");
        assert!(
            looks < 2_000,
            "{looks} for one of {connections} connections"
        );

        drop((clients, speaker));
        let mut total = 0;
        while let Some(bytes) = within(readers.join_next()).await {
            total += bytes.unwrap();
        }
        assert_eq!(total, connections * 5 + 500 * 4);
    });
}
