//! The task that sends a session's records, and tells what became of each.
//!
//! ```text
//! queue ──▶ ready ──▶ under way ──▶ stored, not stored, unknown
//!             ▲         │  ▲  │
//!             │         │  └──┘ the connection ended: the same portions, in their order
//!             └─ again ◀┘ refused, but not for what they are
//! ```
//!
//! Records of a producer have the numbers 0, 1, 2 and so on, and the portions under way are those
//! with the latest. A portion that the server refused leaves a gap, and those behind it are refused
//! for that: they wait in `again` until nothing is under way, and are then a new producer's, which
//! begins with 0. So what is in `again` comes before what is in `ready`. A portion that was sent,
//! and whose outcome is unknown, leaves a gap as well; then all that were sent are unknown, since
//! nobody can tell any more which of them the server has.
//!
//! A server whose store takes no batches of several records sees no gaps either: behind such a
//! batch that it refuses, it would store what was sent later. So nothing is sent behind a batch of
//! several records before the server has taken one.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::time::{sleep, timeout};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::change::LogChange;
use super::link::{Link, may_pass};
use super::outcome::AppendError;
use super::portion::{
    Entry, Portion, Verdict, Way, record_bytes_max, verdict, verdict_of_failed_log,
};
use crate::client::{Client, ServerInfo, disconnected};
use crate::cursor::Identity;
use crate::error::ClientError;
use crate::frame::{BATCHED_OVERHEAD, Code, Produced};

/// How long the server may be silent before it is asked for a sign of life, and how long it then
/// has: a machine that is gone does not end its connections.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How often in a row the records may become a new producer's without any being stored.
const RENEWALS_MAX: u32 = 3;

pub(super) struct Carrier {
    link: Arc<Link>,
    queue: mpsc::UnboundedReceiver<Entry>,
    /// No more comes from the queue.
    is_closed: bool,
    room: Arc<Semaphore>,
    give_up: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    change: watch::Sender<Option<LogChange>>,
    /// The log that acknowledged records last, or the one that was said to have taken its place.
    log: Option<Identity>,
    give_up_after: Duration,
    /// Whether a log that has failed is hoped for.
    waits_for_log: bool,
    producer: Produced,
    /// How often the records became a new producer's since one was stored.
    renewals: u32,
    /// The best way that the servers' store supports, as far as it is known.
    supported: Way,
    /// It has taken a batch of several records.
    takes_batches: bool,
    /// The way on this connection, or on the last one.
    way: Way,
    /// What is appended on this connection from now on gets this number, or a greater one.
    next: u64,
    /// Sent, in their order, or to be sent next.
    under_way: VecDeque<Portion>,
    /// Refused, and to be sent once nothing is under way.
    again: VecDeque<Entry>,
    /// To be sent next, before what is in the queue.
    ready: VecDeque<Entry>,
}

/// What a carrier begins with.
pub(super) struct Start {
    pub(super) link: Arc<Link>,
    pub(super) queue: mpsc::UnboundedReceiver<Entry>,
    pub(super) room: Arc<Semaphore>,
    /// To settle at once all that is pending, and to tell when it is.
    pub(super) give_up: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    /// To tell that the log is not the one that acknowledged records.
    pub(super) change: watch::Sender<Option<LogChange>>,
    pub(super) give_up_after: Duration,
    pub(super) waits_for_log: bool,
    /// The id of its first producer; later ones count on from there.
    pub(super) producer: u128,
}

/// What a connection is waited for.
enum Event {
    Answer(Result<(u64, usize), ClientError>),
    Entry(Option<Entry>),
    Time,
    GiveUp(oneshot::Sender<()>),
}

