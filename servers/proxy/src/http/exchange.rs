//! One request and its answer.
//!
//! ```text
//!  dial ──▶ head and body to the server ──▶ head of the answer ──▶ its body to the client ──▶ next
//!   ▲            │ (at the same time)              │ 101
//!   └─ closed before any byte of an answer,        └──▶ relay, until both have ended
//!      and it may be sent twice
//! ```
//!
//! A body is sent while the answer is waited for, since a server may answer before it has read all,
//! and a client may wait for `100 Continue`. If the answer comes first, the client's connection
//! ends after it: what is left of the body stands before the next request.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use evenkeel::Class;
use evenkeel::time::sleep;

use super::answer::{Answer, read_answer};
use super::body::{Broken, Target, Transfer};
use super::chunks::Recode;
use super::framing::Framing;
use super::patience::Patience;
use super::refusal::Refusal;
use super::rewrite::OfResponse;
use crate::access_log::{Cause, Note};
use crate::compress::Squeeze;
use crate::policy::Passage;
use crate::pool::{Dialled, Pool, Server, Wanted, dial};
use crate::relay;
use crate::server::Front;
use crate::socket::Ends;
use crate::spare;
use crate::stream::Stream;
use crate::timer::Timer;

/// Whose request it is.
#[derive(Debug)]
pub(super) struct Client<'a> {
    pub(super) stream: &'a mut Stream,
    /// What was read of it.
    pub(super) buffer: &'a mut BytesMut,
    pub(super) ends: &'a Ends,
    pub(super) front: &'a Front,
    pub(super) timer: &'a mut Timer,
}

/// What is to be done with a request.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) pool: Arc<Pool>,
    pub(super) class: Class,
    /// The place of its route, for what operators are told.
    pub(super) route: usize,
    pub(super) key: u64,
    /// The head as it goes to a server that speaks HTTP/1.1, and to one that speaks HTTP/2.
    pub(super) head: Vec<u8>,
    pub(super) two: Option<Box<::http::Request<()>>>,
    pub(super) framing: Framing,
    pub(super) is_repeatable: bool,
    pub(super) is_for_head: bool,
    /// The client speaks HTTP/1.0.
    pub(super) is_old: bool,
    pub(super) persists: bool,
    /// The protocol to which the client wants to change.
    pub(super) upgrade: Option<Vec<u8>>,
    /// The one of a WebSocket: what a server of HTTP/1.1 has to know of for a client of HTTP/2, or
    /// the answer to a client of HTTP/1.1 for a server of HTTP/2.
    pub(super) websocket_key: Option<String>,
    /// It logs in for the whole connection, which is then for nobody else.
    pub(super) binds: bool,
    /// What the configuration changes.
    pub(super) passage: Option<Box<Passage>>,
    /// What is noted of it, from when it is under way.
    pub(super) note: Option<Box<Note>>,
    /// It is a call of gRPC, which may be silent for long in both directions.
    pub(super) is_grpc: bool,
}

/// How it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Another request may follow.
    Next,
    /// The client's connection ends.
    Close,
    /// It ends, and the client may still be sending.
    Linger,
    /// It ends so that the client sees that something is missing.
    Reset,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server has closed the connection before any byte of one.
    Lost(io::Error),
    /// What the server does is wrong.
    Server(String),
    /// It takes too long.
    ServerSlow,
    /// The client sends something that is no body.
    Bad(super::chunks::BadChunk),
    /// It takes too long.
    ClientSlow,
    /// It has gone.
    ClientGone,
}

