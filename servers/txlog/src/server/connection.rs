//! One connection's life.
//!
//! It is for one log, which its hello names, and which stays open as long as it lasts; or for none,
//! if it names none and the server has only logs with names (see `logless`). It begins in
//! the class `URGENT`, where it says hello and answers pings. With its first append or
//! read it moves to `NORMAL` for good: one task there reads requests, another sends answers, and
//! each read is a task of its own. So a client that only checks whether the server is alive does
//! not wait behind others, and a client that works cannot be urgent.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use evenkeel::Class;
use evenkeel::time::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc, watch};
use txlog_client::frame::{
    APPEND_OVERHEAD, Access, BATCH_OVERHEAD, BATCHED_OVERHEAD, Code, FrameError, HELLO_BYTES_MAX,
    Request, Response, VERSION, VERSION_MIN,
};
use txlog_client::wire::{FrameReader, WireError};

use super::answers::Answers;
use super::login::{Login, login};
use super::logs::{Lease, NO_UNNAMED};
use super::memory::Room;
use super::peers::{Cut, Member, PROGRESS_BYTES, Peer};
use super::queue::queue;
use super::requests::Requests;
use super::stream::{ReadHalf, Stream, WriteHalf};
use super::{BATCH_BYTES_MAX, Context, health, logless};
use crate::access::Permission;
use crate::log::gaps::Gaps;
use crate::store::{Identity, Store, StoreError};

/// A frame up to this size comes into the buffer that each connection has; a larger one waits for
/// memory.
const SMALL_FRAME_BYTES: usize = 4 * 1024;

/// How many bytes a client may still send after its fault, which are discarded so that it can read
/// the reason: closing with unread bytes would reset the connection.
const DISCARDED_BYTES_MAX: u64 = 1 << 20;

/// How long that may take.
const DISCARD_MAX: Duration = Duration::from_secs(1);

const NO_HELLO: &str = "no hello came in time: send one at once, as txlog's clients do";

const CUT_FRAME: &str =
    "a frame did not end in time: send frames whole, or see whether the network is slow";

/// Why the server closes a connection.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) code: Code,
    text: String,
}

/// How the reading of requests ended.
pub(super) type End = Result<(), Fault>;

/// A connection's two halves, and its place among the others.
struct Ends {
    frames: FrameReader<ReadHalf>,
    write: WriteHalf,
    member: Member,
}

/// What came of a client's hello.
#[derive(Clone, Copy)]
struct Hello {
    /// The protocol's version that is spoken.
    version: u16,
    /// What the client may do.
    login: Login,
}

impl Hello {
    /// Frames that are too long for who has no log are an append to none.
    fn explained(self, fault: Fault, has_log: bool) -> Fault {
        let fault = self.login.explained(fault);
        match fault.code {
            Code::FrameTooLong if !has_log => Fault::new(Code::NoSuchLog, NO_UNNAMED),
            _ => fault,
        }
    }
}

/// A request, and the memory that a large one holds.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) room: Option<Room>,
}

pub(super) async fn begin<S: Store>(
    context: Arc<Context<S>>,
    (stream, from): (Stream, SocketAddr),
    member: Member,
) {
    let (read, write) = stream.into_split();
    let ends = Ends {
        frames: FrameReader::new(read, HELLO_BYTES_MAX),
        write,
        member,
    };
    // Errors of a connection concern only its client, which knows them already.
    let _ = greet(context, ends, from).await;
}

/// Says hello and answers pings, until there is other work or the end.
async fn greet<S: Store>(
    context: Arc<Context<S>>,
    mut ends: Ends,
    from: SocketAddr,
) -> io::Result<()> {
    let stall_max = context.config.stall_max;
    let mut closing = context.closing.subscribe();
    let peer = Arc::clone(&ends.member.peer);
    let (hello, log) = match meet(&context, &mut ends, &mut closing, from).await {
        Ok((hello, log)) => (hello, log.map(Arc::new)),
        Err(Some(fault)) => return fail(ends, fault, DISCARD_MAX).await,
        Err(None) => return Ok(()),
    };
    if let Some(log) = &log {
        peer.serves(&log.past);
    }
    let store = log.as_deref().map(|log| &log.store);
    let welcome = welcome(&context, store, hello.version);
    send(&mut ends.write, &welcome, stall_max).await?;
    let bytes_max = frame_bytes_max(&context, store, hello.login);
    ends.frames.set_frame_bytes_max(bytes_max);
    idle(context, ends, hello, log).await
}

