//! One request and its answer, where a client or a server speaks HTTP/2.
//!
//! As between two that speak HTTP/1.1 ([`super::super::exchange`]): a body is sent while the answer
//! is waited for, and something is tried again only if it can have had no effect. A server that
//! refuses a stream, or goes and names the last stream it began with, says so of any request.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use ::http::StatusCode;
use bytes::BytesMut;
use h2::RecvStream;

use super::super::exchange::{
    Client, End, Fault, Plan, broke_off, failed, gone, no_server, refused, wanted,
};
use super::super::framing::Framing;
use super::super::patience::Patience;
use super::super::refusal::Refusal;
use super::answer::{Answer, Awaited, Trouble};
use super::body::{Broken, Passed, broken, pipe};
use super::held::All;
use super::reply::Reply;
use super::servers::Place;
use super::sink::Sink;
use super::source::Source;
use super::squeeze::{self, squeezed};
use super::tunnel::{self, Far, Tunnel};
use super::upload::{Upload, answered};
use crate::access_log::Cause;
use crate::compress::Form;
use crate::counters::Counter;
use crate::pool::{Dialled, Lease, Pool, Server, Wanted, dial, dial_two};
use crate::server::Front;
use crate::socket::Ends;

/// A request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) front: &'a Front,
    pub(super) ends: &'a Ends,
    pub(super) up: Source<'a>,
    pub(super) reply: Reply<'a>,
}

/// How a server was reached.
#[derive(Debug)]
enum Called {
    One(Dialled),
    Two(Lease, Place),
}

/// What an attempt comes to.
enum Whole {
    /// The answer, to its end.
    Done(Done),
    /// The head of an answer by which the protocol changes, and what follows by HTTP/2.
    Opened(Answer, Option<RecvStream>),
}

/// What is left after an answer.
struct Done {
    end: End,
    status: u16,
    /// The server has broken off its answer.
    is_broken: bool,
    server_persists: bool,
}

impl Done {
    /// Notes what became of a request.
    fn tell(&self, front: &Front, plan: &Plan, lease: &Lease) {
        let index = lease.index();
        if self.is_broken {
            broke_off(front, plan, lease.server());
            plan.pool.outcome(index, false);
        } else {
            plan.pool.answered(index, self.status);
            if self.end == End::Reset {
                failed(plan, Cause::ClientGone);
            }
        }
        if let Some(note) = &plan.note
            && !self.is_broken
            && self.end != End::Reset
        {
            note.whole();
        }
    }
}

/// Forwards a request of a client that speaks HTTP/1.1 to a server that speaks HTTP/2.
///
/// # Errors
///
/// [`Refusal`]: the client is to be answered with this, and its connection ends.
pub(in super::super) async fn forward(client: Client<'_>, plan: &Plan) -> Result<End, Refusal> {
    let Client {
        stream,
        buffer,
        ends,
        front,
        ..
    } = client;
    let stream = &*stream;
    let up = Source::one(
        stream,
        buffer,
        plan.framing,
        front.config.head_bytes_max,
        of_client(front, plan),
        &front.counters.bytes_in,
    );
    let reply = Reply::One(stream);
    let call = Call {
        front,
        ends,
        up,
        reply,
    };
    exchange(&mut { call }, plan).await
}

/// The client's time.
pub(super) fn of_client(front: &Front, plan: &Plan) -> Patience {
    let config = &front.config;
    match plan.is_grpc {
        true => Patience::each(config.timeouts.idle),
        false => Patience::in_all(config.timeouts.body, config.body_rate_min),
    }
}

/// The server's time.
fn of_server(front: &Front, plan: &Plan) -> Patience {
    Patience::each(match plan.is_grpc {
        true => front.config.timeouts.idle,
        false => plan.pool.config.timeouts.body,
    })
}