/// Sends a request to a server, and its answer to the client.
///
/// # Errors
///
/// [`Refusal`]: the client is to be answered with this, and its connection ends.
pub(super) async fn exchange(mut client: Client<'_>, plan: &Plan) -> Result<End, Refusal> {
    let pool = &plan.pool;
    pool.earn_retry();
    let mut tried = Vec::new();
    let mut repeats = 0;
    loop {
        let began = plan.note.as_ref().map(|note| note.now());
        let wanted = wanted(repeats);
        let dialled = tokio::select! {
            biased;
            dialled = dial(pool, plan.key, client.ends, wanted, &mut tried) => dialled,
            () = gone(client.stream, pool) => {
                failed(plan, Cause::ClientGone);
                return Ok(End::Close);
            }
        };
        let dialled = dialled.map_err(|error| {
            if let Some(note) = &plan.note {
                note.unserved(&error, tried.len() + repeats as usize);
            }
            client.front.complain_of(plan.route, &error);
            no_server()
        })?;
        let server = &pool.servers()[dialled.lease.index()];
        if let (Some(note), Some(began)) = (&plan.note, began) {
            let retries = tried.len() + repeats as usize;
            note.connected(&dialled.lease, !dialled.is_reused, began, retries);
        }
        let (is_reused, index) = (dialled.is_reused, dialled.lease.index());
        let fault = match once(&mut client, plan, dialled).await {
            Ok(end) => return Ok(end),
            Err(fault) => fault,
        };
        if matches!(fault, Fault::Lost(_) | Fault::Server(_) | Fault::ServerSlow) {
            server.counters.answer_errors.one();
        }
        // That a kept connection turns out to be closed says nothing of the server.
        let is_failure = match fault {
            Fault::Lost(_) => !is_reused,
            Fault::Server(_) | Fault::ServerSlow => true,
            Fault::Bad(_) | Fault::ClientSlow | Fault::ClientGone => false,
        };
        if is_failure {
            pool.outcome(index, false);
        }
        let may_repeat = is_reused && plan.is_repeatable && repeats < pool.config.retries.max;
        // At most once for each connection that was kept, so no budget has to bound it.
        if matches!(fault, Fault::Lost(_)) && may_repeat {
            server.counters.retries.one();
            repeats += 1;
            continue;
        }
        return refused(fault, client.front, plan, server);
    }
}

/// Until a client has gone while requests wait in the pool's queue. By HTTP/1.1 that looks like the
/// end of its direction, which does no harm where a request need not wait.
pub(super) async fn gone(stream: &Stream, pool: &Pool) {
    /// When it is looked for the first time, and after twice as long each time.
    const LOOK: Duration = Duration::from_millis(100);
    let mut pause = LOOK;
    loop {
        sleep(pause).await;
        if stream.socket().has_ended() && pool.waiting() > 0 {
            return;
        }
        pause *= 2;
    }
}

/// After a connection that had waited and was closed by then, no other one of those is tried.
pub(super) fn wanted(repeats: u32) -> Wanted {
    match repeats {
        0 => Wanted::Any,
        _ => Wanted::New,
    }
}

/// Who asks does not learn which servers there are. The operator is told.
pub(super) fn no_server() -> Refusal {
    Refusal::new(
        503,
        "no server is there for this request at the moment; try again later",
    )
}

/// Says that a server has sent a part of its answer, which its client has by now.
pub(super) fn broke_off(front: &Front, plan: &Plan, server: &Server) {
    let (pool, name) = (&plan.pool.name, &server.config.name);
    let what = "broke off its answer, of which the client has got a part";
    front.complain_of(plan.route, &format_args!("server {pool}/{name} {what}"));
    failed(plan, Cause::ServerBroke);
}

/// Notes why a request is not served.
pub(super) fn failed(plan: &Plan, cause: Cause) {
    if let Some(note) = &plan.note {
        note.failed(cause);
    }
}

impl Fault {
    fn cause(&self) -> Cause {
        match self {
            Self::Lost(_) => Cause::ServerClosed,
            Self::Server(_) => Cause::ServerBad,
            Self::ServerSlow => Cause::ServerSlow,
            Self::Bad(_) => Cause::BadRequest,
            Self::ClientSlow => Cause::ClientSlow,
            Self::ClientGone => Cause::ClientGone,
        }
    }
}

