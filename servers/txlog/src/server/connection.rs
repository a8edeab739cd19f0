//! One connection's life.
//!
//! It begins in the class `URGENT`, where it says hello and answers pings. With its first append or
//! read it moves to `NORMAL` for good: one task there reads requests, another sends answers, and
//! each read is a task of its own. So a client that only checks whether the server is alive does
//! not wait behind others, and a client that works cannot be urgent.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use evenkeel::Class;
use evenkeel::net::TcpStream;
use evenkeel::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use evenkeel::time::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use txlog_client::frame::{
    APPEND_OVERHEAD, Code, FrameError, RECORD_OVERHEAD, Request, Response, SMALL_BYTES_MAX, VERSION,
};
use txlog_client::wire::{FrameReader, WireError};

use super::Context;
use super::answers::{Answers, Append, Ordered};
use crate::log::ReadLimits;
use crate::store::{Found, Store, StoreError};

/// How many bytes a client may still send after its fault, which are discarded so that it can read
/// the reason: closing with unread bytes would reset the connection.
const DISCARDED_BYTES_MAX: u64 = 1 << 20;

/// How long that may take.
const DISCARD_MAX: Duration = Duration::from_secs(1);

/// Why the server closes a connection.
#[derive(Debug)]
struct Fault {
    code: Code,
    text: String,
}

/// How the reading of requests ended.
type End = Result<(), Fault>;

/// A connection's two halves, and its place among the others.
struct Ends {
    frames: FrameReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn begin<S: Store>(
    context: Arc<Context<S>>,
    stream: TcpStream,
    place: OwnedSemaphorePermit,
) {
    // It would only be slower.
    let _ = stream.set_nodelay(true);
    let (read, write) = stream.into_split();
    let ends = Ends {
        frames: FrameReader::new(read, SMALL_BYTES_MAX),
        write,
        _place: place,
    };
    // Errors of a connection concern only its client, which knows them already.
    let _ = greet(context, ends).await;
}

/// Says hello and answers pings, until there is other work or the end.
async fn greet<S: Store>(context: Arc<Context<S>>, mut ends: Ends) -> io::Result<()> {
    let stall_max = context.config.stall_max;
    let hello = timeout(stall_max, ends.frames.next()).await;
    let hello = match hello {
        Ok(Ok(None)) => return Ok(()),
        Ok(frame) => frame.map_err(Fault::from).and_then(check_hello),
        Err(_) => Err(Fault::new(Code::TooSlow, "no hello in time")),
    };
    let version = match hello {
        Ok(version) => version,
        Err(fault) => return fail(ends, fault).await,
    };
    send(&mut ends.write, &welcome(&context, version), stall_max).await?;
    // Other requests must fit as well, however small records have to be.
    let append_bytes_max = context.store.record_bytes_max() + APPEND_OVERHEAD;
    ends.frames
        .set_frame_bytes_max(append_bytes_max.max(SMALL_BYTES_MAX));
    let mut closing = context.closing.subscribe();
    loop {
        let request = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(Fault::closing()),
            request = next_request(&mut ends.frames, stall_max) => request,
        };
        match request {
            Ok(Some(Request::Ping { id })) => {
                send(&mut ends.write, &Response::Pong { id }, stall_max).await?;
            }
            Ok(Some(request)) => {
                drop(evenkeel::spawn_in(
                    Class::NORMAL,
                    serve(context, ends, request),
                ));
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Err(fault) => return fail(ends, fault).await,
        }
    }
}

fn check_hello(frame: Option<Bytes>) -> Result<u16, Fault> {
    match Request::decode(frame.unwrap_or_default())? {
        Request::Hello { min, max } if min <= VERSION && VERSION <= max => Ok(VERSION),
        Request::Hello { min, max } => Err(Fault::new(
            Code::Version,
            format!("the server speaks version {VERSION}, the client {min} to {max}"),
        )),
        _ => Err(Fault::new(
            Code::NotTxlog,
            "the first frame has to be a hello",
        )),
    }
}

fn welcome<S: Store>(context: &Context<S>, version: u16) -> Response {
    let (first, next) = context.store.bounds();
    Response::Welcome {
        version,
        record_bytes_max: u32::try_from(context.store.record_bytes_max()).unwrap_or(u32::MAX),
        appends_max: u32::try_from(context.config.appends_max).unwrap_or(u32::MAX),
        first,
        next,
    }
}

/// Serves a connection that appends or reads.
async fn serve<S: Store>(context: Arc<Context<S>>, ends: Ends, first: Request) {
    let Ends {
        mut frames,
        mut write,
        _place,
    } = ends;
    let config = &context.config;
    let appends_max = config.appends_max.clamp(1, Semaphore::MAX_PERMITS);
    let (ordered, ordered_answers) = mpsc::channel(appends_max);
    let (others, other_answers) = mpsc::channel(config.reads_max.max(1));
    let answers = Answers {
        ordered: ordered_answers,
        others: other_answers,
        front: None,
    };
    let stall_max = config.stall_max;
    let sender = evenkeel::spawn(async move {
        let sent = answers.send(&mut write, stall_max).await;
        (write, sent)
    });
    let requests = Requests {
        context: Arc::clone(&context),
        appends: Arc::new(Semaphore::new(appends_max)),
        reads: Arc::new(Semaphore::new(config.reads_max)),
        ordered,
        others,
        taking: watch::Sender::new(()),
    };
    let end = requests.take(&mut frames, first).await;
    let faulty = end.is_err();
    // After the answers to all earlier requests. If the sender has ended, the client is gone.
    let Ok((mut write, Ok(()))) = sender.await else {
        return;
    };
    if let Err(Fault { code, text }) = end {
        let fault = Response::Fault { code, text };
        if send(&mut write, &fault, stall_max).await.is_err() {
            return;
        }
    }
    let _ = timeout(stall_max, write.shutdown()).await;
    if faulty {
        discard(frames).await;
    }
}

/// The state of the task that reads requests.
struct Requests<S: Store> {
    context: Arc<Context<S>>,
    /// Places for appends. The append to be answered next is not in the queue of answers.
    appends: Arc<Semaphore>,
    /// Places for reads.
    reads: Arc<Semaphore>,
    ordered: mpsc::Sender<Ordered<S::Pending>>,
    others: mpsc::Sender<Response>,
    /// Dropped when no more requests are taken: then reads stop waiting for new records.
    taking: watch::Sender<()>,
}

impl<S: Store> Requests<S> {
    /// Takes requests until the client sends no more, the server closes, or there is a fault.
    async fn take(self, frames: &mut FrameReader<OwnedReadHalf>, first: Request) -> End {
        let mut closing = self.context.closing.subscribe();
        let mut request = first;
        loop {
            if !self.begin(request).await? {
                return Ok(());
            }
            let next = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return Err(Fault::closing()),
                // The sender of answers has ended: the client is gone.
                () = self.ordered.closed() => return Ok(()),
                next = next_request(frames, self.context.config.stall_max) => next?,
            };
            match next {
                Some(next) => request = next,
                None => return Ok(()),
            }
        }
    }

