//! What the clones of a store share: the connection, what is known of the stream, and how records
//! are read.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_nats::{Message, StatusCode};
use evenkeel::time::sleep;
use serde_json::json;
use tokio::sync::Semaphore;
use txlog_client::Record;
use txlog_client::frame::Code;

use super::ahead::Ahead;
use super::appends::{Appends, Patience};
use super::config::NatsConfig;
use super::connection::{Answer, Connection};
use super::error::NatsError;
use super::history::{History, Known};
use super::once::Once;
use super::publisher::{Marks, Publisher};
use super::stamp::millis_of;
use super::stream::{self, Info};
use crate::log::{ReadLimits, now_ms};
use crate::store::StoreError;

/// How long a replica may take to learn of a record.
const LAG: Duration = Duration::from_millis(10);

/// How long a read waits before it looks whether the stream is still there.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// The bound on all pending records together, in KiB.
pub(super) const PENDING_KIB: usize = 64 * 1024;

/// How often a new leader is asked until it may have learned of all records, and how long it has
/// between.
const LEADER_LOOKS: u32 = 10;
const LEADER_LAG: Duration = Duration::from_millis(100);

/// What the clones of a store share.
pub(super) struct Inner {
    pub(super) config: NatsConfig,
    pub(super) history: Arc<History>,
    pub(super) appends: Arc<Appends>,
    /// The same, for the answers of connections.
    slot: Arc<OnceLock<Arc<Appends>>>,
    /// The last connection, which may have ended.
    pub(super) connection: Mutex<Connection>,
    /// How many connections were begun.
    generations: AtomicU64,
    opening: Once<Result<Connection, NatsError>>,
    looking: Once<Result<(), NatsError>>,
    /// The last record when JetStream was last asked.
    anchor: Mutex<Option<Anchor>>,
    /// Why appends fail now.
    pub(super) trouble: Mutex<Option<NatsError>>,
    /// Places for pending records, and KiB for them.
    pub(super) places: Arc<Semaphore>,
    pub(super) kib: Arc<Semaphore>,
    ahead: Ahead,
    pub(super) record_bytes_max: usize,
}

