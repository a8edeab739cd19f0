//! A client's connection: one request after the other.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use evenkeel::Class;
use evenkeel::time::{Instant, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::exchange::{Client, End, Plan, exchange};
use super::framing::Framing;
use super::head::{BadHead, HTTP_2, HeadEnd, Request, storage};
use super::refusal::Refusal;
use super::rewrite::OfRequest;
use super::two::{self, Begun};
use super::waits;
use crate::access_log::{Cause, Note, Timed};
use crate::config::{HashOn, Protocol};
use crate::place::pinned;
use crate::policy::{Asked, Passage, Reply, Verdict};
use crate::pool::{self, Pool, hash};
use crate::route::Destination;
use crate::server::{Front, Taken};
use crate::socket::Ends;
use crate::spare;
use crate::stream::Stream;
use crate::timer::Timer;
use crate::tls::Session;

/// How much is read at once of the rest of a head.
const READ_BYTES: usize = 4 * 1_024;

/// How long, and how much, is read of a client who is sending while its connection ends. Closing at
/// once would discard the answer that it has not read yet.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 256 * 1_024);

/// Serves a connection until it ends.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function has a second place for what it is given, in each connection"
)]
pub fn serve(mut taken: Taken) -> impl Future<Output = ()> + Send {
    async move {
        // What is done once has no place here either: most of its time a connection waits below.
        match Box::pin(two::begins(&mut taken)).await {
            Begun::One => {}
            Begun::Two => return Box::pin(two::serve(taken)).await,
            Begun::Silent => return,
        }
        let mut timer = Timer::default();
        let mut is_first = true;
        loop {
            // As the configuration is now.
            let front = taken.front();
            if taken.buffer.is_empty() {
                let times = &front.config.timeouts;
                let limit = match is_first {
                    true => times.head,
                    false => times.keep_alive,
                };
                let begun = waits::first(&mut timer, &mut taken, limit, !is_first).await;
                // Browsers connect in advance: silence is not worth an answer.
                if !matches!(begun, Some(Ok(1..))) {
                    return Box::pin(end(&taken, &front, Ok(End::Close))).await;
                }
            }
            match pinned(|| next(&mut taken, &front, &mut timer)).await {
                Ok(End::Next) => is_first = false,
                ended => return Box::pin(end(&taken, &front, ended)).await,
            }
        }
    }
}

/// Ends the connection behind its last answer, or with the one that says what was wrong.
async fn end(taken: &Taken, front: &Front, ended: Result<End, (Refusal, bool)>) {
    let limit = front.config.timeouts.body;
    match ended {
        // What it has sent meanwhile would make the system discard the answer.
        Ok(End::Close | End::Next) if !taken.buffer.is_empty() || taken.stream.has_more() => {
            linger(&taken.stream).await;
        }
        Ok(End::Close | End::Next) => taken.stream.finish(limit).await,
        Ok(End::Linger) => linger(&taken.stream).await,
        Ok(End::Reset) => taken.stream.reset(),
        Err((refusal, is_for_head)) => {
            let text = refusal.write(is_for_head);
            front.counters.bytes_out.add(text.len() as u64);
            let sent = timeout(limit, (&taken.stream).write_all(&text)).await;
            if matches!(sent, Ok(Ok(()))) {
                linger(&taken.stream).await;
            }
        }
    }
}

/// Serves the request that has begun to come.
async fn next(
    taken: &mut Taken,
    front: &Arc<Front>,
    timer: &mut Timer,
) -> Result<End, (Refusal, bool)> {
    let head = match head(taken, front, timer).await {
        Ok(Some(length)) => length,
        Ok(None) => return Ok(End::Close),
        Err(refusal) => {
            bad(front, taken, &refusal);
            refused(front, Some(&note(front, taken)), &refusal);
            return Err((refusal, false));
        }
    };
    respond(taken, front, timer, head).await
}

