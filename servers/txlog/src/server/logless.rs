//! Requests of a connection that named no log, where the server has only logs with names: those
//! about the server as a whole are answered, so that a probe and a list need no name.

use std::sync::Arc;

use evenkeel::Class;
use txlog_client::frame::{Code, Request, Response};

use super::logs::NO_UNNAMED;
use super::lookups::{LIST, list};
use super::memory::Room;
use super::peers::Peer;
use super::reads::{admitted, busy};
use super::{Context, health};
use crate::store::{Store, StoreError};

/// Whether it takes no place among the connections that work, as pings do.
pub(super) fn is_quick(request: &Request) -> bool {
    matches!(request, Request::Health { .. })
}

/// The answer to a request, and the memory that it takes until it is sent; none if it cannot have
/// one.
pub(super) async fn answer<S: Store>(
    context: &Arc<Context<S>>,
    peer: &Arc<Peer>,
    request: Request,
) -> Option<(Response, Option<Room>)> {
    let id = request.id()?;
    match request {
        Request::Health { .. } => Some((health::of_all(context, peer, id), None)),
        Request::Logs { after, .. } => {
            let listed = listed(Arc::clone(context), Arc::clone(peer), id, after);
            // It reads files, and is not as urgent as pings.
            let listed = evenkeel::spawn_in(Class::NORMAL, listed).await;
            // Else the runtime has ended.
            Some(listed.ok()?.unwrap_or_else(|error| refused(id, error)))
        }
        _ => {
            let error = StoreError::new(Code::NoSuchLog, NO_UNNAMED);
            Some(refused(id, error))
        }
    }
}

async fn listed<S: Store>(
    context: Arc<Context<S>>,
    peer: Arc<Peer>,
    id: u64,
    after: String,
) -> Result<(Response, Option<Room>), StoreError> {
    let share = context.memory.share();
    let room = admitted(&context, 0, (&peer, &share), LIST).await;
    let room = room.ok_or_else(|| busy(&context))?;
    let logs = list(&context, &peer, id, after).await?;
    Ok((logs, Some(room)))
}

fn refused(id: u64, StoreError { code, text, .. }: StoreError) -> (Response, Option<Room>) {
    (Response::Refused { id, code, text }, None)
}
