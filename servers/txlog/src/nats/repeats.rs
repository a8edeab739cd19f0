//! Records that a producer sends again, perhaps long after the first time.
//!
//! NATS knows message ids for the stream's `duplicate_window`, and would store what comes later a
//! second time. The producer says which number the log had next when it sent the record first: no
//! copy has a lower one. So if nothing has that number yet, or if what has it is no older than half
//! of the window, each copy is younger, and NATS knows it. A quarter is for the store's own
//! attempts, and one for the way to NATS. Otherwise the records from there on are read, as many as
//! is reasonable, and if that does not tell, nobody can.

use std::time::Duration;

use evenkeel::time::{Instant, sleep};
use txlog_client::frame::{Code, Produced};

use super::connection::Connection;
use super::error::NatsError;
use super::inner::{Inner, lock};
use super::publisher::{MESSAGE_ID, id_of};
use super::stamp::millis_of;
use super::stream;
use crate::log::{ReadLimits, now_ms};
use crate::store::StoreError;

/// How many records are read to find one, and how many bytes of them.
const SOUGHT_MAX: usize = 1_024;
const SOUGHT_BYTES_MAX: usize = 16 << 20;

/// How many of them are read at a time.
const PART: ReadLimits = ReadLimits {
    records_max: 64,
    bytes_max: 1 << 20,
};

/// How often a replica is asked that does not have the records yet, and how long it has between.
const LOOKS_MAX: u32 = 50;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Of which records it is known that NATS knows their copies: from this number on, until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered {
    epoch: u64,
    from: u64,
    until: Instant,
    /// How old they are then at most.
    age_max: Duration,
}

/// What becomes of a record that its producer sends again.
pub(super) enum Repeated {
    /// It has this number.
    Stored(u64),
    /// It can be sent: NATS knows a copy, or there is none. None is older than this.
    Sendable(Duration),
}

impl Inner {
    /// Decides what becomes of a producer's record that was sent before, when the log's next number
    /// was `not_before`. An error if nobody can tell.
    pub(super) async fn find_repeated(
        &self,
        produced: Produced,
        not_before: u64,
    ) -> Result<Repeated, StoreError> {
        if let Some(age_max) = self.remembered(not_before) {
            return Ok(Repeated::Sendable(age_max));
        }
        let not_sent = |error| StoreError::away(true, format!("{error}; the record is not sent"));
        let connection = self.connection().await.map_err(not_sent)?;
        let recent = self.recent(&connection, not_before).await;
        if let Some(age_max) = recent.map_err(not_sent)? {
            return Ok(Repeated::Sendable(age_max));
        }
        let found = self.seek_copy(produced, not_before).await?;
        Ok(found.map_or(Repeated::Sendable(Duration::ZERO), Repeated::Stored))
    }

    /// How old records from this number on are at most, if it is known that NATS knows them.
    fn remembered(&self, number: u64) -> Option<Duration> {
        let (epoch, reach) = (self.history.known().epoch, self.appends.reach());
        let remembered = *lock(&self.remembered);
        let is_known = |known: &Remembered| {
            known.epoch == epoch && number >= known.from && Instant::now() < known.until
        };
        let known = remembered.filter(is_known)?;
        // It was longer before, perhaps.
        (known.age_max <= reach / 2).then_some(known.age_max)
    }

    /// How old records from this number on are at most, if they are so young that NATS knows their
    /// message ids.
    async fn recent(
        &self,
        connection: &Connection,
        number: u64,
    ) -> Result<Option<Duration>, NatsError> {
        let (began, epoch) = (Instant::now(), self.history.known().epoch);
        let name = &self.config.stream;
        let info = stream::info(connection, name).await?;
        self.appends.see_window(info.window());
        let half = self.appends.reach() / 2;
        let age = if number >= info.bounds().1 {
            Some(Duration::ZERO)
        } else {
            let stored = stream::stored_at(connection, name, number).await?;
            // By NATS's own clock, if it says how late it is there.
            let now = millis_of(&info.ts).unwrap_or_else(now_ms);
            let stored = stored.and_then(|stored| millis_of(&stored));
            stored.map(|stored| Duration::from_millis(now.saturating_sub(stored)))
        };
        let Some(left) = age.and_then(|age| half.checked_sub(age)) else {
            return Ok(None);
        };
        *lock(&self.remembered) = Some(Remembered {
            epoch,
            from: number,
            until: began + left,
            age_max: half,
        });
        Ok(Some(half))
    }

    /// Reads the records from this number on, until one is that of the producer.
    async fn seek_copy(
        &self,
        produced: Produced,
        not_before: u64,
    ) -> Result<Option<u64>, StoreError> {
        // Each holds a part of the stream in memory. It is never closed.
        let _turn = self.config.room.seeks.acquire().await;
        let id = id_of(produced);
        self.refresh().await?;
        let known = self.history.known();
        let (mut at, mut count, mut bytes, mut looks) = (not_before.max(known.first), 0, 0, 0);
        while at < known.next && count < SOUGHT_MAX && bytes < SOUGHT_BYTES_MAX {
            let (messages, reached) = self.messages(known, at, PART).await?;
            if reached == at {
                looks += 1;
                if looks > LOOKS_MAX {
                    break;
                }
                sleep(LOOK_PAUSE).await;
            }
            for (sequence, message) in messages {
                let headers = message.headers.as_ref();
                let own = headers.and_then(|headers| headers.get(MESSAGE_ID));
                if own.is_some_and(|own| own.as_str() == id) {
                    return Ok(Some(sequence));
                }
                count += 1;
                bytes += message.payload.len();
            }
            at = reached;
        }
        // A record that is gone may have been the one.
        if known.next.checked_sub(not_before) == Some(count as u64) {
            return Ok(None);
        }
        let text = "it cannot be told whether the record is stored: it was sent first when others \
                    were that NATS has forgotten by now (see the stream's duplicate_window), and \
                    there are too many since, or some are gone";
        Err(StoreError::new(Code::ProducerUnknown, text))
    }
}
