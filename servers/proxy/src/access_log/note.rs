//! What is noted of a request while it is served. Its line is written when this is dropped, so that
//! also a request that is given up has one.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::time::Instant;
use jiff::Timestamp;

use super::cause::Cause;
use super::format::{Record, escaped};
use super::log::Log;
use crate::counters::{Counter, OfListener};
use crate::place::in_place;
use crate::pool::{Lease, NoConnection, Server};
use crate::route::Destination;

/// How much of a target is written, and of other texts.
const TARGET_MAX: usize = 2_048;
const TEXT_MAX: usize = 512;

/// No server has been asked.
const NOBODY: usize = usize::MAX;

/// Where what is noted of a listener's requests goes.
#[derive(Debug)]
pub struct Recorder {
    log: Option<Arc<Log>>,
    listener: Arc<str>,
    counters: Arc<OfListener>,
}

impl Recorder {
    /// To this log, if it has one, and to its counters.
    pub fn new(
        log: Option<&Arc<Log>>,
        listener: &Arc<str>,
        counters: &Arc<OfListener>,
    ) -> Arc<Self> {
        Arc::new(Self {
            log: log.map(Arc::clone),
            listener: Arc::clone(listener),
            counters: Arc::clone(counters),
        })
    }
}

/// What is noted of a request. All accesses to numbers are `Relaxed`: one task at a time changes
/// them, and they are read by the one who drops it.
///
/// Its times are those at which [`Timed`] began to poll, as what was waited for was there by then.
/// So the clock is read at the ends of a poll, and not for each step.
#[derive(Debug)]
pub struct Note {
    recorder: Arc<Recorder>,
    time: Timestamp,
    began: Instant,
    client: Option<IpAddr>,
    tls: &'static str,
    said: Said,
    version: &'static str,
    id: String,
    route: Option<Arc<Destination>>,
    /// The index of the server that was asked last, in the pool of the route.
    server: AtomicUsize,
    status: AtomicU16,
    queue_us: AtomicU64,
    connect_us: AtomicU64,
    /// When the poll under way began, the last connection was there, the head of the answer, and
    /// when all was done, since the beginning.
    now_us: AtomicU64,
    connected_us: AtomicU64,
    answered_us: AtomicU64,
    ended_us: AtomicU64,
    is_whole: AtomicBool,
    cause: OnceLock<Cause>,
    /// Further attempts, after the first one.
    retries: AtomicUsize,
    /// Nanoseconds in which it was computed.
    pub processor: Counter,
    /// Bytes that the server was sent.
    pub bytes_in: Counter,
    /// Bytes that the client was sent.
    pub bytes_out: Counter,
}

/// What a client has said, one behind the other, so that it takes one piece of memory: the method,
/// the target, the host, `Referer` and `User-Agent`.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// Where each ends.
    ends: [usize; 5],
}

impl Said {
    /// Each has a length up to which it is noted.
    fn note(&mut self, texts: [(&[u8], usize); 5]) {
        let bytes = texts.iter().map(|(text, max)| text.len().min(*max));
        self.text.reserve(bytes.sum());
        for ((text, max), end) in texts.into_iter().zip(&mut self.ends) {
            escaped(text, max, &mut self.text);
            *end = self.text.len();
        }
    }

    fn all(&self) -> [&str; 5] {
        let mut begin = 0;
        self.ends.map(|end| {
            let text = &self.text[begin..end];
            begin = end;
            text
        })
    }
}

impl Note {
    /// Of a request whose head is there, or cannot be read; or of a connection that is passed on
    /// as it is.
    pub fn begin(
        recorder: &Arc<Recorder>,
        client: Option<IpAddr>,
        tls: Option<&'static str>,
    ) -> Box<Self> {
        in_place(|| Self {
            recorder: Arc::clone(recorder),
            time: Timestamp::now(),
            began: Instant::now(),
            client,
            tls: tls.unwrap_or_default(),
            said: Said::default(),
            version: "",
            id: String::new(),
            route: None,
            server: AtomicUsize::new(NOBODY),
            status: AtomicU16::new(0),
            queue_us: AtomicU64::new(0),
            connect_us: AtomicU64::new(0),
            now_us: AtomicU64::new(0),
            connected_us: AtomicU64::new(0),
            answered_us: AtomicU64::new(0),
            ended_us: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
            cause: OnceLock::new(),
            retries: AtomicUsize::new(0),
            processor: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
        })
    }

    /// What is asked for, whose headers are found by their names in lower case.
    pub fn asked<'h>(
        &mut self,
        (method, target, version): (&str, &str, &'static str),
        host: &str,
        header: impl Fn(&str) -> Option<&'h [u8]>,
    ) {
        if self.recorder.log.is_none() {
            return;
        }
        let text = |name: &str| header(name).unwrap_or_default();
        self.said.note([
            (method.as_bytes(), TEXT_MAX),
            (target.as_bytes(), TARGET_MAX),
            (host.as_bytes(), TEXT_MAX),
            (text("referer"), TEXT_MAX),
            (text("user-agent"), TEXT_MAX),
        ]);
        self.version = version;
    }

    /// Where it goes.
    pub fn goes(&mut self, destination: &Arc<Destination>) {
        self.route = Some(Arc::clone(destination));
    }

    /// Its id.
    pub fn has_id(&mut self, id: &str) {
        id.clone_into(&mut self.id);
    }