/// What the client is told.
pub(super) fn refused(
    fault: Fault,
    front: &Front,
    plan: &Plan,
    server: &Server,
) -> Result<End, Refusal> {
    failed(plan, fault.cause());
    let complain = |what: &str| {
        let (pool, name) = (&plan.pool.name, &server.config.name);
        front.complain_of(plan.route, &format_args!("server {pool}/{name} {what}"));
    };
    Err(match fault {
        Fault::Lost(error) => {
            complain(&format!("closed the connection without an answer: {error}"));
            Refusal::new(502, "the server behind has not answered; try again later")
        }
        Fault::Server(why) => {
            complain(&why);
            Refusal::new(
                502,
                "the server behind has given no good answer; try again later",
            )
        }
        Fault::ServerSlow => {
            let time = plan.pool.config.timeouts.answer;
            complain(&format!(
                "has not answered within {time:?}, timeouts.answer"
            ));
            Refusal::new(
                504,
                "the server behind has not answered in time; try again later",
            )
        }
        Fault::Bad(why) => {
            front.counters.bad_requests.one();
            Refusal::new(400, format!("{why}; mend what sends this"))
        }
        Fault::ClientSlow => Refusal::new(408, "the body comes too slowly; send it faster"),
        Fault::ClientGone => return Ok(End::Close),
    })
}

/// One attempt.
async fn once(client: &mut Client<'_>, plan: &Plan, dialled: Dialled) -> Result<End, Fault> {
    let Dialled {
        lease,
        stream: mut origin,
        ..
    } = dialled;
    let server = &**lease.server();
    let mut arrived = BytesMut::new();
    let done = if plan.framing == Framing::None {
        without_body(client, plan, server, &mut origin, &mut arrived).await?
    } else {
        with_body(client, plan, server, &origin, &mut arrived).await?
    };
    let is_shared = done.server_persists && !plan.binds && arrived.is_empty();
    spare::give(arrived);
    if is_shared && server.config.send_proxy.is_none() {
        let config = &plan.pool.config;
        server.keep(origin, config.timeouts.keep, config.idle_connections_max);
    } else if done.end != End::Reset {
        origin.finish_now();
    }
    if let Some(note) = &plan.note
        && !done.is_broken
        && done.end != End::Reset
    {
        note.whole();
    }
    if done.is_broken {
        broke_off(client.front, plan, server);
        plan.pool.outcome(lease.index(), false);
    } else {
        plan.pool.answered(lease.index(), done.status);
        if done.end == End::Reset {
            failed(plan, Cause::ClientGone);
        }
    }
    // Not before, so that whoever gets the place finds the connection.
    drop(lease);
    Ok(done.end)
}

/// What is left after an answer.
struct Done {
    end: End,
    /// 0, if it says nothing of the server.
    status: u16,
    /// The server has broken off its answer.
    is_broken: bool,
    server_persists: bool,
}

impl Done {
    const fn with(end: End) -> Self {
        Self {
            end,
            status: 0,
            is_broken: false,
            server_persists: false,
        }
    }
}

async fn without_body(
    client: &mut Client<'_>,
    plan: &Plan,
    server: &Server,
    origin: &mut Stream,
    arrived: &mut BytesMut,
) -> Result<Done, Fault> {
    let mut target = to_server(client.front, plan, server, origin);
    target.send(&plan.head).await.map_err(Fault::Lost)?;
    let limit = plan.pool.config.timeouts.answer;
    let mut answer = {
        let answer = read_answer(client.stream, client.front, plan, (server, origin), arrived);
        // What is handed over by value has its place twice.
        let answer = pin!(answer);
        let answer = client.timer.within(limit, answer).await;
        answer.map_err(|_| Fault::ServerSlow)??
    };
    if answer.upgrades {
        let done = upgraded(client, answer, (server, origin), arrived).await;
        if done.end == End::Reset {
            failed(plan, Cause::CutOff);
        }
        return Ok(done);
    }
    let closes = closes(client.front, plan, &answer);
    let (framing, server_persists) = (answer.framing, answer.persists);
    let (status, has_end) = (answer.status, has_end(plan, answer.sent_as()));
    let squeeze = answer.squeeze.take();
    let down = download(
        client.stream,
        client.front,
        plan,
        (server, origin),
        answer,
        closes,
        arrived,
    );
    let max = client.front.config.head_bytes_max;
    let result = forwarded(down, (framing, squeeze), plan, max).await;
    let mut done = finished(result, closes, has_end, server);
    done.status = status;
    done.server_persists &= server_persists;
    Ok(done)
}

