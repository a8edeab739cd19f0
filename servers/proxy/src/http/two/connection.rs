//! A client's connection of HTTP/2: many requests at a time, each of which is a task in the class
//! of its route.
//!
//! ```text
//!  preface ──▶ streams ──▶ none for timeouts.keep_alive, or its listener ends ──▶ GOAWAY ──▶ end
//!                 │                                                                 ▲
//!                 └── too many frames of no use ── ENHANCE_YOUR_CALM ───────────────┘
//! ```

use std::future::{pending, poll_fn};
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::http::{Method, Request};
use bytes::Bytes;
use evenkeel::task::JoinSet;
use evenkeel::time::{Instant, timeout, timeout_at};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use tokio::io::AsyncReadExt;

use super::super::connection::{Planned, linger, note};
use super::super::exchange::Plan;
use super::super::patience::{LOOKS, worth};
use super::body::PIECE_BYTES;
use super::call::{Call, exchange, of_client};
use super::frames::PREFACE;
use super::gather::Gather;
use super::held::{Line, Queue};
use super::reply::Reply;
use super::source::Source;
use super::wire::{Limits, Wire};
use super::{answer, refuse, request};
use crate::access_log::{Cause, Note, Timed};
use crate::place::pinned;
use crate::server::{Front, Taken};
use crate::sessions;
use crate::socket::Ends;
use crate::timer::Timer;

/// How long a client may take to end a connection that is to end.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// How much is read at once to find out what is spoken.
const READ_BYTES: usize = 4 * 1_024;

/// What a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Begun {
    /// HTTP/1.1, or something that is to be refused there.
    One,
    /// HTTP/2.
    Two,
    /// Nothing.
    Silent,
}

/// Finds out what is spoken: over TLS what both agreed on, and otherwise what comes.
pub(in super::super) async fn begins(taken: &mut Taken) -> Begun {
    let front = taken.front();
    if front.config.h2.only {
        return Begun::Two;
    }
    if let Some(session) = taken.stream.session() {
        return match session.is_http2() {
            true => Begun::Two,
            false => Begun::One,
        };
    }
    if !front.config.h2.enabled {
        return Begun::One;
    }
    let deadline = Instant::now() + front.config.timeouts.head;
    loop {
        let common = taken.buffer.len().min(PREFACE.len());
        if taken.buffer[..common] != PREFACE[..common] {
            return Begun::One;
        }
        if common == PREFACE.len() {
            return Begun::Two;
        }
        let read = async {
            if taken.buffer.is_empty() {
                return taken.stream.read_first(&mut taken.buffer).await;
            }
            taken.buffer.reserve(READ_BYTES);
            (&taken.stream).read_buf(&mut taken.buffer).await
        };
        let read = timeout_at(deadline, read).await;
        if !matches!(read, Ok(Ok(1..))) {
            return match taken.buffer.is_empty() {
                // Browsers connect in advance: silence is not worth an answer.
                true => Begun::Silent,
                false => Begun::One,
            };
        }
    }
}

/// A request, and its answer to come.
type Asked = (Request<RecvStream>, SendResponse<Bytes>);

/// What happens to a connection.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and never kept"
)]
enum Event {
    Closing,
    Flooded,
    Accepted(Option<Result<Asked, h2::Error>>),
    StreamEnded,
    Look(Queue),
}

/// Serves a connection until it ends.
pub(in super::super) async fn serve(mut taken: Taken) {
    let front = taken.front();
    let line = Arc::new(Line::new(&front.held, front.config.h2.held_bytes_max));
    let begun = std::mem::take(&mut taken.buffer);
    let counters = Arc::clone(&front.counters);
    let h2 = front.config.h2;
    let out = Arc::new(Gather::new(&taken.stream, &line, &counters.bytes_out));
    let wire = Wire::of_client(
        &taken.stream,
        begun,
        &line,
        &counters.bytes_in,
        &out,
        Limits::new(h2.resets_max, h2.controls_max),
    );
    let handshake = builder(&front).handshake(wire);
    let limit = front.config.timeouts.head;
    let Ok(Ok(mut connection)) = timeout(limit, handshake).await else {
        return linger(&taken.stream).await;
    };
    out.begin();
    let end = streams(&taken, &front, (&line, &out), &mut connection).await;
    drop(connection);
    match end {
        End::Said => {
            // What does not go out now is left: a GOAWAY has been sent by then.
            let _ = poll_fn(|cx| Poll::Ready(out.poll_flush(cx))).await;
            // Or the system might discard the GOAWAY that says why.
            linger(&taken.stream).await;
        }
        End::Reset => taken.stream.reset(),
    }
}

fn builder(front: &Front) -> Builder {
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let h2 = front.config.h2;
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(size(h2.streams_max))
        .initial_window_size(size(h2.window))
        .initial_connection_window_size(size(h2.connection_window))
        .max_header_list_size(size(front.config.head_bytes_max))
        .max_send_buffer_size(PIECE_BYTES)
        .enable_connect_protocol();
    builder
}

