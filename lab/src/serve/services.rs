//! Starts what was asked for, and says `ready`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;

use super::args::{ClassName, DiskArgs, HandlerArgs, RuntimeName, ServeArgs, joined};
use super::camera::Cameras;
use super::disk::Disk;
use super::platform::{Evenkeel, Platform, Tokio};
use super::stats::RuntimeStats;
use super::work::Done;
use super::{
    api, camera, disk, echo, fresh, hogs, http, lifetime, log, meter, os_thread, relay, sink, work,
};
use crate::error::{Error, Result};
use crate::sys;

/// Serves until the process is ended.
///
/// # Errors
/// When a flag does not fit, a runtime does not start, or an address cannot be listened on.
pub(crate) fn run(args: &'static ServeArgs) -> Result<()> {
    if !args.asked().any(|(_, asked)| asked) {
        let services = joined(args.asked().map(|(flag, _)| flag), ", ");
        let advice = format!("nothing to serve: give at least one of {services}");
        return Err(Error::new(advice));
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
            os_thread::start(args, &done)?;
            keep(args, &done, RuntimeStats::default)
        }
    }
}

fn serve<P: Platform>(args: &'static ServeArgs) -> Result<()> {
    let platform = P::start(&args.settings)?;
    if !P::HAS_CLASSES && (args.settings.shares.is_some() || args.classes().next().is_some()) {
        eprintln!(
            "warning: {} has no classes; --shares and --*-class are ignored",
            P::NAME
        );
    }
    if !P::HAS_DELIVERY && args.delivery.is_some() {
        let why = "wakes a reader at whatever arrives: it has no --delivery, which is evenkeel's";
        return Err(Error::new(format!("{} {why}; leave it out", P::NAME)));
    }
    let done = Done::default();
    let server = forever(Server {
        disk: Disk::new(&args.disk),
        cameras: Cameras::new(args)?,
        started: Instant::now(),
        args,
        platform,
    });
    server.platform.block_on(server.start(&done))?;
    keep(args, &done, || server.platform.stats())
}

/// Something that services share, and that lives as long as they do: until the process is ended.
pub(super) fn forever<T>(shared: T) -> &'static T {
    Box::leak(Box::new(shared))
}

/// Starts the thread of --work, if it was asked for, and keeps the main thread.
fn keep(args: &ServeArgs, done: &Done, stats: impl Fn() -> RuntimeStats) -> Result<()> {
    if let Some(address) = args.work {
        meter::start(address, done.clone())?;
    }
    lifetime::print_line("ready");
    lifetime::keep(args, stats)
}

/// What services share.
pub(super) struct Server<P: Platform> {
    pub(super) args: &'static ServeArgs,
    pub(super) platform: P,
    pub(super) started: Instant,
    pub(super) cameras: Cameras<P>,
    pub(super) disk: Disk,
}

impl<P: Platform> Server<P> {
    /// Listens everywhere first, then lets the hogs loose: they are not to delay what they are to
    /// disturb.
    async fn start(&'static self, done: &Done) -> Result<()> {
        let (args, cameras) = (self.args, &self.cameras);
        self.add("echo", args.echo, echo::connection::<P>)?;
        let sink = |stream| sink::connection::<P>(stream, args.work_us, &cameras.deliveries);
        self.add("sink", args.sink, sink)?;
        self.add_log(&args.disk).await?;
        let camera = |stream| camera::connection(stream, cameras);
        self.add("camera", args.camera, camera)?;
        let viewer = |stream| camera::viewer(stream, cameras);
        self.add("watch", args.watch, viewer)?;
        self.add_calls("http", args.http, http::greet)?;
        self.add_calls("api", args.api, |request| api::call(request, self))?;
        self.add_routes(args)?;
        let admin = |request| http::admin::<P>(request, self.started);
        self.add_calls("admin", args.admin, admin)?;
        self.add_handlers(&args.handlers)?;
        disk::spawn::<P>(&args.disk, &self.disk);
        let class = self.class("hog");
        hogs::spawn::<P>(args.hogs, args.hog_poll_us, args.hog_yield, class, done);
        if let Some(burn) = args.burn {
            P::spawn_in(class, "burner", hogs::burn::<P>(burn, class, done.clone()));
        }
        Ok(())
    }

    /// The class that a flag names for `what`, if there is such a flag and it was given.
    fn class(&self, what: &str) -> Option<P::Class> {
        let (_, class) = self.args.classes().find(|(of, _)| *of == what)?;
        self.platform.class(class)
    }

