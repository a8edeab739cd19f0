//! The store: a stream, its records by their sequence numbers.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::time::sleep;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore, watch};
use txlog_client::Record;
use txlog_client::frame::Code;

use super::ahead::Ahead;
use super::connection::{self, Answer, Connection, NatsError};
use super::protocol::{self, Message};
use crate::log::{ReadLimits, Retention, now_ms};
use crate::store::{Found, Identity, Store, StoreError};

/// JetStream's code for a stream that does not exist.
const NO_STREAM: u64 = 10_059;

/// JetStream's code for a message that does not exist, when there is none after it either.
const NO_MESSAGE: u64 = 10_037;

/// How long a replica may take to learn of a record.
const LAG: Duration = Duration::from_millis(10);

/// Where the stream is, and its settings if it has to be created.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    /// The server's host and port.
    pub address: String,
    /// The stream's name: letters, digits, `-` and `_`.
    pub stream: String,
    /// The largest record, in bytes. The server's own limit, minus the headers of a record, also
    /// holds.
    pub record_bytes_max: usize,
    /// How many records may be pending.
    pub appends_max: usize,
    /// What a stream keeps that is created here. An existing stream keeps its settings.
    pub retention: Retention,
    /// On how many servers of a cluster a stream is kept that is created here.
    pub replicas: u32,
}

impl Default for NatsConfig {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:4222".to_owned(),
            stream: "txlog".to_owned(),
            record_bytes_max: 1 << 20,
            appends_max: 4_096,
            retention: Retention::default(),
            replicas: 1,
        }
    }
}

/// A JetStream as a [`Store`]. Clones share it.
///
/// A record is as durable as the stream makes it before it acknowledges: on as many servers as it
/// has replicas, and on their disks if they are set to sync always.
///
/// If the connection breaks, pending records may be stored or not; the next request connects
/// again. Records that other programs publish are seen with a second's delay.
///
/// A read requests up to 32 records at a time, and only as many as fit into its limit if they are
/// as large as those before. The pending answers of all reads together have at most 64 MiB.
#[derive(Clone)]
pub struct NatsStore {
    inner: Arc<Inner>,
}

struct Inner {
    config: NatsConfig,
    subject: String,
    connection: Mutex<Connection>,
    room: Arc<Semaphore>,
    ahead: Ahead,
    /// The numbers of the oldest record and of the next one.
    bounds: watch::Sender<(u64, u64)>,
    record_bytes_max: usize,
    /// The stream's id: it has none but its name and the time of its creation.
    log: u64,
}

impl NatsStore {
    /// Connects, and creates the stream if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: there is no server or no JetStream, or the stream cannot be used.
    pub async fn connect(config: NatsConfig) -> Result<Self, StoreError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if config.stream.is_empty() || !config.stream.chars().all(allowed) {
            return Err(unusable(format!(
                "{:?} is no name for a stream: use letters, digits, - and _",
                config.stream
            )));
        }
        let connection = Connection::open(&config.address).await?;
        let subject = format!("txlog.{}", config.stream);
        let info = find_or_make(&connection, &config, &subject).await?;
        check_config(&info["config"], &config.stream, &subject)?;
        // Beyond its limit the server closes the connection, and with it fails others' requests.
        let head = protocol::head_bytes(&headers(&config.stream));
        let message_max = connection.payload_max.saturating_sub(head);
        let store = Self {
            inner: Arc::new(Inner {
                record_bytes_max: config.record_bytes_max.min(message_max),
                log: id_of(&config.stream, &info["created"]),
                room: Arc::new(Semaphore::new(config.appends_max.max(1))),
                ahead: Ahead::new(connection.payload_max),
                connection: Mutex::new(connection),
                bounds: watch::Sender::new((1, 1)),
                subject,
                config,
            }),
        };
        store.inner.take_bounds(&info["state"]);
        Ok(store)
    }
}

/// A header of each record. It reveals that another stream has taken over the subject.
fn headers(stream: &str) -> [(&str, &str); 1] {
    [("Nats-Expected-Stream", stream)]
}

