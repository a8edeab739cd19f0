//! Starts what was asked for, and says `ready`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::args::{ClassName, RuntimeName, ServeArgs};
use super::platform::{Evenkeel, Platform, Settings, Tokio};
use super::sink::SinkCounters;
use super::stats::RuntimeStats;
use super::work::Done;
use super::{
    admin, api, camera, disk, echo, fresh, hogs, http, lifetime, log, meter, mixed, os_thread,
    proxy, relay, sink, work,
};
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
    args.check_classes()?;
    lifetime::watch(args)?;
    sys::raise_descriptor_limit().map_err(Error::system("cannot raise the descriptor limit"))?;
    work::calibrate();
    match args.runtime {
        RuntimeName::Tokio => serve::<Tokio>(args),
        RuntimeName::Evenkeel => serve::<Evenkeel>(args),
        RuntimeName::OsThread => {
            let done = Done::default();
            let mut announcement = os_thread::start(args, &done)?;
            announcement.extend(tell_work(args, &done)?);
            announce(&announcement);
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
        io_check_events: args.io_check_events,
        hand_off: args.handoff_us,
        real_time: args.real_time_workers,
        shares: args.shares.as_ref(),
    })?;
    if !P::HAS_CLASSES && (args.shares.is_some() || args.class_flags().next().is_some()) {
        eprintln!(
            "warning: {} has no classes; --shares and --*-class are ignored",
            P::NAME
        );
    }
    if !P::HAS_DELIVERY && args.delivery.is_some() {
        return Err(Error::NoDelivery { runtime: P::NAME });
    }
    camera::prepare(args.record.as_ref())?;
    let observer = platform.observer();
    let done = Done::default();
    let mut announcement = platform.block_on(start::<P>(args, observer.clone(), &done))?;
    announcement.extend(tell_work(args, &done)?);
    announce(&announcement);
    lifetime::keep(args, || P::stats(&observer))
}

/// Listens everywhere first, then lets the hogs loose: they are not to delay what they are to
/// disturb.
async fn start<P: Platform>(
    args: &ServeArgs,
    observer: P::Observer,
    done: &Done,
) -> Result<Announcement> {
    let mut announcement = Announcement::default();
    let class = |name: &Option<ClassName>| name.as_ref().and_then(|name| P::class(&observer, name));
    let counters = Arc::new(SinkCounters::default());
    if let Some(address) = args.echo {
        let listener = bind::<P>("echo", address, &mut announcement).await?;
        P::spawn_in(class(&args.echo_class), "echo", echo::serve::<P>(listener));
    }
    if let Some(address) = args.sink {
        let listener = bind::<P>("sink", address, &mut announcement).await?;
        let serve = sink::serve::<P>(listener, args.work_us, Arc::clone(&counters));
        P::spawn_in(class(&args.sink_class), "sink", serve);
    }
    let disk = Arc::new(disk::Disk::new(&args.disk));
    start_log::<P>(args, &mut announcement).await?;
    let cameras = start_cameras::<P>(args, &counters, &mut announcement).await?;
    if let Some(address) = args.http {
        let listener = bind::<P>("http", address, &mut announcement).await?;
        P::spawn(http::serve::<P>(listener));
    }
    if let Some(address) = args.api {
        let listener = bind::<P>("api", address, &mut announcement).await?;
        let accounts = api::Accounts {
            observer: observer.clone(),
            cameras,
            disk: Arc::clone(&disk),
        };
        let serve = api::serve::<P>(listener, args.api_us, accounts);
        P::spawn_in(class(&args.api_class), "api", serve);
    }
    if let Some(route) = args.proxy {
        let listener = bind::<P>("proxy", route.listen, &mut announcement).await?;
        P::spawn(proxy::serve::<P>(listener, route.target));
    }
    if let Some(route) = args.relay {
        let listener = bind::<P>("relay", route.listen, &mut announcement).await?;
        let route = relay::Route {
            target: route.target,
            bulk: class(&args.bulk_class),
            bulk_after: args.bulk_after,
        };
        let serve = relay::serve::<P>(listener, route);
        P::spawn_in(class(&args.relay_class), "relay", serve);
    }
    if let Some(address) = args.admin {
        let listener = bind::<P>("admin", address, &mut announcement).await?;
        P::spawn_in(
            class(&args.admin_class),
            "admin",
            admin::serve::<P>(listener),
        );
    }
    start_handlers::<P>(args, &observer, &mut announcement).await?;
    disk::spawn::<P>(&args.disk, &disk);
    let class = class(&args.hog_class);
    hogs::spawn::<P>(args.hogs, args.hog_poll_us, args.hog_yield, class, done);
    if let Some(burn) = args.burn {
        P::spawn_in(class, "burner", hogs::burn::<P>(burn, class, done.clone()));
    }
    Ok(announcement)
}

