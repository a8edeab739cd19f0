//! Another process takes over, or this one takes over from an earlier one.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use evenkeel::time::timeout;
use tracing::{info, warn};

use super::open::Open;
use super::{Context, Place, Site, Watched};
use crate::pool::Server;
use crate::supervisor;
use crate::tls::Listening;
use crate::upgrade::{
    self, ANCESTORS_MAX, Estate, Inherited, Known, Left, Passing, PidLeft, Successor, UpgradeError,
    VERSION,
};

impl Context {
    /// Starts the program anew, and has it take over. Returns its process id; this process takes no
    /// more connections then, and [`leaving`](Self::leaving) says so. If it does not come to that,
    /// all goes on as before.
    ///
    /// # Errors
    ///
    /// [`UpgradeError`].
    pub async fn upgrade(self: &Arc<Self>) -> Result<u32, UpgradeError> {
        let _one = self
            .upgrading
            .try_lock()
            .map_err(|_| UpgradeError::UnderWay)?;
        let mut open = self.open.lock().await;
        if *self.leaving.borrow() {
            return Err(UpgradeError::Leaving);
        }
        // Relaxed: a limit that may be late.
        let ancestors = self.ancestors.load(Ordering::Relaxed);
        if ancestors >= ANCESTORS_MAX {
            return Err(UpgradeError::Ancestors(ancestors));
        }
        let site = self.site();
        let limit = site.config.process.get_ref().upgrade_timeout;
        let mut closing = self.closing();
        info!("another process is started to take over");
        let pid_file = self.process.pid_file.as_deref();
        let passed = tokio::select! {
            passed = timeout(limit, pass_on(&site, &open, ancestors + 1, pid_file)) => {
                passed.unwrap_or(Err(UpgradeError::Late(limit)))
            }
            _ = closing.wait_for(|closing| *closing) => Err(UpgradeError::Ending),
        };
        if passed.is_err() {
            // Both have the same sockets, and the other one may have changed them.
            open.restore_congestion_control(&site.config);
        }
        let (successor, left) = passed?;
        let id = successor.id();
        supervisor::main_process_is(id);
        *self
            .successor
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(successor);
        self.leaving.send_replace(true);
        leave(&mut open, &left).await;
        Ok(id)
    }

    /// Says that this process serves now, and notes how long the earlier ones go on.
    pub(super) async fn serve_after(self: &Arc<Self>, inherited: Inherited) {
        // Relaxed: a limit that may be late.
        self.ancestors.store(inherited.ancestors, Ordering::Relaxed);
        match inherited.serving().await {
            Ok(stream) => {
                let context = Arc::downgrade(self);
                drop(evenkeel::spawn(async move {
                    upgrade::ended(stream).await;
                    if let Some(context) = context.upgrade() {
                        // Relaxed: a limit that may be late.
                        context.ancestors.store(0, Ordering::Relaxed);
                    }
                }));
            }
            // It has gone, so that this process is the only one that serves.
            Err(error) => warn!(%error, "the earlier process has gone: {error}"),
        }
    }
}

/// Starts the other process and gives it what there is, until it serves.
async fn pass_on(
    site: &Site,
    open: &Open,
    ancestors: u32,
    pid_file: Option<&Path>,
) -> Result<(Successor, Left), UpgradeError> {
    let mut listeners = Vec::new();
    let mut sockets: Vec<BorrowedFd<'_>> = Vec::new();
    for (place, running) in &open.listeners {
        let front = site.fronts.get(place);
        let slots = front.map(|front| &front.slots);
        let tls = front.and_then(|front| front.tls.as_ref());
        listeners.push(Passing {
            address: place.address.to_string(),
            name: place.name.clone(),
            sockets: running.sockets.len(),
            is_off: slots.is_some_and(|slots| !slots.is_on()),
            connections_max: slots.and_then(|slots| slots.max_set()),
            tickets: tls.and_then(Listening::ticket_keys),
        });
        sockets.extend(running.sockets.iter().map(|socket| socket.as_fd()));
    }
    sockets.extend(open.admin.iter().map(AsFd::as_fd));
    let estate = Estate {
        version: VERSION,
        ancestors,
        listeners,
        admin: open
            .admin
            .as_ref()
            .map(|admin| admin.path().display().to_string()),
        pools: known(site),
        pid_file: pid_file.map(|path| PidLeft {
            path: path.to_owned(),
            id: std::process::id(),
        }),
    };
    let names: Vec<String> = (0..sockets.len())
        .map(|number| number.to_string())
        .collect();
    let named: Vec<_> = names.iter().map(String::as_str).zip(sockets).collect();
    let mut successor = Successor::start().await?;
    let left = successor.take_over(estate, &named).await?;
    successor.keep();
    Ok((successor, left))
}

/// What is known of all servers.
fn known(site: &Site) -> BTreeMap<String, BTreeMap<String, Known>> {
    let of_pool = |(name, watched): (&String, &Arc<Watched>)| {
        let of_server = |(index, server): (usize, &Arc<Server>)| {
            let known = Known {
                address: server.config.address.to_string(),
                standing: watched.pool.standing(index),
            };
            (server.config.name.clone(), known)
        };
        let servers = watched.pool.servers().iter().enumerate();
        (name.clone(), servers.map(of_server).collect())
    };
    site.pools.iter().map(of_pool).collect()
}

/// Takes no more connections. The files of Unix sockets stay, unless the other process has not
/// taken them; what waits at listeners that it has not taken is taken here.
async fn leave(open: &mut Open, left: &Left) {
    let is_left = |place: &Place| {
        let mut all = left.listeners.iter();
        all.any(|left| left.address == place.address.to_string() && left.name == place.name)
    };
    let taken = |place: &Place| !is_left(place);
    let gone = open.listeners.extract_if(.., |place, _| taken(place));
    for (_, running) in gone.collect::<Vec<_>>() {
        open.hand_over(running);
    }
    open.close_listeners().await;
    if let Some(admin) = &open.admin {
        admin.leave(left.admin);
    }
}