impl fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsStore")
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The connection, or a new one if it has ended.
    async fn connection(&self) -> Result<Connection, NatsError> {
        let mut connection = self.connection.lock().await;
        if !connection.is_open() {
            *connection = Connection::open(&self.config.address).await?;
        }
        Ok(connection.clone())
    }

    /// Updates the state from JetStream's, unless more is known already.
    fn take_bounds(&self, state: &Value) {
        let (first, next) = bounds_of(state);
        self.bounds.send_if_modified(|bounds| {
            let new = (first.max(bounds.0), next.max(bounds.1));
            std::mem::replace(bounds, new) != new
        });
    }

    fn acknowledged(&self, sequence: u64) {
        self.bounds.send_if_modified(|bounds| {
            let later = sequence >= bounds.1;
            bounds.1 = bounds.1.max(sequence.saturating_add(1));
            later
        });
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        let connection = self.connection().await?;
        let info = ask(&connection, "INFO", &self.config.stream, &Value::Null).await?;
        if let Some(error) = info.get("error") {
            return Err(unusable(format!(
                "the stream's state: {}",
                description(error)
            )));
        }
        self.take_bounds(&info["state"]);
        Ok(())
    }

    async fn ask_record(&self, connection: &Connection, number: u64) -> Result<Answer, NatsError> {
        let subject = format!("$JS.API.DIRECT.GET.{}", self.config.stream);
        let request = json!({ "seq": number }).to_string();
        let payload = request.as_bytes();
        connection.request(&subject, &[], payload, None).await
    }

    /// The number of the first existing record from this one on; `None` if there is none.
    ///
    /// Any replica may return single records, and it may not have learned of them yet. This
    /// request goes to the leader, which has.
    async fn not_before(
        &self,
        connection: &Connection,
        number: u64,
    ) -> Result<Option<u64>, StoreError> {
        let request = json!({ "seq": number, "next_by_subj": ">" });
        let found = ask(connection, "MSG.GET", &self.config.stream, &request).await?;
        match found.get("error") {
            None => match found["message"]["seq"].as_u64() {
                Some(sequence) => Ok(Some(sequence)),
                None => Err(unusable(format!("a record without a number: {found}"))),
            },
            Some(error) if error["err_code"].as_u64() == Some(NO_MESSAGE) => Ok(None),
            Some(error) => Err(unusable(format!(
                "which records are gone: {}",
                description(error)
            ))),
        }
    }
}

impl Store for NatsStore {
    type Pending = NatsPending;

    async fn submit(&self, payload: Bytes) -> Result<NatsPending, StoreError> {
        let bytes_max = self.inner.record_bytes_max;
        if payload.len() > bytes_max {
            let text = format!(
                "a record of {} bytes; {bytes_max} are allowed",
                payload.len()
            );
            return Err(StoreError::new(Code::RecordTooLarge, text));
        }
        let place = Arc::clone(&self.inner.room).acquire_owned().await;
        let Ok(place) = place else {
            return Err(StoreError::new(Code::Closing, "the store is closed"));
        };
        let inner = Arc::clone(&self.inner);
        let connection = inner.connection().await?;
        let headers = headers(&inner.config.stream);
        let answer = connection
            .request(&inner.subject, &headers, &payload, Some(place))
            .await?;
        Ok(NatsPending(Box::pin(acknowledged(inner, answer))))
    }