/// A record, by which it is seen that the stream still has the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Anchor {
    epoch: u64,
    sequence: u64,
    /// When it was stored, as NATS writes it.
    time: String,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl Anchor {
    fn of(info: &Info, epoch: u64) -> Self {
        Self {
            epoch,
            sequence: info.state.last_seq,
            time: info.state.last_ts.clone(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.appends.close();
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// Connects, and begins to send records; with `make`, creates the stream if there is none.
    pub(super) async fn connect(config: NatsConfig, make: bool) -> Result<Arc<Self>, NatsError> {
        let subject = format!("txlog.{}", config.stream);
        // Only the stream's settings say how long records may be sent again.
        let slot = Arc::new(OnceLock::new());
        let connection = Connection::open(&config, 1, &slot).await?;
        let info = match make {
            true => stream::find_or_make(&connection, &config, &subject).await?,
            false => stream::info(&connection, &config.stream).await?,
        };
        stream::check(&info.config, &config, &subject)?;
        let window = Duration::from_nanos(info.config.duplicate_window.max(0).unsigned_abs());
        let patience = Patience {
            answer_max: config.answer_max,
            repeat_max: config.answer_max.min(window / 2),
        };
        let history = Arc::new(History::new(&config.stream, &info));
        let appends = Appends::new(&config.stream, Arc::clone(&history), patience);
        let appends = Arc::clone(slot.get_or_init(|| Arc::new(appends)));
        let random = RandomState::new().hash_one(&config.stream);
        let marks = Marks::new(&config.stream, format!("{random:016x}"));
        // Beyond its limit the server closes the connection, and with it fails others' requests.
        let mut message_max = connection.payload_max;
        if let Ok(size @ 1..) = usize::try_from(info.config.max_msg_size) {
            message_max = message_max.min(size);
        }
        let inner = Arc::new(Inner {
            record_bytes_max: config
                .record_bytes_max
                .min(message_max.saturating_sub(marks.bytes_max())),
            places: Arc::new(Semaphore::new(
                config.appends_max.clamp(1, Semaphore::MAX_PERMITS),
            )),
            kib: Arc::new(Semaphore::new(PENDING_KIB)),
            ahead: Ahead::new(connection.payload_max),
            connection: Mutex::new(connection),
            generations: AtomicU64::new(1),
            opening: Once::new(),
            looking: Once::new(),
            anchor: Mutex::new(Some(Anchor::of(&info, history.known().epoch))),
            trouble: Mutex::default(),
            history,
            appends: Arc::clone(&appends),
            slot,
            config,
        });
        let publisher = Publisher {
            appends,
            subject,
            marks,
        };
        drop(evenkeel::spawn(publisher.run(Arc::downgrade(&inner))));
        Ok(inner)
    }

    /// The connection, or a new one if it has ended, over which it was seen that the stream still
    /// is the same.
    pub(super) async fn connection(&self) -> Result<Connection, NatsError> {
        let current = || Some(lock(&self.connection).clone()).filter(Connection::is_open);
        if let Some(open) = current() {
            return Ok(open);
        }
        let connecting = async {
            // Whoever was here before may have connected.
            if let Some(open) = current() {
                return Ok(open);
            }
            // Relaxed: each opens one at a time, in here.
            let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
            let opened = Connection::open(&self.config, generation, &self.slot).await;
            let opened = match opened {
                Ok(connection) => self.look(&connection).await.map(|()| connection),
                Err(error) => Err(error),
            };
            match &opened {
                Ok(connection) => {
                    let new = connection.clone();
                    let old = std::mem::replace(&mut *lock(&self.connection), new);
                    // Wakes whoever has it, so without the lock.
                    drop(old);
                }
                Err(error) => *lock(&self.trouble) = Some(error.clone()),
            }
            opened
        };
        self.opening.share(connecting).await
    }

    /// Asks what records there are.
    pub(super) async fn refresh(&self) -> Result<(), NatsError> {
        let connection = self.connection().await?;
        self.looking.share(self.look(&connection)).await
    }

    async fn look(&self, connection: &Connection) -> Result<(), NatsError> {
        let looked = self.compare(connection).await;
        *lock(&self.trouble) = looked.as_ref().err().cloned();
        looked
    }

    /// Compares the stream with what is known of it.
    async fn compare(&self, connection: &Connection) -> Result<(), NatsError> {
        let stream = &self.config.stream;
        let before = self.history.known();
        let mut info = stream::info(connection, stream).await?;
        // A replica that has just become the leader may not have learned of all records yet.
        for _ in 0..LEADER_LOOKS {
            if info.config.num_replicas <= 1 || info.bounds().1 >= before.next {
                break;
            }
            sleep(LEADER_LAG).await;
            info = stream::info(connection, stream).await?;
        }
        let Some(mut epoch) = self.history.described(before, &info) else {
            // Another task has seen more in the meantime.
            return Ok(());
        };
        let old = lock(&self.anchor).clone();
        let new = Anchor::of(&info, epoch);
        if let Some(old) = old
            && (old.epoch, old.sequence > 0) == (epoch, true)
            && old != new
        {
            let time = stream::stored_at(connection, stream, old.sequence).await?;
            if time.is_some_and(|time| time != old.time) {
                let begun = self.history.replaced(before, old.sequence);
                epoch = begun.unwrap_or(epoch);
            }
        }
        *lock(&self.anchor) = Some(Anchor { epoch, ..new });
        Ok(())
    }

    async fn ask_record(&self, connection: &Connection, number: u64) -> Result<Answer, NatsError> {
        let subject = format!("$JS.API.DIRECT.GET.{}", self.config.stream);
        let request = json!({ "seq": number }).to_string();
        connection.request(&subject, request.into()).await
    }

    /// Why there will be no answer to a read: about a stream that was deleted, nobody answers.
    async fn gone(&self) -> NatsError {
        loop {
            sleep(LOOK_AFTER).await;
            if let Err(error) = self.refresh().await {
                return error;
            }
        }
    }

    /// Reads records from `begin` on, of those that are known.
    pub(super) async fn records(
        &self,
        known: Known,
        begin: u64,
        limits: ReadLimits,
    ) -> Result<(Vec<Record>, u64), NatsError> {
        let connection = self.connection().await?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        let (mut reached, mut asked, mut answers) = (begin, begin, VecDeque::new());
        let mut window = self.ahead.begin(limits);
        while records.len() < limits.records_max {
            while asked < known.next && answers.len() < window.messages(records.len(), bytes) {
                let room = self.ahead.room(connection.payload_max, !answers.is_empty());
                let Some(room) = room.await else { break };
                let answer = self.ask_record(&connection, asked).await?;
                answers.push_back((asked, answer, room));
                asked += 1;
            }
            let Some((sequence, answer, _room)) = answers.pop_front() else {
                break;
            };
            let answered = tokio::select! {
                answered = answer.wait() => answered?,
                error = self.gone() => return Err(error),
            };
            let Some(message) = answered else {
                self.refresh().await?;
                let stream = self.config.stream.clone();
                return Err(NatsError::NoStream { stream });
            };
            if let Some(status) = message.status {
                if status != StatusCode::NOT_FOUND {
                    let text = format!("a read was answered by {status}");
                    return Err(NatsError::Nonsense(text));
                }
                // It is gone because it was removed, or because NATS has lost it.
                self.refresh().await?;
                if self.history.known().epoch != known.epoch {
                    break;
                }
                let later = stream::not_before(&connection, &self.config.stream, sequence).await?;
                reached = later.map_or(known.next, |later| later.min(known.next));
                if reached == sequence {
                    // The replica that was asked lags behind, so it is not asked again at once.
                    sleep(LAG).await;
                    break;
                }
                answers.retain(|(asked, ..)| *asked >= reached);
                asked = asked.max(reached);
                continue;
            }
            window.came(message.payload.len());
            bytes += message.payload.len();
            if bytes > limits.bytes_max && !records.is_empty() {
                break;
            }
            records.push(record(sequence, message));
            reached = sequence + 1;
        }
        Ok((records, reached))
    }

    /// Where a read begins, by what is known.
    pub(super) fn begin(&self, known: Known, from: u64) -> Result<u64, StoreError> {
        let Known { first, next, .. } = known;
        let begin = if from == 0 { first } else { from };
        if begin < first {
            let text = format!(
                "record {from} is no longer kept; the oldest is {first}: read from there on"
            );
            return Err(StoreError::new(Code::Trimmed, text));
        }
        if begin > next {
            let text = format!(
                "there is no record {from} yet: the log has {first} to {}, and its next is {next}; \
                 if you have read {from} or later ones, NATS has lost records: read again from \
                 one that you trust",
                next - 1
            );
            return Err(StoreError::new(Code::OutOfRange, text));
        }
        Ok(begin)
    }
}

fn record(sequence: u64, message: Message) -> Record {
    // NATS states the time as a date with a zone; without it, the best guess is now.
    let headers = message.headers.as_ref();
    let stamp = headers.and_then(|headers| headers.get("Nats-Time-Stamp"));
    let time_ms = stamp.and_then(|stamp| millis_of(stamp.as_str()));
    Record {
        sequence,
        time_ms: time_ms.unwrap_or_else(now_ms),
        payload: message.payload,
    }
}