    /// Begins a request, as soon as there is room for it. False if the sender of answers has ended.
    async fn begin(&self, request: Request) -> Result<bool, Fault> {
        match request {
            Request::Append { id, payload } => {
                // Places first, which bounds the pending appends. If the sender of answers has
                // ended, all places are free.
                let Ok(place) = Arc::clone(&self.appends).acquire_owned().await else {
                    return Ok(false);
                };
                let Ok(answer) = self.ordered.reserve().await else {
                    return Ok(false);
                };
                answer.send(match self.submit(payload).await {
                    Ok(record) => Ordered::Append(Append {
                        id,
                        record,
                        _place: place,
                    }),
                    Err(error) => Ordered::Ready(refused(id, error)),
                });
                Ok(true)
            }
            Request::Read {
                id,
                from,
                records_max,
                bytes_max,
                wait_ms,
            } => {
                let most = self.context.config.read_bytes_max;
                let limits = ReadLimits {
                    // Records without bytes take memory, too.
                    records_max: (records_max as usize).clamp(1, (most / RECORD_OVERHEAD).max(1)),
                    bytes_max: (bytes_max as usize).min(most),
                };
                let wait = Duration::from_millis(wait_ms.into());
                self.begin_read(id, from, limits, wait).await;
                Ok(true)
            }
            Request::Ping { id } => Ok(self.others.send(Response::Pong { id }).await.is_ok()),
            Request::Hello { .. } => Err(Fault::new(Code::BadFrame, "a second hello")),
        }
    }

    /// Submits a record, unless it is too large: where records have to be small, a frame may have
    /// room for more.
    async fn submit(&self, payload: Bytes) -> Result<S::Pending, StoreError> {
        let store = &self.context.store;
        let (bytes, bytes_max) = (payload.len(), store.record_bytes_max());
        if bytes > bytes_max {
            let text = format!("a record of {bytes} bytes; the server takes {bytes_max} at most");
            return Err(StoreError::new(Code::RecordTooLarge, text));
        }
        store.submit(payload).await
    }

