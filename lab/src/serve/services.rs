//! Starts what was asked for, and says `ready`.

use std::net::SocketAddr;
use std::sync::Arc;

use super::args::{ClassName, DiskArgs, HandlerArgs, RuntimeName, ServeArgs};
use super::camera::Cameras;
use super::platform::{Evenkeel, Platform, Tokio};
use super::sink::SinkCounters;
use super::stats::RuntimeStats;
use super::work::Done;
use super::{
    api, camera, disk, echo, fresh, hogs, http, lifetime, log, meter, mixed, os_thread, relay,
    sink, work,
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
    if !args.asked().any(|(_, asked)| asked) {
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
    let platform = P::start(&args.settings)?;
    if !P::HAS_CLASSES && (args.settings.shares.is_some() || args.class_flags().next().is_some()) {
        eprintln!(
            "warning: {} has no classes; --shares and --*-class are ignored",
            P::NAME
        );
    }
    if !P::HAS_DELIVERY && args.delivery.is_some() {
        return Err(Error::NoDelivery { runtime: P::NAME });
    }
    camera::prepare(args.record.as_ref())?;
    let done = Done::default();
    let mut announcement = platform.block_on(start(args, platform.clone(), &done))?;
    announcement.extend(tell_work(args, &done)?);
    announce(&announcement);
    lifetime::keep(args, || platform.stats())
}

/// Listens everywhere first, then lets the hogs loose: they are not to delay what they are to
/// disturb.
async fn start<P: Platform>(args: &ServeArgs, platform: P, done: &Done) -> Result<Announcement> {
    let announcement = Announcement::default();
    let mut on = Services {
        platform,
        announcement,
    };
    let counters = Arc::new(SinkCounters::default());
    let disk = Arc::new(disk::Disk::new(&args.disk));
    on.add("echo", args.echo, &args.echo_class, echo::serve::<P>)?;
    let sink = |listener| sink::serve::<P>(listener, args.work_us, Arc::clone(&counters));
    on.add("sink", args.sink, &args.sink_class, sink)?;
    on.add_log(&args.disk).await?;
    let cameras = on.add_cameras(args, &counters)?;
    on.add("http", args.http, &None, http::serve::<P>)?;
    let accounts = api::Accounts {
        platform: on.platform.clone(),
        cameras,
        disk: Arc::clone(&disk),
    };
    let api = |listener| api::serve::<P>(listener, args.api_us, accounts);
    on.add("api", args.api, &args.api_class, api)?;
    if let Some((listen, target)) = args.proxy {
        let proxy = |listener| relay::serve_proxy::<P>(listener, target);
        on.add("proxy", Some(listen), &None, proxy)?;
    }
    if let Some((listen, target)) = args.relay {
        let route = relay::Route {
            target,
            bulk: on.class(&args.bulk_class),
            bulk_after: args.bulk_after,
        };
        let relay = |listener| relay::serve::<P>(listener, route);
        on.add("relay", Some(listen), &args.relay_class, relay)?;
    }
    on.add(
        "admin",
        args.admin,
        &args.admin_class,
        http::serve_admin::<P>,
    )?;
    on.add_handlers(&args.handlers)?;
    disk::spawn::<P>(&args.disk, &disk);
    let class = on.class(&args.hog_class);
    hogs::spawn::<P>(args.hogs, args.hog_poll_us, args.hog_yield, class, done);
    if let Some(burn) = args.burn {
        P::spawn_in(class, "burner", hogs::burn::<P>(burn, class, done.clone()));
    }
    Ok(on.announcement)
}

/// What is started so far.
struct Services<P: Platform> {
    platform: P,
    announcement: Announcement,
}

impl<P: Platform> Services<P> {
    fn class(&self, name: &Option<ClassName>) -> Option<P::Class> {
        self.platform.class(name.as_ref()?)
    }

    /// Serves what was asked for, that is, has an address.
    fn add<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        service: &'static str,
        address: Option<SocketAddr>,
        class: &Option<ClassName>,
        serve: impl FnOnce(P::Listener) -> F,
    ) -> Result<()> {
        if let Some(address) = address {
            let refused = Error::listen(service, address);
            let listener = P::bind(address).map_err(&refused)?;
            let bound = P::local_address(&listener).map_err(&refused)?;
            self.announcement.push((service, bound));
            P::spawn_in(self.class(class), service, serve(listener));
        }
        Ok(())
    }

    /// The cameras' services, as far as they were asked for; their accounts are there in any case.
    fn add_cameras(
        &mut self,
        args: &ServeArgs,
        counters: &Arc<SinkCounters>,
    ) -> Result<Arc<Cameras<P>>> {
        let cameras = Arc::new(Cameras::new(args, Arc::clone(counters)));
        let serve = |listener| camera::serve::<P>(listener, Arc::clone(&cameras));
        self.add("camera", args.camera, &None, serve)?;
        let watch = |listener| camera::serve_viewers::<P>(listener, Arc::clone(&cameras));
        self.add("watch", args.watch, &None, watch)?;
        Ok(cameras)
    }

    async fn add_log(&mut self, args: &DiskArgs) -> Result<()> {
        if let (Some(address), Some(directory)) = (args.log, &args.log_directory) {
            let bound = P::serve_log(address, directory.clone()).await?;
            self.announcement.push(("log", bound));
        } else if let Some(path) = &args.log_path {
            let created = log::Log::<P>::create(path.clone()).await;
            let log = Arc::new(created.map_err(Error::write(path))?);
            let serve = |listener| log::serve::<P>(listener, log);
            self.add("log", args.log, &None, serve)?;
        }
        Ok(())
    }

    /// What answers at once beside what computes or blocks.
    fn add_handlers(&mut self, args: &HandlerArgs) -> Result<()> {
        let us = args.post_us;
        let mixed = |listener| mixed::serve::<P>(listener, us);
        self.add("mixed", args.mixed, &None, mixed)?;
        let apart = |listener| mixed::serve_apart::<P>(listener, us);
        self.add("apart", args.apart, &None, apart)?;
        let mixed_h2 = |listener| mixed::serve_h2::<P, false>(listener, us);
        self.add("mixed-h2", args.mixed_h2, &None, mixed_h2)?;
        let apart_h2 = |listener| mixed::serve_h2::<P, true>(listener, us);
        self.add("apart-h2", args.apart_h2, &None, apart_h2)?;
        let block = |listener| fresh::serve_block::<P>(listener, args.block_tasks, args.block_us);
        self.add("block", args.block, &None, block)?;
        if let (Some(rate), Some(address)) = (args.fresh, args.waits) {
            let book = Arc::new(fresh::Book::new(rate));
            let told = Arc::clone(&book);
            let bound = meter::tell("waits", address, move || told.tell())?;
            self.announcement.push(("waits", bound));
            let urgent = self.platform.class(&ClassName::numbered(0));
            let (hog_us, apart) = (args.fresh_hog_us, args.fresh_apart);
            P::spawn(fresh::spawn::<P>(book, hog_us, apart, urgent));
        }
        Ok(())
    }
}

/// Starts the thread of --work, if it was asked for.
fn tell_work(args: &ServeArgs, done: &Done) -> Result<Option<(&'static str, SocketAddr)>> {
    let address = args.work.map(|address| meter::start(address, done.clone()));
    Ok(address.transpose()?.map(|bound| ("work", bound)))
}

fn announce(announcement: &Announcement) {
    for (service, address) in announcement {
        lifetime::print_line(&format!("{service} {address}"));
    }
    lifetime::print_line("ready");
}