impl Carrier {
    pub(super) fn new(start: Start) -> Self {
        let Start {
            link,
            queue,
            room,
            give_up,
            change,
            give_up_after,
            waits_for_log,
            producer,
        } = start;
        Self {
            link,
            queue,
            is_closed: false,
            room,
            give_up,
            change,
            log: None,
            give_up_after,
            waits_for_log,
            producer: Produced {
                producer,
                number: 0,
            },
            renewals: 0,
            supported: Way::Batches,
            takes_batches: false,
            way: Way::Batches,
            next: 0,
            under_way: VecDeque::new(),
            again: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    /// Runs until no session is left, and all records have their outcomes.
    pub(super) async fn run(mut self) {
        loop {
            if self.since().is_none() {
                let entry = tokio::select! {
                    biased;
                    Some(told) = self.give_up.recv() => {
                        self.give_up_all(&ClientError::GivenUp);
                        let _ = told.send(());
                        continue;
                    }
                    entry = self.queue.recv() => entry,
                    // Else nobody would see that it has passed.
                    () = self.link.healed() => continue,
                };
                match entry {
                    Some(entry) => self.ready.push_back(entry),
                    None => return,
                }
            }
            let connected = tokio::select! {
                connected = self.link.client() => connected,
                () = until(self.deadline()) => Err(self.no_connection()),
                Some(told) = self.give_up.recv() => {
                    self.give_up_all(&ClientError::GivenUp);
                    let _ = told.send(());
                    continue;
                }
            };
            match connected {
                Ok(client) => {
                    let Err(error) = self.serve(&client).await else {
                        return;
                    };
                    if client.end().is_none() {
                        self.cannot_be_sent(&client, &error);
                    }
                    self.after(&error);
                }
                Err(error) if self.may_pass(&error) => self.expire(&error),
                Err(error) => self.give_up_all(&error),
            }
        }
    }

    fn may_pass(&self, error: &ClientError) -> bool {
        may_pass(error) && (self.waits_for_log || !error.is_of_failed_log())
    }

    /// Why a record was not sent in time.
    fn no_connection(&self) -> ClientError {
        let trouble = self.link.trouble().borrow().clone();
        trouble.unwrap_or_else(|| {
            disconnected(format!("there was none within {:?}", self.give_up_after))
        })
    }

    /// Sends on this connection until it is of no use any more: why; or until no session is left.
    async fn serve(&mut self, client: &Client) -> Result<(), ClientError> {
        let info = client.info();
        self.way = self.supported.max(Way::of(&info));
        self.next = info.next;
        self.compare(&info);
        self.resume(client, &info).await?;
        let mut heard = Instant::now();
        loop {
            self.fill(client, &info).await?;
            if self.is_closed && self.since().is_none() {
                return Ok(());
            }
            let may_take = self.may_take(&info);
            let time = self.deadline().map(|at| at.min(heard + SILENCE_MAX));
            let event = tokio::select! {
                biased;
                Some(told) = self.give_up.recv() => Event::GiveUp(told),
                answer = answer(&mut self.under_way) => Event::Answer(answer),
                entry = self.queue.recv(), if may_take => Event::Entry(entry),
                () = until(time), if !self.under_way.is_empty() => Event::Time,
            };
            match event {
                Event::Answer(answer) => {
                    heard = Instant::now();
                    self.answered(client, answer)?;
                }
                Event::Entry(Some(entry)) => self.ready.push_back(entry),
                Event::Entry(None) => self.is_closed = true,
                Event::GiveUp(told) => {
                    let is_sent = !self.under_way.is_empty();
                    self.give_up_all(&ClientError::GivenUp);
                    let _ = told.send(());
                    if is_sent {
                        // Answers to what is settled are not to be taken for others'.
                        client.abandon(ClientError::GivenUp);
                        return Err(ClientError::GivenUp);
                    }
                }
                Event::Time => heard = self.look(client).await?,
            }
        }
    }

    /// Tells if what was acknowledged may not be in this server's log.
    fn compare(&mut self, info: &ServerInfo) {
        let (Some(before), Some(now)) = (self.log, info.identity) else {
            return;
        };
        if let Some(change) = LogChange::between(before, now, info.next) {
            self.log = Some(now);
            self.change.send_replace(Some(change));
        }
    }

    /// Takes what was under way to a new connection. What was sent is repeated, if this server can
    /// tell that it is.
    async fn resume(&mut self, client: &Client, info: &ServerInfo) -> Result<(), ClientError> {
        self.take_back_unsent();
        if let Some(sent) = self.under_way.front() {
            let why = match () {
                () if !self.way.max(sent.way).may_repeat() => {
                    "its server cannot tell a repeated append"
                }
                () if sent.of != info.identity => "there is another log, or a later epoch of it",
                () => "",
            };
            if !why.is_empty() {
                let why = disconnected(format!("{why}; it was sent before the connection ended"));
                self.give_up_sent(&why);
            }
        }
        // The server may take less at once than the one before.
        let bytes_max = self.way.bytes_max(info);
        if self
            .under_way
            .iter()
            .any(|portion| portion.bytes() > bytes_max)
        {
            let portions = std::mem::take(&mut self.under_way).into_iter();
            self.under_way = portions
                .flat_map(|portion| portion.split(bytes_max))
                .collect();
        }
        for portion in &mut self.under_way {
            send(portion, client, (self.way, self.next)).await?;
        }
        Ok(())
    }

    /// A portion is not for this server, and never will be, though nothing is wrong with the
    /// connection.
    fn cannot_be_sent(&mut self, client: &Client, why: &ClientError) {
        // Answers to what is settled are not to be taken for others'.
        client.abandon(why.clone());
        let not_stored = AppendError::NotStored { why: why.clone() };
        while let Some(portion) = self.under_way.pop_back_if(|last| last.attempts == 0) {
            portion.failed(&not_stored, &self.room);
        }
        self.give_up_sent(why);
    }

    /// Portions that were not sent are made anew, as this server may take them in another way.
    fn take_back_unsent(&mut self) {
        while let Some(portion) = self.under_way.pop_back_if(|last| last.attempts == 0) {
            self.producer = portion.produced;
            first(&mut self.ready, portion.entries);
        }
    }

    /// Whether a new portion may be begun, or made longer by what comes.
    fn may_take(&self, info: &ServerInfo) -> bool {
        let is_full = self.under_way.len() >= self.portions_max(info);
        !is_full && !self.is_closed && self.ready.is_empty() && self.again.is_empty()
    }

    /// Sends portions for as long as there is something to send, and room.
    async fn fill(&mut self, client: &Client, info: &ServerInfo) -> Result<(), ClientError> {
        if !self.again.is_empty() {
            if !self.under_way.is_empty() {
                return Ok(());
            }
            self.renewals += 1;
            self.renew();
            let again = std::mem::take(&mut self.again);
            first(&mut self.ready, again);
        }
        while self.under_way.len() < self.portions_max(info) {
            let Some(portion) = self.portion(info) else {
                break;
            };
            // It is under way first, so that it is not lost if it cannot be sent.
            self.under_way.push_back(portion);
            if let Some(portion) = self.under_way.back_mut() {
                send(portion, client, (self.way, self.next)).await?;
            }
        }
        Ok(())
    }

    /// How many portions may be under way now.
    fn portions_max(&self, info: &ServerInfo) -> usize {
        let last = self.under_way.back().map_or(0, |last| last.entries.len());
        match self.way {
            Way::Batches if last > 1 && !self.takes_batches => self.under_way.len(),
            way => way.portions_max(info),
        }
    }

    /// The next portion: what has gathered, up to the limits.
    fn portion(&mut self, info: &ServerInfo) -> Option<Portion> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while entries.len() < self.way.records_max() {
            let Some(entry) = self.gathered() else {
                break;
            };
            let (length, bytes_max) = (entry.record.len(), record_bytes_max(info));
            if length > bytes_max {
                let why = ClientError::RecordTooLarge {
                    bytes: length,
                    bytes_max,
                };
                entry.settle(Err(AppendError::NotStored { why }), &self.room);
                continue;
            }
            bytes += BATCHED_OVERHEAD + entry.record.len();
            if bytes > self.way.bytes_max(info) {
                self.ready.push_front(entry);
                break;
            }
            entries.push(entry);
        }
        let since = entries.first()?.since;
        let produced = self.producer;
        self.producer.number += entries.len() as u64;
        Some(Portion {
            entries,
            records: None,
            produced,
            since,
            attempts: 0,
            way: self.way,
            of: None,
            not_before: 0,
            answer: None,
        })
    }

    /// The next record, if there is one now.
    fn gathered(&mut self) -> Option<Entry> {
        if let Some(entry) = self.ready.pop_front() {
            return Some(entry);
        }
        match self.queue.try_recv() {
            Ok(entry) => Some(entry),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.is_closed = true;
                None
            }
        }
    }

