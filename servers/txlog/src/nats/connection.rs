//! A connection to NATS for requests: one subscription receives all answers, and the end of an
//! answer's subject identifies the request.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::net::TcpStream;
use evenkeel::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use evenkeel::time::{Instant, timeout, timeout_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::protocol::{self, Message, Operation};

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long an answer may take.
#[cfg(not(test))]
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(30);
#[cfg(test)]
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How many requests may wait to be sent; more wait for room.
const REQUESTS_QUEUED_MAX: usize = 1_024;

/// How many bytes are gathered for one write.
const WRITE_BYTES: usize = 64 * 1024;

/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Why a request to NATS failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NatsError {
    #[error("cannot connect to NATS at {address}: {reason}; does nats-server run there?")]
    Connect { address: String, reason: String },
    #[error("the connection to NATS ended: {0}")]
    Ended(String),
    #[error("NATS did not answer within {ANSWER_MAX:?}")]
    NoAnswer,
    #[error("NATS has no JetStream, or not for this account; start it with -js")]
    NoResponders,
}

/// Clones share the connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    sender: mpsc::Sender<BytesMut>,
    answers: Arc<Answers>,
    inbox: Arc<str>,
    ids: Arc<AtomicU64>,
    /// The largest message that the server takes, with its headers.
    pub(super) payload_max: usize,
}

/// The requests that wait for an answer.
#[derive(Debug, Default)]
struct Answers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    by_id: HashMap<u64, Waiter>,
    end: Option<String>,
}

#[derive(Debug)]
struct Waiter {
    sender: oneshot::Sender<Message>,
    /// Held until the answer has arrived, even if it is not read yet.
    _place: Option<OwnedSemaphorePermit>,
}

/// A pending answer.
#[derive(Debug)]
pub(super) struct Answer {
    answers: Arc<Answers>,
    id: u64,
    receiver: oneshot::Receiver<Message>,
    /// Counted from the request: a task that waits for many answers awaits them one by one.
    until: Instant,
}

