//! What JetStream says of a stream.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::config::NatsConfig;
use super::connection::{Connection, json_of};
use super::epoch;
use super::error::NatsError;
use super::fit::Limits;
use super::stamp::millis_of;

/// JetStream's code for a stream that does not exist.
const NO_STREAM: u64 = 10_059;

/// JetStream's code for a message that does not exist, when there is none after it either.
const NO_MESSAGE: u64 = 10_037;

/// JetStream's code for a record that was to follow another one than the last.
const NOT_EXPECTED: u64 = 10_071;

/// JetStream's codes for a server and for an account without it.
const NO_JETSTREAM: [u64; 2] = [10_076, 10_039];

/// A stream as JetStream describes it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Info {
    pub(super) config: Settings,
    pub(super) created: String,
    pub(super) state: State,
    /// How late it is there; NATS before 2.10 does not say so.
    #[serde(default)]
    pub(super) ts: String,
}

/// The settings of a stream that matter here; -1 or 0 is no limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) subjects: Vec<String>,
    pub(super) retention: String,
    pub(super) storage: String,
    pub(super) discard: String,
    pub(super) max_bytes: i64,
    pub(super) max_msgs: i64,
    /// In nanoseconds.
    pub(super) max_age: i64,
    pub(super) max_msgs_per_subject: i64,
    pub(super) max_msg_size: i64,
    pub(super) num_replicas: u32,
    /// In nanoseconds.
    pub(super) duplicate_window: i64,
    pub(super) no_ack: bool,
    pub(super) sealed: bool,
    pub(super) allow_direct: bool,
    pub(super) persist_mode: String,
    pub(super) description: String,
    pub(super) metadata: Option<Value>,
    pub(super) mirror: Option<Value>,
    pub(super) sources: Option<Vec<Value>>,
}

/// Which records a stream has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    first_seq: u64,
    pub(super) last_seq: u64,
    pub(super) last_ts: String,
}

impl Info {
    /// When the stream was created, in milliseconds since 1970.
    pub(super) fn created_ms(&self) -> u64 {
        millis_of(&self.created).unwrap_or(0)
    }

    /// For how long it knows message ids.
    pub(super) fn window(&self) -> Duration {
        Duration::from_nanos(self.config.duplicate_window.max(0).unsigned_abs())
    }

    /// The epoch that whoever opens the stream goes by.
    pub(super) fn epoch(&self) -> u64 {
        self.created_ms()
            .max(epoch::kept(&self.config).unwrap_or(0))
    }

    /// The numbers of the oldest record and of the next one.
    pub(super) fn bounds(&self) -> (u64, u64) {
        let next = self.state.last_seq.saturating_add(1);
        (self.state.first_seq.clamp(1, next), next)
    }
}

/// What JetStream says of the stream now.
pub(super) async fn info(connection: &Connection, stream: &str) -> Result<Info, NatsError> {
    let found = ask(connection, "INFO", stream, &Value::Null).await?;
    typed(found?)
}

/// The stream, which is created if it does not exist.
pub(super) async fn find_or_make(
    connection: &Connection,
    config: &NatsConfig,
    subject: &str,
) -> Result<Info, NatsError> {
    let stream = &config.stream;
    match ask(connection, "INFO", stream, &Value::Null).await? {
        Err(NatsError::NoStream { .. }) => {}
        found => return typed(found?),
    }
    let Limits {
        bytes,
        messages,
        age,
    } = Limits::of(&config.retention);
    let wanted = json!({
        "name": stream,
        "subjects": [subject],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "max_bytes": bytes,
        "max_msgs": messages,
        "max_age": age.max(0),
        "num_replicas": config.replicas,
        "allow_direct": true,
    });
    let made = ask(connection, "CREATE", stream, &wanted).await?;
    typed(made.map_err(|error| match error {
        NatsError::Refused { stream, reason } => NatsError::NotMade { stream, reason },
        error => error,
    })?)
}

/// A stream in a list of streams.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) info: Info,
}

