//! A session while its server is killed with SIGKILL at random moments and started again: each
//! record is stored once, under the number that was told, and a follower sees all of them in order.
//!
//! 25 kills, or as many as `TXLOG_KILLS` says.

mod support;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::task::JoinSet;
use evenkeel::time::{sleep, timeout};
use support::program::Server;
use support::{LIMIT, Random, rounds, run};
use txlog_client::{AppendError, Client, Connect, ReadFrom, Session, SessionFollower};

/// How many tasks append by the same session, and how many pending records each has.
const TASKS: u64 = 8;
const UNDER_WAY: usize = 16;

type Numbers = HashMap<Bytes, u64>;

/// Appends records until it is to end; the numbers of all.
async fn append(
    session: Session,
    task: u64,
    ends: Arc<AtomicBool>,
) -> Result<Numbers, AppendError> {
    let (mut pending, mut numbers) = (VecDeque::new(), Numbers::new());
    let mut random = Random::new(task);
    for count in 0.. {
        // Relaxed: it only ends the loop.
        let goes_on = !ends.load(Ordering::Relaxed);
        if goes_on {
            let mut record = format!("{task}/{count}/").into_bytes();
            record.extend(random.bytes(500));
            let record = Bytes::from(record);
            pending.push_back((record.clone(), session.submit(record).await?));
        }
        while pending.len() >= UNDER_WAY || !goes_on {
            let Some((record, appending)) = pending.pop_front() else {
                return Ok(numbers);
            };
            numbers.insert(record, appending.await?);
        }
    }
    Ok(numbers)
}

/// Follows up to this record; all that it has seen.
async fn follow(mut follower: SessionFollower, last: Bytes) -> Vec<Bytes> {
    let mut seen = Vec::new();
    loop {
        let record = follower.next().await.unwrap();
        seen.push(record.payload.clone());
        assert_eq!(record.sequence, seen.len() as u64, "numbers have no gaps");
        if record.payload == last {
            return seen;
        }
    }
}

#[test]
fn each_record_is_stored_once_however_often_the_server_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--segment-bytes", "200000"];
    let mut random = Random::new(rounds("TXLOG_KILL_SEED", 1));
    let kills = rounds("TXLOG_KILLS", 25);
    let mut server = Server::start(directory.path(), &options);
    let address = server.address;
    let runtime = evenkeel::runtime::Runtime::new().unwrap();
    let limit = LIMIT + Duration::from_secs(kills);
    let (numbers, seen) = runtime
        .block_on(timeout(limit, async {
            let session = Session::open(Connect::new(), [address.to_string()], Default::default());
            let session = session.unwrap();
            let last = Bytes::from_static(b"the last one");
            let follower = session.follow(ReadFrom::Oldest);
            let follower = evenkeel::spawn(follow(follower, last.clone()));
            let ends = Arc::<AtomicBool>::default();
            let mut tasks = JoinSet::new();
            for task in 0..TASKS {
                tasks.spawn(append(session.clone(), task, Arc::clone(&ends)));
            }
            for _ in 0..kills {
                sleep(Duration::from_millis(random.below(80))).await;
                server.kill();
                server = Server::start_again(directory.path(), address, &options);
            }
            ends.store(true, Ordering::Relaxed);
            let mut numbers = Numbers::new();
            while let Some(task) = tasks.join_next().await {
                numbers.extend(task.unwrap().unwrap());
            }
            numbers.insert(last.clone(), session.append(last).await.unwrap());
            (numbers, follower.await.unwrap())
        }))
        .unwrap();
    runtime.shutdown(LIMIT).unwrap();
    eprintln!("{kills} kills, {} records", seen.len());
    assert_eq!(numbers.len(), seen.len(), "each once");
    for (number, record) in (1..).zip(&seen) {
        assert_eq!(numbers.get(record), Some(&number), "record {number}");
    }
    run(async {
        let client = Client::connect(address.to_string()).await.unwrap();
        let records = client
            .read(seen.len() as u64, Duration::ZERO)
            .await
            .unwrap()
            .0;
        assert_eq!(records.len(), 1);
    });
    // Each task's records are in their order.
    let mut next = HashMap::new();
    for record in &seen[..seen.len() - 1] {
        let mut parts = record.splitn(3, |&byte| byte == b'/');
        let mut part = || std::str::from_utf8(parts.next().unwrap()).unwrap();
        let (task, count) = (part().to_owned(), part().parse::<u64>().unwrap());
        let expected = next.entry(task).or_insert(0);
        assert_eq!(count, *expected);
        *expected += 1;
    }
}
