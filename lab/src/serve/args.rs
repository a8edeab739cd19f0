//! The flags of `serve`.

mod values;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::error::{Error, Result};

use values::{BUILT_IN_CLASSES, HandOff, Route, busy_wait, hand_off, route};
pub(crate) use values::{
    Burn, BusyWait, CLASSES_MAX, ClassName, Deliveries, Delivery, HogPoll, HogYield, RuntimeName,
    SHARE_MAX, Shares, joined, within,
};

/// Serves until SIGTERM, ctrl-c, or, with --exit-with-parent, the end of the parent.
///
/// Prints one line `SERVICE ADDRESS` for each service, then `ready`. Every ADDR may have port 0:
/// the line names the port that was found.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("delivered").args(["sink", "camera"]).multiple(true)))]
#[command(after_help = "\
Examples:
  evenkeel-lab serve tokio --echo 127.0.0.1:7000 --hogs 4 --hog-poll-us 10000
  evenkeel-lab serve evenkeel --http 127.0.0.1:8080 --api 127.0.0.1:8081 --busy-wait adaptive
  evenkeel-lab serve evenkeel --proxy 127.0.0.1:3307=127.0.0.1:3306
  evenkeel-lab serve evenkeel --echo 127.0.0.1:7000 --echo-class urgent --hogs 4 --hog-class bulk \
      --shares urgent=16,normal=33,bulk=50
  evenkeel-lab serve evenkeel --relay 127.0.0.1:8000=127.0.0.1:9000 --bulk-class bulk \
      --admin 127.0.0.1:8001 --admin-class urgent
  evenkeel-lab serve evenkeel --echo 127.0.0.1:7000 --burn 50:20000 --handoff-us 1000
  evenkeel-lab serve evenkeel --camera 127.0.0.1:5540 --watch 127.0.0.1:5541 --record ./recordings \
      --delivery adaptive:10 --api 127.0.0.1:8081

