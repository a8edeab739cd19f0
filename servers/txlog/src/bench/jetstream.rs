//! Acknowledged messages per second by a JetStream that syncs each one, for comparison.
//!
//! Clients publish with an inbox for the acknowledgement, as NATS's own libraries do, and each has
//! as many pending as those of txlog have. Messages have no headers, which is less work than
//! txlog's records, each of which is known again when it is repeated.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use async_nats::Client;
use bytes::Bytes;
use evenkeel_measure::latency::SharedLatencies;
use futures_util::StreamExt;
use tokio::task::JoinSet;

use super::over_tcp::{Failure, Meter, Tcp, TcpTurn};
use super::process::Process;

/// The stream, and the subject of its messages.
const STREAM: &str = "bench";

/// A JetStream with clients that have several messages pending each.
///
/// # Errors
///
/// Those of the server and of the connections.
pub fn jetstream(program: &Path, bench: &Tcp) -> Result<TcpTurn, Failure> {
    let directory = bench.directory.join("nats");
    let process = Process::nats(program, &directory);
    let turn = process.map_err(Failure::from).and_then(|process| {
        let turn = measure(&process, bench);
        drop(process);
        turn
    });
    let removed = fs::remove_dir_all(&directory);
    let turn = turn?;
    removed?;
    Ok(turn)
}

fn measure(process: &Process, bench: &Tcp) -> Result<TcpTurn, Failure> {
    // Threads with a runtime each, as many as there are processors, so that one is no bottleneck.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(bench.clients).max(1);
    let latencies = Arc::<SharedLatencies>::default();
    // When all are connected, and when the clocks are read.
    let (ready, go) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    in_tokio(create_stream(&process.address))?;
    let mut meter = None;
    thread::scope(|scope| {
        let tasks: Vec<_> = (0..threads)
            .map(|thread| {
                let clients =
                    bench.clients / threads + usize::from(thread < bench.clients % threads);
                let (latencies, ready, go) = (&latencies, &ready, &go);
                scope.spawn(move || in_tokio(load(process, bench, clients, latencies, ready, go)))
            })
            .collect();
        ready.wait();
        meter = Some(Meter::start(Some(process)));
        go.wait();
        for task in tasks {
            task.join()
                .map_err(|_| "a client of the bench panicked")??;
        }
        Ok::<_, Failure>(())
    })?;
    let meter = meter.ok_or("no clocks")?;
    Ok(meter.stop(latencies.take()))
}

fn in_tokio<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build()?;
    runtime.block_on(future)
}

async fn create_stream(address: &str) -> Result<(), Failure> {
    let client = async_nats::connect(address).await?;
    let config = format!(
        "{{\"name\":\"{STREAM}\",\"subjects\":[\"{STREAM}\"],\"storage\":\"file\",\
         \"retention\":\"limits\",\"num_replicas\":1}}"
    );
    let request = format!("$JS.API.STREAM.CREATE.{STREAM}");
    let answer = client.request(request, config.into()).await?;
    let text = String::from_utf8_lossy(&answer.payload);
    match text.contains("\"error\"") {
        true => Err(format!("the stream was not created: {text}").into()),
        false => Ok(()),
    }
}

async fn load(
    process: &Process,
    bench: &Tcp,
    clients: usize,
    latencies: &Arc<SharedLatencies>,
    ready: &Barrier,
    go: &Barrier,
) -> Result<(), Failure> {
    let mut connected = Ok(Vec::new());
    for _ in 0..clients {
        match (async_nats::connect(&process.address).await, &mut connected) {
            (Ok(client), Ok(all)) => all.push(client),
            (Err(error), _) => connected = Err(error),
            (Ok(_), Err(_)) => {}
        }
    }
    // Nobody else uses this thread's runtime meanwhile.
    ready.wait();
    go.wait();
    let began = Instant::now();
    let record = Bytes::from(vec![b'x'; bench.record_bytes]);
    let mut publishing = JoinSet::new();
    for client in connected? {
        let (bench, record, latencies) = (bench.clone(), record.clone(), Arc::clone(latencies));
        publishing.spawn(publish(client, bench, began, record, latencies));
    }
    while let Some(published) = publishing.join_next().await {
        published??;
    }
    Ok(())
}

/// Publishes with a window of pending messages until the time is over.
async fn publish(
    client: Client,
    bench: Tcp,
    began: Instant,
    record: Bytes,
    latencies: Arc<SharedLatencies>,
) -> Result<(), Failure> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await?;
    let mut pending = VecDeque::with_capacity(bench.pipelined);
    loop {
        let now = Instant::now();
        let goes_on = now.duration_since(began) < bench.length;
        while goes_on && pending.len() < bench.pipelined {
            client
                .publish_with_reply(STREAM, inbox.clone(), record.clone())
                .await?;
            pending.push_back(now);
        }
        // Acknowledgements come in the order of the messages.
        let Some(at) = pending.pop_front() else {
            return Ok(());
        };
        let answer = answers.next().await.ok_or("the connection to NATS ended")?;
        let is_stored = answer.payload.windows(5).any(|bytes| bytes == b"\"seq\"");
        if !is_stored {
            let text = String::from_utf8_lossy(&answer.payload);
            return Err(format!("a message was answered with {text}").into());
        }
        latencies.record(at.elapsed());
    }
}