    async fn read(&self, from: u64, limits: ReadLimits) -> Result<Found, StoreError> {
        let (first, next) = *self.inner.bounds.borrow();
        let begin = if from == 0 { first } else { from };
        if begin < first {
            let text = format!(
                "record {from} is no longer kept; the oldest is {first}: read from there on"
            );
            return Err(StoreError::new(Code::Trimmed, text));
        }
        let connection = self.inner.connection().await?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        let (mut reached, mut asked, mut answers) = (begin, begin, VecDeque::new());
        let ahead = &self.inner.ahead;
        let mut window = ahead.begin(limits);
        while records.len() < limits.records_max {
            while asked < next && answers.len() < window.messages(records.len(), bytes) {
                let room = ahead.room(connection.payload_max, !answers.is_empty());
                let Some(room) = room.await else { break };
                let answer = self.inner.ask_record(&connection, asked).await?;
                answers.push_back((asked, answer, room));
                asked += 1;
            }
            let Some((sequence, answer, _room)) = answers.pop_front() else {
                break;
            };
            let message = answer.wait().await?;
            match message.status() {
                0 => {}
                404 => {
                    let later = self.inner.not_before(&connection, sequence).await?;
                    reached = later.map_or(next, |later| later.min(next));
                    if reached == sequence {
                        // The replica that was asked lags behind, so it is not asked again at once.
                        sleep(LAG).await;
                        break;
                    }
                    answers.retain(|(asked, ..)| *asked >= reached);
                    asked = asked.max(reached);
                    continue;
                }
                status => return Err(unusable(format!("a read was answered by {status}"))),
            }
            window.came(message.payload.len());
            bytes += message.payload.len();
            if bytes > limits.bytes_max && !records.is_empty() {
                break;
            }
            records.push(record(sequence, message));
            reached = sequence + 1;
        }
        // A reader from the oldest record on continues to do so until there is one.
        let next = if reached == begin { from } else { reached };
        Ok(Found { records, next })
    }

    async fn wait_for(&self, sequence: u64) {
        let mut bounds = self.inner.bounds.subscribe();
        // The sender is in `inner`, so this cannot fail.
        let _ = bounds.wait_for(|(_, next)| *next > sequence).await;
    }

    fn identity(&self) -> Identity {
        Identity {
            log: self.inner.log,
            epoch: 0,
        }
    }

    fn bounds(&self) -> (u64, u64) {
        *self.inner.bounds.borrow()
    }

    fn record_bytes_max(&self) -> usize {
        self.inner.record_bytes_max
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        self.inner.refresh().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        // These permits are free when all pending records are acknowledged or dropped.
        let places = u32::try_from(self.inner.config.appends_max.max(1)).unwrap_or(u32::MAX);
        let all = self.inner.room.acquire_many(places).await;
        drop(all);
        self.inner.room.close();
        Ok(())
    }
}

/// A pending record of NATS.
pub struct NatsPending(Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>>);

impl Future for NatsPending {
    type Output = Result<u64, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for NatsPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsPending").finish_non_exhaustive()
    }
}

async fn acknowledged(inner: Arc<Inner>, answer: Answer) -> Result<u64, StoreError> {
    let message = answer.wait().await.map_err(|error| {
        StoreError::new(
            Code::LogFailed,
            format!("{error}; the record may be stored or not"),
        )
    })?;
    let ack = connection::json(&message)?;
    if let Some(error) = ack.get("error") {
        let text = format!("NATS did not store the record: {}", description(error));
        return Err(StoreError::new(Code::LogFailed, text));
    }
    let Some(sequence) = ack["seq"].as_u64() else {
        return Err(unusable(format!(
            "an acknowledgement without a number: {ack}"
        )));
    };
    inner.acknowledged(sequence);
    Ok(sequence)
}

fn record(sequence: u64, message: Message) -> Record {
    // NATS states the time as a date with a zone; without it, the best guess is now.
    let time_ms = message
        .header("Nats-Time-Stamp")
        .and_then(|stamp| millis_of(&stamp))
        .unwrap_or_else(now_ms);
    Record {
        sequence,
        time_ms,
        payload: message.payload,
    }
}

/// Milliseconds since 1970 of `2026-11-21T18:48:21.123456789Z`.
fn millis_of(stamp: &str) -> Option<u64> {
    let (date, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute, second) = (
        clock.next()?.ok()?,
        clock.next()?.ok()?,
        clock.next()?.ok()?,
    );
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || year > 9_999 {
        return None;
    }
    // Other publishers may send a header of this name.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days up to the month in a year that begins with March, so that leap days come last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = (365 * year + leap_days + (153 * month + 2) / 5 + day).checked_sub(719_469)?;
    let millis = format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + millis)
}

/// An id of the stream with this name that was created at this time.
fn id_of(stream: &str, created: &Value) -> u64 {
    let created = created.as_str().unwrap_or_default();
    let of_name = crc32fast::hash(stream.as_bytes());
    u64::from(of_name) << 32 | u64::from(crc32fast::hash(created.as_bytes()))
}

