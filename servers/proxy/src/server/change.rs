//! Another configuration: how it comes to work, and what of the one before ends.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use evenkeel::runtime::Handle;
use evenkeel::{Class, ClassConfig};
use servers_common::watch::look;
use tracing::{error_span, info, warn};

use super::open::{Open, Running, set_congestion_control};
use super::{Context, Front, Place, ServerError, Site};
use crate::access_log::{Log, Logs};
use crate::config::{self, Config};
use crate::events;
use crate::listener::Listener;
use crate::tls::{self, Own};
use crate::upgrade::Inherited;

/// Sockets of which nothing is taken yet.
pub(super) type Bound = Vec<(Place, Vec<Listener>)>;

impl Context {
    /// Reads the configuration again, and works by it. If there is an error, all goes on as before.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn reload(self: &Arc<Self>) -> Result<(), ServerError> {
        drop(
            self.upgrading
                .try_lock()
                .map_err(|_| ServerError::Upgrading)?,
        );
        let mut open = self.open.lock().await;
        if *self.leaving.borrow() {
            return Err(ServerError::Leaving);
        }
        let before = look(&self.site().config.files).await;
        let config = config::read(&self.path)?;
        let differing = config.process.get_ref().differing(&self.process);
        if !differing.is_empty() {
            warn!(
                "{} changed since this process began, which needs an upgrade or a restart to take \
                 effect",
                differing.join(", ")
            );
        }
        if config.events.format != self.site().config.events.format {
            warn!("events.format has changed, which needs an upgrade or a restart to take effect");
        }
        let files = config.files.clone();
        let bound = self.change(&mut open, config, None).await?;
        self.accept(&mut open, bound);
        // What has come by this configuration is looked at now.
        let looks = if files.iter().eq(before.iter().map(|(file, _)| file)) {
            before
        } else {
            look(&files).await
        };
        self.read.note_read(looks);
        self.reopen_logs();
        events::change(&self.site().config.events);
        self.reloads.one();
        Ok(())
    }

    /// Listens where it did not, and only then works by the configuration. Nothing is taken of the
    /// new sockets before [`accept`](Self::accept).
    pub(super) async fn change(
        self: &Arc<Self>,
        open: &mut Open,
        config: Config,
        mut inherited: Option<&mut Inherited>,
    ) -> Result<Bound, ServerError> {
        let before = self.site();
        let classes = classes(&self.runtimes.serving, &config, &before.config)?;
        let logs = logs(&config, &before.logs).await?;
        let asks = self.discovery.learn(&config, &self.runtimes).await;
        let mut bound = Bound::new();
        for (name, listener) in &config.listeners {
            let listener = listener.get_ref();
            let place = Place::new(name, listener.bind.get_ref());
            if !open.listeners.contains_key(&place) {
                let sockets = sockets(name, listener, &place, inherited.as_deref_mut()).await?;
                set_congestion_control(name, &sockets, listener)?;
                bound.push((place, sockets));
            }
        }
        if let Err(error) = open.set_congestion_control(&config) {
            open.restore_congestion_control(&before.config);
            return Err(error);
        }
        for (name, class, settings) in classes {
            let set = self.runtimes.serving.set_class(class, settings);
            set.map_err(|error| ServerError::Class { name, error })?;
        }
        let site = self.site_after(&before, (config, logs));
        if let Some(inherited) = inherited {
            site.restore(inherited);
        }
        let site = self.go_by(site, &before);
        tell_certificates(&site, &before);
        self.tell_expiry(&site, true);
        self.discovery.follow(self, &site.config, asks);
        open.retain(|place| site.fronts.contains_key(place)).await;
        Ok(bound)
    }

    /// Names of servers come to other addresses now.
    pub async fn addresses_changed(self: &Arc<Self>) {
        // Its pools may have waits, whose timers belong to the runtime that serves.
        let context = Arc::clone(self);
        let change = async move { context.change_addresses().await };
        self.runtimes.in_serving(change).await;
    }

    async fn change_addresses(&self) {
        // One change at a time.
        let _open = self.open.lock().await;
        let before = self.site();
        let site = self.site_after(&before, (before.config.clone(), before.logs.clone()));
        self.go_by(site, &before);
    }

    fn site_after(&self, before: &Site, config: (Config, Logs)) -> Site {
        Site::new(
            config,
            before,
            &self.leaving(),
            &self.runtimes,
            &self.discovery,
        )
    }

    /// Works by another site from now on.
    fn go_by(&self, site: Site, before: &Site) -> Arc<Site> {
        let site = Arc::new(site);
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&site);
        // Release: pairs with the Acquire in `edition`.
        self.edition.fetch_add(1, Ordering::Release);
        self.replace_logs(&before.logs, &site.logs);
        site.retire(before);
        site
    }

    /// Takes connections from new sockets.
    pub(super) fn accept(self: &Arc<Self>, open: &mut Open, bound: Bound) {
        for (place, sockets) in bound {
            let running = Running::begin(self, &place, sockets);
            open.listeners.insert(place, running);
        }
        // Now that authorities are answered.
        let site = self.site();
        self.acme
            .follow(site.wanted(), &site.challenges, &self.leaving());
    }
}

