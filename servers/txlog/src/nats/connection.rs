//! A connection to NATS, by its own client: one subscription receives all answers, and the end of
//! an answer's subject identifies the request.
//!
//! The client can connect again by itself. Here it must not: it would first send what it has
//! queued, and then a record that was lost with the connection would get a later number than those
//! submitted after it. So each connection has a client of its own, which ends with it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, Message, PublishError, PublishErrorKind, StatusCode,
    Subscriber,
};
use bytes::Bytes;
use evenkeel::time::{Instant, timeout, timeout_at};
use futures_util::StreamExt;
use tokio::sync::{oneshot, watch};

use super::appends::Appends;
use super::config::NatsConfig;
use super::error::{NatsError, VERSION_MIN};
use super::login;

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long an answer may take.
#[cfg(not(test))]
const ANSWER_MAX: Duration = Duration::from_secs(30);
#[cfg(test)]
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How often the server is asked whether it is there; the connection ends if two such questions
/// have no answer.
const PING_EVERY: Duration = Duration::from_secs(10);

/// How many requests may wait to be sent; more wait for room.
const REQUESTS_QUEUED_MAX: usize = 1_024;

/// How many answers may wait to be handed on. Beyond it the client would drop them; there are never
/// as many requests under way.
const ANSWERS_QUEUED_MAX: usize = 1 << 20;

/// An address that no server has, for a client that is not to connect again.
const NOWHERE: &str = "127.0.0.1:0";

/// Clones share the connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    client: Client,
    answers: Arc<Answers>,
    inbox: Arc<str>,
    ids: Arc<AtomicU64>,
    /// Which of the store's connections it is: the later, the greater.
    pub(super) generation: u64,
    /// The largest message that the server takes, with its headers.
    pub(super) payload_max: usize,
    _last: Arc<Last>,
}

/// Ends the connection with the last of its clones: the task that receives has none.
#[derive(Debug)]
struct Last(Arc<Answers>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.end(NatsError::Ended("it was closed".to_owned()));
    }
}

/// The requests that wait for an answer.
#[derive(Debug)]
struct Answers {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Message>>>,
    end: watch::Sender<Option<NatsError>>,
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
    /// Connects. Answers to appends go to `appends`, which is set before the first of them.
    pub(super) async fn open(
        config: &NatsConfig,
        generation: u64,
        appends: &Arc<OnceLock<Arc<Appends>>>,
    ) -> Result<Self, NatsError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(NatsError::NoTokio);
        }
        let address = login::checked_address(&config.address)?;
        let answers = Arc::new(Answers {
            waiting: Mutex::default(),
            end: watch::Sender::new(None),
        });
        let options = options(config, &answers).await?;
        let connecting = timeout(CONNECT_MAX, options.connect(address));
        let login = config.login.description();
        let client = match connecting.await {
            Ok(client) => {
                client.map_err(|error| NatsError::of_connecting(&config.address, login, &error))?
            }
            Err(_) => {
                return Err(NatsError::Unreachable {
                    address: config.address.clone(),
                    reason: format!("no answer within {CONNECT_MAX:?}"),
                });
            }
        };
        let ended = |error: String| NatsError::Ended(error);
        let nowhere = client.set_server_pool(NOWHERE).await;
        nowhere.map_err(|error| ended(error.to_string()))?;
        let info = client.server_info();
        if !info.headers || version(&info.version) < VERSION_MIN {
            return Err(NatsError::TooOld {
                address: config.address.clone(),
                version: info.version,
            });
        }
        let inbox: Arc<str> = client.new_inbox().into();
        let subscriber = client.subscribe(format!("{inbox}.*")).await;
        let subscriber = subscriber.map_err(|error| ended(error.to_string()))?;
        let receiving = receive(
            subscriber,
            Arc::clone(&answers),
            generation,
            Arc::clone(appends),
        );
        drop(evenkeel::spawn(receiving));
        Ok(Self {
            client,
            _last: Arc::new(Last(Arc::clone(&answers))),
            answers,
            inbox,
            ids: Arc::default(),
            generation,
            payload_max: info.max_payload,
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.answers.end.borrow().is_none()
    }

    /// Why it has ended.
    pub(super) fn end(&self) -> Option<NatsError> {
        self.answers.end.borrow().clone()
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        let mut end = self.answers.end.subscribe();
        // The sender is in `answers`, so this cannot fail.
        let _ = end.wait_for(Option::is_some).await;
    }

    /// Sends a request; the returned future completes with its answer. Requests are sent in the
    /// order of the calls.
    pub(super) async fn request(&self, subject: &str, payload: Bytes) -> Result<Answer, NatsError> {
        // Relaxed: an id has to be unique, and orders nothing else.
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.expect(id)?;
        let reply = format!("{}.{id}", self.inbox);
        let sent = self
            .client
            .publish_with_reply(subject.to_owned(), reply, payload)
            .await;
        sent.map_err(|error| self.why_unsent(&error))?;
        Ok(answer)
    }

    /// Sends a record with this id; its answer goes to the appends.
    pub(super) async fn append(
        &self,
        id: u64,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<(), NatsError> {
        let reply = format!("{}.{APPEND}{id}", self.inbox);
        let sent = self
            .client
            .publish_with_reply_and_headers(subject.to_owned(), reply, headers, payload)
            .await;
        sent.map_err(|error| self.why_unsent(&error))
    }

    fn why_unsent(&self, error: &PublishError) -> NatsError {
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => NatsError::TooLarge,
            _ => self
                .end()
                .unwrap_or_else(|| NatsError::Ended(error.to_string())),
        }
    }
}