/// The numbers of the oldest record and of the next one.
fn bounds_of(state: &Value) -> (u64, u64) {
    let first = state["first_seq"].as_u64().unwrap_or(1).max(1);
    let next = state["last_seq"].as_u64().unwrap_or(0).saturating_add(1);
    (first, next)
}

/// JetStream's state of the stream, which is created if it does not exist.
async fn find_or_make(
    connection: &Connection,
    config: &NatsConfig,
    subject: &str,
) -> Result<Value, StoreError> {
    let stream = &config.stream;
    let info = ask(connection, "INFO", stream, &Value::Null).await?;
    let Some(error) = info.get("error") else {
        return Ok(info);
    };
    if error["err_code"].as_u64() != Some(NO_STREAM) {
        return Err(unusable(format!("stream {stream}: {}", description(error))));
    }
    let limit = |value: u64| if value == 0 { json!(-1) } else { json!(value) };
    let age_ns = u64::try_from(config.retention.age_max.as_nanos()).unwrap_or(u64::MAX);
    let wanted = json!({
        "name": stream,
        "subjects": [subject],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "max_bytes": limit(config.retention.bytes_max),
        "max_msgs": limit(config.retention.records_max),
        "max_age": age_ns.min(i64::MAX as u64),
        "num_replicas": config.replicas,
        "allow_direct": true,
    });
    let made = ask(connection, "CREATE", stream, &wanted).await?;
    match made.get("error") {
        None => Ok(made),
        Some(error) => {
            let what = description(error);
            Err(unusable(format!("cannot make the stream {stream}: {what}")))
        }
    }
}

/// An existing stream has to accept our subject and to allow direct gets.
fn check_config(config: &Value, stream: &str, subject: &str) -> Result<(), StoreError> {
    let subjects = config["subjects"].as_array();
    let takes = subjects.is_some_and(|all| all.iter().any(|one| one == subject));
    if !takes {
        return Err(unusable(format!(
            "stream {stream} does not take the subject {subject}"
        )));
    }
    if config["allow_direct"] != true {
        return Err(unusable(format!(
            "stream {stream} is to be set to allow direct gets"
        )));
    }
    Ok(())
}

async fn ask(
    connection: &Connection,
    what: &str,
    stream: &str,
    request: &Value,
) -> Result<Value, NatsError> {
    let payload = match request {
        Value::Null => String::new(),
        request => request.to_string(),
    };
    let subject = format!("$JS.API.STREAM.{what}.{stream}");
    let answer = connection
        .request(&subject, &[], payload.as_bytes(), None)
        .await?;
    connection::json(&answer.wait().await?)
}

fn description(error: &Value) -> String {
    let text = error["description"].as_str();
    text.map_or_else(|| error.to_string(), str::to_owned)
}

fn unusable(text: String) -> StoreError {
    StoreError::new(Code::LogFailed, text)
}

impl From<NatsError> for StoreError {
    fn from(error: NatsError) -> Self {
        unusable(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{bounds_of, millis_of};

    #[test]
    fn bounds_of_any_stream_are_numbers() {
        for (first, last, bounds) in [
            (0, 0, (1, 1)),
            (1, 0, (1, 1)),
            (3, 7, (3, 8)),
            (u64::MAX, u64::MAX, (u64::MAX, u64::MAX)),
        ] {
            let state = json!({ "first_seq": first, "last_seq": last });
            assert_eq!(bounds_of(&state), bounds);
        }
    }

    #[test]
    fn times_of_nats_are_understood() {
        assert_eq!(millis_of("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis_of("2000-02-29T12:34:56.5Z"), Some(951_827_696_500));
        assert_eq!(
            millis_of("2026-11-21T18:48:21.123456789Z"),
            Some(1_795_286_901_123)
        );
        for nonsense in [
            "",
            "Z",
            "2026-13-01T00:00:00Z",
            "2026-11-21",
            "x-y-zT1:2:3Z",
            "2026-11-21T18446744073709551615:00:00Z",
            "2026-11-21T00:60:00Z",
            "2026-11-21T00:00:61Z",
        ] {
            assert_eq!(millis_of(nonsense), None, "{nonsense}");
        }
    }
}