impl Connection {
    pub(super) async fn open(address: &str) -> Result<Self, NatsError> {
        let failed = |reason: String| NatsError::Connect {
            address: address.to_owned(),
            reason,
        };
        match timeout(CONNECT_MAX, connect(address)).await {
            Ok(connection) => connection.map_err(failed),
            Err(_) => Err(failed(format!("no answer within {CONNECT_MAX:?}"))),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.answers.lock().end.is_none()
    }

    /// Sends a request; the returned future completes with its answer. Requests are sent in the
    /// order of the calls. `place` is released when the answer has arrived, or when the future is
    /// dropped.
    pub(super) async fn request(
        &self,
        subject: &str,
        headers: &[(&str, &str)],
        payload: &[u8],
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Answer, NatsError> {
        let room = self.sender.reserve().await;
        let room = room.map_err(|_| self.answers.ended())?;
        // Relaxed: an id has to be unique, and orders nothing else.
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let receiver = self.answers.await_answer(id, place)?;
        let mut buffer = BytesMut::with_capacity(payload.len() + 256);
        let reply = format!("{}.{id}", self.inbox);
        protocol::publish(subject, &reply, headers, payload, &mut buffer);
        room.send(buffer);
        Ok(Answer {
            answers: Arc::clone(&self.answers),
            id,
            receiver,
            until: Instant::now() + ANSWER_MAX,
        })
    }
}

impl Answer {
    pub(super) async fn wait(mut self) -> Result<Message, NatsError> {
        match timeout_at(self.until, &mut self.receiver).await {
            Ok(Ok(message)) if message.status() == 503 => Err(NatsError::NoResponders),
            Ok(Ok(message)) => Ok(message),
            Ok(Err(_)) => Err(self.answers.ended()),
            Err(_) => Err(NatsError::NoAnswer),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let waiter = self.answers.lock().by_id.remove(&self.id);
        // Releasing a place wakes a task, so it happens without the lock.
        drop(waiter);
    }
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_answer(
        &self,
        id: u64,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<oneshot::Receiver<Message>, NatsError> {
        let mut waiting = self.lock();
        if let Some(end) = &waiting.end {
            return Err(NatsError::Ended(end.clone()));
        }
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter {
            sender,
            _place: place,
        };
        waiting.by_id.insert(id, waiter);
        Ok(receiver)
    }

    fn deliver(&self, message: Message) {
        let id = message.subject.rsplit_once('.').map(|(_, id)| id.parse());
        let Some(Ok(id)) = id else { return };
        let waiter = self.lock().by_id.remove(&id);
        if let Some(waiter) = waiter {
            // The request was dropped; its answer is not needed.
            let _ = waiter.sender.send(message);
        }
    }

    fn ended(&self) -> NatsError {
        let end = self.lock().end.clone();
        NatsError::Ended(end.unwrap_or_else(|| "it was closed".to_owned()))
    }

    fn end(&self, reason: String) {
        let mut waiting = self.lock();
        waiting.end.get_or_insert(reason);
        // Dropping the senders tells the waiting tasks.
        let waiters = std::mem::take(&mut waiting.by_id);
        drop(waiting);
        drop(waiters);
    }
}

async fn connect(address: &str) -> Result<Connection, String> {
    let text = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let (mut read, mut write) = stream.into_split();
    let mut buffer = BytesMut::new();
    let Operation::Info(info) = next(&mut read, &mut buffer).await? else {
        return Err("it does not begin as a NATS server does".to_owned());
    };
    let info: serde_json::Value = serde_json::from_slice(&info).map_err(|e| e.to_string())?;
    if info["headers"] != true {
        return Err("the server has no headers; version 2.9 or newer is needed".to_owned());
    }
    let payload_max = info["max_payload"].as_u64().unwrap_or(1 << 20);
    let inbox = format!("_INBOX.{:016x}", RandomState::new().hash_one(address));
    let mut hello = BytesMut::new();
    let options = "{\"verbose\":false,\"pedantic\":false,\"lang\":\"rust\",\"name\":\"txlog\",\
        \"version\":\"0.1.0\",\"protocol\":1,\"headers\":true,\"no_responders\":true}";
    protocol::connect(options, &mut hello);
    protocol::subscribe(&format!("{inbox}.*"), 1, &mut hello);
    protocol::ping(&mut hello);
    write.write_all(&hello).await.map_err(text)?;
    loop {
        match next(&mut read, &mut buffer).await? {
            Operation::Pong => break,
            Operation::Error(error) => return Err(error),
            _ => {}
        }
    }
    let (sender, requests) = mpsc::channel(REQUESTS_QUEUED_MAX);
    let (pongs, pong_requests) = mpsc::channel(1);
    let answers = Arc::new(Answers::default());
    evenkeel::spawn(send(write, requests, pong_requests, Arc::clone(&answers)));
    evenkeel::spawn(receive(read, buffer, pongs, Arc::clone(&answers)));
    Ok(Connection {
        sender,
        answers,
        inbox: inbox.into(),
        ids: Arc::default(),
        payload_max: usize::try_from(payload_max).unwrap_or(usize::MAX),
    })
}

/// The next operation.
async fn next(read: &mut OwnedReadHalf, buffer: &mut BytesMut) -> Result<Operation, String> {
    loop {
        let operation = protocol::next(buffer).map_err(|error| error.to_string())?;
        if let Some(operation) = operation {
            return Ok(operation);
        }
        buffer.reserve(READ_BYTES);
        match read.read_buf(buffer).await {
            Ok(0) => return Err("the server closed it".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Sends requests, all that are queued in one write, until no client is left or it breaks.
async fn send(
    mut write: OwnedWriteHalf,
    mut requests: mpsc::Receiver<BytesMut>,
    mut pongs: mpsc::Receiver<()>,
    answers: Arc<Answers>,
) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.clear();
        tokio::select! {
            request = requests.recv() => match request {
                Some(request) => buffer.unsplit(request),
                None => break,
            },
            pong = pongs.recv() => match pong {
                Some(()) => protocol::pong(&mut buffer),
                // The receiving task has ended.
                None => break,
            },
        }
        while buffer.len() < WRITE_BYTES {
            let Ok(request) = requests.try_recv() else {
                break;
            };
            buffer.extend_from_slice(&request);
        }
        if let Err(error) = write.write_all(&buffer).await {
            answers.end(error.to_string());
            return;
        }
    }
    let _ = write.shutdown().await;
}

/// Passes answers to the tasks that wait for them, until the connection ends.
async fn receive(
    mut read: OwnedReadHalf,
    mut buffer: BytesMut,
    pongs: mpsc::Sender<()>,
    answers: Arc<Answers>,
) {
    let reason = loop {
        match next(&mut read, &mut buffer).await {
            Ok(Operation::Message(message)) => answers.deliver(message),
            // One pending pong answers several pings.
            Ok(Operation::Ping) => drop(pongs.try_send(())),
            Ok(Operation::Error(error)) => break error,
            Ok(Operation::Info(_) | Operation::Pong | Operation::Ok) => {}
            Err(reason) => break reason,
        }
    };
    answers.end(reason);
}

/// The payload of a message, as JSON.
pub(super) fn json(message: &Message) -> Result<serde_json::Value, NatsError> {
    let payload: &Bytes = &message.payload;
    serde_json::from_slice(payload)
        .map_err(|error| NatsError::Ended(format!("its answer is no JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use evenkeel::net::TcpListener;

    use super::*;

    /// A server that says hello and then nothing more.
    async fn say_hello(listener: TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        let hello = b"INFO {\"headers\":true}\r\nPONG\r\n";
        stream.write_all(hello).await.unwrap();
        stream
    }

    #[test]
    fn each_answer_may_take_so_long_and_no_longer_whenever_it_is_asked_for() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let silent = evenkeel::spawn(say_hello(listener));
            let connection = Connection::open(&address).await.unwrap();
            let began = Instant::now();
            let mut answers = Vec::new();
            for _ in 0..30 {
                answers.push(connection.request("a", &[], b"", None).await.unwrap());
            }
            for answer in answers {
                let error = answer.wait().await.unwrap_err();
                assert!(matches!(error, NatsError::NoAnswer), "{error}");
            }
            let took = began.elapsed();
            assert!(took < 15 * ANSWER_MAX, "{took:?}: one after the other");
            drop(silent.await.unwrap());
        });
    }
}