async fn with_body(
    client: &mut Client<'_>,
    plan: &Plan,
    server: &Server,
    origin: &Stream,
    arrived: &mut BytesMut,
) -> Result<Done, Fault> {
    let (stream, front) = (&*client.stream, client.front);
    let config = &front.config;
    let upload = Transfer {
        from: stream,
        patience: Patience::in_all(config.timeouts.body, config.body_rate_min),
        to: to_server(front, plan, server, origin),
        splices: config.splice,
        buffer: client.buffer,
        out: plan.head.clone(),
    };
    let mut upload = pin!(upload.run(plan.framing, Recode::Chunks, config.head_bytes_max));
    let mut is_going = true;
    let mut is_whole = false;
    let mut answer = {
        let mut answer = pin!(read_answer(stream, front, plan, (server, origin), arrived));
        tokio::select! {
            biased;
            uploaded = &mut upload => {
                is_going = false;
                is_whole = sent(uploaded)?;
                answered(origin, plan, answer).await?
            }
            answer = &mut answer => answer?,
        }
    };
    let closes = closes(front, plan, &answer) || !is_whole;
    let (framing, server_persists) = (answer.framing, answer.persists);
    let (status, has_end) = (answer.status, has_end(plan, answer.sent_as()));
    let squeeze = answer.squeeze.take();
    let down = download(
        stream,
        front,
        plan,
        (server, origin),
        answer,
        closes,
        arrived,
    );
    let max = config.head_bytes_max;
    let mut down = pin!(forwarded(down, (framing, squeeze), plan, max));
    let result = loop {
        tokio::select! {
            biased;
            uploaded = &mut upload, if is_going => {
                is_going = false;
                match sent(uploaded) {
                    Ok(whole) => is_whole = whole,
                    Err(fault) => return Ok(cut(plan, &fault)),
                }
            }
            result = &mut down => break result,
        }
    };
    let mut done = finished(result, closes, has_end, server);
    done.status = status;
    done.server_persists &= server_persists && is_whole;
    if done.end == End::Close && !is_whole {
        done.end = End::Linger;
    }
    Ok(done)
}

/// Waits for the answer to what is written, some of which may wait for the server to take it.
async fn answered(
    origin: &Stream,
    plan: &Plan,
    answer: impl Future<Output = Result<Answer, Fault>>,
) -> Result<Answer, Fault> {
    let mut patience = Patience::each(plan.pool.config.timeouts.answer);
    let answer = async { Ok(answer.await) };
    let answer = patience.wait_while(origin.socket().taken(), answer).await;
    answer.map_err(|_| Fault::ServerSlow)?
}

/// How a request ends whose body goes wrong when its answer has begun.
fn cut(plan: &Plan, fault: &Fault) -> Done {
    failed(plan, fault.cause());
    Done::with(End::Reset)
}

/// Whether the whole body was sent, if an answer may still come.
fn sent(uploaded: Result<(), Broken>) -> Result<bool, Fault> {
    match uploaded {
        Ok(()) => Ok(true),
        // It may have answered before.
        Err(Broken::To) => Ok(false),
        Err(Broken::From(error)) if error.kind() == io::ErrorKind::TimedOut => {
            Err(Fault::ClientSlow)
        }
        Err(Broken::From(_)) => Err(Fault::ClientGone),
        Err(Broken::Bad(why)) => Err(Fault::Bad(why)),
    }
}

