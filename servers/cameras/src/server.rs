//! The server as a whole: what runs, by a configuration.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};

use evenkeel::task::AbortHandle;

use crate::book::{Book, BookError, Changes};
use crate::cameras::Cameras;
use crate::config::{Config, ConfigError};
use crate::descriptors;
use crate::events::Events;
use crate::events::webhook::WebhookError;
use crate::hub::{self, Hub};
use crate::metrics;
use crate::serve::{Doors, DoorsError};
use crate::site::{Site, SiteError};
use crate::tls::{Certificate, TlsError};
use crate::watch::server::Gate;

/// Why the server cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody can connect by RTSP.
    #[error(transparent)]
    Doors(#[from] DoorsError),
    /// The certificate.
    #[error("watch.tls: {0}")]
    Tls(#[from] TlsError),
    /// The page.
    #[error("process.admin_page {address}: {error}")]
    AdminPage {
        /// Its address.
        address: String,
        /// What is wrong.
        error: evenkeel_admin::AdminError,
    },
    /// Recordings, or the page of the cameras.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// A webhook.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// There are too few descriptors.
    #[error("{0}")]
    Descriptors(String),
}

/// A server at work, which ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    cameras: Arc<Cameras>,
    doors: Option<Arc<Doors>>,
    site: Site,
    page: Option<evenkeel_admin::Admin>,
    watches: Option<AbortHandle>,
    _events: Arc<Events>,
}

impl Server {
    /// Begins to receive, and to serve, by this configuration, which was read from this file.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn begin(config: Config, path: Option<&Path>) -> Result<Self, ServerError> {
        descriptors::secure(&config).map_err(ServerError::Descriptors)?;
        let hub = Hub::new(hub::Limits {
            camera_bytes_max: config.limits.camera_memory,
            all_bytes_max: config.limits.memory,
            lag_max: config.limits.lag,
            subscribers_max: config.limits.viewers_max,
            ..hub::Limits::default()
        });
        let silence = config.ingest.silence;
        let cameras = Cameras::new(&hub, config.ingest.clone());
        let doors = match &config.rtsp {
            None => None,
            Some(rtsp) => {
                let watch = config.watch.as_ref();
                let files = watch.and_then(|watch| watch.get_ref().tls.as_ref());
                let certificate = files.map(Certificate::read).transpose()?;
                let who = (&*config.accounts(), certificate);
                let opened = Doors::open(rtsp.get_ref(), who, silence, &cameras).await;
                Some(Arc::new(opened?))
            }
        };
        let site = Site::begin(&config, path, &cameras).await?;
        go_by_others(site.book(), doors.as_ref(), site.gate());
        let hooks = config.webhooks.iter().map(toml::Spanned::get_ref);
        let events = Arc::new(Events::begin(hooks, &cameras, site.recordings())?);
        let page = match config.process.admin_page {
            None => None,
            Some(address) => {
                let address = address.into_inner();
                let page = page(&cameras, doors.as_ref(), &site, &events)
                    .listen(&address)
                    .await;
                Some(page.map_err(|error| ServerError::AdminPage { address, error })?)
            }
        };
        let watches = config.process.watch.filter(|_| path.is_some());
        let watches = watches.map(|interval| {
            let watch = crate::book::watch(site.book().clone(), interval);
            evenkeel::spawn(watch).abort_handle()
        });
        Ok(Self {
            cameras,
            doors,
            site,
            page,
            watches,
            _events: events,
        })
    }

    /// The cameras.
    pub fn cameras(&self) -> &Arc<Cameras> {
        &self.cameras
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    ///
    /// [`BookError`]: nothing was changed.
    pub async fn reload(&self) -> Result<Changes, BookError> {
        self.site.book().reload().await
    }

    /// Where viewers and publishers connect by RTSP.
    pub fn rtsp(&self) -> Option<SocketAddr> {
        self.doors.as_ref()?.address()
    }

    /// The same over TLS.
    pub fn rtsps(&self) -> Option<SocketAddr> {
        self.doors.as_ref()?.address_tls()
    }

    /// Where browsers and programs connect by HTTP.
    pub fn watch(&self) -> Option<SocketAddr> {
        self.site.address()
    }

    /// Ends it: what waits for disks is written, for some seconds at most. Returns the cameras
    /// whose disks took longer.
    pub async fn end(self) -> Vec<String> {
        if let Some(watches) = &self.watches {
            watches.abort();
        }
        self.site.end().await
    }

    /// The address of the page with the runtime's statistics.
    pub fn page(&self) -> Option<String> {
        self.page.as_ref().map(evenkeel_admin::Admin::address)
    }
}

/// Has those who serve go by a configuration that is read later.
fn go_by_others(book: &Book, doors: Option<&Arc<Doors>>, gate: Option<&Gate>) {
    let doors = doors.map(Arc::downgrade);
    let gate = gate.cloned();
    book.also(move |config| {
        let doors = doors.as_ref().and_then(Weak::upgrade);
        if let (Some(doors), Some(rtsp)) = (&doors, &config.rtsp) {
            doors.change(rtsp.get_ref(), &config.accounts());
        }
        if let (Some(gate), Some(watch)) = (&gate, &config.watch) {
            // The examination of the configuration has found them good.
            if let Ok((_, next)) = crate::watch::server::check(watch.get_ref()) {
                gate.become_like(&next);
                if let (Some(doors), Some(certificate)) = (&doors, next.certificate()) {
                    doors.show(certificate);
                }
            }
        }
    });
}

/// The page, with the metrics of the cameras as long as they are there.
fn page(
    cameras: &Arc<Cameras>,
    doors: Option<&Arc<Doors>>,
    site: &Site,
    events: &Arc<Events>,
) -> evenkeel_admin::Builder {
    let events = Arc::downgrade(events);
    let cameras = Arc::downgrade(cameras);
    let doors = doors.map(Arc::downgrade);
    let recordings = Arc::downgrade(site.recordings());
    let webrtc = site.webrtc().map(Arc::downgrade);
    evenkeel_admin::Builder::new().metrics(move |families| {
        if let Some(cameras) = cameras.upgrade() {
            metrics::add(&cameras, families);
        }
        if let Some(recordings) = recordings.upgrade() {
            crate::record::metrics::add(&recordings, families);
        }
        if let Some(events) = events.upgrade() {
            metrics::add_events(&events, families);
        }
        if let Some(doors) = doors.as_ref().and_then(Weak::upgrade) {
            metrics::add_clients(&doors, families);
        }
        if let Some(webrtc) = webrtc.as_ref().and_then(Weak::upgrade) {
            metrics::add_webrtc(webrtc.port(), families);
        }
    })
}