/// How a connection ends.
enum End {
    /// With a GOAWAY, or by the client.
    Said,
    /// So that the client sees that something is missing.
    Reset,
}

async fn streams(
    taken: &Taken,
    front: &Arc<Front>,
    (line, out): (&Arc<Line>, &Gather<'_>),
    connection: &mut Connection<Wire<'_>, Bytes>,
) -> End {
    let times = front.config.timeouts;
    let mut stopped = pin!(taken.stopped());
    // Begun once, as most events are others.
    let mut flooded = pin!(line.flooded.notified());
    let mut timer = Timer::default();
    // What its streams send is written when all of them that are ready have had their turn, so that
    // many share a call of the system: once it is woken, the connection goes behind them.
    let mut has_waited = true;
    let now = Instant::now();
    let mut serving = Serving {
        taken,
        front,
        line,
        tasks: JoinSet::new(),
        is_ending: false,
        is_flooded: false,
        idle_until: now + times.head,
        took: now,
    };
    let mut looked = now;
    loop {
        let (is_ending, tasks) = (serving.is_ending, &mut serving.tasks);
        let is_alone = tasks.is_empty();
        let look = match is_alone && !line.is_blocked() {
            true => serving.idle_until,
            // Twice as often as its streams look, which see what is seen here.
            false => looked + times.body.min(times.idle) / (2 * LOOKS),
        };
        let accepted = poll_fn(|cx| {
            if !has_waited {
                has_waited = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let polled = pin!(connection.accept()).poll(cx);
            if polled.is_pending() {
                if out.poll_rest(cx).is_ready() {
                    return Poll::Ready(None);
                }
                has_waited = is_alone;
            }
            polled
        });
        let event = tokio::select! {
            biased;
            () = flooded.as_mut() => {
                // What came before this was seen is one flood, though several reads have noted it.
                flooded.set(line.flooded.notified());
                if flooded.as_mut().enable() {
                    flooded.set(line.flooded.notified());
                }
                Event::Flooded
            }
            () = &mut stopped, if !is_ending => Event::Closing,
            Some(_) = tasks.join_next(), if !is_alone => Event::StreamEnded,
            accepted = accepted => Event::Accepted(accepted),
            _ = timer.until(look, pending::<()>()) => {
                looked = Instant::now();
                Event::Look(out.look(front.config.body_rate_min))
            }
        };
        if let Some(end) = serving.take(event, connection) {
            return end;
        }
    }
}

/// A connection that is served.
struct Serving<'a> {
    taken: &'a Taken,
    front: &'a Arc<Front>,
    line: &'a Arc<Line>,
    tasks: JoinSet<()>,
    /// It takes no more requests.
    is_ending: bool,
    /// It was told that it sends too much of no use.
    is_flooded: bool,
    /// When it ends, if there is no request.
    idle_until: Instant,
    /// When its client has last taken some of what it was sent, or was not waited for.
    took: Instant,
}

impl Serving<'_> {
    /// Does what is to be done; returns how the connection ends, if it does.
    fn take(&mut self, event: Event, connection: &mut Connection<Wire<'_>, Bytes>) -> Option<End> {
        let times = self.front.config.timeouts;
        if let Event::Look(queue) = &event {
            self.note_taken(queue.taken);
        }
        match event {
            Event::Accepted(Some(Ok((request, respond)))) => self.begin(request, respond),
            Event::Accepted(Some(Err(error))) => {
                // By h2: a head without end, or too many frames without data.
                let is_calmed = error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
                if is_calmed && error.is_library() && !self.is_flooded {
                    self.front.counters.refused.one();
                }
                return self.broken(Cause::ClientGone, End::Said);
            }
            Event::Accepted(None) => return self.broken(Cause::ClientGone, End::Said),
            Event::StreamEnded if self.tasks.is_empty() => {
                sessions::rests();
                self.rests();
            }
            Event::Flooded if !self.is_flooded => {
                self.is_flooded = true;
                self.front.counters.refused.one();
                let what = "a client of HTTP/2 sends too many frames of no use";
                self.front.complain(&what);
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                let _ = self.broken(Cause::BadRequest, End::Said);
                self.tasks.abort_all();
                self.ends();
            }
            Event::Flooded => return Some(End::Said),
            // What is on its way is still answered: the GOAWAY names the last request a round trip
            // later.
            Event::Closing => {
                connection.graceful_shutdown();
                self.ends();
            }
            Event::Look(_) if self.line.stood() >= times.body => {
                return self.broken(Cause::ClientGone, End::Reset);
            }
            Event::Look(queue) if self.tasks.is_empty() && Instant::now() >= self.idle_until => {
                return self.idle(queue, connection);
            }
            Event::StreamEnded | Event::Look(_) => {}
        }
        None
    }

    /// Its client has ended it, or had it ended: the requests under way are given up for that.
    fn broken(&self, cause: Cause, end: End) -> Option<End> {
        let _ = self.line.broken.set(cause);
        Some(end)
    }

    /// Ends it. By then the client may still be taking the last answers, and what it sends to a
    /// connection that is closed would have the system discard them: so that waits until it has all
    /// of them, or takes no more.
    fn idle(&mut self, queue: Queue, connection: &mut Connection<Wire<'_>, Bytes>) -> Option<End> {
        let now = Instant::now();
        if !self.is_ending {
            connection.graceful_shutdown();
            self.ends();
            return None;
        }
        let is_late = now >= self.took + self.front.config.timeouts.body;
        if queue.is_empty || is_late || self.is_flooded {
            return Some(End::Said);
        }
        self.idle_until = now + ENDING_MAX;
        None
    }

    /// Notes what its client was seen to take, which gives back time as it does to a body.
    fn note_taken(&mut self, bytes: u64) {
        let now = Instant::now();
        let rate = NonZeroU64::new(self.front.config.body_rate_min);
        if bytes > 0 {
            self.took = rate.map_or(now, |rate| now.min(self.took + worth(bytes, rate)));
        }
    }

    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        if self.tasks.len() > 2 * self.front.config.h2.streams_max {
            // Taken back, and not seen so by their tasks yet.
            self.line.flooded.notify_one();
        }
        // As the configuration is now.
        let front = self.taken.front();
        match begin(self.taken, front, request, respond, self.line) {
            Some((plan, stream)) => {
                let class = plan.class;
                drop((self.tasks).spawn_in(class, sessions::shared(stream.run(plan))));
            }
            None => self.rests(),
        }
    }

    fn ends(&mut self) {
        self.is_ending = true;
        self.took = Instant::now();
        self.idle_until = self.took + ENDING_MAX;
    }

    /// There is no request for the moment.
    fn rests(&mut self) {
        let time = match self.is_ending {
            true => ENDING_MAX,
            false => self.front.config.timeouts.keep_alive,
        };
        self.took = Instant::now();
        self.idle_until = self.took + time;
    }
}

