//! The loads.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::{self, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use crate::{Error, Loop};

/// What a load found.
pub(crate) struct Found(Histogram<u64>);

impl Found {
    fn new() -> Result<Self, Error> {
        Ok(Self(Histogram::new_with_bounds(1, 600_000_000, 3)?))
    }

    fn note(&mut self, begun: Instant) {
        let micros = begun.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
        self.0.saturating_record(micros);
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, last] = [50.0, 99.0].map(|percent| self.0.value_at_percentile(percent));
        let (count, cpu) = (self.0.len(), cpu_micros().unwrap_or(0));
        write!(
            f,
            "requests {count} cpu_us {cpu} p50_us {median} p99_us {last}"
        )
    }
}

/// The processor time of this process, in the system's steps of 10 ms.
fn cpu_micros() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, which may have spaces: what it used itself, and what the kernel did for it.
    let (_, rest) = text.rsplit_once(") ")?;
    let ticks = rest.split(' ').skip(11).take(2);
    let ticks = ticks
        .map(|field| field.parse::<u64>().ok())
        .sum::<Option<u64>>()?;
    Some(ticks * 10_000)
}

/// Lets clients each make one request after another until the time is over.
async fn closed<C: Send + 'static>(
    time: &Loop,
    clients: Vec<C>,
    ask: impl AsyncAsk<C>,
) -> Result<Found, Error> {
    let end = Instant::now() + Duration::from_secs_f64(time.seconds);
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let ask = ask.clone();
        tasks.spawn(async move {
            let mut found = Found::new()?;
            while Instant::now() < end {
                let begun = Instant::now();
                ask.ask(&mut client).await?;
                found.note(begun);
            }
            Ok::<_, Error>(found)
        });
    }
    let mut all = Found::new()?;
    while let Some(found) = tasks.join_next().await {
        all.0.add(&found??.0)?;
    }
    Ok(all)
}

/// One request and its answer.
trait AsyncAsk<C>: Clone + Send + 'static {
    fn ask(&self, client: &mut C) -> impl Future<Output = Result<(), Error>> + Send;
}

#[derive(Clone)]
struct Get(&'static str);

/// A connection, and how long an answer is, once that is known.
struct Kept {
    stream: TcpStream,
    answer_len: usize,
}

impl AsyncAsk<Kept> for Get {
    async fn ask(&self, client: &mut Kept) -> Result<(), Error> {
        let request = format!("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", self.0);
        client.stream.write_all(request.as_bytes()).await?;
        let mut buffer = [0; 1024];
        if client.answer_len == 0 {
            client.answer_len = client.stream.read(&mut buffer).await?;
            return Ok(());
        }
        let (answer, _) = buffer.split_at_mut(client.answer_len);
        client.stream.read_exact(answer).await?;
        if answer.starts_with(b"HTTP/1.1 200") {
            Ok(())
        } else {
            Err("an answer is not 200".into())
        }
    }
}

async fn kept(address: SocketAddr) -> Result<Kept, Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Kept {
        stream,
        answer_len: 0,
    })
}

async fn connected(time: &Loop) -> Result<Vec<Kept>, Error> {
    let mut clients = Vec::new();
    for _ in 0..time.connections {
        clients.push(kept(time.address).await?);
    }
    Ok(clients)
}

pub(crate) async fn http(time: Loop, path: &'static str) -> Result<Found, Error> {
    let clients = connected(&time).await?;
    closed(&time, clients, Get(path)).await
}

#[derive(Clone)]
struct ByReqwest(String);

impl AsyncAsk<reqwest::Client> for ByReqwest {
    async fn ask(&self, client: &mut reqwest::Client) -> Result<(), Error> {
        let answer = client.get(&self.0).send().await?.error_for_status()?;
        answer.bytes().await?;
        Ok(())
    }
}

pub(crate) async fn reqwest(time: Loop) -> Result<Found, Error> {
    let clients = vec![reqwest::Client::new(); time.connections];
    let url = format!("http://{}/", time.address);
    closed(&time, clients, ByReqwest(url)).await
}

