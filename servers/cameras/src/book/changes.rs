//! What another configuration has changed, and what of it waits for a restart.

use std::collections::BTreeSet;

use serde::Serialize;
use toml::Spanned;

use crate::config::{Config, Volume};

/// What was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Changes {
    /// Cameras that came.
    pub added: Vec<String>,
    /// Cameras that are received or recorded in another way.
    pub changed: Vec<String>,
    /// Cameras that went.
    pub removed: Vec<String>,
    /// What differs from what the server was begun with, and waits for a restart.
    pub needs_restart: Vec<&'static str>,
}

impl std::fmt::Display for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (added, changed) = (self.added.len(), self.changed.len());
        let removed = self.removed.len();
        write!(
            f,
            "cameras added {added}, changed {changed}, removed {removed}"
        )?;
        if !self.needs_restart.is_empty() {
            let keys = self.needs_restart.join(", ");
            write!(f, "; waiting for a restart: {keys}")?;
        }
        Ok(())
    }
}

/// What differs and is not changed while the server runs.
pub(super) fn waiting(first: &Config, now: &Config) -> Vec<&'static str> {
    let listens = |config: &Config| {
        let rtsp = config.rtsp.as_ref();
        rtsp.map(|rtsp| {
            rtsp.get_ref()
                .addresses()
                .map(|address| address.map(str::to_owned))
        })
    };
    let sends = |config: &Config| {
        let rtsp = config.rtsp.as_ref();
        rtsp.is_some_and(|rtsp| rtsp.get_ref().udp)
    };
    let watch = |config: &Config| {
        let watch = config.watch.as_ref();
        watch.map(|watch| crate::watch::Settings {
            tokens: Vec::new(),
            accounts: Vec::new(),
            ..watch.get_ref().clone()
        })
    };
    let volumes = |config: &Config| -> BTreeSet<_> {
        let of = |(name, volume): (&String, &Spanned<Volume>)| {
            let volume = volume.get_ref();
            let path = volume.path.get_ref().clone();
            let tier = volume.tier.as_ref().map(|tier| tier.get_ref().clone());
            let mounted = volume.mounted;
            (
                name.clone(),
                path,
                mounted,
                volume.size,
                volume.reserve,
                tier,
            )
        };
        config.volumes.iter().map(of).collect()
    };
    let differs = [
        ("process", first.process != now.process),
        ("limits", first.limits != now.limits),
        ("ingest", first.ingest != now.ingest),
        ("recording", first.recording != now.recording),
        ("webhook", first.webhooks != now.webhooks),
        ("rtsp.udp", sends(first) != sends(now)),
        ("rtsp.listen, listen_tls", listens(first) != listens(now)),
        ("tier", first.tiers != now.tiers),
        ("volume", volumes(first) != volumes(now)),
        ("watch, but for tokens", watch(first) != watch(now)),
    ];
    let names = differs.into_iter().filter(|(_, differs)| *differs);
    names.map(|(name, _)| name).collect()
}