/// Answers pings, until there is other work or the end. What the client may not do is refused here
/// as well, without a place among those who work, and without their class.
async fn idle<S: Store>(
    context: Arc<Context<S>>,
    mut ends: Ends,
    hello: Hello,
    log: Option<Arc<Lease<S>>>,
) -> io::Result<()> {
    let stall_max = context.config.stall_max;
    let mut closing = context.closing.subscribe();
    let peer = Arc::clone(&ends.member.peer);
    loop {
        let asked = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(Fault::closing()),
            cut = peer.cut() => Err(Fault::cut(cut)),
            asked = next_request(&mut ends.frames, &context, &peer) => asked,
        };
        let asked = match asked.map_err(|fault| hello.explained(fault, log.is_some())) {
            Ok(Some(asked)) => asked,
            Ok(None) => return Ok(()),
            Err(fault) => return fail(ends, fault, DISCARD_MAX).await,
        };
        let refused = hello.login.refuses(&asked.request);
        let answer = match (&asked.request, refused, &log) {
            (_, Some((id, StoreError { code, text, .. })), _) => {
                match &log {
                    Some(log) => log.counters.refused.add(code),
                    None => context.counters.strangers_refused.add(1),
                }
                Response::Refused { id, code, text }
            }
            (&Request::Ping { id }, ..) => Response::Pong { id },
            (&Request::Health { id, within_ms }, _, Some(log)) => {
                let within = Duration::from_millis(within_ms.into());
                tokio::select! {
                    health = health::answer(&context, log, id, within) => health,
                    _ = closing.wait_for(|closing| *closing) => continue,
                    _ = peer.cut() => continue,
                }
            }
            (_, _, Some(log)) if ends.member.promote() => {
                let serving = serve(context, Arc::clone(log), ends, hello, asked);
                drop(evenkeel::spawn_in(Class::NORMAL, serving));
                return Ok(());
            }
            (Request::Hello { .. }, ..) => return fail(ends, Fault::hello(), DISCARD_MAX).await,
            (request, _, None) if logless::is_quick(request) || ends.member.promote() => {
                let answered = tokio::select! {
                    answered = logless::answer(&context, &peer, asked.request) => answered,
                    _ = closing.wait_for(|closing| *closing) => continue,
                    _ = peer.cut() => continue,
                };
                let Some((answer, _room)) = answered else {
                    return Ok(());
                };
                send(&mut ends.write, &answer, stall_max).await?;
                continue;
            }
            _ => {
                let fault = Fault::no_place(context.config.connections_max);
                return fail(ends, fault, DISCARD_MAX).await;
            }
        };
        send(&mut ends.write, &answer, stall_max).await?;
    }
}

/// Takes a client's hello, and opens its log if it may use it. Without a fault if there is nobody
/// to be told.
async fn meet<S: Store>(
    context: &Context<S>,
    ends: &mut Ends,
    closing: &mut watch::Receiver<bool>,
    from: SocketAddr,
) -> Result<(Hello, Option<Lease<S>>), Option<Fault>> {
    let peer = &ends.member.peer;
    let (version, access) = tokio::select! {
        biased;
        _ = closing.wait_for(|closing| *closing) => return Err(Some(Fault::closing())),
        // It has said nothing.
        _ = peer.cut() => return Err(None),
        hello = timeout(context.config.stall_max, ends.frames.next()) => match hello {
            Ok(Ok(None)) => return Err(None),
            Ok(frame) => frame.map_err(Fault::from).and_then(check_hello)?,
            Err(_) => return Err(Some(Fault::new(Code::TooSlow, NO_HELLO))),
        },
    };
    let login = login(context, peer, &access, from)?;
    let hello = Hello { version, login };
    if login.rights.is_empty() {
        // A stranger, who leaves when places are short, and learns of no log whether it is there.
        return Ok((hello, None));
    }
    peer.greeted(Instant::now());
    if access.log.is_empty() && !context.logs.has_unnamed() {
        return Ok((hello, None));
    }
    let log = tokio::select! {
        biased;
        _ = closing.wait_for(|closing| *closing) => return Err(Some(Fault::closing())),
        cut = peer.cut() => return Err(Some(Fault::cut(cut))),
        opened = open(context, login, &access) => opened.map_err(Fault::from)?,
    };
    Ok((hello, Some(log)))
}

/// Opens the log, and creates it if that is asked for and allowed.
async fn open<S: Store>(
    context: &Context<S>,
    login: Login,
    access: &Access,
) -> Result<Lease<S>, StoreError> {
    let create = access.create && login.rights.allow(Permission::Admin);
    let opened = context.logs.open(&access.log, create).await;
    match opened {
        Err(error) if error.code == Code::NoSuchLog && access.create && !create => {
            let text = format!("{error}; {}", login.lacks(Permission::Admin));
            Err(StoreError::new(Code::NotAllowed, text))
        }
        opened => opened,
    }
}