/// Sends a request to a server, and its answer to the client.
pub(super) async fn exchange(call: &mut Call<'_>, plan: &Plan) -> Result<End, Refusal> {
    let (pool, front, ends) = (&plan.pool, call.front, call.ends);
    pool.earn_retry();
    let (mut tried, mut repeats) = (Vec::new(), 0);
    loop {
        let began = plan.note.as_ref().map(|note| note.now());
        let called = tokio::select! {
            biased;
            called = reach((front, ends), plan, wanted(repeats), &mut tried) => called?,
            () = left(&mut call.reply, pool) => {
                failed(plan, Cause::ClientGone);
                return Ok(End::Close);
            }
        };
        let (lease, is_reused, is_shared) = match &called {
            Called::One(dialled) => (&dialled.lease, dialled.is_reused, false),
            Called::Two(lease, place) => (lease, place.is_reused(), true),
        };
        let (server, index) = (Arc::clone(lease.server()), lease.index());
        if let (Some(note), Some(began)) = (&plan.note, began) {
            note.connected(lease, !is_reused, began, tried.len());
        }
        let trouble = match once(call, plan, called).await {
            Ok(end) => return Ok(end),
            Err(trouble) => trouble,
        };
        let (fault, may_repeat) = match trouble {
            Trouble::Full => {
                front.complain_of(plan.route, &"bodies take all of process.h2_held_bytes_max");
                failed(plan, Cause::Limit);
                return Err(full());
            }
            Trouble::NoTunnels => return Err(no_tunnels(front, plan, &server)),
            Trouble::NotOpened => return Err(not_opened(front, plan, &server)),
            Trouble::Refused(error) => (Fault::Lost(error), call.up.is_whole),
            Trouble::Fault(fault) => {
                let is_lost = matches!(fault, Fault::Lost(_));
                (fault, is_lost && is_reused && plan.is_repeatable)
            }
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
        let may_repeat = may_repeat && repeats < pool.config.retries.max;
        // A shared connection may lose many requests at once. A kept one loses one, and no other
        // kept one is tried, so no budget has to bound that.
        if may_repeat && (!is_shared || pool.spend_retry()) {
            server.counters.retries.one();
            repeats += 1;
            tried.push(index);
            continue;
        }
        return refused(fault, front, plan, &server);
    }
}

/// Until the client has gone, or takes its request back.
async fn left(reply: &mut Reply<'_>, pool: &Pool) {
    match reply {
        Reply::One(stream) => gone(stream, pool).await,
        Reply::Two { .. } => reply.gone().await,
    }
}

fn full() -> Refusal {
    let why = "bodies that wait for their receivers take all the memory that they may; try again \
               later";
    Refusal::new(503, why)
}

/// That says nothing of the server's health, as a client may ask for what it likes.
fn no_tunnels(front: &Front, plan: &Plan, server: &Server) -> Refusal {
    let (pool, name) = (&plan.pool.name, &server.config.name);
    let what = format_args!(
        "server {pool}/{name} does not allow WebSockets over HTTP/2 (extended CONNECT, RFC 8441): \
         have it allow them, or drop the pool's protocol = \"h2\""
    );
    front.complain_of(plan.route, &what);
    failed(plan, Cause::ServerBad);
    let why = "the server behind does not allow that another protocol is asked for: ask for \
               something else";
    Refusal::new(501, why)
}

/// By HTTP/2 the status of a page would say that the protocol has changed (RFC 8441, section 5).
fn not_opened(front: &Front, plan: &Plan, server: &Server) -> Refusal {
    let (pool, name) = (&plan.pool.name, &server.config.name);
    let what = format_args!(
        "server {pool}/{name} has answered a client that asked for another protocol with a page: \
         it may know none there"
    );
    front.complain_of(plan.route, &what);
    failed(plan, Cause::ServerBad);
    Refusal::new(
        502,
        "the server behind did not change to the protocol that was asked for",
    )
}

async fn reach(
    (front, ends): (&Front, &Ends),
    plan: &Plan,
    wanted: Wanted,
    tried: &mut Vec<usize>,
) -> Result<Called, Refusal> {
    let (pool, key) = (&plan.pool, plan.key);
    let called = match plan.two {
        None => dial(pool, key, ends, wanted, tried).await.map(Called::One),
        Some(_) => dial_two(pool, key, plan.class, (ends, &front.held), tried)
            .await
            .map(|(lease, place)| Called::Two(lease, place)),
    };
    called.map_err(|error| {
        if let Some(note) = &plan.note {
            note.unserved(&error, tried.len());
        }
        front.complain_of(plan.route, &error);
        no_server()
    })
}

/// One attempt.
async fn once(call: &mut Call<'_>, plan: &Plan, called: Called) -> Result<End, Trouble> {
    let patience = of_server(call.front, plan);
    match called {
        Called::One(Dialled { lease, stream, .. }) => {
            let (server, mut arrived) = (Arc::clone(lease.server()), BytesMut::new());
            let counters = &server.counters;
            let is_chunked = plan.framing == Framing::Chunked;
            let head = plan.head.clone();
            let sink = Sink::one(&stream, head, is_chunked, patience, &counters.bytes_in);
            let awaited = Awaited::one(&stream, &mut arrived, &counters.bytes_out);
            let done = match both(call, plan, &server, sink, awaited).await? {
                Whole::Done(done) => done,
                // Few requests ask for another protocol: the others keep no room for it.
                Whole::Opened(answer, _) => {
                    let idle = call.front.config.timeouts.idle;
                    let far = Far::one(&stream, &mut arrived, counters, idle);
                    Box::pin(opened(call, plan, answer, far)).await?
                }
            };
            let is_shared =
                done.server_persists && !plan.binds && server.config.send_proxy.is_none();
            let config = &plan.pool.config;
            if is_shared && arrived.is_empty() {
                server.keep(stream, config.timeouts.keep, config.idle_connections_max);
            } else if done.end != End::Reset {
                stream.finish_now();
            }
            done.tell(call.front, plan, &lease);
            // Not before, so that whoever gets the place finds the connection.
            drop(lease);
            Ok(done.end)
        }
        Called::Two(lease, place) => {
            let Some(request) = &plan.two else {
                return Err(Fault::Server("speaks another protocol".to_owned()).into());
            };
            let is_tunnel = tunnel::is_wanted(plan);
            if is_tunnel && !place.takes_tunnels(plan.pool.config.timeouts.connect).await {
                return Err(Trouble::NoTunnels);
            }
            let is_end = plan.framing == Framing::None && !is_tunnel;
            // It takes no more, which was not known a moment ago.
            let sent = place.send((**request).clone(), is_end);
            let (response, mut body) = sent.map_err(|error| Trouble::Refused(broken(error)))?;
            let sink = Sink::two(&mut body, place.line(), patience);
            let awaited = Awaited::Two(response);
            let done = match both(call, plan, lease.server(), sink, awaited).await? {
                Whole::Done(done) => done,
                Whole::Opened(answer, back) => {
                    let times = &call.front.config.timeouts;
                    let limits = (plan.pool.config.h2.window, times.idle);
                    let far = Far::two(&mut body, place.line(), back, limits);
                    Box::pin(opened(call, plan, answer, far)).await?
                }
            };
            done.tell(call.front, plan, &lease);
            Ok(done.end)
        }
    }
}

/// Sends the body and the answer, at the same time.
async fn both<'s>(
    call: &mut Call<'_>,
    plan: &Plan,
    server: &'s Server,
    mut sink: Sink<'s>,
    mut awaited: Awaited<'s>,
) -> Result<Whole, Trouble> {
    let Call {
        front, up, reply, ..
    } = call;
    let (front, all) = (*front, &front.held);
    let has_body = plan.framing != Framing::None;
    let upload = pin!(async {
        match has_body {
            // Most requests have none: those keep no room for it.
            true => Box::pin(pipe(up, &mut sink, all, Passed::of(plan, false))).await,
            false => sink.head().await.map_err(|_| Broken::To),
        }
    });
    let mut upload = Upload {
        future: upload,
        is_going: true,
        is_whole: false,
    };
    let (mut answer, body) = answered(&mut upload, &mut awaited, reply, front, plan).await?;
    let is_by_two = matches!(reply, Reply::Two { .. });
    if opens(&answer, plan, (front, server), is_by_two)? {
        answer.change(plan, server);
        return Ok(Whole::Opened(answer, body));
    }
    let form = squeeze::form(&answer, plan);
    let tag = answer.change(plan, server);
    let (framing, persists, status) = (answer.framing, answer.persists, answer.status.as_u16());
    squeeze::coded(&mut answer, &form, tag);
    let sent_as = answer.framing;
    let has_end = is_by_two || !plan.is_old || sent_as != Framing::Chunked;
    let is_cut = has_body && !upload.is_whole;
    let closes = !plan.persists || !has_end || front.is_closing() || is_cut;
    let mut down = awaited.source(framing, body, (front, plan), &server.counters.bytes_out);
    let result = match reply.begin(answer, closes, front, plan)? {
        None => Ok(()),
        Some(mut sink) => {
            let passed = Passed::of(plan, true);
            // What is handed over by value has its place twice.
            let download = pin!(download(&mut down, &mut sink, all, form, passed));
            upload.beside(download).await
        }
    };
    let is_broken = matches!(result, Err(Broken::From(_) | Broken::Bad(_)));
    let is_whole = upload.is_whole;
    let end = match result {
        Ok(()) if !closes => End::Next,
        Ok(()) if has_body && !is_whole => End::Linger,
        Ok(()) => End::Close,
        Err(Broken::From(_) | Broken::Bad(_)) => {
            server.counters.answer_errors.one();
            reply.broken(has_end)
        }
        // What waits in the system's buffers is not kept for one who does not take it.
        Err(Broken::To) => End::Reset,
        Err(Broken::Full) => {
            failed(plan, Cause::Limit);
            End::Reset
        }
    };
    Ok(Whole::Done(Done {
        server_persists: persists && is_whole && result.is_ok(),
        status,
        is_broken,
        end,
    }))
}