    async fn begin_read(&self, id: u64, from: u64, limits: ReadLimits, wait: Duration) {
        let Ok(place) = Arc::clone(&self.reads).try_acquire_owned() else {
            let reads_max = self.context.config.reads_max;
            let text = format!("{reads_max} reads of this connection are under way; await one");
            let error = StoreError::new(Code::TooManyReads, text);
            // If the sender has ended, the connection is about to end.
            let _ = self.others.send(refused(id, error)).await;
            return;
        };
        let context = Arc::clone(&self.context);
        let others = self.others.clone();
        let taking = self.taking.subscribe();
        drop(evenkeel::spawn(async move {
            let mut closing = context.closing.subscribe();
            let response = tokio::select! {
                response = read(&context, id, from, limits, wait, taking) => response,
                _ = closing.wait_for(|closing| *closing) => empty(id, from),
                () = others.closed() => return,
            };
            // The read stays pending until there is room for its answer, so a client that reads
            // no answers gets no more of them. If the sender has ended, the connection is about
            // to end.
            let Ok(room) = others.reserve().await else {
                return;
            };
            // The place is free before the answer is sent, so that the client may ask again.
            drop(place);
            room.send(response);
        }));
    }
}

fn refused(id: u64, error: StoreError) -> Response {
    Response::Refused {
        id,
        code: error.code,
        text: error.text,
    }
}

fn empty(id: u64, next: u64) -> Response {
    Response::Records {
        id,
        next,
        records: Vec::new(),
    }
}

/// Answers a read: with records as soon as there are some, or without when its time is up. It waits
/// only while requests are taken, and does not wait for removed records.
async fn read<S: Store>(
    context: &Context<S>,
    id: u64,
    mut from: u64,
    limits: ReadLimits,
    wait: Duration,
    mut taking: watch::Receiver<()>,
) -> Response {
    let store = &context.store;
    let deadline = Instant::now() + wait.min(context.config.read_wait_max);
    loop {
        let wanted = from.max(store.bounds().0);
        let left = deadline.saturating_duration_since(Instant::now());
        if store.bounds().1 <= wanted && !left.is_zero() {
            // Whether it came in time is checked below.
            tokio::select! {
                _ = timeout(left, store.wait_for(wanted)) => {}
                // Nothing is ever sent, so it ends with the sender.
                _ = taking.changed() => {}
            }
        }
        match store.read(from, limits).await {
            Ok(Found { records, next }) if records.is_empty() && next > from && !left.is_zero() => {
                from = next;
            }
            Ok(Found { records, next }) => return Response::Records { id, next, records },
            Err(error) => return refused(id, error),
        }
    }
}

/// The next request; `None` if the client has closed. A frame that has begun has to be complete in
/// time; between frames a client may be idle.
async fn next_request(
    frames: &mut FrameReader<OwnedReadHalf>,
    stall_max: Duration,
) -> Result<Option<Request>, Fault> {
    loop {
        if let Some(frame) = frames.take_buffered()? {
            return Ok(Some(Request::decode(frame)?));
        }
        let had_begun = frames.is_within_frame();
        match timeout(stall_max, frames.next()).await {
            Ok(Ok(Some(frame))) => return Ok(Some(Request::decode(frame)?)),
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) if had_begun => {
                return Err(Fault::new(Code::TooSlow, "a frame did not end in time"));
            }
            Err(_) => {}
        }
    }
}

async fn send(
    write: &mut OwnedWriteHalf,
    response: &Response,
    stall_max: Duration,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    response.encode(&mut buffer);
    match timeout(stall_max, write.write_all(&buffer)).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Sends the fault, and closes.
async fn fail(mut ends: Ends, Fault { code, text }: Fault) -> io::Result<()> {
    send(
        &mut ends.write,
        &Response::Fault { code, text },
        DISCARD_MAX,
    )
    .await?;
    ends.write.shutdown().await?;
    discard(ends.frames).await;
    Ok(())
}

/// Lets a client that is still sending read the answers.
async fn discard(frames: FrameReader<OwnedReadHalf>) {
    let mut rest = frames.into_inner().take(DISCARDED_BYTES_MAX);
    let mut buffer = [0; 4_096];
    let gone = async { while rest.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {} };
    let _ = timeout(DISCARD_MAX, gone).await;
}

impl Fault {
    fn new(code: Code, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    fn closing() -> Self {
        Self::new(Code::Closing, "the server is ending; connect again later")
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