Classes: `urgent`, `normal` and `bulk` are always there, and --shares adds others by naming them
(`--shares reports=5`). What has no class flag is in `normal`, and what a task spawns is in that
task's class. Only evenkeel has classes: the other runtimes say that they ignore these flags.")]
pub(crate) struct ServeArgs {
    /// The runtime to serve on.
    pub(crate) runtime: RuntimeName,
    /// TCP echo.
    #[arg(long, value_name = "ADDR")]
    pub(crate) echo: Option<SocketAddr>,
    /// Reads and discards.
    #[arg(long, value_name = "ADDR")]
    pub(crate) sink: Option<SocketAddr>,
    /// Microseconds of computing for each delivery at the sink and of a camera.
    #[arg(long, value_name = "U", default_value_t = 0, requires = "delivered")]
    pub(crate) work_us: u64,
    /// Cameras send numbered frames here, which are checked, recorded and passed on to viewers.
    #[arg(long, value_name = "ADDR")]
    pub(crate) camera: Option<SocketAddr>,
    /// Where viewers ask for a camera by its number, and are sent what it sends.
    #[arg(long, value_name = "ADDR", requires = "camera")]
    pub(crate) watch: Option<SocketAddr>,
    /// Where cameras are recorded, a megabyte each, over and over [default: nowhere].
    #[arg(long, value_name = "DIR", requires = "camera")]
    pub(crate) record: Option<PathBuf>,
    /// When evenkeel wakes the reader of a camera: `immediate`, `coalesce:BYTES:MS` (at so many
    /// bytes, or after so many milliseconds) or `adaptive:MS` (the later, the more it has to do,
    /// but at most after so many milliseconds) [default: the runtime's own]. Given several,
    /// such as `immediate/adaptive:10`, connections take them in turn.
    #[arg(long, value_name = "HOW[/HOW...]", requires = "camera")]
    pub(crate) delivery: Option<Deliveries>,
    /// HTTP/1.1: `GET /` answers 200 with a short body, over connections kept alive or closed.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) disk: DiskArgs,
    #[command(flatten)]
    pub(crate) handlers: HandlerArgs,
    /// HTTP/1.1: `GET /parse` computes, then says how long it took and what the sink and the
    /// cameras saw meanwhile; `GET /stats` answers what the runtime says of itself, `GET /camera`
    /// what became of all frames, `GET /stat` how long a file is and how the disk work goes.
    #[arg(long, value_name = "ADDR")]
    pub(crate) api: Option<SocketAddr>,
    /// Microseconds of computing for each `GET /parse`, with a checkpoint every 100.
    #[arg(long, value_name = "U", default_value_t = 20_000, requires = "api")]
    pub(crate) api_us: u64,
    /// TCP proxy from one address to another.
    #[arg(long, value_name = "LISTEN=TARGET", value_parser = route)]
    pub(crate) proxy: Option<Route>,
    /// TCP relay from one address to another, for classes: a connection that has moved much goes on
    /// in --bulk-class.
    #[arg(long, value_name = "LISTEN=TARGET", value_parser = route)]
    pub(crate) relay: Option<Route>,
    /// Bytes after which a connection of the relay has moved much.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    #[arg(requires = "relay")]
    pub(crate) bulk_after: u64,
    /// HTTP/1.1: `GET /` says in a few words how the server is.
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<SocketAddr>,
    /// Tasks that do nothing but compute.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) hogs: usize,
    /// Microseconds that a hog computes in each poll before it yields; `never`: it does not yield.
    #[arg(long, value_name = "U|never", default_value = "10000")]
    #[arg(requires = "hogs")]
    pub(crate) hog_poll_us: HogPoll,
    /// How a hog yields: by the runtime's own function, or as most futures do.
    #[arg(long, value_name = "HOW", default_value = "runtime", requires = "hogs")]
    pub(crate) hog_yield: HogYield,
    /// So many fresh tasks a second, each of which computes for US microseconds in a single poll,
    /// as a request handler that parses or compresses would.
    #[arg(long, value_name = "RATE:US")]
    pub(crate) burn: Option<Burn>,
    /// How much --hogs and --burn have computed so far: a plain thread answers every connection
    /// with a line of JSON, however stuck the runtime is.
    #[arg(long, value_name = "ADDR")]
    pub(crate) work: Option<SocketAddr>,
    /// The class of --hogs and --burn [default: normal].
    #[arg(long, value_name = "CLASS")]
    pub(crate) hog_class: Option<ClassName>,
    /// The class of the echo and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "echo")]
    pub(crate) echo_class: Option<ClassName>,
    /// The class of the sink and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "sink")]
    pub(crate) sink_class: Option<ClassName>,
    /// The class of the API and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "api")]
    pub(crate) api_class: Option<ClassName>,
    /// The class of the relay and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "relay")]
    pub(crate) relay_class: Option<ClassName>,
    /// The class in which a connection of the relay that has moved much goes on [default: where it
    /// is].
    #[arg(long, value_name = "CLASS", requires = "relay")]
    pub(crate) bulk_class: Option<ClassName>,
    /// The class of the admin page and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "admin")]
    pub(crate) admin_class: Option<ClassName>,
    #[command(flatten)]
    pub(crate) settings: RuntimeArgs,
    /// Print what the runtime says of itself every S seconds, as a line `stats JSON`.
    #[arg(long, value_name = "S")]
    pub(crate) stats_every: Option<NonZeroUsize>,
    /// End when standard input does, or when the parent is gone.
    #[arg(long)]
    pub(crate) exit_with_parent: bool,
}