    /// The first portion was answered. An error if the connection is of no more use.
    fn answered(
        &mut self,
        client: &Client,
        answer: Result<(u64, usize), ClientError>,
    ) -> Result<(), ClientError> {
        let Some(mut portion) = self.under_way.pop_front() else {
            return Ok(());
        };
        portion.answer = None;
        let error = match answer {
            Ok((first, count)) if count == portion.entries.len() => {
                self.log = client.info().identity.or(self.log);
                // Before others hear that it is stored.
                self.link.is_well();
                self.takes_batches |= count > 1;
                portion.stored(first, &self.room);
                self.next = self.next.max(first.saturating_add(count as u64));
                self.link.works();
                self.renewals = 0;
                return Ok(());
            }
            Ok((_, count)) => {
                let sent = portion.entries.len();
                let why = disconnected(format!(
                    "{count} records were stored where {sent} were sent"
                ));
                client.abandon(why.clone());
                why
            }
            Err(error) => error,
        };
        let is_same_log = portion.of.is_some() && portion.of == client.info().identity;
        let verdict = match error.code() {
            Some(code) if error.is_of_failed_log() && !self.waits_for_log => {
                verdict_of_failed_log(code, portion.attempts)
            }
            // This log takes no such batch, so it has not taken it before.
            Some(Code::Unsupported) if is_same_log => verdict(&error, portion.way, 1),
            _ => verdict(&error, portion.way, portion.attempts),
        };
        if verdict != Verdict::Repeat && client.end().is_none() {
            self.link.works();
        }
        if error.code() == Some(Code::Unsupported) {
            let less = portion.way.less().unwrap_or(portion.way);
            self.supported = self.supported.max(less);
            self.way = self.way.max(less);
        }
        self.act_on(verdict, portion, client, error)
    }

