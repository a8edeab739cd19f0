//! What is noted of a request while it is served. Its line is written when this is dropped, so that
//! also a request that is given up has one.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::time::Instant;
use jiff::Timestamp;

use super::format::{Record, escaped};
use super::log::Log;
use crate::counters::Counter;
use crate::pool::Server;
use crate::route::Destination;

/// How much of a target is written, and of other texts.
const TARGET_MAX: usize = 2_048;
const TEXT_MAX: usize = 512;

/// What is noted of a request. All accesses to numbers are `Relaxed`: they are read by the one who
/// drops it.
#[derive(Debug)]
pub struct Note {
    log: Arc<Log>,
    time: Timestamp,
    began: Instant,
    client: Option<IpAddr>,
    listener: Arc<str>,
    tls: &'static str,
    said: Said,
    version: &'static str,
    id: String,
    route: Option<Destination>,
    server: Mutex<Option<Arc<Server>>>,
    status: AtomicU16,
    queue_us: AtomicU64,
    connect_us: AtomicU64,
    /// When the last connection was there, and when the head of the answer, since the beginning.
    connected_us: AtomicU64,
    answered_us: AtomicU64,
    is_whole: AtomicBool,
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
        log: &Arc<Log>,
        client: Option<IpAddr>,
        listener: &Arc<str>,
        tls: Option<&'static str>,
    ) -> Box<Self> {
        Box::new(Self {
            log: Arc::clone(log),
            time: Timestamp::now(),
            began: Instant::now(),
            client,
            listener: Arc::clone(listener),
            tls: tls.unwrap_or_default(),
            said: Said::default(),
            version: "",
            id: String::new(),
            route: None,
            server: Mutex::default(),
            status: AtomicU16::new(0),
            queue_us: AtomicU64::new(0),
            connect_us: AtomicU64::new(0),
            connected_us: AtomicU64::new(0),
            answered_us: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
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
    pub fn goes(&mut self, destination: &Destination) {
        self.route = Some(destination.clone());
    }

    /// Its id.
    pub fn has_id(&mut self, id: &str) {
        id.clone_into(&mut self.id);
    }

    /// There is a connection to this server: after so long in the queue, of the whole time.
    pub fn connected(&self, server: &Arc<Server>, queue: Duration, whole: Duration) {
        let known = &mut *self.server.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::clone(server));
        add(&self.queue_us, queue);
        add(&self.connect_us, whole.saturating_sub(queue));
        set(&self.connected_us, self.began.elapsed());
    }

    /// There is none, after so long in the queue.
    pub fn unserved(&self, queue: Duration) {
        add(&self.queue_us, queue);
    }

    /// The proxy itself answers this.
    pub fn said(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// The head of the server's answer is there.
    pub fn answered(&self, status: u16) {
        self.said(status);
        set(&self.answered_us, self.began.elapsed());
    }

    /// All of the answer was sent.
    pub fn whole(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let us = |time: &AtomicU64| Duration::from_micros(time.load(Ordering::Relaxed));
        let server = self.server.get_mut();
        let server = server.unwrap_or_else(PoisonError::into_inner).take();
        let answered = us(&self.answered_us);
        let route = self.route.as_ref();
        let pool = route.and_then(|route| route.pool.as_ref());
        let [method, target, host, referer, user_agent] = self.said.all();
        self.log.add(&Record {
            time: self.time,
            client: self.client,
            listener: &self.listener,
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
            server: server.as_ref().map_or("", |server| &server.config.name),
            bytes_in: self.bytes_in.total(),
            bytes_out: self.bytes_out.total(),
            queue: us(&self.queue_us),
            connect: us(&self.connect_us),
            answer: answered.saturating_sub(us(&self.connected_us)),
            total: self.began.elapsed(),
            processor: Duration::from_nanos(self.processor.total()),
            is_whole: self.is_whole.load(Ordering::Relaxed),
        });
    }
}

fn add(time: &AtomicU64, more: Duration) {
    time.fetch_add(in_us(more), Ordering::Relaxed);
}

fn set(time: &AtomicU64, now: Duration) {
    time.store(in_us(now), Ordering::Relaxed);
}

fn in_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A future, of which it is counted how long its polls take, if somebody wants to know.
#[derive(Debug)]
pub struct Timed<'a, F> {
    future: Pin<&'a mut F>,
    note: Option<&'a Note>,
}

impl<'a, F> Timed<'a, F> {
    /// Counts for this note.
    pub fn new(future: Pin<&'a mut F>, note: Option<&'a Note>) -> Self {
        Self { future, note }
    }
}

impl<F: Future> Future for Timed<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(note) = self.note else {
            return self.future.as_mut().poll(cx);
        };
        let began = Instant::now();
        let result = self.future.as_mut().poll(cx);
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        note.processor.add(ns);
        result
    }
}