impl ServeArgs {
    /// The flags that ask for something to be done, and whether they were given.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let handlers = &self.handlers;
        [
            ("--echo", self.echo.is_some()),
            ("--sink", self.sink.is_some()),
            ("--camera", self.camera.is_some()),
            ("--log", self.disk.log.is_some()),
            ("--http", self.http.is_some()),
            ("--api", self.api.is_some()),
            ("--proxy", self.proxy.is_some()),
            ("--relay", self.relay.is_some()),
            ("--admin", self.admin.is_some()),
            ("--hogs", self.hogs > 0),
            ("--burn", self.burn.is_some()),
            ("--mixed", handlers.mixed.is_some()),
            ("--apart", handlers.apart.is_some()),
            ("--mixed-h2", handlers.mixed_h2.is_some()),
            ("--apart-h2", handlers.apart_h2.is_some()),
            ("--fresh", handlers.fresh.is_some()),
            ("--block", handlers.block.is_some()),
        ]
        .into_iter()
    }

    /// What a flag `--WHAT-class` was given for, with the class that it names.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (&'static str, &ClassName)> {
        [
            ("hog", &self.hog_class),
            ("echo", &self.echo_class),
            ("sink", &self.sink_class),
            ("api", &self.api_class),
            ("relay", &self.relay_class),
            ("bulk", &self.bulk_class),
            ("admin", &self.admin_class),
        ]
        .into_iter()
        .filter_map(|(what, class)| Some((what, class.as_ref()?)))
    }

    /// Checks that every class that a flag names is there.
    ///
    /// # Errors
    /// When one is neither built in nor named by --shares.
    pub(crate) fn check_classes(&self) -> Result<()> {
        let shares = self.settings.shares.iter().flat_map(|shares| &shares.0);
        let own: Vec<&str> = shares.map(|(name, _)| name.as_str()).collect();
        let is_known = |name| BUILT_IN_CLASSES.contains(&name) || own.contains(&name);
        for (what, class) in self.classes() {
            if !is_known(class.as_str()) {
                let class = class.as_str();
                return Err(Error::new(format!(
                    "--{what}-class names `{class}`, which is no class: there are urgent, normal \
                     and bulk, and `--shares {class}=SHARE` adds it"
                )));
            }
        }
        Ok(())
    }
}

/// How the runtime is built.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct RuntimeArgs {
    /// Workers of the runtime [default: as many as cores].
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<NonZeroUsize>,
    /// What each class gets of the processors when all want them, as in
    /// `urgent=16,normal=33,bulk=50` [default: the runtime's own]. A name that is not one of these
    /// three adds a class.
    #[arg(long, value_name = "NAME=SHARE,...")]
    pub(crate) shares: Option<Shares>,
    /// Microseconds after which evenkeel hands the seat of a worker that is stuck in one poll to
    /// another thread, or `off` [default: the runtime's own].
    #[arg(long, value_name = "U|off", value_parser = hand_off)]
    pub(crate) handoff_us: Option<HandOff>,
    /// Give evenkeel's workers real-time priority; needs CAP_SYS_NICE or `ulimit -r 2`.
    #[arg(long)]
    pub(crate) real_time_workers: bool,
    /// Where evenkeel serves its admin page, which any browser, `evenkeel top` and Prometheus can
    /// look at; a loopback address.
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin_page: Option<SocketAddr>,
    /// How long a worker without work spins before it parks [default: the runtime's own].
    #[arg(long, value_name = "LEVEL", value_parser = busy_wait())]
    pub(crate) busy_wait: Option<BusyWait>,
    /// Evenkeel's bound between two I/O checks of a busy worker [default: the runtime's own].
    #[arg(long, value_name = "U")]
    pub(crate) io_check_us: Option<u64>,
    /// How many events evenkeel takes in one I/O check at most [default: the runtime's own].
    #[arg(long, value_name = "N")]
    pub(crate) io_check_events: Option<usize>,
}

impl RuntimeArgs {
    pub(crate) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.workers.map_or_else(cores, NonZeroUsize::get)
    }
}