/// Whether the protocol changes by an answer, which is counted.
fn opens(
    answer: &Answer,
    plan: &Plan,
    (front, server): (&Front, &Server),
    is_by_two: bool,
) -> Result<bool, Trouble> {
    let status = match answer.opens {
        true => {
            // Before the configuration changes what it says.
            tunnel::verified(answer, plan)?;
            StatusCode::SWITCHING_PROTOCOLS
        }
        false if is_by_two && answer.status.is_success() && tunnel::is_wanted(plan) => {
            return Err(Trouble::NotOpened);
        }
        false => answer.status,
    };
    front.counters.statuses.note(status.as_u16());
    server.counters.statuses.note(status.as_u16());
    if !answer.opens {
        (plan.note.iter()).for_each(|note| note.answered(status.as_u16()));
    }
    Ok(answer.opens)
}

/// Sends the body of an answer.
async fn download(
    down: &mut Source<'_>,
    sink: &mut Sink<'_>,
    all: &Arc<All>,
    form: Form,
    passed: Passed<'_>,
) -> Result<(), Broken> {
    match form {
        // Few answers are compressed: the others keep no room for it.
        Form::Squeezed(by) => Box::pin(squeezed(down, sink, all, by, passed)).await,
        Form::Fixed | Form::Plain => pipe(down, sink, all, passed).await,
    }
}