async fn channel(address: SocketAddr) -> Result<Channel, Error> {
    let endpoint = Channel::from_shared(format!("http://{address}"))?;
    Ok(endpoint.connect().await?)
}

#[derive(Clone)]
struct Check;

impl AsyncAsk<HealthClient<Channel>> for Check {
    async fn ask(&self, client: &mut HealthClient<Channel>) -> Result<(), Error> {
        let service = String::new();
        client.check(HealthCheckRequest { service }).await?;
        Ok(())
    }
}

pub(crate) async fn unary(time: Loop) -> Result<Found, Error> {
    let client = HealthClient::new(channel(time.address).await?);
    closed(&time, vec![client; time.connections], Check).await
}

#[derive(Clone)]
struct List;

/// A stream of requests, and the stream of their answers.
struct Streams {
    requests: mpsc::Sender<ServerReflectionRequest>,
    answers: tonic::Streaming<tonic_reflection::pb::v1::ServerReflectionResponse>,
}

impl AsyncAsk<Streams> for List {
    async fn ask(&self, client: &mut Streams) -> Result<(), Error> {
        client.requests.send(list()).await?;
        let answer = client.answers.message().await?;
        answer.map(drop).ok_or("the stream has ended".into())
    }
}

fn list() -> ServerReflectionRequest {
    ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    }
}

pub(crate) async fn stream(time: Loop) -> Result<Found, Error> {
    let mut client = ServerReflectionClient::new(channel(time.address).await?);
    let mut clients = Vec::new();
    for _ in 0..time.connections {
        let (requests, sent) = mpsc::channel(1);
        // The answers begin once something was asked.
        requests.send(list()).await?;
        let answers = client
            .server_reflection_info(ReceiverStream::new(sent))
            .await?;
        let mut answers = answers.into_inner();
        answers.message().await?;
        clients.push(Streams { requests, answers });
    }
    closed(&time, clients, List).await
}

#[derive(Clone)]
struct SetAndGet;

impl AsyncAsk<mini_redis::client::Client> for SetAndGet {
    async fn ask(&self, client: &mut mini_redis::client::Client) -> Result<(), Error> {
        client.set("key", "value".into()).await?;
        client
            .get("key")
            .await?
            .map(drop)
            .ok_or("it was set".into())
    }
}

pub(crate) async fn redis(time: Loop) -> Result<Found, Error> {
    let mut clients = Vec::new();
    for _ in 0..time.connections {
        clients.push(mini_redis::client::connect(time.address).await?);
    }
    closed(&time, clients, SetAndGet).await
}

/// An open loop: a check's latency counts from when it was due. Others ask for `path` meanwhile.
///
/// All are connected before that, as the kernel delays connections by a second when a listener's
/// queue is full. The checks have a thread of their own: beside the others' answers they would
/// wait in this process, too.
pub(crate) async fn health(time: Loop, path: String) -> Result<Found, Error> {
    let client = net::TcpStream::connect(time.address)?;
    client.set_nodelay(true)?;
    let length = Duration::from_secs_f64(time.seconds);
    let others = connected(&time).await?;
    let asked = Get(String::leak(path));
    let beside = tokio::spawn(async move { closed(&time, others, asked).await });
    let found = spawn_blocking(move || check(client, length)).await??;
    // Those under way may wait for long: they are not needed any more.
    beside.abort();
    Ok(found)
}

/// Asks for `/healthz` every 5 ms, for so long.
fn check(mut client: net::TcpStream, length: Duration) -> Result<Found, Error> {
    let (mut due, mut found) = (Instant::now(), Found::new()?);
    let end = due + length;
    while due < end {
        sleep(due.saturating_duration_since(Instant::now()));
        // What was due while an answer was late counts, with the time that it has waited by now.
        if Instant::now() < end {
            client.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")?;
            let mut answer = [0; 1024];
            let answer_len = client.read(&mut answer)?;
            if !answer[..answer_len].ends_with(b"ok") {
                return Err("a check's answer is not `ok`".into());
            }
        }
        found.note(due);
        due += Duration::from_millis(5);
    }
    Ok(found)
}