/// Serves a request whose head is there.
async fn respond(
    taken: &mut Taken,
    front: &Arc<Front>,
    timer: &mut Timer,
    head: usize,
) -> Result<End, (Refusal, bool)> {
    // It may have been long in coming, and the configuration is another one by now.
    let newer = taken.newer(front);
    let front = newer.as_ref().unwrap_or(front);
    front.counters.requests.one();
    let is_tls = taken.stream.session().is_some();
    let mut note = note(front, taken);
    let plan = plan(
        &taken.buffer[..head],
        front,
        (&taken.ends, is_tls),
        &mut note,
    );
    let plan = match plan {
        Ok(plan) => plan,
        Err((refusal, is_for_head)) => {
            bad(front, taken, &refusal);
            refused(front, Some(&note), &refusal);
            return Err((refusal, is_for_head));
        }
    };
    taken.buffer.advance(head);
    let mut plan = match plan {
        Planned::Forward(plan) => plan,
        Planned::Answer(answer) => {
            return Ok(answer.send(&taken.stream, front, &note).await);
        }
    };
    plan.note = Some(note);
    if taken.buffer.is_empty() {
        // The answer can have it.
        spare::give(std::mem::take(&mut taken.buffer));
    }
    let client = Client {
        stream: &mut taken.stream,
        buffer: &mut taken.buffer,
        ends: &taken.ends,
        front,
        timer,
    };
    enter(plan.class);
    let done = match plan.two {
        None => {
            let mut exchange = pin!(exchange(client, &plan));
            Timed::at_once(exchange.as_mut(), plan.note.as_deref()).await
        }
        // Few servers speak HTTP/2: the others need no place for it.
        Some(_) => {
            let mut forward = pinned(|| two::forward(client, &plan));
            Timed::at_once(forward.as_mut(), plan.note.as_deref()).await
        }
    };
    enter(front.class);
    if let Err(refusal) = &done {
        refused(front, plan.note.as_deref(), refusal);
    }
    done.map_err(|refusal| (refusal, plan.is_for_head))
}

/// The note of a request.
pub(super) fn note(front: &Front, taken: &Taken) -> Box<Note> {
    let tls = taken.stream.session().map(Session::version);
    Note::begin(&front.recorder, taken.ends.client(), tls)
}

/// Notes how a request is refused.
fn refused(front: &Front, note: Option<&Note>, refusal: &Refusal) {
    front.counters.statuses.note(refusal.status);
    if let Some(note) = note {
        note.said(refusal.status);
        note.failed(Cause::of_status(refusal.status));
        note.bytes_out.add(refusal.write(false).len() as u64);
    }
}

/// Counts a request that is refused for what it says, and keeps it for operators.
fn bad(front: &Front, taken: &Taken, refusal: &Refusal) {
    let counters = &front.counters;
    counters.bad_requests.one();
    let client = taken.ends.client();
    counters
        .refusals
        .note(client, refusal.status, &refusal.why, &taken.buffer);
}

/// Goes on in this class.
fn enter(class: Class) {
    if evenkeel::task::class() != Some(class) {
        // Only outside tasks this is an error, and connections are served by tasks.
        let _ = evenkeel::task::change_class(class);
    }
}

/// Reads the head of a request, of which something is there. Returns its length, or `None` if the
/// client has ended.
async fn head(
    taken: &mut Taken,
    front: &Front,
    timer: &mut Timer,
) -> Result<Option<usize>, Refusal> {
    let mut looking = Looking {
        end: HeadEnd::default(),
        may_skip: true,
    };
    match looking.look(taken, front)? {
        Some(length) => Ok(Some(length)),
        // Few heads come in pieces: the others need no place for it.
        None => Box::pin(looking.rest(taken, front, timer)).await,
    }
}

/// How far a head was looked through.
struct Looking {
    end: HeadEnd,
    may_skip: bool,
}

impl Looking {
    /// Looks through what has come of it. Returns its length when it is there.
    fn look(&mut self, taken: &mut Taken, front: &Front) -> Result<Option<usize>, Refusal> {
        // An empty line before a request is to be tolerated.
        if self.may_skip && taken.buffer.starts_with(b"\r\n") {
            taken.buffer.advance(2);
            (self.end, self.may_skip) = (HeadEnd::default(), false);
        }
        let found = self.end.find(&taken.buffer).map_err(|bad| of_head(&bad))?;
        let max = front.config.head_bytes_max;
        if found.unwrap_or(taken.buffer.len()) > max {
            let text = format!("the head has more than {max} bytes, head_bytes_max; shorten it");
            return Err(Refusal::new(431, text));
        }
        Ok(found)
    }