/// What a task needs for a request.
struct Stream {
    front: Arc<Front>,
    ends: Ends,
    body: RecvStream,
    respond: SendResponse<Bytes>,
    line: Arc<Line>,
}

/// A request that is to be forwarded; others are answered at once.
fn begin(
    taken: &Taken,
    front: Arc<Front>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    line: &Arc<Line>,
) -> Option<(Plan, Stream)> {
    front.counters.requests.one();
    let (parts, body) = request.into_parts();
    let of = (&taken.ends, taken.stream.session().is_some());
    let mut note = note(&front, taken);
    let planned = request::plan(&parts, !body.is_end_stream(), &front, of, &mut note);
    match planned {
        Ok(Planned::Answer(answering)) => {
            front.counters.answered.one();
            front.counters.statuses.note(answering.reply.status);
            note.said(answering.reply.status);
            note.whole();
            answer(respond, &answering.reply, answering.is_for_head);
            None
        }
        Ok(Planned::Forward(plan)) => {
            let note = Some(note);
            let plan = Plan { note, ..plan };
            let stream = Stream {
                front,
                ends: taken.ends,
                body,
                respond,
                line: Arc::clone(line),
            };
            Some((plan, stream))
        }
        Err(refusal) => {
            front.counters.bad_requests.one();
            front.counters.statuses.note(refusal.status);
            let asked = format!("{} {}", parts.method, parts.uri);
            let (client, why) = (taken.ends.client(), &refusal.why);
            let refusals = &front.counters.refusals;
            refusals.note(client, refusal.status, why, asked.as_bytes());
            note.said(refusal.status);
            note.failed(Cause::of_status(refusal.status));
            let is_grpc = request::is_grpc(&super::answer::lines(&parts.headers));
            refuse(respond, &refusal, parts.method == Method::HEAD, is_grpc);
            None
        }
    }
}

/// A request under way, whose note says why it is given up with its connection.
struct UnderWay<'a>(&'a Line, Option<&'a Note>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let (Some(cause), Some(note)) = (self.0.broken.get(), self.1) {
            note.failed(*cause);
        }
    }
}

impl Stream {
    async fn run(self, plan: Plan) {
        let Self {
            front,
            ends,
            body,
            respond,
            line,
        } = self;
        let of_connection = Arc::clone(&line);
        let _under_way = UnderWay(&of_connection, plan.note.as_deref());
        let window = front.config.h2.window;
        let mut call = Call {
            front: &front,
            ends: &ends,
            up: Source::two(body, window, of_client(&front, &plan)),
            reply: Reply::Two {
                respond,
                body: None,
                line,
            },
        };
        let end = {
            // A task is moved on its way, and this is most of it.
            let mut exchange = pinned(|| exchange(&mut call, &plan));
            Timed::new(exchange.as_mut(), plan.note.as_deref()).await
        };
        if let Err(refusal) = &end {
            call.front.counters.statuses.note(refusal.status);
            plan.note.iter().for_each(|note| note.said(refusal.status));
        }
        call.reply.finish(end, &plan);
    }
}
