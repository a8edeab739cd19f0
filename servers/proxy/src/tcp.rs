//! Connections that are passed on as they are.

use std::pin::pin;
use std::sync::Arc;

use evenkeel::time::{Instant, timeout_at};
use tokio::io::AsyncReadExt;

use crate::access_log::{Cause, Note, Timed};
use crate::http::of_client;
use crate::policy::Key;
use crate::pool::{Pool, Wanted, dial};
use crate::relay;
use crate::server::{Front, Taken};
use crate::tls::{Hello, Said, Session};

/// How much is read at once of a first message.
const READ_BYTES: usize = 4 * 1_024;

/// Serves a connection until both of its sides have ended.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function has a second place for what it is given, in each connection"
)]
pub fn serve(mut taken: Taken) -> impl Future<Output = ()> + Send {
    async move {
        let front = taken.front();
        let tls = taken.stream.session().map(Session::version);
        let mut note = Note::begin(&front.recorder, taken.ends.client(), tls);
        let name = match front.router.asks_for_names() {
            // Few do: the other connections keep no room for it.
            true => Box::pin(asked_for(&mut taken, &front)).await,
            false => None,
        };
        let found = front
            .router
            .find_connection(name.as_deref(), taken.ends.client());
        let pool = found.and_then(|found| found.pool.as_ref());
        found.into_iter().for_each(|found| note.goes(found));
        let (Some(destination), Some(pool)) = (found, pool) else {
            note.failed(found.map_or(Cause::NoRoute, |_| Cause::Rejected));
            return nowhere(&taken, &front, name.as_deref());
        };
        if destination.class != front.class {
            // Only outside tasks this is an error, and connections are served by tasks.
            let _ = evenkeel::task::change_class(destination.class);
        }
        let mut served = pin!(served(&mut taken, &front, pool, &note));
        Timed::new(served.as_mut(), Some(&note)).await;
    }
}

/// No route takes a connection, or one rejects it.
fn nowhere(taken: &Taken, front: &Front, name: Option<&str>) {
    front.counters.refused.one();
    let name = name.unwrap_or("no name");
    front.complain(&format_args!(
        "no route takes a connection to {name:?}, or one rejects it"
    ));
    taken.stream.reset();
}

/// The name that a client asks for by TLS. What comes of it is read, and stays in the buffer to be
/// passed on; one that is silent asks for none.
async fn asked_for(taken: &mut Taken, front: &Front) -> Option<String> {
    if let Some(session) = taken.stream.session() {
        return session.server_name();
    }
    let mut hello = Hello::default();
    let deadline = Instant::now() + front.config.timeouts.head;
    loop {
        if let Said::Name(name) = hello.read(&taken.buffer) {
            return name;
        }
        let read = async {
            if taken.buffer.is_empty() {
                return taken.stream.read_first(&mut taken.buffer).await;
            }
            taken.buffer.reserve(READ_BYTES);
            (&taken.stream).read_buf(&mut taken.buffer).await
        };
        if !matches!(timeout_at(deadline, read).await, Ok(Ok(1..))) {
            return None;
        }
    }
}

async fn served(taken: &mut Taken, front: &Front, pool: &Arc<Pool>, note: &Note) {
    if let Some(limit) = front.router.limit()
        && limit.check(Key::Client(taken.ends.client())).is_err()
    {
        front.counters.refused.one();
        front.complain(&"a client connects more often than rate_limit allows");
        note.failed(Cause::Limit);
        return taken.stream.reset();
    }
    pool.earn_retry();
    let began = note.now();
    let key = of_client(&taken.ends);
    let mut tried = Vec::new();
    let dialled = match dial(pool, key, &taken.ends, Wanted::Own, &mut tried).await {
        Ok(dialled) => dialled,
        Err(error) => {
            note.unserved(&error, tried.len());
            front.complain(&error);
            // There is nobody to whom it could be said.
            return taken.stream.reset();
        }
    };
    let server = dialled.lease.server();
    note.connected(&dialled.lease, true, began, tried.len());
    pool.outcome(dialled.lease.index(), true);
    let (ours, theirs) = (&front.counters, &server.counters);
    let from_client = relay::Side {
        begun: std::mem::take(&mut taken.buffer).to_vec(),
        stream: &taken.stream,
        from: &[&ours.bytes_in, &theirs.bytes_in, &note.bytes_in],
    };
    let from_server = relay::Side {
        stream: &dialled.stream,
        begun: Vec::new(),
        from: &[&ours.bytes_out, &theirs.bytes_out, &note.bytes_out],
    };
    match relay::both(from_client, from_server, &front.config).await {
        Ok(()) => note.whole(),
        Err(_) => {
            // Both see that something may be missing.
            taken.stream.reset();
            dialled.stream.reset();
        }
    }
}