    /// Reads the rest of it. Returns its length, or `None` if the client has ended.
    async fn rest(
        mut self,
        taken: &mut Taken,
        front: &Front,
        timer: &mut Timer,
    ) -> Result<Option<usize>, Refusal> {
        let limit = front.config.timeouts.head;
        let deadline = Instant::now() + limit;
        loop {
            taken.buffer.reserve(READ_BYTES);
            let mut stream = &taken.stream;
            let more = stream.read_buf(&mut taken.buffer);
            match timer.until(deadline, more).await {
                Ok(Ok(0) | Err(_)) => return Ok(None),
                Ok(Ok(_)) => {}
                // An empty line alone is not worth an answer.
                Err(_) if taken.buffer.is_empty() => return Ok(None),
                Err(_) => {
                    let text = format!("the head has not come within {limit:?}; send it faster");
                    return Err(Refusal::new(408, text));
                }
            }
            if let Some(length) = self.look(taken, front)? {
                return Ok(Some(length));
            }
        }
    }
}

pub(super) fn of_head(bad: &BadHead) -> Refusal {
    Refusal::new(bad.status, format!("{bad}; mend what sends this"))
}

/// What is to be done with a request.
pub(super) enum Planned {
    Forward(Plan),
    Answer(Answering),
}

/// An answer that the configuration asks for.
pub(super) struct Answering {
    pub(super) reply: Reply,
    pub(super) is_for_head: bool,
    is_old: bool,
    persists: bool,
    has_body: bool,
}

impl Answering {
    fn new(request: &Request<'_>, reply: Reply) -> Self {
        Self {
            reply,
            is_for_head: request.method == "HEAD",
            is_old: request.minor_version == 0,
            persists: request.persists,
            has_body: request.framing != Framing::None,
        }
    }

    async fn send(self, stream: &Stream, front: &Front, note: &Note) -> End {
        // What is left of a body stands before the next request.
        let closes = !self.persists || self.has_body || front.is_closing();
        let text = self.reply.write(self.is_for_head, closes, self.is_old);
        front.counters.answered.one();
        front.counters.statuses.note(self.reply.status);
        front.counters.bytes_out.add(text.len() as u64);
        let mut stream = stream;
        let sent = async {
            stream.write_all(&text).await?;
            stream.flush().await
        };
        let sent = timeout(front.config.timeouts.body, sent).await;
        note.said(self.reply.status);
        note.bytes_out.add(text.len() as u64);
        match sent {
            Ok(Ok(())) => note.whole(),
            _ => note.failed(Cause::ClientGone),
        }
        match sent {
            Ok(Ok(())) if self.has_body => End::Linger,
            Ok(Ok(())) if closes => End::Close,
            Ok(Ok(())) => End::Next,
            _ => End::Reset,
        }
    }
}

/// What is to be done with a request, or how it is refused: also whether it is one by HEAD.
fn plan(
    head: &[u8],
    front: &Front,
    (ends, is_tls): (&Ends, bool),
    note: &mut Note,
) -> Result<Planned, (Refusal, bool)> {
    let mut storage = storage();
    let request = Request::parse(head, &mut storage).map_err(|bad| (of_head(&bad), false))?;
    let is_for_head = request.method == "HEAD";
    let planned = plan_of(&request, head.len(), front, (ends, is_tls), note);
    planned.map_err(|why| (why, is_for_head))
}

/// The same of a request that was read, whose head has so many bytes.
pub(super) fn plan_of(
    request: &Request<'_>,
    length: usize,
    front: &Front,
    (ends, is_tls): (&Ends, bool),
    note: &mut Note,
) -> Result<Planned, Refusal> {
    let version = match request.minor_version {
        0 => "HTTP/1.0",
        HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    };
    let line = (request.method, request.target, version);
    note.asked(line, request.host, |name| header(request, name));
    if let Some(reply) = challenged(request, front) {
        return Ok(Planned::Answer(Answering::new(request, reply)));
    }
    let destination = front.router.find(request, ends.client());
    let destination = destination.ok_or_else(nowhere)?;
    note.goes(destination);
    let passage = match admitted(request, destination, (ends, is_tls)) {
        Ok(passage) => passage,
        Err(reply) => return Ok(Planned::Answer(Answering::new(request, reply))),
    };
    if let Some(id) = passage.as_ref().and_then(|it| it.id.as_ref()) {
        note.has_id(id);
    }
    // Rules answer all requests of a route that has no pool.
    let Some(pool) = &destination.pool else {
        return Err(nowhere());
    };
    let rewrite = OfRequest {
        client: ends.client(),
        is_tls,
        forwarded_for: front.config.forwarded_for,
        passage: passage.as_deref(),
    };
    let (mut out, mut over_two, mut websocket_key) = (Vec::new(), None, None);
    match pool.config.protocol {
        Protocol::One => {
            out.reserve(length + 128);
            rewrite.write(request, &mut out);
        }
        Protocol::Two => {
            over_two = Some(Box::new(two::request(request, rewrite, pool)?));
            websocket_key = two::key_of_client(request)?;
        }
    }
    Ok(Planned::Forward(Plan {
        key: key(pool, request, ends),
        pool: Arc::clone(pool),
        class: destination.class,
        route: destination.index,
        head: out,
        two: over_two,
        framing: request.framing,
        is_repeatable: request.is_repeatable(),
        is_for_head: request.method == "HEAD",
        is_old: request.minor_version == 0,
        persists: request.persists,
        upgrade: request.upgrade.map(<[u8]>::to_vec),
        websocket_key,
        binds: request.binds,
        is_grpc: two::is_grpc(request.headers),
        passage,
        note: None,
    }))
}