/// Other requests than appends must fit as well, however small records have to be, and batches are
/// the largest. Who may not append has no use for more than the small ones, and could hold memory
/// by it.
fn frame_bytes_max<S: Store>(context: &Context<S>, store: Option<&S>, login: Login) -> usize {
    match store {
        Some(store) if login.rights.allow(Permission::Append) => (store.record_bytes_max()
            + APPEND_OVERHEAD)
            .max(batch_bytes_max(context, store) + BATCH_OVERHEAD)
            .max(HELLO_BYTES_MAX),
        _ => HELLO_BYTES_MAX,
    }
}

/// A batch is no larger than its store takes, nor than the memory for all appends; the largest
/// record fits into one.
fn batch_bytes_max<S: Store>(context: &Context<S>, store: &S) -> usize {
    let of_memory = context.memory.batch_bytes_max();
    let of_record = store.record_bytes_max().saturating_add(BATCHED_OVERHEAD);
    let wanted = BATCH_BYTES_MAX.max(of_record);
    wanted.min(store.batch_bytes_max()).min(of_memory)
}

fn check_hello(frame: Option<Bytes>) -> Result<(u16, Access), Fault> {
    match Request::decode(frame.unwrap_or_default())? {
        Request::Hello { min, max, access }
            if min <= VERSION && VERSION_MIN <= max && min <= max =>
        {
            Ok((VERSION.min(max), access.unwrap_or_default()))
        }
        Request::Hello { min, max, .. } => Err(Fault::new(
            Code::Version,
            format!(
                "the server speaks versions {VERSION_MIN} to {VERSION} of the protocol, the client \
                 {min} to {max}: use a txlog of the same release on both sides"
            ),
        )),
        _ => Err(Fault::new(
            Code::NotTxlog,
            "the first frame has to be a hello: send one, or use another port for another service",
        )),
    }
}

/// What the server says of itself, and of the log if the client may use it.
fn welcome<S: Store>(context: &Context<S>, store: Option<&S>, version: u16) -> Response {
    let (first, next) = store.map_or((0, 0), Store::bounds);
    let nothing = Identity { log: 0, epoch: 0 };
    let Identity { log, epoch } = store.map_or(nothing, Store::identity);
    let record_bytes_max = store.map_or(BATCH_BYTES_MAX, Store::record_bytes_max);
    let batch_bytes_max = store.map_or(BATCH_BYTES_MAX, |store| batch_bytes_max(context, store));
    Response::Welcome {
        version,
        record_bytes_max: u32::try_from(record_bytes_max).unwrap_or(u32::MAX),
        appends_max: u32::try_from(context.config.appends_max).unwrap_or(u32::MAX),
        first,
        next,
        of: (version > VERSION_MIN).then_some(txlog_client::Identity { log, epoch }),
        batch_bytes_max: (version > 2).then_some(batch_bytes_max as u32),
    }
}

/// Serves a connection that appends or reads.
async fn serve<S: Store>(
    context: Arc<Context<S>>,
    log: Arc<Lease<S>>,
    ends: Ends,
    Hello { version, login }: Hello,
    first: Asked,
) {
    let Ends {
        mut frames,
        mut write,
        member,
    } = ends;
    let config = &context.config;
    let appends_max = config.appends_max.clamp(1, Semaphore::MAX_PERMITS);
    let (ordered, ordered_answers) = queue(appends_max, Arc::clone(&member.peer));
    let (others, other_answers) = mpsc::channel(config.reads_max.max(1));
    let stall_max = config.stall_max;
    let answers = Answers {
        ordered: ordered_answers,
        others: other_answers,
        front: None,
        settled: None,
        version,
        peer: Arc::clone(&member.peer),
        counters: Arc::clone(&log.counters),
        stall_max,
    };
    let sender = evenkeel::spawn(async move {
        let sent = answers.send(&mut write).await;
        (write, sent)
    });
    let requests = Requests {
        context: Arc::clone(&context),
        log,
        peer: Arc::clone(&member.peer),
        version,
        login,
        reads: Arc::new(Semaphore::new(config.reads_max)),
        share: context.memory.share(),
        gaps: Gaps::default(),
        ordered,
        others,
        taking: watch::Sender::new(()),
    };
    let end = requests.take(&mut frames, first).await;
    // The room of a frame that did not end is others' by now, and answers may take a while.
    frames.give_up_begun();
    // After the answers to all earlier requests. If the sender has ended, the client is gone.
    let Ok((mut write, Ok(()))) = sender.await else {
        return;
    };
    match end {
        Ok(()) => drop(timeout(stall_max, write.shutdown()).await),
        Err(fault) => {
            let ends = Ends {
                frames,
                write,
                member,
            };
            // Errors of a connection concern only its client, which knows them already.
            let _ = fail(ends, fault, stall_max).await;
        }
    }
}

