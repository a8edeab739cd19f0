//! Whether a stream can keep what txlog promises.

use super::config::NatsConfig;
use super::error::NatsError;
use super::stream::Settings;
use crate::log::Retention;

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

/// A stream's limits as JetStream writes them: -1 is none, and 0 is no age.
pub(super) struct Limits {
    pub(super) bytes: i64,
    pub(super) messages: i64,
    /// In nanoseconds.
    pub(super) age: i64,
}

impl Limits {
    pub(super) fn of(retention: &Retention) -> Self {
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

/// The shortest time, in nanoseconds, for which the stream has to know message ids: clients send
/// a record again for a minute, and each attempt may take half as long.
const WINDOW_MIN: i64 = 120_000_000_000;

/// NATS allows no window that is longer than records are kept.
fn window_min(settings: &Settings) -> i64 {
    match settings.max_age {
        age @ 1.. => WINDOW_MIN.min(age),
        _ => WINDOW_MIN,
    }
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
    let window_min = window_min(settings);
    if settings.duplicate_window < window_min {
        let seconds = |nanoseconds: i64| format!("{} s", nanoseconds as f64 / 1e9);
        let fault = format!(
            "its duplicate_window is {}, within which NATS knows a record that comes again, and \
             {} are needed",
            seconds(settings.duplicate_window),
            seconds(window_min)
        );
        let option = match window_min == WINDOW_MIN {
            true => "--dupe-window=2m".to_owned(),
            false => format!("--dupe-window={}", seconds(window_min).replace(' ', "")),
        };
        mend(fault, &option);
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