    /// Does what is to be done about a portion that failed so.
    fn act_on(
        &mut self,
        verdict: Verdict,
        mut portion: Portion,
        client: &Client,
        error: ClientError,
    ) -> Result<(), ClientError> {
        match verdict {
            Verdict::Repeat => {
                if error.code() == Some(Code::LogFailedBefore) {
                    // This attempt is as none.
                    portion.attempts = portion.attempts.saturating_sub(1);
                }
                self.under_way.push_front(portion);
                if matches!(error, ClientError::LogAway { .. }) {
                    self.link.is_refused(&error);
                }
                // The answers to those behind it would come out of order.
                client.abandon(error.clone());
                return Err(error);
            }
            Verdict::Renew if self.renewals < RENEWALS_MAX => self.again.extend(portion.entries),
            Verdict::Less => self.again.extend(portion.entries),
            Verdict::Renew | Verdict::NotStored => {
                let not_stored = AppendError::NotStored { why: error };
                portion.failed(&not_stored, &self.room);
                self.leave_gap();
            }
            Verdict::Unknown => {
                let unknown = AppendError::Unknown { why: error.clone() };
                portion.failed(&unknown, &self.room);
                self.leave_gap();
                return match client.end() {
                    Some(_) => Err(error),
                    None => Ok(()),
                };
            }
        }
        Ok(())
    }

    /// The numbers of the producer have a gap now, so that the server refuses what follows.
    fn leave_gap(&mut self) {
        if self.way.may_repeat() && self.under_way.is_empty() {
            self.renew();
        }
    }

    fn renew(&mut self) {
        self.producer = Produced {
            producer: self.producer.producer.wrapping_add(1),
            number: 0,
        };
    }

    /// Nothing has come for a while, or the first portion is too old. When it was heard last.
    async fn look(&mut self, client: &Client) -> Result<Instant, ClientError> {
        if self.deadline().is_some_and(|at| at <= Instant::now()) {
            let after = self.give_up_after;
            let why = disconnected(format!("the server did not answer within {after:?}"));
            self.expire(&why);
            client.abandon(why.clone());
            return Err(why);
        }
        match timeout(SILENCE_MAX, client.ping()).await {
            Ok(pong) => pong.map(|_| Instant::now()),
            Err(_) => {
                let why = disconnected(format!("no answer to a ping within {SILENCE_MAX:?}"));
                client.abandon(why.clone());
                Err(why)
            }
        }
    }

