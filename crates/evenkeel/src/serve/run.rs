//! The loop of a server: it accepts, watches its connections, and ends.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::hyper::body::{Body, Incoming};
use ::hyper::service::Service;
use ::hyper::{Request, Response};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;

use super::connection::{self, Noted, Watched};
use super::requests::Requests;
use super::{AnyError, Listener, Serve, ServeError, Served, Serving, Settings};
use crate::hyper::Timer;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::task::{JoinError, JoinSet};
use crate::time::{Sleep, sleep, timeout};

/// How long accepting pauses after an error, and at most after several in a row.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a client of HTTP/2 is asked whether it is there, and how long it may take to answer.
const PING_EACH: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(20);

/// How long a connection that is cut off may take to end. A handler whose poll does not return
/// cannot be ended, and is not waited for any longer.
const CUT_OFF_LIMIT: Duration = Duration::from_secs(1);

type Connections = JoinSet<Result<(), AnyError>>;

/// The loop, and the end.
impl<L, S, B> IntoFuture for Serve<L, S>
where
    L: Listener,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<AnyError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<AnyError>,
{
    type Output = Served;
    type IntoFuture = Serving;

    fn into_future(self) -> Serving {
        let Serve {
            mut listener,
            service,
            mut shutdown,
            settings,
        } = self;
        Box::pin(async move {
            let graceful = GracefulShutdown::new();
            let mut connections = Connections::new();
            let mut pause = Pause::new();
            let mut served = Served::default();
            let ending = Arc::new(AtomicBool::new(false));
            loop {
                let next = {
                    let mut accept = pin!(listener.accept());
                    let accept = |cx: &mut Context<'_>| accept.as_mut().poll(cx);
                    let shutdown = shutdown.as_mut();
                    next_event(accept, shutdown, &mut connections, &mut pause, &settings).await
                };
                let (stream, peer) = match next {
                    Event::Accepted(Ok(accepted)) => accepted,
                    Event::Accepted(Err(error)) => {
                        settings.report(ServeError::Accept(error));
                        continue;
                    }
                    Event::Shutdown => break,
                };
                served.connections += 1;
                let asked = Arc::new(AtomicBool::new(false));
                let noted = Noted {
                    service: service.clone(),
                    peer,
                    asked: Arc::clone(&asked),
                };
                let watched = Watched {
                    limit: settings.header_read_timeout,
                    asked,
                    ending: Arc::clone(&ending),
                    requests: Requests::new(settings.clone(), graceful.watcher()),
                };
                let http = http(&settings, watched.requests.clone());
                let connection = http.serve_connection_with_upgrades(stream, noted);
                let connection = graceful.watch(connection.into_owned());
                drop(connections.spawn(connection::serve(connection, watched)));
            }
            drop(listener);
            // Relaxed: see `connection`. The end then wakes each connection.
            ending.store(true, Ordering::Relaxed);
            served.cut_off = end(graceful, connections, &settings).await;
            served
        })
    }
}

/// Ends all connections, and returns how many had to be cut off.
async fn end(
    graceful: GracefulShutdown,
    mut connections: Connections,
    settings: &Settings,
) -> usize {
    let mut told = pin!(graceful.shutdown());
    // It tells them at its first poll. The set knows better when they have ended, but not about
    // requests whose connection was cut off.
    let none_left = poll_fn(|cx| Poll::Ready(told.as_mut().poll(cx).is_ready())).await;
    // If it is late, the set shows how many are left.
    let _ = timeout(settings.drain_limit, drain(&mut connections, settings)).await;
    let cut_off = connections.len();
    let rest = async {
        connections.shutdown().await;
        if !none_left {
            told.await;
        }
    };
    // Those that are late are left behind.
    let _ = timeout(CUT_OFF_LIMIT, rest).await;
    cut_off
}

fn http(settings: &Settings, requests: Requests) -> auto::Builder<Requests> {
    let mut http = auto::Builder::new(requests);
    http.http1()
        .timer(Timer)
        .header_read_timeout(settings.header_read_timeout);
    http.http2()
        .timer(Timer)
        .max_concurrent_streams(settings.streams_max)
        .keep_alive_interval(PING_EACH)
        .keep_alive_timeout(PING_ANSWER);
    http
}

enum Event<A> {
    Accepted(io::Result<A>),
    Shutdown,
}

/// Waits for a connection or the shutdown, and takes connections that have ended out of the set.
async fn next_event<A>(
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<A>>,
    mut shutdown: std::pin::Pin<&mut (dyn Future<Output = ()> + Send)>,
    connections: &mut Connections,
    pause: &mut Pause,
    settings: &Settings,
) -> Event<A> {
    poll_fn(|cx| {
        if shutdown.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Event::Shutdown);
        }
        while let Poll::Ready(Some(ended)) = connections.poll_join_next(cx) {
            note_end(ended, settings);
        }
        if connections.len() >= settings.connections_max || pause.poll(cx).is_pending() {
            return Poll::Pending;
        }
        accept(cx).map(|accepted| {
            pause.note(accepted.is_err());
            Event::Accepted(accepted)
        })
    })
    .await
}

/// Waits for all connections.
async fn drain(connections: &mut Connections, settings: &Settings) {
    while let Some(ended) = connections.join_next().await {
        note_end(ended, settings);
    }
}

fn note_end(ended: Result<Result<(), AnyError>, JoinError>, settings: &Settings) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => settings.report(ServeError::Connection(error)),
        Err(error) => settings.report(ServeError::Task(error)),
    }
}

/// The pause after errors of accepting.
struct Pause {
    length: Duration,
    until: Option<Sleep>,
}

impl Pause {
    fn new() -> Self {
        Self {
            length: PAUSE_MIN,
            until: None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(until) = &mut self.until {
            if until.poll_elapsed(cx).is_pending() {
                return Poll::Pending;
            }
            self.until = None;
        }
        Poll::Ready(())
    }

    fn note(&mut self, failed: bool) {
        if failed {
            self.until = Some(sleep(self.length));
            self.length = (self.length * 2).min(PAUSE_MAX);
        } else {
            self.length = PAUSE_MIN;
        }
    }
}