/// What an authority is answered that asks whether a name is ours, before any route.
fn challenged(request: &Request<'_>, front: &Front) -> Option<Reply> {
    let answer = front.challenges.answer(request.target)?;
    let kind = "application/octet-stream".to_owned();
    matches!(request.method, "GET" | "HEAD").then(|| Reply {
        status: 200,
        headers: vec![("content-type".into(), kind)],
        body: answer.into(),
    })
}

fn nowhere() -> Refusal {
    let text = "no route takes this request, and its listener has no pool: ask for another host or \
                path, or add a route";
    Refusal::new(404, text)
}

/// How a request is passed on by the rules of its route, or what it is answered with.
fn admitted(
    request: &Request<'_>,
    destination: &Destination,
    (ends, is_tls): (&Ends, bool),
) -> Result<Option<Box<Passage>>, Reply> {
    let Some(rules) = &destination.rules else {
        return Ok(None);
    };
    let asked = Asked {
        client: ends.client(),
        is_tls,
        host: request.host,
        target: request.target,
    };
    match rules.admit(&asked, |name| header(request, name)) {
        Verdict::Forward(passage) => Ok(Some(Box::new(passage))),
        Verdict::Answer(reply) => Err(reply),
    }
}

/// The first header with this name.
fn header<'b>(request: &Request<'b>, name: &str) -> Option<&'b [u8]> {
    let mut headers = request.headers.iter();
    let found = headers.find(|header| header.name.eq_ignore_ascii_case(name));
    found.map(|header| header.value)
}

/// By what the pool chooses, if it is by cookie or by hash.
fn key(pool: &Pool, request: &Request<'_>, ends: &Ends) -> u64 {
    if let Some(sticky) = &pool.config.sticky {
        let headers = request.headers.iter();
        let cookies = headers.filter(|header| header.name.eq_ignore_ascii_case("cookie"));
        return pool::said(sticky.get_ref(), cookies.map(|header| header.value));
    }
    let of_client = || of_client(ends);
    match pool.config.hash_on.as_ref().map(|what| what.get_ref()) {
        None => 0,
        Some(HashOn::Client) => of_client(),
        Some(HashOn::Path) => {
            let path = request.target.split('?').next().unwrap_or_default();
            hash(path.as_bytes())
        }
        Some(HashOn::Header(name)) => {
            let header = request
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(name));
            header.map_or_else(of_client, |header| hash(header.value))
        }
    }
}

/// The key of a client; all on Unix sockets are one.
pub(crate) fn of_client(ends: &Ends) -> u64 {
    match ends.client() {
        Some(address) => hash(address.to_string().as_bytes()),
        None => 0,
    }
}

/// Ends a connection whose client may be sending, so that it can read the answer.
pub(crate) async fn linger(mut stream: &Stream) {
    let (time, bytes_max) = LINGER;
    let drained = async {
        stream.shutdown().await?;
        let mut buffer = vec![0; 16 * 1_024];
        let mut drained = 0;
        while drained < bytes_max {
            match stream.read(&mut buffer).await? {
                0 => break,
                read => drained += read,
            }
        }
        Ok::<_, io::Error>(())
    };
    // It has had its time.
    let _ = timeout(time, drained).await;
}
