//! What the clones of a store share: the connection, and what is known of the stream.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel::time::{Instant, sleep};
use tokio::sync::Semaphore;

use super::ahead::Ahead;
use super::appends::Appends;
use super::config::NatsConfig;
use super::connection::Connection;
use super::error::NatsError;
use super::history::History;
use super::once::Once;
use super::publisher::{Marks, Publisher};
use super::repeats::Remembered;
use super::stream::{self, Info};
use super::{epoch, fit};

/// How long NATS may be silent when it is asked about the stream, before it is said that it hangs.
/// Longer than a new leader is looked at, and shorter than the client needs to give it up.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// How often a new leader is asked until it may have learned of all records, and how long it has
/// between.
const LEADER_LOOKS: u32 = 10;
const LEADER_LAG: Duration = Duration::from_millis(100);

/// What the clones of a store share.
pub(super) struct Inner {
    pub(super) config: NatsConfig,
    /// That of its records.
    subject: String,
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
    /// When questions about the stream began that are not answered yet, the oldest first.
    looks: Mutex<Vec<Instant>>,
    /// Why appends fail now.
    pub(super) trouble: Mutex<Option<NatsError>>,
    /// Which records that are sent again NATS knows.
    pub(super) remembered: Mutex<Option<Remembered>>,
    /// Places for pending records, and KiB for those of this stream.
    pub(super) places: Arc<Semaphore>,
    pub(super) kib: Arc<Semaphore>,
    pub(super) ahead: Ahead,
    pub(super) record_bytes_max: usize,
}

/// A question about the stream that is under way.
struct Looking<'a> {
    looks: &'a Mutex<Vec<Instant>>,
    began: Instant,
}

impl<'a> Looking<'a> {
    fn begin(looks: &'a Mutex<Vec<Instant>>) -> Self {
        let began = Instant::now();
        lock(looks).push(began);
        Self { looks, began }
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        let mut looks = lock(self.looks);
        let own = looks.iter().position(|began| *began == self.began);
        own.map(|at| looks.remove(at));
    }
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
        fit::check(&info.config, &config, &subject)?;
        let history = Arc::new(History::new(&config.stream, &info));
        let (of, window) = (Arc::clone(&history), info.window());
        let appends = Appends::new(&config.stream, of, config.answer_max, window);
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
            remembered: Mutex::default(),
            kib: Arc::new(Semaphore::new(config.pending_kib())),
            ahead: Ahead::new(Arc::clone(&config.room.answers), connection.payload_max),
            connection: Mutex::new(connection),
            generations: AtomicU64::new(1),
            opening: Once::new(),
            looking: Once::new(),
            anchor: Mutex::new(Some(Anchor::of(&info, history.known().epoch))),
            looks: Mutex::default(),
            trouble: Mutex::default(),
            history,
            appends: Arc::clone(&appends),
            slot,
            config,
            subject: subject.clone(),
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
        let looking = Looking::begin(&self.looks);
        let looked = self.compare(connection).await;
        drop(looking);
        if let Ok(info) = &looked {
            self.appends.see_window(info.window());
        }
        // Records can be read from a stream that is not fit for new ones.
        let unfit = |info: &Info| fit::check(&info.config, &self.config, &self.subject).err();
        *lock(&self.trouble) = match &looked {
            Ok(info) => unfit(info),
            Err(error) => Some(error.clone()),
        };
        looked.map(drop)
    }

    /// Says so if NATS has let a question about the stream wait for too long.
    pub(super) fn silence(&self) -> Option<NatsError> {
        let oldest = lock(&self.looks).first().copied()?;
        (oldest.elapsed() > SILENCE_MAX).then_some(NatsError::NoAnswer(SILENCE_MAX))
    }

    /// Compares the stream with what is known of it, and returns what JetStream says of it.
    async fn compare(&self, connection: &Connection) -> Result<Info, NatsError> {
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
            return Ok(info);
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
        if epoch > info.epoch() {
            epoch::keep(connection, stream, epoch).await?;
        }
        Ok(info)
    }
}