/// Passes on what follows an answer by which the protocol has changed.
async fn opened(
    call: &mut Call<'_>,
    plan: &Plan,
    answer: Answer,
    far: Far<'_>,
) -> Result<Done, Trouble> {
    let Call {
        front, up, reply, ..
    } = call;
    let front = *front;
    let status = StatusCode::SWITCHING_PROTOCOLS.as_u16();
    if let Some(note) = &plan.note {
        note.answered(status);
    }
    let done = |end| Done {
        end,
        status,
        // Who has broken it off, nobody knows.
        is_broken: false,
        server_persists: false,
    };
    let answer = match reply {
        Reply::One(_) => tunnel::opened_to_one(answer, plan),
        Reply::Two { .. } => tunnel::opened_to_two(answer),
    };
    let Some(mut down) = reply.begin(answer, false, front, plan)? else {
        return Ok(done(End::Close));
    };
    let idle = front.config.timeouts.idle;
    up.opens(tunnel::patience());
    down.opens(Patience::each(idle));
    let tunnel = Tunnel { up, down, far };
    Ok(match tunnel.run(plan, &front.held, idle).await {
        Ok(()) => done(End::Close),
        Err(error) => {
            failed(
                plan,
                match error.kind() {
                    io::ErrorKind::OutOfMemory => Cause::Limit,
                    _ => Cause::CutOff,
                },
            );
            done(End::Reset)
        }
    })
}

impl<'a> Awaited<'a> {
    /// The body of the answer.
    fn source(
        self,
        framing: Framing,
        body: Option<RecvStream>,
        (front, plan): (&Front, &Plan),
        counter: &'a Counter,
    ) -> Source<'a> {
        let patience = of_server(front, plan);
        if framing == Framing::None {
            return Source::none(patience);
        }
        match (self, body) {
            (
                Self::One {
                    stream, arrived, ..
                },
                _,
            ) => {
                let max = front.config.head_bytes_max;
                Source::one(stream, arrived, framing, max, patience, counter)
            }
            (Self::Two(_), Some(body)) => Source::two(body, plan.pool.config.h2.window, patience),
            // There is one with each answer.
            (Self::Two(_), None) => Source::none(patience),
        }
    }
}
