//! Connections that are passed on as they are.

use std::pin::pin;

use evenkeel::time::Instant;

use crate::access_log::{Note, Timed};
use crate::counters::Counter;
use crate::http::of_client;
use crate::policy::Key;
use crate::pool::dial;
use crate::relay;
use crate::server::{Front, Taken};
use crate::tls::Session;

/// Serves a connection until both of its sides have ended.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function has a second place for what it is given, in each connection"
)]
pub fn serve(mut taken: Taken) -> impl Future<Output = ()> + Send {
    async move {
        let front = taken.front();
        let mut note = front.log.as_ref().map(|log| {
            let tls = taken.stream.session().map(Session::version);
            Note::begin(log, taken.ends.client(), &front.name, tls)
        });
        if let (Some(note), Some(destination)) = (&mut note, front.router.otherwise()) {
            note.goes(destination);
        }
        let note = note.as_deref();
        let mut served = pin!(served(&mut taken, &front, note));
        Timed::new(served.as_mut(), note).await;
    }
}

async fn served(taken: &mut Taken, front: &Front, note: Option<&Note>) {
    let pool = front.router.otherwise();
    let Some(pool) = pool.and_then(|destination| destination.pool.as_ref()) else {
        // The listener spoke HTTP a moment ago, and has routes alone.
        return;
    };
    if let Some(limit) = front.router.limit()
        && limit.check(Key::Client(taken.ends.client())).is_err()
    {
        front.counters.refused.one();
        front.complain(&"a client connects more often than rate_limit allows");
        return taken.stream.reset();
    }
    pool.earn_retry();
    let began = note.map(|_| Instant::now());
    let key = of_client(&taken.ends);
    let mut dialled = match dial(pool, key, &taken.ends, false, &mut Vec::new()).await {
        Ok(dialled) => dialled,
        Err(error) => {
            front.complain(&error);
            // There is nobody to whom it could be said.
            return taken.stream.reset();
        }
    };
    let server = dialled.lease.server();
    if let (Some(note), Some(began)) = (note, began) {
        note.connected(server, dialled.lease.queued, began.elapsed());
    }
    pool.outcome(dialled.lease.index(), true);
    let (ours, theirs) = (&front.counters, &server.counters);
    let nowhere = Counter::default();
    let [noted_in, noted_out] = match note {
        Some(note) => [&note.bytes_in, &note.bytes_out],
        None => [&nowhere; 2],
    };
    let from_client = relay::Side {
        begun: std::mem::take(&mut taken.buffer).to_vec(),
        stream: &mut taken.stream,
        from: &[&ours.bytes_in, &theirs.bytes_in, noted_in],
    };
    let from_server = relay::Side {
        stream: &mut dialled.stream,
        begun: Vec::new(),
        from: &[&ours.bytes_out, &theirs.bytes_out, noted_out],
    };
    match relay::both(from_client, from_server, &front.config).await {
        Ok(()) => note.into_iter().for_each(Note::whole),
        Err(_) => {
            // Both see that something may be missing.
            taken.stream.reset();
            dialled.stream.reset();
        }
    }
}
