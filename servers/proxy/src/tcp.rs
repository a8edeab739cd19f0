//! Connections that are passed on as they are.

use bytes::BytesMut;

use crate::http::of_client;
use crate::policy::Key;
use crate::pool::dial;
use crate::relay;
use crate::server::Taken;

/// Serves a connection until both of its sides have ended.
pub async fn serve(mut taken: Taken) {
    let front = taken.front();
    let Some(pool) = front.router.otherwise() else {
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
    let key = of_client(&taken.ends);
    let mut dialled = match dial(pool, key, &taken.ends, false, &mut Vec::new()).await {
        Ok(dialled) => dialled,
        Err(error) => {
            front.complain(&error);
            // There is nobody to whom it could be said.
            return taken.stream.reset();
        }
    };
    pool.outcome(dialled.lease.index(), true);
    let server = dialled.lease.server();
    let begun = std::mem::replace(&mut taken.buffer, BytesMut::new());
    let from_client = relay::Side {
        stream: &mut taken.stream,
        begun: begun.to_vec(),
        from: [&front.counters.bytes_in, &server.counters.bytes_in],
    };
    let from_server = relay::Side {
        stream: &mut dialled.stream,
        begun: Vec::new(),
        from: [&front.counters.bytes_out, &server.counters.bytes_out],
    };
    let relayed = relay::both(from_client, from_server, &front.config).await;
    if relayed.is_err() {
        // Both see that something may be missing.
        taken.stream.reset();
        dialled.stream.reset();
    }
}