/// Disk work beside the services.
#[derive(Debug, clap::Args)]
pub(crate) struct DiskArgs {
    /// Tasks that each write to a file of their own, PATH.0 and so on, and sync it, for ever.
    #[arg(long, value_name = "PATH")]
    pub(crate) fsync: Option<PathBuf>,
    /// Bytes of each of these writes.
    #[arg(long, value_name = "N", default_value_t = 4_096, requires = "fsync")]
    #[arg(value_parser = within(1..=67_108_864_usize))]
    pub(crate) fsync_bytes: usize,
    /// How many such tasks.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "fsync")]
    #[arg(value_parser = within(1..=10_000_usize))]
    pub(crate) fsync_writers: usize,
    /// Tasks that open PATH to read from it: of a FIFO that nobody writes to, the open never
    /// returns.
    #[arg(long, value_name = "PATH")]
    pub(crate) hang: Option<PathBuf>,
    /// How many such tasks.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "hang")]
    #[arg(value_parser = within(1..=10_000_usize))]
    pub(crate) hang_opens: usize,
    /// The file that `GET /stat` is about [default: this program].
    #[arg(long, value_name = "PATH", requires = "api")]
    pub(crate) stat: Option<PathBuf>,
    /// A log that takes appends in the protocol of `txlog`, and acknowledges them when they are
    /// durable.
    #[arg(long, value_name = "ADDR", requires = "logged")]
    pub(crate) log: Option<SocketAddr>,
    /// Where that log is: the file in which each record is synced by itself.
    #[arg(long, value_name = "PATH", requires = "log", group = "logged")]
    pub(crate) log_path: Option<PathBuf>,
    /// Or the directory of `txlog` itself, which syncs for many records at a time (evenkeel only).
    #[arg(long, value_name = "DIR", requires = "log", group = "logged")]
    pub(crate) log_directory: Option<PathBuf>,
}

/// Handlers that answer at once beside handlers that compute or block.
#[derive(Debug, clap::Args)]
pub(crate) struct HandlerArgs {
    /// HTTP/1.1: `GET /` answers at once, `POST /` computes in a single poll, then answers.
    #[arg(long, value_name = "ADDR")]
    pub(crate) mixed: Option<SocketAddr>,
    /// As --mixed, with connections that a line of source of their own spawns.
    #[arg(long, value_name = "ADDR")]
    pub(crate) apart: Option<SocketAddr>,
    /// As --mixed over HTTP/2 without TLS: each request is a task, which the runtime's executor for
    /// hyper spawns.
    #[arg(long, value_name = "ADDR")]
    pub(crate) mixed_h2: Option<SocketAddr>,
    /// As --mixed-h2, with an executor whose tasks a line of source of their own spawns.
    #[arg(long, value_name = "ADDR")]
    pub(crate) apart_h2: Option<SocketAddr>,
    /// Microseconds of computing for each `POST /`.
    #[arg(long, value_name = "U", default_value_t = 20_000)]
    #[arg(value_parser = within(0..=60_000_000_u64))]
    pub(crate) post_us: u64,
    /// So many fresh tasks a second, spawned by one line of source, of which --waits tells.
    #[arg(long, value_name = "RATE", requires = "waits")]
    #[arg(value_parser = within(1..=10_000_u32))]
    pub(crate) fresh: Option<u32>,
    /// Microseconds that one in five of these tasks computes in a single poll; another one in five
    /// is in the class `urgent`, and all others in `normal`.
    #[arg(long, value_name = "U", default_value_t = 0, requires = "fresh")]
    #[arg(value_parser = within(0..=60_000_000_u64))]
    pub(crate) fresh_hog_us: u64,
    /// Another line of source spawns those of these tasks that compute.
    #[arg(long, requires = "fresh")]
    pub(crate) fresh_apart: bool,
    /// How long each fresh task waited for its first poll: a plain thread answers every connection
    /// with a line of JSON.
    #[arg(long, value_name = "ADDR", requires = "fresh")]
    pub(crate) waits: Option<SocketAddr>,
    /// Each connection starts tasks that all block their thread, and is told so by a byte.
    #[arg(long, value_name = "ADDR")]
    pub(crate) block: Option<SocketAddr>,
    /// How many such tasks.
    #[arg(long, value_name = "N", default_value_t = 40, requires = "block")]
    #[arg(value_parser = within(1..=10_000_usize))]
    pub(crate) block_tasks: usize,
    /// For how many microseconds each of them blocks its thread.
    #[arg(long, value_name = "U", default_value_t = 2_000_000)]
    #[arg(requires = "block")]
    #[arg(value_parser = within(0..=60_000_000_u64))]
    pub(crate) block_us: u64,
}