fn to_server<'a>(
    front: &'a Front,
    plan: &'a Plan,
    server: &'a Server,
    origin: &'a Stream,
) -> Target<'a> {
    Target {
        stream: origin,
        patience: Patience::each(plan.pool.config.timeouts.body),
        counters: [&server.counters.bytes_in, &front.counters.bytes_in],
        is_client: false,
        noted: plan.note.as_ref().map(|note| &note.bytes_in),
    }
}

/// The body of an answer on its way to the client, with its head.
fn download<'a>(
    stream: &'a Stream,
    front: &'a Front,
    plan: &'a Plan,
    (server, origin): (&'a Server, &'a Stream),
    answer: Answer,
    closes: bool,
    arrived: &'a mut BytesMut,
) -> Transfer<'a> {
    let config = &front.config;
    let mut out = answer.out;
    OfResponse::end(closes, plan.is_old, &mut out);
    Transfer {
        from: origin,
        patience: Patience::each(plan.pool.config.timeouts.body),
        to: Target {
            stream,
            patience: Patience::in_all(config.timeouts.body, config.body_rate_min),
            counters: [&server.counters.bytes_out, &front.counters.bytes_out],
            is_client: true,
            noted: plan.note.as_ref().map(|note| &note.bytes_out),
        },
        splices: config.splice,
        buffer: arrived,
        out,
    }
}

/// Forwards the body of an answer.
async fn forwarded(
    down: Transfer<'_>,
    (framing, squeeze): (Framing, Option<Box<Squeeze>>),
    plan: &Plan,
    trailer_bytes_max: usize,
) -> Result<(), Broken> {
    match squeeze {
        // Few answers are compressed: the others keep no room for it.
        Some(squeeze) => Box::pin(down.squeeze(framing, squeeze, trailer_bytes_max)).await,
        None => down.run(framing, recode(plan), trailer_bytes_max).await,
    }
}

/// HTTP/1.0 knows no chunks.
fn recode(plan: &Plan) -> Recode {
    if plan.is_old {
        Recode::Plain
    } else {
        Recode::Chunks
    }
}

/// Whether the client's connection ends after the answer.
fn closes(front: &Front, plan: &Plan, answer: &Answer) -> bool {
    !plan.persists || !has_end(plan, answer.sent_as()) || front.is_closing()
}

/// Whether the client sees where the answer ends, and so whether all of it has come.
fn has_end(plan: &Plan, framing: Framing) -> bool {
    match framing {
        Framing::Close => false,
        Framing::Chunked => !plan.is_old,
        Framing::None | Framing::Length(_) => true,
    }
}

fn finished(result: Result<(), Broken>, closes: bool, has_end: bool, server: &Server) -> Done {
    match result {
        Ok(()) => Done {
            status: 0,
            is_broken: false,
            end: if closes { End::Close } else { End::Next },
            server_persists: true,
        },
        // What waits in the system's buffers is not kept for one who does not take it.
        Err(Broken::To) => Done::with(End::Reset),
        Err(Broken::From(_) | Broken::Bad(_)) => {
            server.counters.answer_errors.one();
            // Otherwise it would take what has come for the whole.
            Done {
                is_broken: true,
                ..Done::with(if has_end { End::Close } else { End::Reset })
            }
        }
    }
}

/// Passes on whatever comes, in both directions.
async fn upgraded(
    client: &mut Client<'_>,
    answer: Answer,
    (server, origin): (&Server, &mut Stream),
    arrived: &mut BytesMut,
) -> Done {
    let mut begun = answer.out;
    OfResponse::end(false, false, &mut begun);
    begun.extend_from_slice(arrived);
    let from_client = relay::Side {
        stream: client.stream,
        begun: client.buffer.split().to_vec(),
        from: &[&client.front.counters.bytes_in, &server.counters.bytes_in],
    };
    let from_server = relay::Side {
        stream: origin,
        begun,
        from: &[&client.front.counters.bytes_out, &server.counters.bytes_out],
    };
    match relay::both(from_client, from_server, &client.front.config).await {
        Ok(()) => Done::with(End::Close),
        Err(_) => {
            // Both see that something may be missing.
            origin.reset();
            Done::with(End::Reset)
        }
    }
}