/// Tells of certificates that were read, and were not there before. Of those that end soon is told
/// apart.
fn tell_certificates(site: &Site, before: &Site) {
    let certificates = |front: &Front| {
        let side = front.config.tls.as_ref()?.get_ref().side.as_ref();
        side.map(|side| side.certificates().to_vec())
    };
    for (place, front) in &site.fronts {
        let known = before
            .fronts
            .get(place)
            .and_then(|front| certificates(front));
        let known = known.unwrap_or_default();
        for certificate in certificates(front).unwrap_or_default() {
            let is_it = |known: &Arc<Own>| known.identity.cert == certificate.identity.cert;
            if known.iter().any(is_it) {
                continue;
            }
            let (listener, what) = (&*front.name, tls::described(&certificate.identity));
            let span = error_span!("listener", listener);
            span.in_scope(|| info!("listener {listener}: its certificate was read: {what}"));
        }
    }
}

/// The sockets of a listener: those of an earlier process, or new ones.
async fn sockets(
    name: &str,
    listener: &config::Listener,
    place: &Place,
    inherited: Option<&mut Inherited>,
) -> Result<Vec<Listener>, ServerError> {
    let address = &place.address;
    let passed = inherited.and_then(|inherited| inherited.listener(place));
    let sockets = match passed {
        // Not closed if one would do now, as connections may wait in each.
        Some(passed) if passed.len() > 1 => {
            Listener::of_passed_per_worker(address, passed).map_err(Into::into)
        }
        Some(passed) => {
            let one = |passed| Listener::of_passed(address, passed).map_err(Into::into);
            passed.into_iter().map(one).collect()
        }
        None if listener.per_worker => Listener::bind_per_worker(address).await,
        None => Listener::bind(address).await.map(|socket| vec![socket]),
    };
    sockets.map_err(|error| ServerError::Listen {
        name: name.to_owned(),
        address: address.clone(),
        error,
    })
}

async fn logs(config: &Config, before: &Logs) -> Result<Logs, ServerError> {
    let opened = Log::open_all(&config.logs, before).await;
    opened.map_err(|(name, error)| ServerError::Log {
        to: config.logs[&name].get_ref().to.clone(),
        name,
        error,
    })
}

/// The classes of which the configuration, or the one before, says something, with all that holds
/// for them now.
fn classes(
    runtime: &Handle,
    config: &Config,
    before: &Config,
) -> Result<Vec<(String, Class, ClassConfig)>, ServerError> {
    let names: BTreeSet<&String> = config.classes.keys().chain(before.classes.keys()).collect();
    let mut classes = Vec::new();
    for name in names {
        let settings = config.classes.get(name);
        match (runtime.class(name), settings) {
            (Some(class), settings) => {
                let said = settings.map(|settings| settings.get_ref().clone());
                classes.push((name.clone(), class, said.unwrap_or_default().whole(class)));
            }
            (None, Some(_)) => return Err(ServerError::NewClass(name.clone())),
            (None, None) => {}
        }
    }
    Ok(classes)
}