/// How the ids of appends begin in the subjects of answers.
const APPEND: char = 'a';

impl Answer {
    /// Waits for the answer; `None` if nobody on the server takes such requests.
    pub(super) async fn wait(mut self) -> Result<Option<Message>, NatsError> {
        match timeout_at(self.until, &mut self.receiver).await {
            Ok(Ok(message)) if message.status == Some(StatusCode::NO_RESPONDERS) => Ok(None),
            Ok(Ok(message)) => Ok(Some(message)),
            Ok(Err(_)) => Err(self.answers.why()),
            Err(_) => Err(NatsError::NoAnswer(ANSWER_MAX)),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.answers.lock().remove(&self.id);
    }
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Message>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(self: &Arc<Self>, id: u64) -> Result<Answer, NatsError> {
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(id, sender);
        let answer = Answer {
            answers: Arc::clone(self),
            id,
            receiver,
            until: Instant::now() + ANSWER_MAX,
        };
        // After the insertion: whoever ends the connection then takes the senders.
        let has_ended = self.end.borrow().is_some();
        match has_ended {
            true => Err(self.why()),
            false => Ok(answer),
        }
    }

    fn deliver(&self, id: u64, message: Message) {
        let sender = self.lock().remove(&id);
        if let Some(sender) = sender {
            // The request was dropped; its answer is not needed.
            let _ = sender.send(message);
        }
    }

    fn why(&self) -> NatsError {
        let end = self.end.borrow().clone();
        end.unwrap_or_else(|| NatsError::Ended("it was closed".to_owned()))
    }

    fn end(&self, why: NatsError) {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert(why);
            first
        });
        // Dropping the senders tells the waiting tasks.
        let waiting = std::mem::take(&mut *self.lock());
        drop(waiting);
    }
}

/// The client's options, with which it lives as long as the connection.
async fn options(config: &NatsConfig, answers: &Arc<Answers>) -> Result<ConnectOptions, NatsError> {
    let answers = Arc::downgrade(answers);
    let options = ConnectOptions::new()
        .name("txlog")
        .connection_timeout(CONNECT_MAX)
        .ping_interval(PING_EVERY)
        .client_capacity(REQUESTS_QUEUED_MAX)
        .subscription_capacity(ANSWERS_QUEUED_MAX)
        .ignore_discovered_servers()
        // With `NOWHERE` in place of the server; 0 would be no limit.
        .max_reconnects(1)
        .event_callback(move |event| {
            if let (Event::ServerError(error), Some(answers)) = (event, answers.upgrade()) {
                answers.end(said(&error.to_string()));
            }
            std::future::ready(())
        });
    login::with_login(options, config).await
}

/// An error that the server sent while the connection was in use.
fn said(error: &str) -> NatsError {
    match error.to_ascii_lowercase().contains("permissions violation") {
        true => NatsError::Forbidden(error.to_owned()),
        false => NatsError::Ended(error.to_owned()),
    }
}