    /// Serves what was asked for, that is, has an address: each connection in a task that `spawn`
    /// spawns.
    fn add_spawning(
        &self,
        service: &'static str,
        address: Option<SocketAddr>,
        spawn: impl Fn(P::Stream) + Send + 'static,
    ) -> Result<()> {
        if let Some(address) = address {
            let bound = P::bind(address).map_err(Error::listen(service, address));
            let (listener, bound) = bound?;
            lifetime::announce(service, bound);
            let accepting = accept::<P>(service, listener, spawn);
            P::spawn_in(self.class(service), service, accepting);
        }
        Ok(())
    }

    /// The same with tasks that are all spawned here.
    fn add<F: Future<Output: Send> + Send + 'static>(
        &self,
        service: &'static str,
        address: Option<SocketAddr>,
        serve: impl Fn(P::Stream) -> F + Send + 'static,
    ) -> Result<()> {
        // How a connection ends is its client's to count.
        let spawn = move |stream| {
            let served = serve(stream);
            P::spawn(async { drop(served.await) });
        };
        self.add_spawning(service, address, spawn)
    }

    /// The same over HTTP/1.1.
    fn add_calls<F: Future<Output = http::Answer> + Send + 'static>(
        &self,
        service: &'static str,
        address: Option<SocketAddr>,
        handler: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    ) -> Result<()> {
        let serve = move |stream| http::connection::<P, _>(stream, handler.clone());
        self.add(service, address, serve)
    }

    async fn add_log(&self, args: &DiskArgs) -> Result<()> {
        if let (Some(address), Some(directory)) = (args.log, &args.log_directory) {
            let bound = P::serve_log(address, directory.clone()).await?;
            lifetime::announce("log", bound);
        } else if let Some(path) = &args.log_path {
            let created = log::Log::<P>::create(path.clone()).await;
            let log = forever(created.map_err(Error::write(path))?);
            let serve = |stream| log::connection(stream, log);
            self.add("log", args.log, serve)?;
        }
        Ok(())
    }

    fn add_routes(&self, args: &ServeArgs) -> Result<()> {
        if let Some((listen, target)) = args.proxy {
            let proxy = move |stream| relay::proxy::<P>(stream, target);
            self.add("proxy", Some(listen), proxy)?;
        }
        if let Some((listen, target)) = args.relay {
            let route = relay::Route {
                target,
                bulk: self.class("bulk"),
                bulk_after: args.bulk_after,
            };
            let relay = move |stream| relay::connection::<P>(stream, route);
            self.add("relay", Some(listen), relay)?;
        }
        Ok(())
    }

    /// What answers at once beside what computes or blocks.
    fn add_handlers(&self, args: &'static HandlerArgs) -> Result<()> {
        let handle = |request| http::mixed(request, args.post_us);
        self.add_calls("mixed", args.mixed, handle)?;
        let apart = move |stream| P::spawn(http::connection::<P, _>(stream, handle));
        self.add_spawning("apart", args.apart, apart)?;
        let mixed_h2 = |stream| http::streams::<P>(stream, false, args.post_us);
        self.add("mixed-h2", args.mixed_h2, mixed_h2)?;
        let apart_h2 = |stream| http::streams::<P>(stream, true, args.post_us);
        self.add("apart-h2", args.apart_h2, apart_h2)?;
        let block = |stream| fresh::block::<P>(stream, args.block_tasks, args.block_us);
        self.add("block", args.block, block)?;
        if let (Some(rate), Some(address)) = (args.fresh, args.waits) {
            let book = forever(fresh::Book::new(rate));
            meter::tell("waits", address, || book.tell())?;
            let urgent = self.platform.class(&ClassName::numbered(0));
            let (hog_us, apart) = (args.fresh_hog_us, args.fresh_apart);
            P::spawn(fresh::spawn::<P>(book, hog_us, apart, urgent));
        }
        Ok(())
    }
}

/// Accepts for ever and leaves it to `spawn` where each connection is spawned.
///
/// Connections are limited by the descriptor limit of the process: when it is reached, accepting
/// pauses until some connection ends.
async fn accept<P: Platform>(
    service: &'static str,
    listener: P::Listener,
    spawn: impl Fn(P::Stream) + Send,
) {
    /// Long enough not to spin on a full descriptor table, short enough not to be noticed when it
    /// is not.
    const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(10);
    let mut complained = false;
    loop {
        match P::accept(&listener).await {
            Ok(stream) => spawn(stream),
            Err(error) => {
                if !complained {
                    eprintln!("{service}: cannot accept a connection: {error} (said once)");
                    complained = true;
                }
                P::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}
