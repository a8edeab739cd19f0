//! Starts what was asked for, and says `ready`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::args::{RuntimeName, ServeArgs};
use super::platform::{Platform, Settings, Tokio};
use super::sink::SinkCounters;
use super::stats::RuntimeStats;
use super::{api, echo, hogs, http, lifetime, os_thread, proxy, sink, work};
use crate::error::{Error, Result};
use crate::sys;

/// Where each service listens, in the order in which it is said.
pub(crate) type Announcement = Vec<(&'static str, SocketAddr)>;

/// Serves until the process is ended.
///
/// # Errors
/// When a flag does not fit, a runtime does not start, or an address cannot be listened on.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    if !args.asks_for_something() {
        return Err(Error::NothingToServe);
    }
    lifetime::watch(args)?;
    sys::raise_descriptor_limit().map_err(Error::system("cannot raise the descriptor limit"))?;
    work::calibrate();
    match args.runtime {
        RuntimeName::Tokio => serve::<Tokio>(args),
        #[cfg(feature = "evenkeel-runtime")]
        RuntimeName::Evenkeel => serve::<super::platform::Evenkeel>(args),
        #[cfg(not(feature = "evenkeel-runtime"))]
        RuntimeName::Evenkeel => Err(Error::NoEvenkeel),
        RuntimeName::OsThread => {
            announce(&os_thread::start(args)?);
            lifetime::keep(args, RuntimeStats::default)
        }
    }
}

fn serve<P: Platform>(args: &ServeArgs) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let platform = P::start(Settings {
        workers: args.workers.map_or(cores, NonZeroUsize::get),
        busy_wait: args.busy_wait,
        io_check: args.io_check_us.map(Duration::from_micros),
    })?;
    let observer = platform.observer();
    let announcement = platform.block_on(start::<P>(args, observer.clone()))?;
    announce(&announcement);
    lifetime::keep(args, || P::stats(&observer))
}

/// Listens everywhere first, then lets the hogs loose: they are not to delay what they are to
/// disturb.
async fn start<P: Platform>(args: &ServeArgs, observer: P::Observer) -> Result<Announcement> {
    let mut announcement = Announcement::default();
    let counters = Arc::new(SinkCounters::default());
    if let Some(address) = args.echo {
        let listener = bind::<P>("echo", address, &mut announcement).await?;
        P::spawn(echo::serve::<P>(listener));
    }
    if let Some(address) = args.sink {
        let listener = bind::<P>("sink", address, &mut announcement).await?;
        P::spawn(sink::serve::<P>(
            listener,
            args.work_us,
            Arc::clone(&counters),
        ));
    }
    if let Some(address) = args.http {
        let listener = bind::<P>("http", address, &mut announcement).await?;
        P::spawn(http::serve::<P>(listener));
    }
    if let Some(address) = args.api {
        let listener = bind::<P>("api", address, &mut announcement).await?;
        P::spawn(api::serve::<P>(listener, observer, args.api_us, counters));
    }
    if let Some(route) = args.proxy {
        let listener = bind::<P>("proxy", route.listen, &mut announcement).await?;
        P::spawn(proxy::serve::<P>(listener, route.target));
    }
    hogs::spawn::<P>(args.hogs, args.hog_poll_us, args.hog_yield);
    Ok(announcement)
}

async fn bind<P: Platform>(
    service: &'static str,
    address: SocketAddr,
    announcement: &mut Announcement,
) -> Result<P::Listener> {
    let refused = |source| Error::Listen {
        service,
        address,
        source,
    };
    let listener = P::bind(address).await.map_err(refused)?;
    announcement.push((service, P::local_address(&listener).map_err(refused)?));
    Ok(listener)
}

fn announce(announcement: &Announcement) {
    for (service, address) in announcement {
        lifetime::print_line(&format!("{service} {address}"));
    }
    lifetime::print_line("ready");
}