/// All streams that keep records of txlog.
pub(super) async fn list(connection: &Connection) -> Result<Vec<Listed>, NatsError> {
    #[derive(Deserialize)]
    struct Part {
        total: usize,
        #[serde(default)]
        streams: Option<Vec<Value>>,
    }
    let (mut listed, mut offset) = (Vec::new(), 0);
    loop {
        let wanted = json!({ "offset": offset, "subject": "txlog.*" });
        let part: Part = typed(ask_of_all(connection, "LIST", &wanted).await??)?;
        let streams = part.streams.unwrap_or_default();
        offset += streams.len();
        let is_last = streams.is_empty() || offset >= part.total;
        for stream in streams {
            let name = stream["config"]["name"].as_str().unwrap_or_default();
            let name = name.to_owned();
            listed.push(Listed {
                name,
                info: typed(stream)?,
            });
        }
        if is_last {
            return Ok(listed);
        }
    }
}

/// The number of the first existing record from this one on; `None` if there is none.
///
/// Any replica may return single records, and it may not have learned of them yet. This request
/// goes to the leader, which has.
pub(super) async fn not_before(
    connection: &Connection,
    stream: &str,
    number: u64,
) -> Result<Option<u64>, NatsError> {
    let wanted = json!({ "seq": number, "next_by_subj": ">" });
    let found = message(connection, stream, &wanted).await?;
    Ok(found.map(|found| found.seq))
}

/// When the leader stored this record; `None` if it has no such record.
pub(super) async fn stored_at(
    connection: &Connection,
    stream: &str,
    number: u64,
) -> Result<Option<String>, NatsError> {
    let found = message(connection, stream, &json!({ "seq": number })).await?;
    Ok(found.map(|found| found.time))
}

#[derive(Deserialize)]
struct Found {
    seq: u64,
    time: String,
}

async fn message(
    connection: &Connection,
    stream: &str,
    wanted: &Value,
) -> Result<Option<Found>, NatsError> {
    #[derive(Deserialize)]
    struct Answer {
        message: Found,
    }
    match ask(connection, "MSG.GET", stream, wanted).await? {
        Err(NatsError::NoMessage) => Ok(None),
        found => typed::<Answer>(found?).map(|answer| Some(answer.message)),
    }
}

/// What an answer of JetStream's says of a stream.
pub(super) fn info_of(answer: &Value) -> Result<Info, NatsError> {
    typed(answer.clone())
}

/// Asks JetStream. The inner error is its answer.
pub(super) async fn ask(
    connection: &Connection,
    what: &str,
    stream: &str,
    wanted: &Value,
) -> Result<Result<Value, NatsError>, NatsError> {
    request(connection, &format!("{what}.{stream}"), stream, wanted).await
}

async fn ask_of_all(
    connection: &Connection,
    what: &str,
    wanted: &Value,
) -> Result<Result<Value, NatsError>, NatsError> {
    request(connection, what, "of each", wanted).await
}

async fn request(
    connection: &Connection,
    what: &str,
    stream: &str,
    wanted: &Value,
) -> Result<Result<Value, NatsError>, NatsError> {
    let payload = match wanted {
        Value::Null => String::new(),
        wanted => wanted.to_string(),
    };
    let subject = format!("$JS.API.STREAM.{what}");
    let answer = connection.request(&subject, payload.into()).await?;
    let Some(message) = answer.wait().await? else {
        return Err(NatsError::NoJetStream);
    };
    let value = json_of(&message)?;
    Ok(match value.get("error") {
        None => Ok(value),
        Some(error) => Err(of_jetstream(error, stream)),
    })
}

/// An error in an answer of JetStream's.
pub(super) fn of_jetstream(error: &Value, stream: &str) -> NatsError {
    let stream = stream.to_owned();
    let description = error["description"].as_str();
    let reason = description.map_or_else(|| error.to_string(), str::to_owned);
    match error["err_code"].as_u64() {
        Some(NO_STREAM) => NatsError::NoStream { stream },
        Some(NO_MESSAGE) => NatsError::NoMessage,
        Some(NOT_EXPECTED) => match last_of(&reason) {
            Some(last) => NatsError::NotExpected { last },
            None => NatsError::Refused { stream, reason },
        },
        Some(code) if NO_JETSTREAM.contains(&code) => NatsError::NoJetStream,
        _ => NatsError::Refused { stream, reason },
    }
}

/// The number at the end of `wrong last sequence: 7`.
fn last_of(reason: &str) -> Option<u64> {
    reason.rsplit_once(": ")?.1.parse().ok()
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, NatsError> {
    serde_json::from_value(value).map_err(|error| NatsError::Nonsense(error.to_string()))
}