/// The cameras' services, as far as they were asked for; their accounts are there in any case.
async fn start_cameras<P: Platform>(
    args: &ServeArgs,
    counters: &Arc<SinkCounters>,
    announcement: &mut Announcement,
) -> Result<Arc<camera::Cameras<P>>> {
    let cameras = Arc::new(camera::Cameras::new(
        args.work_us,
        args.record.clone(),
        args.delivery.clone(),
        Arc::clone(counters),
    ));
    if let Some(address) = args.camera {
        let listener = bind::<P>("camera", address, announcement).await?;
        let serve = camera::serve::<P>(listener, Arc::clone(&cameras));
        P::spawn_in(None, "camera", serve);
    }
    if let Some(address) = args.watch {
        let listener = bind::<P>("watch", address, announcement).await?;
        let serve = camera::serve_viewers::<P>(listener, Arc::clone(&cameras));
        P::spawn_in(None, "watch", serve);
    }
    Ok(cameras)
}

async fn start_log<P: Platform>(args: &ServeArgs, announcement: &mut Announcement) -> Result<()> {
    if let (Some(address), Some(directory)) = (args.disk.log, &args.disk.log_directory) {
        let bound = P::serve_log(address, directory.clone()).await?;
        announcement.push(("log", bound));
    }
    if let (Some(address), Some(path)) = (args.disk.log, &args.disk.log_path) {
        let created = log::Log::<P>::create(path.clone()).await;
        let log = created.map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
        let listener = bind::<P>("log", address, announcement).await?;
        P::spawn_in(None, "log", log::serve::<P>(listener, Arc::new(log)));
    }
    Ok(())
}

/// What answers at once beside what computes or blocks.
async fn start_handlers<P: Platform>(
    args: &ServeArgs,
    observer: &P::Observer,
    announcement: &mut Announcement,
) -> Result<()> {
    let handlers = &args.handlers;
    let post_us = handlers.post_us;
    if let Some(address) = handlers.mixed {
        let listener = bind::<P>("mixed", address, announcement).await?;
        P::spawn(mixed::serve::<P>(listener, post_us));
    }
    if let Some(address) = handlers.apart {
        let listener = bind::<P>("apart", address, announcement).await?;
        P::spawn(mixed::serve_apart::<P>(listener, post_us));
    }
    if let Some(address) = handlers.mixed_h2 {
        let listener = bind::<P>("mixed-h2", address, announcement).await?;
        P::spawn(mixed::serve_h2::<P, false>(listener, post_us));
    }
    if let Some(address) = handlers.apart_h2 {
        let listener = bind::<P>("apart-h2", address, announcement).await?;
        P::spawn(mixed::serve_h2::<P, true>(listener, post_us));
    }
    if let Some(address) = handlers.block {
        let listener = bind::<P>("block", address, announcement).await?;
        let (tasks, us) = (handlers.block_tasks, handlers.block_us);
        P::spawn(fresh::serve_block::<P>(listener, tasks, us));
    }
    if let (Some(rate), Some(address)) = (handlers.fresh, handlers.waits) {
        let book = Arc::new(fresh::Book::new(rate));
        let told = Arc::clone(&book);
        let bound = meter::tell("waits", address, move || told.tell())?;
        announcement.push(("waits", bound));
        let urgent = P::class(observer, &ClassName::numbered(0));
        let (hog_us, apart) = (handlers.fresh_hog_us, handlers.fresh_apart);
        P::spawn(fresh::spawn::<P>(book, hog_us, apart, urgent));
    }
    Ok(())
}

/// Starts the thread of --work, if it was asked for.
fn tell_work(args: &ServeArgs, done: &Done) -> Result<Option<(&'static str, SocketAddr)>> {
    let address = args.work.map(|address| meter::start(address, done.clone()));
    Ok(address.transpose()?.map(|bound| ("work", bound)))
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