    /// When the poll under way began, since the beginning.
    pub fn now(&self) -> Duration {
        us(&self.now_us)
    }

    /// There is a connection to a server, which was looked for since `began`, after so many other
    /// attempts. It was there before, or is new.
    pub fn connected(&self, lease: &Lease, is_new: bool, began: Duration, retries: usize) {
        let now = self.now();
        if is_new {
            let connects = &lease.server().counters.connects;
            connects.observe(now.saturating_sub(began + lease.queued));
        }
        self.server.store(lease.index(), Ordering::Relaxed);
        add(&self.queue_us, lease.queued);
        let whole = now.saturating_sub(began);
        add(&self.connect_us, whole.saturating_sub(lease.queued));
        set(&self.connected_us, now);
        self.retries.store(retries, Ordering::Relaxed);
    }

    /// There is none, after so many other attempts.
    pub fn unserved(&self, error: &NoConnection, retries: usize) {
        // One that was asked before is not to blame.
        self.server.store(NOBODY, Ordering::Relaxed);
        add(&self.queue_us, error.queued());
        self.retries.store(retries, Ordering::Relaxed);
        self.failed(Cause::of(error));
    }

    /// It is not served as it was asked. The first cause counts.
    pub fn failed(&self, cause: Cause) {
        let _ = self.cause.set(cause);
    }

    /// The proxy itself answers this.
    pub fn said(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// The head of the server's answer is there.
    pub fn answered(&self, status: u16) {
        self.said(status);
        let now = self.now();
        set(&self.answered_us, now);
        self.recorder.counters.answers.observe(now);
        if let Some(server) = self.server() {
            let since = us(&self.connected_us);
            server.counters.answers.observe(now.saturating_sub(since));
        }
    }

    /// That was asked last.
    fn server(&self) -> Option<&Server> {
        let pool = self.route.as_ref()?.pool.as_ref()?;
        let server = pool.servers().get(self.server.load(Ordering::Relaxed));
        server.map(|server| &**server)
    }

    /// All of the answer was sent.
    pub fn whole(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let Some(log) = &self.recorder.log else {
            return;
        };
        let route = self.route.as_ref();
        let pool = route.and_then(|route| route.pool.as_ref());
        let total = match us(&self.ended_us) {
            // Given up.
            Duration::ZERO => self.began.elapsed(),
            ended => ended,
        };
        let is_whole = self.is_whole.load(Ordering::Relaxed);
        let cause = match self.cause.get() {
            _ if is_whole => "",
            Some(cause) => cause.name(),
            None => Cause::CutOff.name(),
        };
        let [method, target, host, referer, user_agent] = self.said.all();
        log.add(&Record {
            time: self.time,
            client: self.client,
            listener: &self.recorder.listener,
            route: route.map_or("", |route| &route.route),
            class: route.map_or("", |route| &route.class_name),
            request: [method, target, self.version],
            host,
            referer,
            user_agent,
            id: &self.id,
            status: self.status.load(Ordering::Relaxed),
            tls: self.tls,
            pool: pool.map_or("", |pool| &pool.name),
            server: self.server().map_or("", |server| &server.config.name),
            bytes_in: self.bytes_in.total(),
            bytes_out: self.bytes_out.total(),
            queue: us(&self.queue_us),
            connect: us(&self.connect_us),
            answer: us(&self.answered_us).saturating_sub(us(&self.connected_us)),
            total,
            processor: Duration::from_nanos(self.processor.total()),
            retries: self.retries.load(Ordering::Relaxed),
            is_whole,
            cause,
        });
    }
}

fn us(time: &AtomicU64) -> Duration {
    Duration::from_micros(time.load(Ordering::Relaxed))
}

fn add(time: &AtomicU64, more: Duration) {
    set(time, us(time) + more);
}

fn set(time: &AtomicU64, now: Duration) {
    time.store(in_us(now), Ordering::Relaxed);
}

fn in_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A future, of which it is counted how long its polls take, and noted when they begin, if somebody
/// wants to know.
#[derive(Debug)]
pub struct Timed<'a, F> {
    future: Pin<&'a mut F>,
    note: Option<&'a Note>,
    /// When the first poll began, if that is known.
    began: Option<Instant>,
}

impl<'a, F> Timed<'a, F> {
    /// Counts for this note.
    pub fn new(future: Pin<&'a mut F>, note: Option<&'a Note>) -> Self {
        let began = None;
        Self {
            future,
            note,
            began,
        }
    }

    /// Counts for this note, from its beginning on: the same poll of the task has begun it.
    pub fn at_once(future: Pin<&'a mut F>, note: Option<&'a Note>) -> Self {
        let began = note.map(|note| note.began);
        Self {
            future,
            note,
            began,
        }
    }
}

impl<F: Future> Future for Timed<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(note) = self.note else {
            return self.future.as_mut().poll(cx);
        };
        let began = self.began.take().unwrap_or_else(Instant::now);
        set(&note.now_us, began - note.began);
        let result = self.future.as_mut().poll(cx);
        let ended = Instant::now();
        let ns = u64::try_from((ended - began).as_nanos()).unwrap_or(u64::MAX);
        note.processor.add_alone(ns);
        if result.is_ready() {
            set(&note.ended_us, ended - note.began);
        }
        result
    }
}