/// `2.9.10` as numbers; others are older than any.
fn version(text: &str) -> (u32, u32) {
    let mut parts = text.trim_start_matches('v').split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

/// Passes answers to those who wait for them, until the connection ends.
async fn receive(
    subscriber: Subscriber,
    answers: Arc<Answers>,
    generation: u64,
    appends: Arc<OnceLock<Arc<Appends>>>,
) {
    let mut subscriber = pin!(subscriber);
    let mut end = answers.end.subscribe();
    loop {
        let message = tokio::select! {
            message = subscriber.next() => message,
            _ = end.wait_for(Option::is_some) => None,
        };
        let Some(message) = message else { break };
        let Some((_, id)) = message.subject.rsplit_once('.') else {
            continue;
        };
        let append = id.strip_prefix(APPEND).map(str::parse);
        if let (Some(Ok(id)), Some(appends)) = (append, appends.get()) {
            appends.answered(id, generation, &message);
        } else if let Ok(id) = id.parse() {
            answers.deliver(id, message);
        }
    }
    answers.end(NatsError::Ended("the server closed it".to_owned()));
}

/// The payload of a message, as JSON.
pub(super) fn json_of(message: &Message) -> Result<serde_json::Value, NatsError> {
    serde_json::from_slice(&message.payload).map_err(|error| NatsError::Nonsense(error.to_string()))
}

#[cfg(test)]
mod tests {
    use evenkeel::net::{TcpListener, TcpStream};
    use evenkeel::runtime::Builder;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;

    /// A server that says hello and then nothing more.
    async fn say_hello(listener: TcpListener, version: &'static str) -> BufReader<TcpStream> {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let hello = format!("INFO {{\"headers\":true,\"version\":\"{version}\"}}\r\n");
        stream.write_all(hello.as_bytes()).await.unwrap();
        let mut line = String::new();
        while line != "PING\r\n" {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
        }
        stream.write_all(b"PONG\r\n").await.unwrap();
        stream
    }

    async fn open(version: &'static str) -> (Result<Connection, NatsError>, BufReader<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let silent = evenkeel::spawn(say_hello(listener, version));
        let config = NatsConfig {
            address,
            ..NatsConfig::default()
        };
        let connection = Connection::open(&config, 1, &Arc::default()).await;
        (connection, silent.await.unwrap())
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = Builder::new().tokio_context(true).build().unwrap();
        let limit = Duration::from_secs(60);
        runtime.block_on(timeout(limit, test)).unwrap();
    }

    #[test]
    fn each_answer_may_take_so_long_and_no_longer_whenever_it_is_asked_for() {
        run(async {
            let (connection, _silent) = open("2.9.0").await;
            let connection = connection.unwrap();
            let began = Instant::now();
            let mut answers = Vec::new();
            for _ in 0..30 {
                answers.push(connection.request("a", Bytes::new()).await.unwrap());
            }
            for answer in answers {
                let error = answer.wait().await.unwrap_err();
                assert!(matches!(error, NatsError::NoAnswer(_)), "{error}");
            }
            let took = began.elapsed();
            assert!(took < 15 * ANSWER_MAX, "{took:?}: one after the other");
            assert!(connection.answers.lock().is_empty(), "none is waited for");
        });
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_by_its_version() {
        run(async {
            for old in ["2.8.4", "1.4.1", "", "x"] {
                let (connection, _silent) = open(old).await;
                let error = connection.unwrap_err().to_string();
                assert!(error.contains("2.9 or newer"), "{error}");
            }
        });
    }

    #[test]
    fn a_connection_that_broke_ends_its_client_and_those_who_wait() {
        run(async {
            let (connection, silent) = open("2.9.0").await;
            let connection = connection.unwrap();
            let answer = connection.request("a", Bytes::new()).await.unwrap();
            drop(silent);
            let error = answer.wait().await.unwrap_err();
            assert!(matches!(error, NatsError::Ended(_)), "{error}");
            connection.ended().await;
            // It does not wait for a connection that the client makes by itself.
            let error = connection.request("a", Bytes::new()).await.unwrap_err();
            assert!(matches!(error, NatsError::Ended(_)), "{error}");
        });
    }

    #[test]
    fn a_connection_that_nobody_has_any_more_is_closed() {
        run(async {
            let (connection, mut silent) = open("2.9.0").await;
            let connection = connection.unwrap();
            drop(connection.clone());
            assert!(connection.is_open());
            drop(connection);
            let mut rest = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut silent, &mut rest)
                .await
                .unwrap();
        });
    }

    #[test]
    fn without_tokio_it_is_said_what_is_missing() {
        let runtime = Builder::new().build().unwrap();
        let opened = runtime
            .block_on(async { Connection::open(&NatsConfig::default(), 1, &Arc::default()).await });
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("tokio_context"), "{error}");
    }
}