/// The next request; `None` if the client has closed. A frame that has begun has to be complete in
/// time; between frames a client may be idle. A large frame waits for memory, and its time begins
/// when it has some.
pub(super) async fn next_request<S: Store>(
    frames: &mut FrameReader<ReadHalf>,
    context: &Context<S>,
    peer: &Arc<Peer>,
) -> Result<Option<Asked>, Fault> {
    let (mut room, mut deadline, mut seen) = (None, None, 0);
    loop {
        if let Some(frame) = frames.take_buffered()? {
            peer.asked(Instant::now());
            let request = Request::decode(frame)?;
            return Ok(Some(Asked { request, room }));
        }
        let large = frames
            .begun_bytes()?
            .filter(|&bytes| bytes > SMALL_FRAME_BYTES);
        if let (Some(bytes), None) = (large, &room) {
            room = Some(context.memory.for_frame(peer, bytes).await);
            frames.reserve_begun()?;
            deadline = None;
            seen = 0;
        }
        if room.is_some() && (seen == 0 || frames.arrived_bytes() >= seen + PROGRESS_BYTES) {
            seen = frames.arrived_bytes();
            peer.receiving(Instant::now());
        }
        let more = match frames.is_within_frame() {
            true => {
                let stall_max = context.config.stall_max;
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + stall_max);
                let left = deadline.saturating_duration_since(Instant::now());
                timeout(left, frames.fill()).await
            }
            false => Ok(frames.fill().await),
        };
        match more {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(None),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(Fault::new(Code::TooSlow, CUT_FRAME)),
        }
    }
}

async fn send(write: &mut WriteHalf, response: &Response, stall_max: Duration) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    response.encode(&mut buffer);
    let sending = async {
        write.write_all(&buffer).await?;
        // TLS may hold back the end of it.
        write.flush().await
    };
    match timeout(stall_max, sending).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Sends the fault within this time, and closes.
async fn fail(ends: Ends, fault: Fault, stall_max: Duration) -> io::Result<()> {
    let Ends {
        mut frames,
        mut write,
        member,
    } = ends;
    // As above: the client may take its time for the fault.
    frames.give_up_begun();
    let Fault { code, text } = fault;
    send(&mut write, &Response::Fault { code, text }, stall_max).await?;
    write.shutdown().await?;
    // A client that has sent nothing since has nothing unread here, which would reset the
    // connection. So nobody waits for it when the server ends.
    let peer = Arc::clone(&member.peer);
    if code == Code::Closing && !frames.is_within_frame() {
        drop(member);
    }
    tokio::select! {
        () = discard(frames) => {}
        // Somebody needs its descriptor.
        () = peer.lost_place() => {}
    }
    Ok(())
}

/// Lets a client that is still sending read the answers.
async fn discard(frames: FrameReader<ReadHalf>) {
    let mut rest = frames.into_inner().take(DISCARDED_BYTES_MAX);
    let mut buffer = [0; 4_096];
    let gone = async { while rest.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {} };
    let _ = timeout(DISCARD_MAX, gone).await;
}

impl Fault {
    pub(super) fn new(code: Code, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    pub(super) fn closing() -> Self {
        Self::new(Code::Closing, "the server is ending; connect again later")
    }

    pub(super) fn cut(cut: Cut) -> Self {
        match cut {
            Cut::Memory => Self::new(
                Code::TooSlow,
                "others waited for the memory of a frame that did not end; send it faster",
            ),
            Cut::Place => Self::new(
                Code::TooManyConnections,
                "another connection needed this one's place; connect again",
            ),
            Cut::Token => Self::new(
                Code::NotAllowed,
                "the token of this connection was removed or changed; connect again, by one that \
                 the server knows",
            ),
        }
    }

    pub(super) fn hello() -> Self {
        Self::new(
            Code::BadFrame,
            "a second hello: send one for each connection",
        )
    }

    pub(super) fn no_place(connections_max: usize) -> Self {
        let text = format!(
            "the server has {connections_max} connections, its limit, and only answers pings of \
             others; try again later"
        );
        Self::new(Code::TooManyConnections, text)
    }
}

impl From<StoreError> for Fault {
    fn from(StoreError { code, text, .. }: StoreError) -> Self {
        Self { code, text }
    }
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Frame(error) => error.into(),
            // The client is gone, and will not read this.
            error => Self::new(Code::BadFrame, error.to_string()),
        }
    }
}
