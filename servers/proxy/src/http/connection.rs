//! A client's connection: one request after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use evenkeel::Class;
use evenkeel::time::{Instant, timeout, timeout_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::exchange::{Client, End, Plan, exchange};
use super::head::{BadHead, HeadEnd, Request, storage};
use super::refusal::Refusal;
use super::rewrite::OfRequest;
use crate::config::HashOn;
use crate::pool::{Pool, hash};
use crate::route::Destination;
use crate::server::{Front, Taken};
use crate::socket::Ends;
use crate::stream::Stream;

/// How much is read at once of a head.
const READ_BYTES: usize = 4 * 1_024;

/// How long, and how much, is read of a client who is sending while its connection ends. Closing at
/// once would discard the answer that it has not read yet.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 256 * 1_024);

/// Serves a connection until it ends.
pub async fn serve(mut taken: Taken) {
    let mut is_first = true;
    loop {
        // As the configuration is now.
        let front = taken.front();
        match next(&mut taken, &front, is_first).await {
            Ok(End::Next) => is_first = false,
            // What it has sent meanwhile would make the system discard the answer.
            Ok(End::Close) if !taken.buffer.is_empty() || taken.stream.has_more() => {
                return linger(&taken.stream).await;
            }
            Ok(End::Close) => return taken.stream.finish(front.config.timeouts.body).await,
            Ok(End::Linger) => return linger(&taken.stream).await,
            Ok(End::Reset) => return taken.stream.reset(),
            Err((refusal, is_for_head)) => {
                let text = refusal.write(is_for_head);
                front.counters.bytes_out.add(text.len() as u64);
                let limit = front.config.timeouts.body;
                let sent = timeout(limit, (&taken.stream).write_all(&text)).await;
                if matches!(sent, Ok(Ok(()))) {
                    linger(&taken.stream).await;
                }
                return;
            }
        }
    }
}

/// Serves the next request.
async fn next(
    taken: &mut Taken,
    front: &Arc<Front>,
    is_first: bool,
) -> Result<End, (Refusal, bool)> {
    let head = match head(taken, front, is_first).await {
        Ok(Some(length)) => length,
        Ok(None) => return Ok(End::Close),
        Err(refusal) => {
            front.counters.bad_requests.one();
            return Err((refusal, false));
        }
    };
    // It may have been long in coming, and the configuration is another one by now.
    let front = &taken.front();
    front.counters.requests.one();
    let is_tls = taken.stream.session().is_some();
    let plan = match plan(&taken.buffer[..head], front, (&taken.ends, is_tls)) {
        Ok(plan) => plan,
        Err(refused) => {
            front.counters.bad_requests.one();
            return Err(refused);
        }
    };
    taken.buffer.advance(head);
    let client = Client {
        stream: &mut taken.stream,
        buffer: &mut taken.buffer,
        ends: &taken.ends,
        front,
    };
    let is_for_head = plan.is_for_head;
    enter(plan.class);
    let done = exchange(client, plan).await;
    enter(front.class);
    done.map_err(|refusal| (refusal, is_for_head))
}

/// Goes on in this class.
fn enter(class: Class) {
    // Only outside tasks this is an error, and connections are served by tasks.
    let _ = evenkeel::task::change_class(class);
}

/// Reads the head of a request. Returns its length, or `None` if there is none to come.
async fn head(taken: &mut Taken, front: &Front, is_first: bool) -> Result<Option<usize>, Refusal> {
    let times = front.config.timeouts;
    if taken.buffer.is_empty() {
        let limit = if is_first {
            times.head
        } else {
            times.keep_alive
        };
        let read = taken.stream.read_first(&mut taken.buffer, READ_BYTES);
        let begun = tokio::select! {
            biased;
            begun = timeout(limit, read) => begun,
            _ = taken.closing.wait_for(|closing| *closing), if !is_first => return Ok(None),
        };
        // Browsers connect in advance: silence is not worth an answer.
        if !matches!(begun, Ok(Ok(1..))) {
            return Ok(None);
        }
    }
    let deadline = Instant::now() + times.head;
    let mut end = HeadEnd::default();
    let mut may_skip = true;
    loop {
        // An empty line before a request is to be tolerated.
        if may_skip && taken.buffer.starts_with(b"\r\n") {
            taken.buffer.advance(2);
            (end, may_skip) = (HeadEnd::default(), false);
        }
        let found = end.find(&taken.buffer).map_err(|bad| of_head(&bad))?;
        let max = front.config.head_bytes_max;
        if found.unwrap_or(taken.buffer.len()) > max {
            let text = format!("the head has more than {max} bytes, head_bytes_max; shorten it");
            return Err(Refusal::new(431, text));
        }
        if found.is_some() {
            return Ok(found);
        }
        taken.buffer.reserve(READ_BYTES);
        let mut stream = &taken.stream;
        match timeout_at(deadline, stream.read_buf(&mut taken.buffer)).await {
            Ok(Ok(0) | Err(_)) => return Ok(None),
            Ok(Ok(_)) => {}
            // An empty line alone is not worth an answer.
            Err(_) if taken.buffer.is_empty() => return Ok(None),
            Err(_) => {
                let text = format!(
                    "the head has not come within {:?}; send it faster",
                    times.head
                );
                return Err(Refusal::new(408, text));
            }
        }
    }
}

fn of_head(bad: &BadHead) -> Refusal {
    Refusal::new(bad.status, format!("{bad}; mend what sends this"))
}

/// What is to be done with a request, or how it is refused: also whether it is one by HEAD.
fn plan(
    head: &[u8],
    front: &Front,
    (ends, is_tls): (&Ends, bool),
) -> Result<Plan, (Refusal, bool)> {
    let mut storage = storage();
    let request = Request::parse(head, &mut storage).map_err(|bad| (of_head(&bad), false))?;
    let is_for_head = request.method == "HEAD";
    let Some(Destination { pool, class }) = front.router.find(&request) else {
        let text = "no route takes this request, and its listener has no pool: ask for another \
                    host or path, or add a route";
        return Err((Refusal::new(404, text), is_for_head));
    };
    let mut out = Vec::with_capacity(head.len() + 128);
    let rewrite = OfRequest {
        client: ends.client(),
        is_tls,
        forwarded_for: front.config.forwarded_for,
    };
    rewrite.write(&request, &mut out);
    Ok(Plan {
        key: key(pool, &request, ends),
        pool: Arc::clone(pool),
        class: *class,
        head: out,
        framing: request.framing,
        is_repeatable: request.is_repeatable(),
        is_for_head,
        is_old: request.minor_version == 0,
        persists: request.persists,
        upgrade: request.upgrade.map(<[u8]>::to_vec),
        binds: request.binds,
    })
}

/// By what the pool chooses, if it is by hash.
fn key(pool: &Pool, request: &Request<'_>, ends: &Ends) -> u64 {
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