    /// The connection was of no more use: records that are not to be repeated are settled.
    fn after(&mut self, error: &ClientError) {
        for portion in &mut self.under_way {
            portion.answer = None;
        }
        let is_sent_once = |portion: &Portion| portion.attempts > 0 && !portion.way.may_repeat();
        if self.under_way.front().is_some_and(is_sent_once) {
            self.give_up_sent(error);
        }
        self.expire(error);
    }

    /// Since when the oldest record is pending that is not in the queue.
    fn since(&self) -> Option<Instant> {
        let under_way = self.under_way.iter().map(|portion| portion.since);
        let others = self
            .again
            .iter()
            .chain(&self.ready)
            .map(|entry| entry.since);
        under_way.take(1).chain(others.take(1)).min()
    }

    /// When that one is given up; never, if that cannot be reckoned.
    fn deadline(&self) -> Option<Instant> {
        self.since()?.checked_add(self.give_up_after)
    }

    /// Settles what has waited for too long.
    fn expire(&mut self, why: &ClientError) {
        let (now, after) = (Instant::now(), self.give_up_after);
        let is_old = |since| now.saturating_duration_since(since) >= after;
        if self
            .under_way
            .front()
            .is_some_and(|front| is_old(front.since))
        {
            self.give_up_sent(why);
        }
        let not_stored = AppendError::NotStored { why: why.clone() };
        while let Some(entry) = self.again.pop_front_if(|entry| is_old(entry.since)) {
            entry.settle(Err(not_stored.clone()), &self.room);
        }
        while let Some(entry) = self.ready.pop_front_if(|entry| is_old(entry.since)) {
            entry.settle(Err(not_stored.clone()), &self.room);
            if self.ready.is_empty() {
                self.ready.extend(self.queue.try_recv().ok());
            }
        }
    }

    /// Settles all that were sent as unknown; the others become a new producer's.
    fn give_up_sent(&mut self, why: &ClientError) {
        let unknown = AppendError::Unknown { why: why.clone() };
        self.take_back_unsent();
        for portion in self.under_way.drain(..) {
            portion.failed(&unknown, &self.room);
        }
        self.renew();
    }

    /// No server will take the records, however often it is asked.
    fn give_up_all(&mut self, why: &ClientError) {
        self.give_up_sent(why);
        let not_stored = AppendError::NotStored { why: why.clone() };
        let again = std::mem::take(&mut self.again);
        first(&mut self.ready, again);
        while let Some(entry) = self.gathered() {
            entry.settle(Err(not_stored.clone()), &self.room);
        }
    }
}

/// Puts these before those that wait.
fn first<E>(waiting: &mut VecDeque<Entry>, entries: E)
where
    E: IntoIterator<Item = Entry, IntoIter: DoubleEndedIterator>,
{
    for entry in entries.into_iter().rev() {
        waiting.push_front(entry);
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep(time.saturating_duration_since(Instant::now())).await,
        None => std::future::pending().await,
    }
}

async fn send(
    portion: &mut Portion,
    client: &Client,
    (way, next): (Way, u64),
) -> Result<(), ClientError> {
    // It takes long only if the connection takes no more bytes.
    let sent = timeout(SILENCE_MAX, portion.send(client, way, next)).await;
    sent.unwrap_or_else(|_| {
        let why = disconnected(format!("it took no bytes for {SILENCE_MAX:?}"));
        client.abandon(why.clone());
        Err(why)
    })
}

/// The answer to the first portion; never, if none is under way.
async fn answer(under_way: &mut VecDeque<Portion>) -> Result<(u64, usize), ClientError> {
    match under_way
        .front_mut()
        .and_then(|front| front.answer.as_mut())
    {
        Some(answer) => std::future::poll_fn(|cx| Pin::new(&mut *answer).poll(cx)).await,
        None => std::future::pending().await,
    }
}
