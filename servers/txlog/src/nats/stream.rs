//! What JetStream says of a stream, and whether the stream can keep what txlog promises.

use serde::Deserialize;
use serde_json::{Value, json};

use super::config::NatsConfig;
use super::connection::{Connection, json_of};
use super::error::NatsError;
use super::stamp::millis_of;
use crate::log::Retention;

/// JetStream's code for a stream that does not exist.
const NO_STREAM: u64 = 10_059;

/// JetStream's code for a message that does not exist, when there is none after it either.
const NO_MESSAGE: u64 = 10_037;

/// JetStream's codes for a server and for an account without it.
const NO_JETSTREAM: [u64; 2] = [10_076, 10_039];

/// A stream as JetStream describes it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Info {
    pub(super) config: Settings,
    pub(super) created: String,
    pub(super) state: State,
}

/// The settings of a stream that matter here; -1 or 0 is no limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    subjects: Vec<String>,
    retention: String,
    storage: String,
    discard: String,
    max_bytes: i64,
    max_msgs: i64,
    /// In nanoseconds.
    max_age: i64,
    max_msgs_per_subject: i64,
    pub(super) max_msg_size: i64,
    pub(super) num_replicas: u32,
    /// In nanoseconds.
    pub(super) duplicate_window: i64,
    no_ack: bool,
    sealed: bool,
    allow_direct: bool,
    persist_mode: String,
    mirror: Option<Value>,
    sources: Option<Vec<Value>>,
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

/// Asks JetStream. The inner error is its answer.
async fn ask(
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
        Some(code) if NO_JETSTREAM.contains(&code) => NatsError::NoJetStream,
        _ => NatsError::Refused { stream, reason },
    }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, NatsError> {
    serde_json::from_value(value).map_err(|error| NatsError::Nonsense(error.to_string()))
}

/// A stream's limits as JetStream writes them: -1 is none, and 0 is no age.
struct Limits {
    bytes: i64,
    messages: i64,
    age: i64,
}

impl Limits {
    fn of(retention: &Retention) -> Self {
        let limit = |value: u64| match value {
            0 => -1,
            value => i64::try_from(value).unwrap_or(i64::MAX),
        };
        Self {
            bytes: limit(retention.bytes_max),
            messages: limit(retention.records_max),
            age: i64::try_from(retention.age_max.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// Whether an existing stream can keep what txlog promises. The error has a line for each setting
/// that forbids it, with the command that mends it.
pub(super) fn check(
    settings: &Settings,
    config: &NatsConfig,
    subject: &str,
) -> Result<(), NatsError> {
    let stream = &config.stream;
    let mends = changeable(settings, subject).into_iter();
    let mends = mends.chain(limits(settings, &config.retention));
    let mends =
        mends.map(|(fault, option)| format!("- {fault}: nats stream edit {stream} {option}"));
    let faults = lasting(settings, stream, subject).into_iter().chain(mends);
    let faults: Vec<String> = faults.collect();
    if faults.is_empty() {
        return Ok(());
    }
    Err(NatsError::Unfit {
        stream: stream.clone(),
        faults: faults.join("\n"),
    })
}

/// A fault, and the option of `nats stream edit` that mends it.
type Mend = (String, String);

/// What a stream does with messages otherwise than a log.
fn changeable(settings: &Settings, subject: &str) -> Vec<Mend> {
    let mut mends = Vec::new();
    let mut mend = |fault: String, option: &str| mends.push((fault, option.to_owned()));
    if !settings.subjects.iter().any(|one| one == subject) {
        let all = [&settings.subjects[..], &[subject.to_owned()]].concat();
        mend(
            format!("it does not take the subject {subject}"),
            &format!("--subjects={}", all.join(",")),
        );
    }
    if !settings.allow_direct {
        let fault = "allow_direct is off, and records are read by direct gets";
        mend(fault.to_owned(), "--allow-direct");
    }
    if settings.no_ack {
        let fault = "no_ack is on, and appends wait for acknowledgements";
        mend(fault.to_owned(), "--ack");
    }
    if settings.discard != "old" {
        let fault = format!(
            "its discard policy is {:?}, so a full stream refuses records instead of removing old \
             ones",
            settings.discard
        );
        mend(fault, "--discard=old");
    }
    if settings.max_msgs_per_subject > 0 {
        let fault = format!(
            "it keeps {} messages of a subject, and all records have one subject",
            settings.max_msgs_per_subject
        );
        mend(fault, "--max-msgs-per-subject=-1");
    }
    mends
}

/// Limits that are not those that were asked for.
fn limits(settings: &Settings, retention: &Retention) -> Vec<Mend> {
    let mut mends = Vec::new();
    let mut mend = |name: &str, is: String, wanted: String, asked: &str, option: String| {
        let fault = format!(
            "{name} is {is}, and {asked} asks for {wanted}; give {asked} {}, or",
            is.trim_end_matches(" s")
        );
        mends.push((fault, option));
    };
    let limits = Limits::of(retention);
    let (is, wanted) = (settings.max_bytes.max(0), limits.bytes);
    if is != wanted.max(0) {
        let option = format!("--max-bytes={wanted}");
        mend(
            "max_bytes",
            is.to_string(),
            wanted.to_string(),
            "--keep-bytes",
            option,
        );
    }
    let (is, wanted) = (settings.max_msgs.max(0), limits.messages);
    if is != wanted.max(0) {
        let option = format!("--max-msgs={wanted}");
        mend(
            "max_msgs",
            is.to_string(),
            wanted.to_string(),
            "--keep-records",
            option,
        );
    }
    if settings.max_age.max(0) != limits.age {
        let seconds = |nanoseconds: i64| format!("{} s", nanoseconds.max(0) as f64 / 1e9);
        let (is, wanted) = (seconds(settings.max_age), seconds(limits.age));
        let option = format!("--max-age={}", wanted.replace(' ', ""));
        mend("max_age", is, wanted, "--keep-seconds", option);
    }
    mends
}

/// What cannot be changed in a stream once it exists.
fn lasting(settings: &Settings, stream: &str, subject: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if settings.retention != "limits" {
        faults.push(format!(
            "its retention is {:?}, so records go when others have read them",
            settings.retention
        ));
    }
    if settings.storage != "file" {
        faults.push(format!(
            "its storage is {:?}, so records go when NATS ends",
            settings.storage
        ));
    }
    if settings.persist_mode == "async" {
        faults.push("its persist_mode is async: it acknowledges before it writes".to_owned());
    }
    if settings.mirror.is_some() {
        faults.push("it is a mirror, and takes no records of its own".to_owned());
    }
    if settings.sources.as_ref().is_some_and(|all| !all.is_empty()) {
        faults.push("it has sources, whose messages would be among the records".to_owned());
    }
    if settings.sealed {
        faults.push("it is sealed, and takes no records any more".to_owned());
    }
    let mend = format!(
        "nats stream add OTHER --subjects=txlog.OTHER --storage=file --retention=limits \
         --discard=old --allow-direct --defaults, and serve --stream OTHER (or let `serve` make \
         it); {stream} keeps its records, of {subject}"
    );
    let faults = faults.into_iter();
    faults
        .map(|fault| format!("- {fault}; that cannot be changed: {mend}"))
        .collect()
}
